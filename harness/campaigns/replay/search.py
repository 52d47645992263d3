"""The search for less that still shows: delta debugging with an oracle that errs. Pure: no clock, no files, no chance.

One try of a candidate shows the anomaly or does not, and a real anomaly shows only now and then. So each candidate is
tried until Wald's sequential test tells "about as often as the whole" from "at most a third as often". Tries are
remembered by candidate: the same tries in the same order lead to the same result, which is how a search that was
stopped goes on.

Sources: Zeller & Hildebrandt, "Simplifying and isolating failure-inducing input" (2002); Wald, "Sequential tests of
statistical hypotheses" (1945).
"""

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, Generic, TypeVar

#: A candidate that shows so much less often than the whole is not "the same, smaller".
_TOO_SELDOM: Final = 1 / 3
#: Two shows without a miss are enough; a candidate as good as the whole is given up in about one of twenty cases.
_ACCEPT: Final = math.log(9.0) - 1e-9
_REJECT: Final = math.log(0.05)
#: For the second look before the end, at every fault that seems to be needed.
_REJECT_STRICT: Final = math.log(0.002)
#: What is not told apart after so many tries is good when it showed at least half as often as the whole.
TRIES_MAX: Final = 12
_TRIES_MAX_STRICT: Final = 20
#: The whole is tried until it has shown so often, at most so many times.
BASELINE_SHOWS: Final = 4
BASELINE_TRIES_MAX: Final = 10

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def rate_of(shows: int, tries: int) -> float:
    """How often the whole shows, by its tries; rather too low, since a few tries in a row are soon lucky."""
    return shows / (tries + 1)


def decide(outcomes: Iterable[bool], rate: float, *, strict: bool = False) -> bool | None:
    """Whether these tries, in this order, show about as often as `rate`; None: not yet told."""
    low = rate * _TOO_SELDOM
    show, miss = math.log(rate / low), math.log((1 - rate) / (1 - low))
    reject, tries_max = (_REJECT_STRICT, _TRIES_MAX_STRICT) if strict else (_REJECT, TRIES_MAX)
    ratio, shows = 0.0, 0
    for tries, shown in enumerate(outcomes, 1):
        ratio += show if shown else miss
        shows += shown
        if ratio >= _ACCEPT:
            return True
        if ratio <= reject:
            return False
        if tries == tries_max:
            return shows >= tries * rate / 2
    return None


class Evidence(Generic[K]):
    """All tries of all candidates, and `attempt` to make one more; whatever `attempt` raises ends the search."""

    def __init__(self, attempt: Callable[[K], bool], *, known: Iterable[tuple[K, bool]] = ()) -> None:
        self._attempt = attempt
        self._tries: dict[K, list[bool]] = {}
        self.rate = rate_of(BASELINE_SHOWS, BASELINE_SHOWS)
        for candidate, shown in known:
            self._tries.setdefault(candidate, []).append(shown)

    def tries(self, candidate: K) -> Sequence[bool]:
        """What the tries of a candidate showed, in order."""
        return self._tries.get(candidate, ())

    def baseline(self, whole: K) -> bool:
        """Learn how often the whole shows; False when it does not at all."""
        while not self._learnt(self.tries(whole)):
            self._once_more(whole)
        tries = self._first(self.tries(whole))
        if not any(tries):
            return False
        self.rate = rate_of(sum(tries), len(tries))
        return True

    def enough(self, candidate: K, *, strict: bool = False) -> bool:
        """Try until it is told whether the candidate shows about as often as the whole."""
        while (told := decide(self.tries(candidate), self.rate, strict=strict)) is None:
            self._once_more(candidate)
        return told

    def once(self, candidate: K) -> bool:
        """Whether its first try showed; no other is made."""
        if not self.tries(candidate):
            self._once_more(candidate)
        return self.tries(candidate)[0]

    def _once_more(self, candidate: K) -> None:
        shown = self._attempt(candidate)
        self._tries.setdefault(candidate, []).append(shown)

    def _first(self, tries: Sequence[bool]) -> Sequence[bool]:
        """The tries by which the rate was learnt; later ones of the same candidate must not change it."""
        for number in range(1, len(tries) + 1):
            if self._learnt(tries[:number]):
                return tries[:number]
        return tries

    @staticmethod
    def _learnt(tries: Sequence[bool]) -> bool:
        return sum(tries) >= BASELINE_SHOWS or len(tries) >= BASELINE_TRIES_MAX


def minimise(
    items: tuple[T, ...],
    candidate: Callable[[tuple[T, ...]], K],
    evidence: Evidence[K],
    *,
    found: Callable[[tuple[T, ...]], None] = lambda _: None,
) -> tuple[T, ...]:
    """The fewest of `items`, in order, from which none can be left out; `found` hears of every smaller set.

    Before the end each single one is left out once more and asked about more strictly. The empty set is tried once:
    whoever looks for a needed fault learns nothing from runs without any.
    """

    def enough(kept: tuple[T, ...]) -> bool:
        good = evidence.enough(candidate(kept)) if kept else evidence.once(candidate(kept))
        if good:
            found(kept)
        return good

    while True:
        items = ddmin(items, enough)
        smaller = (items[:i] + items[i + 1 :] for i in range(len(items)) if len(items) > 1)
        better = next((kept for kept in smaller if evidence.enough(candidate(kept), strict=True)), None)
        if better is None:
            return items
        found(better)
        items = better


def ddmin(items: tuple[T, ...], enough: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Zeller's ddmin, the empty set first; `items` itself is taken to be enough and never asked about."""
    if not items or enough(()):
        return ()
    parts = 2
    while len(items) > 1:
        chunks = _split(items, parts)
        kept = next((chunk for chunk in chunks if enough(chunk)), None)
        if kept is not None:
            items, parts = kept, 2
            continue
        # With two parts the rest is the other part, which has been asked about.
        rests = [] if parts == 2 else [_without(chunks, number) for number in range(len(chunks))]
        kept = next((rest for rest in rests if enough(rest)), None)
        if kept is not None:
            items, parts = kept, max(parts - 1, 2)
        elif parts >= len(items):
            break
        else:
            parts = min(len(items), 2 * parts)
    return items


def _split(items: tuple[T, ...], parts: int) -> list[tuple[T, ...]]:
    """Into `parts` runs of lengths that differ by one at most."""
    edges = [len(items) * number // parts for number in range(parts + 1)]
    return [items[a:b] for a, b in itertools.pairwise(edges)]


def _without(chunks: Sequence[tuple[T, ...]], left_out: int) -> tuple[T, ...]:
    return tuple(item for number, chunk in enumerate(chunks) if number != left_out for item in chunk)
