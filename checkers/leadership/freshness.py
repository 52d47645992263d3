"""Fresh reads: an answer must hold every write of its key that was acknowledged before the read was invoked.

Judged by the store's own positions (revision, zxid), so without a search: an answer cannot contain a write behind
its own position (`checkers.storage.numbering`). When such a write was acknowledged before the read was invoked, no
order explains the answer. What this misses (answers that are too new, values that nobody wrote) is the business of
other checkers.

Where servers number the same write differently, positions are not compared: an answer is stale then if the write that
made its value had ended before the missing one was invoked. That the numbers differ breaks a guarantee of its own,
"write-positions-agree": values may be current and linearizable all the same.

The guarantee is the one that the run's reads are held to: "fresh-after-sync" for ZooKeeper's `sync` then read (relied
upon, and disclaimed: ZOOKEEPER-1675), "linearizable" where reads are promised to be current.
"""

from bisect import bisect_left
from collections import Counter
from typing import Any, Final

import msgspec

from fencepost.checkers.facts.evidence import Rows, row, rows
from fencepost.checkers.facts.once import once
from fencepost.checkers.facts.positions import CURRENT, by_key, ok_reads, ok_writes, view_position, write_position
from fencepost.checkers.facts.reigns import Reign, Reigns, reigns_of, subjects
from fencepost.checkers.findings.circumstances import answered_words, leader_of
from fencepost.checkers.findings.finding import Finding
from fencepost.checkers.findings.ladder import WITNESSES_MAX, Findings
from fencepost.checkers.findings.rules import rule
from fencepost.checkers.findings.words import describe, duration, shown
from fencepost.checkers.leadership.acted import find_acts
from fencepost.checkers.storage.numbering import RENUMBERED, Views, epoch_words, renumbered, views_of
from fencepost.harness.history import History, Operation
from fencepost.harness.verdict import Facts, Verdict

CHECKER: Final = "freshness"
ONE_NUMBERING: Final = "write-positions-agree"


class StaleRead(msgspec.Struct, frozen=True, kw_only=True):
    """`read` lacks `write`, the latest of `missing` writes; `first` of these was acknowledged first, at `since_ns`.

    `view` is up to where the read may contain writes, as `checkers.storage.numbering` says. `maker` made the value that
    was read, where only time tells that it is older.

    `reign` is that of the read's node when it was a superseded leader, not yet known to have stepped down.
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
        """For how long the first of the missing writes had been acknowledged when the read was invoked."""
        return self.read.invoked_ns - self.since_ns


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """The reads that carried a position, those that could be stale, and those that are; in the order of invocation.

    Of the `unplaced` ones nobody knows which writes they may contain.
    """

    views: Views
    reads: list[Operation]
    unplaced: list[Operation]
    exposed: list[Operation]
    stale: list[StaleRead]


class _Acknowledged(msgspec.Struct, kw_only=True):
    """One key's acknowledged writes by completion, the running maximum of their ranks, and whose it is."""

    times: list[int]
    writes: list[Operation]
    newest: list[Operation]
    highest: list[int]


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge every answered read; nothing where the run's reads need not be current. Cost: O(n log n)."""
    if facts.read_guarantee not in CURRENT:
        return []
    found = find_stale(history)
    judged = len(found.reads)
    reigns = reigns_of(history, subjects(history)[0])
    stale = [msgspec.structs.replace(s, reign=superseded_reign(reigns, s.read)) for s in found.stale]
    counted = {
        "reads_judged": found.reads,
        "stale_reads": [s.read for s in stale],
        "stale_reads_of_superseded_leader": [s.read for s in stale if s.reign is not None],
        "fresh_reads_answered_by_superseded_leader": find_acts(history, facts, reigns).fresh_reads_exposed,
    }
    telling = sorted(stale, key=lambda s: (s.reign is None, s.read.invoked_ns))[:WITNESSES_MAX]
    return [
        Findings(
            checker=CHECKER,
            guarantee=facts.read_guarantee,
            found=[_finding(history, s) for s in stale],
            broken=_reason(stale, found),
            exposed=rows(found.exposed),
            exposure_of="answered reads whose key had a newer write acknowledged through another node",
            untested="no read came after a newer write acknowledged through another node: nothing could be stale",
            rules=(rule("stale-read", len(found.exposed), "no read came after a newer write through another node"),),
            kept=f"{judged - len(found.unplaced)} reads held every write acknowledged before them",
            shown=[_finding(history, s) for s in telling],
            figures={**{name: len(own) for name, own in counted.items()}, **_figures(stale)},
            evidence={**{name: rows(own) for name, own in counted.items()}, **_evidence(history, stale)},
        ).verdict(facts),
        *([_numbering(history, facts, found.views)] if facts.guarantee(ONE_NUMBERING) is not None else []),
    ]


def _reason(stale: list[StaleRead], found: Judged) -> str:
    # Where only time tells, an answer that overlaps what it lacks is not counted.
    least = "at least " if found.views.by_time else ""
    led = sum(s.reign is not None for s in stale)
    reads = f"{least}{len(stale)} of {len(found.reads)} reads lack a write acknowledged before they were invoked"
    return f"{reads}; {led} of them were answered by a superseded leader" if led else reads


def _numbering(history: History, facts: Facts, views: Views) -> Verdict:
    """Whether every server says the same of where a write stands; reads may be current all the same."""
    told, differ = len(views.placed_reads), len(views.renumbered)
    return Findings(
        checker=CHECKER,
        guarantee=ONE_NUMBERING,
        found=list(renumbered(history, views)),
        broken=f"{differ} of {told} reads show a write at another position than it was acknowledged at",
        exposed=rows(views.placed_reads),
        exposure_of="reads that tell the position of a write whose acknowledgement told it",
        rules=(rule(RENUMBERED, told, "no read tells the position of a write whose acknowledgement told it"),),
        kept=f"{told} reads show a write where it was acknowledged",
    ).verdict(facts)


@once
def find_stale(history: History) -> Judged:
    """Every answered read with a position, against the writes that were acknowledged before it was invoked."""
    views = views_of(history)
    tables = {key: _table(writes, views) for key, writes in by_key(ok_writes(history)).items()}
    judged = Judged(views=views, reads=[], unplaced=[], exposed=[], stale=[])
    for read in ok_reads(history):
        if view_position(read) is None:
            continue
        judged.reads.append(read)
        view = views.view(read)
        if view is None:
            judged.unplaced.append(read)
            continue
        table = tables.get(read.key)
        before = bisect_left(table.times, read.invoked_ns) if table else 0
        if table is None or not before:
            continue
        if table.newest[before - 1].node != read.node:
            judged.exposed.append(read)
        if view < table.highest[before - 1]:
            judged.stale.append(_stale(table, read, before, view, views))
    return judged


def _table(writes: list[Operation], views: Views) -> _Acknowledged:
    table = _Acknowledged(times=[], writes=[], newest=[], highest=[])
    for write in sorted(writes, key=lambda w: w.completed_ns or 0):
        rank = views.rank(write)
        if rank is None or write.completed_ns is None:
            continue
        behind = bool(table.highest) and table.highest[-1] > rank
        table.times.append(write.completed_ns)
        table.writes.append(write)
        table.newest.append(table.newest[-1] if behind else write)
        table.highest.append(table.highest[-1] if behind else rank)
    return table


def _stale(table: _Acknowledged, read: Operation, before: int, view: int, views: Views) -> StaleRead:
    first = bisect_left(table.highest, view + 1)
    return StaleRead(
        read=read,
        write=table.newest[before - 1],
        view=view,
        missing=sum((views.rank(w) or 0) > view for w in table.writes[first:before]),
        first=table.writes[first],
        since_ns=table.times[first],
        maker=views.last_maker(read) if views.by_time else None,
    )


def superseded_reign(reigns: Reigns, read: Operation) -> Reign | None:
    """The reign of the superseded leader that answered `read`; None when none did."""
    reign = leader_of(reigns, read)
    if reign is None or reign.superseded is None or read.completed_ns is None:
        return None
    led_on = reign.over_ns is None or read.invoked_ns <= reign.over_ns
    return reign if led_on and reign.superseded.at_ns <= read.completed_ns else None


def _figures(stale: list[StaleRead]) -> dict[str, Any]:
    return {
        "stale_reads_by_node": dict(Counter(s.read.node for s in stale)),
        "stale_reads_by_superseded_epoch": dict(Counter(str(s.reign.epoch) for s in stale if s.reign is not None)),
        "staleness_ns_max": max((s.late_ns for s in stale), default=0),
        "staleness_writes_max": max((s.missing for s in stale), default=0),
    }


def _evidence(history: History, stale: list[StaleRead]) -> dict[str, Rows]:
    """The rows behind `_figures`, by the same names."""
    found: dict[str, list[int]] = {}
    for s in stale:
        found.setdefault(f"stale_reads_by_node.{s.read.node}", []).append(row(s.read))
        if s.reign is not None:
            found.setdefault(f"stale_reads_by_superseded_epoch.{s.reign.epoch}", []).append(row(s.read))
    latest = max(stale, key=lambda s: s.late_ns, default=None)
    emptiest = max(stale, key=lambda s: s.missing, default=None)
    return {
        **{name: tuple(own) for name, own in found.items()},
        "staleness_ns_max": () if latest is None else (row(latest.first), latest.read.invoke_index),
        "staleness_writes_max": () if emptiest is None else rows(_missing(history, emptiest)),
    }


def _missing(history: History, stale: StaleRead) -> list[Operation]:
    """The writes that a stale read lacks, as `_stale` counts them."""
    read = stale.read
    return [
        write
        for write in ok_writes(history)
        if write.key == read.key
        and write.completed_ns is not None
        and write.completed_ns < read.invoked_ns
        and (write.invoked_ns if stale.maker is not None else write_position(write) or 0) > stale.view
    ]


def _finding(history: History, stale: StaleRead) -> Finding:
    read, write, reign = stale.read, stale.write, stale.reign
    assert write.completed_ns is not None
    begin = reign.superseded if reign is not None else None
    events = {begin.event} if begin else set()
    faults = [f for f in history.faults if read.node in f.nodes and f.began_ns <= (read.completed_ns or 0)]
    pauses = [f for f in faults if history.paused(f, read.node)]
    events |= set(pauses[-1].events) if pauses and begin else set()
    missing = "This write is missing"
    if stale.missing > 1:
        missing = f"{stale.missing} acknowledged writes of {read.key} are missing"
        missing += f"; the first of them was acknowledged {duration(stale.late_ns)} before the read was invoked"
    steps = [
        f"{write.f} of {write.value!r} to {write.key} was acknowledged by {write.node}{epoch_words(write)}, at "
        f"position {shown(write_position(write))}.",
        f"{duration(read.invoked_ns - write.completed_ns)} later process {read.process} asked {read.node} to read "
        f"{read.key}.",
        f"{answered_words(history, read, reign)}: {read.result!r}, written at position {shown(read.value_position)}; "
        f"the reply stands at {shown(read.position)}{epoch_words(read)}.",
        f"{missing}. No order puts a completed write after a later read that lacks it.",
    ]
    if stale.maker is not None:
        ended_ns = write.invoked_ns - (stale.maker.completed_ns or 0)
        steps.insert(
            0,
            f"Servers number writes differently, so only time tells which came first. The "
            f"{describe(stale.maker)} had ended {duration(ended_ns)} before the next write was invoked.",
        )
    if begin is not None:
        steps.insert(0, f"Epoch {begin.epoch} had begun: {begin.how}.")
    return Finding(
        anomaly="stale-read",
        operations=(*(() if stale.maker is None else (stale.maker,)), write, read),
        events=tuple(events),
        steps=tuple(steps),
        from_ns=min(write.invoked_ns, begin.at_ns if begin else write.invoked_ns),
        to_ns=read.completed_ns if read.completed_ns is not None else read.invoked_ns,
        nodes=tuple(dict.fromkeys((read.node, write.node))),
    )
