"""The rows behind a figure: the events of the history that a number was counted or measured from.

A count has one row for each thing counted: an operation stands as its completion, or as its invocation where it never
ended. A length of time has the two rows between which it lies, the earlier first, then in pairs those of every interval
that it leaves out; a sum of lengths has such a pair for each. A moment has the row of that moment. So a reader who
holds the rows can do the sum again.

The newest that was known by a moment: of what became known one after the other, the greatest before it (`Newest`).

Derive once: a fact that several checkers and tables need of one history is computed at its first use.

Lengths of time are counted over intervals [from, to] in ns since the run began.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from itertools import accumulate
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar

from fencepost.harness.history import History, Operation
from fencepost.harness.verdict.figures import Rows, Traced, tally

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
K = TypeVar("K")
_Known = tuple[Any, int, T]


def once(derivation: Callable[Concatenate[History, P], R]) -> Callable[Concatenate[History, P], R]:
    """Remember the result of a pure function for a history and the other arguments, for the life of the history.

    Everybody gets the same object, which nobody may change. Other arguments are the same when they are one object, or
    equal texts.
    """

    @wraps(derivation)
    def kept(history: History, /, *args: P.args, **named: P.kwargs) -> R:
        entries = history.derived.setdefault(derivation, [])
        given = (*args, *named.items())
        for known, result in entries:
            if len(known) == len(given) and all(map(_same, known, given)):
                return result  # type: ignore[no-any-return]  # of this derivation
        result = derivation(history, *args, **named)
        entries.append((given, result))
        return result

    return kept


def _same(one: Any, other: Any) -> bool:
    return one is other or (isinstance(one, str) and one == other)


def row(operation: Operation) -> int:
    """Return the row of an operation's completion; that of its invocation if it never ended."""
    return operation.invoke_index if operation.complete_index is None else operation.complete_index


def rows(operations: Iterable[Operation]) -> Rows:
    """Return one row for each of the operations, in their order."""
    return tuple([o.invoke_index if o.complete_index is None else o.complete_index for o in operations])


def number_of(operations: Iterable[Operation]) -> Traced[int]:
    """Count operations, with the row of each."""
    return tally(rows(operations))


def numbers_of(counted: Mapping[str, Iterable[Operation]]) -> dict[str, Traced[int]]:
    """Count the operations of each name."""
    return {name: number_of(operations) for name, operations in counted.items()}


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Group the items by key, in the given order."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


Intervals = list[tuple[int, int]]


def merged(intervals: Intervals) -> Intervals:
    """Return the same set of moments as disjoint intervals in order."""
    out: Intervals = []
    for start, end in sorted(intervals):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def within(intervals: Intervals, from_ns: int, to_ns: int) -> int:
    """Return how many ns of [`from_ns`, `to_ns`] the disjoint `intervals` cover."""
    return sum(max(0, min(end, to_ns) - max(start, from_ns)) for start, end in intervals)


def clipped(intervals: Intervals, from_ns: int, to_ns: int) -> Intervals:
    """Return the parts of the intervals that lie in [`from_ns`, `to_ns`], without those of no length."""
    inside = [(max(start, from_ns), min(end, to_ns)) for start, end in intervals]
    return [(start, end) for start, end in inside if start < end]


def outside(intervals: Intervals, from_ns: int, to_ns: int) -> Intervals:
    """Return the parts of [`from_ns`, `to_ns`] that the disjoint `intervals`, in order, do not cover."""
    left: Intervals = []
    for start, end in intervals:
        if from_ns < min(start, to_ns):
            left.append((from_ns, min(start, to_ns)))
        from_ns = max(from_ns, end)
    return [*left, (from_ns, to_ns)] if from_ns < to_ns else left


class Newest(Generic[T]):
    """Answers about one thing, each with its rank and when it was known; of equal ranks the one that came first."""

    def __init__(self, known: Iterable[_Known[T]]) -> None:
        ordered = sorted(known, key=lambda each: each[1])
        self._known_ns = [known_ns for _, known_ns, _ in ordered]
        self._newest: Final[list[_Known[T]]] = list(accumulate(ordered, _newer))

    def before(self, at_ns: int) -> T | None:
        """Return the answer of the highest rank among those known before this moment; None without any."""
        count = bisect_left(self._known_ns, at_ns)
        return self._newest[count - 1][2] if count else None


def _newer(one: _Known[T], other: _Known[T]) -> _Known[T]:
    return one if one[0] >= other[0] else other
