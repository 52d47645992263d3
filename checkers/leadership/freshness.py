"""Fresh reads: an answer must contain every write of its key that was acknowledged before the read was invoked.

The store's own positions (revision, zxid) decide this without a search: an answer cannot contain a write that stands
behind the answer's position (`checkers.derived.versions`). If such a write was acknowledged before the read was
invoked, no order explains the answer. Other checkers look for answers that are too new, and for values that nobody
wrote.

Where servers number the same write differently, or not at all, positions are not compared. An answer is stale then if
the write that made its value had ended before the missing write was invoked. Different numbers break a guarantee of
their own, "write-positions-agree", though the values may be current.

The verdict is about the guarantee of the run's reads: "linearizable" where the system promises current reads, or
"fresh-after-sync" for ZooKeeper's `sync` followed by a read, which recipes rely on and the manual disclaims
(ZOOKEEPER-1675), or "fresh-from-leader" for reads that a leader answers without asking the other nodes, or
"fresh-by-quorum" for those that take the newest answer of a majority.

Source: Ongaro (2014), section 6.4: what a leader must do so that a read-only query is not answered from stale state.
"""

from typing import Final

import msgspec

from fencepost.checkers.derived.acts import find_acts
from fencepost.checkers.derived.evidence import number_of, row, rows
from fencepost.checkers.derived.positions import CURRENT, ok_writes, write_position
from fencepost.checkers.derived.reigns import first_subject, reigns_of
from fencepost.checkers.derived.versions import JudgedReads, StaleRead, find_stale, superseded_reign
from fencepost.checkers.rules import Rule, verdict
from fencepost.checkers.storage.sessions import RENUMBERED, renumbered
from fencepost.checkers.violations.circumstances import answered_words, epoch_words
from fencepost.checkers.violations.finding import Finding, describe, duration, shown
from fencepost.harness.history import History, Operation
from fencepost.harness.verdict import Facts, Verdict
from fencepost.harness.verdict.figures import Traced, most, tallies

STALE: Final = Rule(
    guarantee="linearizable",
    anomaly="stale-read",
    tested="answered reads whose key had a newer write acknowledged through another node",
    lacks="no read came after a newer write acknowledged through another node: nothing could be stale",
)


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge every answered read.

    Args:
        history: one run.
        facts: the guarantee of its reads, and whether the system promises one numbering of writes.

    Returns:
        A verdict on the guarantee of the reads, and one on "write-positions-agree" where the system states it. No
        verdict where the run's reads need not be current.

    Cost: O(n log n) for n operations.
    """
    if facts.read_guarantee not in CURRENT:
        return []
    judged = find_stale(history)
    reigns = reigns_of(history, first_subject(history, facts))
    stale = [msgspec.structs.replace(s, reign=superseded_reign(reigns, s.read)) for s in judged.stale]
    led = [s for s in stale if s.reign is not None]
    figures = {
        "reads_judged": number_of(judged.reads),
        "stale_reads": number_of(s.read for s in stale),
        "stale_reads_of_superseded_leader": number_of(s.read for s in led),
        "fresh_reads_answered_by_superseded_leader": number_of(find_acts(history, facts, reigns).fresh_reads_exposed),
        "stale_reads_by_node": tallies((s.read.node, row(s.read)) for s in stale),
        "stale_reads_by_superseded_epoch": tallies((str(s.reign.epoch), row(s.read)) for s in led if s.reign),
        "staleness_ns_max": most(Traced(s.late_ns, (row(s.first), s.read.invoke_index)) for s in stale),
        "staleness_writes_max": _most_missing(history, stale),
    }
    stale.sort(key=lambda s: (s.reign is None, s.read.invoked_ns))
    verdicts = [
        verdict(
            facts,
            STALE.here(guarantee=facts.read_guarantee).tally(
                [_finding(history, s) for s in stale], rows(judged.exposed)
            ),
            broken=_reason(stale, judged),
            kept=f"{len(judged.reads) - len(judged.unplaced)} reads held every write acknowledged before them",
            figures=figures,
        )
    ]
    views = judged.views
    if facts.guarantee(RENUMBERED.name) is not None:
        # Whether all servers give the same position to a write; reads may be current even if they do not.
        verdicts.append(verdict(facts, RENUMBERED.tally([*renumbered(history, views)], rows(views.placed_reads))))
    return verdicts


def _reason(stale: list[StaleRead], judged: JudgedReads) -> str:
    # By time alone, an answer that overlaps the missing write is not counted.
    least = "at least " if judged.views.by_time else ""
    led = sum(s.reign is not None for s in stale)
    reads = f"{least}{len(stale)} of {len(judged.reads)} reads lack a write acknowledged before they were invoked"
    return f"{reads}; {led} of them were answered by a superseded leader" if led else reads


def _most_missing(history: History, stale: list[StaleRead]) -> Traced[int]:
    emptiest = max(stale, key=lambda s: s.missing, default=None)
    return Traced(0) if emptiest is None else Traced(emptiest.missing, rows(_missing(history, emptiest)))


def _missing(history: History, stale: StaleRead) -> list[Operation]:
    """List the writes that a stale read lacks, counted as in `_stale`."""
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
    unnumbered = write_position(write) is None
    where = "" if unnumbered else f", at position {shown(write_position(write))}"
    stands = f", written at position {shown(read.value_position)}; the reply stands at {shown(read.position)}"
    steps = [
        f"{write.f} of {write.value!r} to {write.key} was acknowledged by {write.node}{epoch_words(write)}{where}.",
        f"{duration(read.invoked_ns - write.completed_ns)} later process {read.process} asked {read.node} to read "
        f"{read.key}.",
        f"{answered_words(history, read, reign)}: {read.result!r}{'' if unnumbered else stands}{epoch_words(read)}.",
        f"{missing}. No order puts a completed write after a later read that lacks it.",
    ]
    if stale.maker is not None:
        ended_ns = write.invoked_ns - (stale.maker.completed_ns or 0)
        unordered = "The store does not number writes" if unnumbered else "Servers number writes differently"
        steps.insert(
            0,
            f"{unordered}, so only time tells which came first. The {describe(stale.maker)} had ended "
            f"{duration(ended_ns)} before the next write was invoked.",
        )
    if begin is not None:
        steps.insert(0, f"Epoch {begin.epoch} had begun: {begin.how}.")
    return STALE.finding(
        *(() if stale.maker is None else (stale.maker,)),
        write,
        read,
        events=tuple(events),
        steps=steps,
        from_ns=min(write.invoked_ns, begin.at_ns if begin else write.invoked_ns),
        to_ns=read.completed_ns if read.completed_ns is not None else read.invoked_ns,
        nodes=tuple(dict.fromkeys((read.node, write.node))),
    )
