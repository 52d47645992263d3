"""Which operations were answered, and which answers could have been proven wrong."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fencepost.harness.history import Operation, Outcome

_Column = NDArray[np.int64]
_Flags = NDArray[np.bool_]
#: In place of the event at which an operation returned, where nobody knows.
UNANSWERED: Final = -1
_NEVER: Final = np.iinfo(np.int64).max


def is_ok(op: Operation) -> bool:
    return op.type is Outcome.OK and op.complete_index is not None


def answered(op: Operation) -> int:
    """The event at which an `ok` operation returned."""
    assert op.complete_index is not None
    return op.complete_index


def not_failed(operations: Iterable[Operation]) -> list[Operation]:
    return [op for op in operations if op.type is not Outcome.FAIL]


def exposed(
    operations: Sequence[Operation], changes: Callable[[Operation], bool], tells: Callable[[Operation], bool]
) -> list[Operation]:
    """List the ok operations of one object whose answer could have been proven wrong (`exposed_places`)."""
    kept = not_failed(operations)
    places = exposed_places(
        key=np.zeros(len(kept), np.int64),
        changes=np.array([changes(op) for op in kept], np.bool_),
        tells=np.array([tells(op) for op in kept], np.bool_),
        invoked=np.array([op.invoke_index for op in kept], np.int64),
        returned=np.array([answered(op) if is_ok(op) else UNANSWERED for op in kept], np.int64),
    )
    return [kept[place] for place in np.flatnonzero(places).tolist()]


def exposed_places(
    *, key: _Column, changes: _Flags, tells: _Flags, invoked: _Column, returned: _Column
) -> NDArray[np.bool_]:
    """Choose the rows whose answer another row would contradict if it were wrong; failed operations have no row.

    An answer can be caught out by what is ordered with it in real time: a change that was acknowledged before it, one
    that was invoked after it, or, where anything may have changed at all, another answer before or after. Operations
    that are all open at one moment can be put in any order there: each could have returned what any of them made.
    `returned` is `UNANSWERED` where the outcome is unknown.
    """
    _, of = np.unique(key, return_inverse=True)
    keys = int(of.max(initial=-1)) + 1
    ok = returned >= 0
    answers = ok & tells

    def first(where: _Flags) -> _Column:
        """Return, for the key of each row, when the first of these was answered."""
        least = np.full(keys, _NEVER)
        np.minimum.at(least, of[where], returned[where])
        return least[of]

    def last(where: _Flags) -> _Column:
        """Return, for the key of each row, when the last of these was invoked."""
        most = np.full(keys, UNANSWERED)
        np.maximum.at(most, of[where], invoked[where])
        return most[of]

    may_differ = last(changes) > UNANSWERED
    changed = (first(changes & ok) < invoked) | (last(changes) > returned)
    others = (first(answers) < invoked) | (last(answers) > returned)
    catchable: NDArray[np.bool_] = answers & (changed | (may_differ & others))
    return catchable
