"""How often each guarantee of leases was put to the test: the operations at which a violation would have shown.

A look counts once, however many leases it puts to the test. So the question for each look is whether any lease fits,
which sorted starts, ends and bounds answer without a pass over all leases. n looks and m leases cost O((n + m) log m).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

from fencepost.checkers.derived.evidence import Intervals, row, rows
from fencepost.checkers.leases.findings import JudgedLease, asked_after, end_of
from fencepost.checkers.leases.lives import Lives
from fencepost.checkers.leases.view import LookAtKeys
from fencepost.harness.history import Outcome
from fencepost.harness.verdict.figures import Rows


def looks_at_the_living(judged: Sequence[JudgedLease], looks: Sequence[LookAtKeys]) -> Rows:
    """Return the rows of the looks that had to show some key from their invocation to their answer."""
    spans = _Spans(span for one in judged for span in _shown_alive(one))
    return tuple(row(look.op) for look in looks if spans.enclose(look.invoked_ns, look.completed_ns))


def _shown_alive(one: JudgedLease) -> Intervals:
    """When the key of a lease had to be there: it was attached, and the lease was certainly alive."""
    attach = one.lease.attach
    if attach is None or attach.completed_ns is None:
        return []
    return [(max(start, attach.completed_ns), end) for start, end in one.alive]


def keep_alives_in_doubt(judged: Sequence[JudgedLease], lives: Lives, looks: Sequence[LookAtKeys]) -> Rows:
    """Return the rows of the keep-alives in doubt that a look within their time to live would have shown to be vain."""
    by_start = sorted(looks, key=lambda look: look.invoked_ns)
    starts = [look.invoked_ns for look in by_start]
    #: The earliest answer to a look from each place on.
    earliest = list(accumulate((look.completed_ns for look in reversed(by_start)), min))[::-1]
    counted = []
    for renewal in (r for one in judged for r in one.in_doubt if r.op.f == "keep"):
        first = bisect_left(starts, renewal.answered_ns)
        if first < len(earliest) and earliest[first] < lives.until_ns(renewal):
            counted.append(renewal.op)
    return rows(counted)


def looks_after_the_bound(judged: Sequence[JudgedLease], lives: Lives, looks: Sequence[LookAtKeys]) -> Rows:
    """Return the rows of the looks at whose invocation some lease was certainly over by time alone."""
    decisive = lives.first_over([one.lease for one in judged])
    return tuple(row(look.op) for look in looks if any(lives.certainly_over(lease, look) for lease in decisive))


def looks_after_an_end(judged: Sequence[JudgedLease], looks: Sequence[LookAtKeys]) -> Rows:
    """Return the rows of the looks that were asked for after the end of some lease was known."""
    ends = (end_of(one.lease) for one in judged)
    first = min((end for end in ends if end is not None), key=row, default=None)
    return tuple(row(look.op) for look in looks if asked_after(look.op, first))


def keep_alives_after_an_end(judged: Sequence[JudgedLease]) -> Rows:
    """Return the rows of the keep-alives that were asked for after their lease was known to have ended."""
    return rows(
        keep
        for one in judged
        if (end := end_of(one.lease)) is not None
        for keep in one.lease.keeps
        if keep.type is not Outcome.INFO and asked_after(keep, end) and keep.error in (None, "lease-expired")
    )


class _Spans:
    """Half-open intervals [start, end) that may overlap."""

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        ordered = sorted(spans)
        self._starts: Final = [start for start, _ in ordered]
        #: The latest end of the intervals up to each place.
        self._ends: Final = list(accumulate((end for _, end in ordered), max))

    def enclose(self, from_ns: int, to_ns: int) -> bool:
        """Whether one interval holds both moments."""
        place = bisect_right(self._starts, from_ns)
        return place > 0 and to_ns < self._ends[place - 1]
