"""The search for less that still shows: delta debugging with an oracle that errs. Pure: no clock, no files, no chance.

One try of a candidate shows the anomaly or does not, and a real anomaly shows only now and then. So each candidate is
tried until Wald's sequential test decides between "about as often as the whole" and "at most a third as often". Tries
are remembered by candidate: the same tries in the same order lead to the same result, so a stopped search can continue.

Sources: Zeller & Hildebrandt, "Simplifying and isolating failure-inducing input" (2002); Wald, "Sequential tests of
statistical hypotheses" (1945).
"""

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, Generic, TypeVar

#: A candidate that shows at this fraction of the whole's rate, or less, does not count as "the same, smaller".
_TOO_SELDOM: Final = 1 / 3
#: Two shows without a miss suffice. A candidate as good as the whole is rejected in about one of twenty cases.
_ACCEPT: Final = math.log(9.0) - 1e-9
_REJECT: Final = math.log(0.05)
#: For the second test, at the end, of every fault that seems to be needed.
_REJECT_STRICT: Final = math.log(0.002)
#: After so many tries without a decision, a candidate is accepted if it showed at least half as often as the whole.
TRIES_MAX: Final = 12
_TRIES_MAX_STRICT: Final = 20
#: The whole is tried until it has shown BASELINE_SHOWS times, at most BASELINE_TRIES_MAX times.
BASELINE_SHOWS: Final = 4
BASELINE_TRIES_MAX: Final = 10

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def rate_of(shows: int, tries: int) -> float:
    """Estimate how often the whole shows; rather too low, since a few lucky tries in a row are common."""
    return shows / (tries + 1)


def decide(outcomes: Iterable[bool], rate: float, *, strict: bool = False) -> bool | None:
    """Decide whether these tries, in this order, show about as often as `rate`; None: more tries are needed."""
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


class Tries(Generic[K]):
    """All tries of all candidates, and `attempt` for one more; an exception of `attempt` ends the search."""

    def __init__(
        self,
        attempt: Callable[[K], bool],
        *,
        known: Iterable[tuple[K, bool]] = (),
        baseline_shows: Callable[[], int] = lambda: BASELINE_SHOWS,
    ) -> None:
        self._attempt = attempt
        self._baseline_shows = baseline_shows
        self._tries: dict[K, list[bool]] = {}
        self.rate = rate_of(BASELINE_SHOWS, BASELINE_SHOWS)
        for candidate, shown in known:
            self._tries.setdefault(candidate, []).append(shown)

    def tries(self, candidate: K) -> Sequence[bool]:
        """Whether each try of a candidate showed, in order."""
        return self._tries.get(candidate, ())

    def baseline(self, whole: K) -> bool:
        """Measure how often the whole shows; returns False when it never does."""
        while not self._learnt(self.tries(whole)):
            self._once_more(whole)
        tries = self._first(self.tries(whole))
        if not any(tries):
            return False
        self.rate = rate_of(sum(tries), len(tries))
        return True

    def enough(self, candidate: K, *, strict: bool = False) -> bool:
        """Try until it is decided whether the candidate shows about as often as the whole."""
        while (decision := decide(self.tries(candidate), self.rate, strict=strict)) is None:
            self._once_more(candidate)
        return decision

    def once(self, candidate: K) -> bool:
        """Whether the first try of the candidate shows; makes no further try."""
        if not self.tries(candidate):
            self._once_more(candidate)
        return self.tries(candidate)[0]

    def _once_more(self, candidate: K) -> None:
        shown = self._attempt(candidate)
        self._tries.setdefault(candidate, []).append(shown)

    def _first(self, tries: Sequence[bool]) -> Sequence[bool]:
        """The tries that the rate was measured by; later tries of the same candidate must not change it."""
        for number in range(1, len(tries) + 1):
            if self._learnt(tries[:number]):
                return tries[:number]
        return tries

    def _learnt(self, tries: Sequence[bool]) -> bool:
        return sum(tries) >= self._baseline_shows() or len(tries) >= BASELINE_TRIES_MAX


def minimise(
    items: tuple[T, ...],
    candidate: Callable[[tuple[T, ...]], K],
    evidence: Tries[K],
    *,
    report: Callable[[tuple[T, ...]], None] = lambda _: None,
    makes_sense: Callable[[tuple[T, ...]], bool] = lambda _: True,
) -> tuple[T, ...]:
    """Return the fewest of `items`, in order, from which none can be left out.

    At the end each remaining item is left out once more and tested more strictly. The empty set is tried once only:
    runs without a fault tell nothing about which fault is needed.

    Args:
        candidate: makes the candidate that has these items.
        report: called with every smaller set that still shows.
        makes_sense: whether these items can be tried alone; what cannot is not enough.
    """

    def enough(kept: tuple[T, ...]) -> bool:
        if not makes_sense(kept):
            return False
        good = evidence.enough(candidate(kept)) if kept else evidence.once(candidate(kept))
        if good:
            report(kept)
        return good

    while True:
        items = ddmin(items, enough)
        smaller = (items[:i] + items[i + 1 :] for i in range(len(items)) if len(items) > 1)
        possible = filter(makes_sense, smaller)
        better = next((kept for kept in possible if evidence.enough(candidate(kept), strict=True)), None)
        if better is None:
            return items
        report(better)
        items = better


def ddmin(items: tuple[T, ...], enough: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """Run Zeller's ddmin, the empty set first; `items` itself counts as enough and is never tested."""
    if not items or enough(()):
        return ()
    parts = 2
    while len(items) > 1:
        chunks = _split(items, parts)
        kept = next((chunk for chunk in chunks if enough(chunk)), None)
        if kept is not None:
            items, parts = kept, 2
            continue
        # With two parts the rest is the other part, which has been tested already.
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
    """Split into `parts` consecutive pieces whose lengths differ by one at most."""
    edges = [len(items) * number // parts for number in range(parts + 1)]
    return [items[a:b] for a, b in itertools.pairwise(edges)]


def _without(chunks: Sequence[tuple[T, ...]], left_out: int) -> tuple[T, ...]:
    return tuple(item for number, chunk in enumerate(chunks) if number != left_out for item in chunk)
