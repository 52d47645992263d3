"""Answered reads that lack a write of their key that was acknowledged before they were invoked.

An answer cannot contain a write that stands behind the answer's position; where servers number the same write
differently, only time tells (`checkers.facts.numbering`). Whether a read may be stale is its guarantee's matter.
"""

from typing import Final

import msgspec
import numpy as np

from fencepost.checkers.facts.acknowledged import UNKNOWN, Acknowledged, acknowledged_writes, last_of_highest
from fencepost.checkers.facts.evidence import once
from fencepost.checkers.facts.numbering import Views, views_of
from fencepost.checkers.facts.operation_columns import Longs, longs
from fencepost.checkers.facts.positions import ok_reads, view_position
from fencepost.checkers.facts.reigns import Reign, Reigns, leader_of
from fencepost.harness.history import History, Operation


class StaleRead(msgspec.Struct, frozen=True, kw_only=True):
    """A stale answer: `read` lacks `missing` acknowledged writes, the newest of them `write`.

    `first` is the missing write that was acknowledged first, at `since_ns`. `view` is the position up to which the read
    may contain writes (`checkers.facts.numbering`). `maker` made the value that was read; it is given where only time
    shows that the value is old. `reign` is given if the node was a superseded leader that may not have stepped down.
    """

    read: Operation
    write: Operation
    view: int
    missing: int
    first: Operation
    since_ns: int
    maker: Operation | None = None
    reign: Reign | None = None

    @property
    def late_ns(self) -> int:
        """How long before the read's invocation the first missing write had been acknowledged, in nanoseconds."""
        return self.read.invoked_ns - self.since_ns


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """The answered reads, those of them that could be stale, and those that are, by invocation.

    Reads without a position are left out where the store numbers its writes. For a read of `unplaced` it is
    not known which writes the answer may contain.
    """

    views: Views
    reads: list[Operation]
    unplaced: list[Operation]
    exposed: list[Operation]
    stale: list[StaleRead]


@once
def find_stale(history: History) -> Judged:
    """Compare every answered read that has a position with the writes that were acknowledged before it was invoked."""
    views = views_of(history)
    reads = [read for read in ok_reads(history) if views.unnumbered or view_position(read) is not None]
    seen = [views.view(read) for read in reads]
    placed: dict[str | None, list[int]] = {}
    for number, (read, view) in enumerate(zip(reads, seen, strict=True)):
        if view is not None:
            placed.setdefault(read.key, []).append(number)
    exposed: list[int] = []
    stale: dict[int, StaleRead] = {}
    acknowledged = acknowledged_writes(history)
    ranks = views.ranks(acknowledged)
    for key, rows in acknowledged.of_key.items():
        numbers = placed.get(key, [])
        own = _OfKey(acknowledged, rows[ranks[rows] != UNKNOWN], ranks, views)
        before = np.searchsorted(own.times, longs([reads[n].invoked_ns for n in numbers]))
        newest, highest = own.newest_of(before)
        exposed += [n for n, node in zip(numbers, newest, strict=True) if node is not None and node != reads[n].node]
        for place in np.flatnonzero(longs([seen[n] or 0 for n in numbers]) < highest).tolist():
            number = numbers[place]
            stale[number] = own.stale(reads[number], int(before[place]), seen[number] or 0)
    return Judged(
        views=views,
        reads=reads,
        unplaced=[read for read, view in zip(reads, seen, strict=True) if view is None],
        exposed=[reads[n] for n in sorted(exposed)],
        stale=[stale[n] for n in sorted(stale)],
    )


class _OfKey:
    """One key's acknowledged writes by completion; `newest` is the place of the highest rank up to each of them."""

    def __init__(self, acknowledged: Acknowledged, rows: Longs, ranks: Longs, views: Views) -> None:
        self._views: Final = views
        self.writes: Final = [acknowledged.writes[row] for row in rows.tolist()]
        self.times: Final = acknowledged.completed_ns[rows]
        self.ranks: Final = ranks[rows]
        self.newest: Final = last_of_highest(self.ranks)

    def newest_of(self, before: Longs) -> tuple[list[str | None], Longs]:
        """Return, for the first so many writes, the node of the newest among them, and its rank; None and the least."""
        nodes = [None, *(self.writes[place].node for place in self.newest.tolist())]
        highest = np.concatenate(([UNKNOWN], self.ranks[self.newest]))
        return [nodes[number] for number in before.tolist()], highest[before]

    def stale(self, read: Operation, before: int, view: int) -> StaleRead:
        """Describe a read that lacks some of the first `before` writes, since it contains none above `view`."""
        missing = np.flatnonzero(self.ranks[:before] > view)
        first = int(missing[0])
        return StaleRead(
            read=read,
            write=self.writes[self.newest[before - 1]],
            view=view,
            missing=len(missing),
            first=self.writes[first],
            since_ns=int(self.times[first]),
            maker=self._views.last_maker(read) if self._views.by_time else None,
        )


def superseded_reign(reigns: Reigns, read: Operation) -> Reign | None:
    """Return the reign of the superseded leader that answered `read`; None if it was no superseded leader."""
    reign = leader_of(reigns, read)
    if reign is None or reign.superseded is None or read.completed_ns is None:
        return None
    led_on = reign.over_ns is None or read.invoked_ns <= reign.over_ns
    return reign if led_on and reign.superseded.at_ns <= read.completed_ns else None
