"""The newest that was known by a moment: of what became known one after the other, the greatest before it."""

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
_Known = tuple[Any, int, T]


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
