"""Zombie brokers: superseded leaders of topic partitions that went on, and what became of their answers.

The subject is the topic partition ("p0"), and its epochs are leader epochs. Polls show who led and when
(`checkers.derived.partitions`); `checkers.derived.reigns` defines reigns, claims and supersession, and
`checkers.derived.partitions` sorts the requests.

A superseded leader breaks the guarantee if what it acknowledged, or showed as committed, is gone. Its reads may be
stale on every Kafka: that is a figure. Brokers that were cut off from every majority of voters have figures on how long
they went on.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from fencepost.checkers.derived.acts import LOST
from fencepost.checkers.derived.claims import Landmarks, claim_figures, end_rows
from fencepost.checkers.derived.evidence import number_of, numbers_of, row, rows
from fencepost.checkers.derived.partitions import (
    VANISHED,
    PartitionAct,
    PartitionDeeds,
    PartitionView,
    Stale,
    deeds_of_partitions,
    partitions,
    reigns_of_partitions,
)
from fencepost.checkers.derived.positions import completed_ns
from fencepost.checkers.derived.reigns import Reign, Reigns
from fencepost.checkers.derived.servers import Cut, cuts
from fencepost.checkers.log import ZOMBIE, judged_as
from fencepost.checkers.rules import Rule, sorted_out, verdict
from fencepost.checkers.violations.finding import Finding, duration, seconds
from fencepost.harness.history import History, Operation
from fencepost.harness.verdict import Facts, Verdict
from fencepost.harness.verdict.figures import (
    CLAIMED,
    CLAIMED_COUNT,
    CUT_LEADERS,
    DEEDS,
    PARTITIONS,
    PARTITIONS_QUIET,
    REIGNS,
    Figures,
    LeaderDeeds,
    PolledReign,
    Traced,
    most,
    tally,
    total,
)

_TESTED: Final = "operations asked of a superseded partition leader"
LOST_APPEND: Final = Rule(
    guarantee=ZOMBIE, anomaly=LOST, tested=_TESTED, lacks="no append was sent to a superseded partition leader"
)
VANISHED_READ: Final = Rule(
    guarantee=ZOMBIE, anomaly=VANISHED, tested=_TESTED, lacks="no superseded partition leader answered a poll"
)
_SHOWN_MAX: Final = 30
#: Reigns of so many partitions are shown; those come first whose leader changed.
_PARTITIONS_MAX: Final = 40


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge the superseded leaders of all partitions.

    Returns:
        One verdict. Each operation that was sent to a superseded leader of a partition tested the guarantee.

    Cost: O(n log n) for n operations.
    """
    marks = Landmarks(history)
    views = partitions(history)
    reigns = reigns_of_partitions(history)
    deeds = deeds_of_partitions(history)
    findings = [_finding(one, act) for one in deeds for act in one.acts]
    chances = {
        LOST_APPEND.here(guarantee=judged_as(ZOMBIE, facts)): sum(
            len(one.acknowledged) + len(one.fenced) + len(one.unknown) for one in deeds
        ),
        VANISHED_READ: sum(len(one.reads) for one in deeds),
    }
    return [
        verdict(
            facts,
            *sorted_out(findings, chances),
            exposed=rows(operation for one in deeds for operation in one.requests),
            untested=f"no {_TESTED}",
            figures=_figures(history, facts, views, reigns, deeds, marks),
        )
    ]


def _finding(deeds: PartitionDeeds, act: PartitionAct) -> Finding:
    view, reign, begin = deeds.view, deeds.reign, deeds.reign.superseded
    op, value = act.operation, act.value
    assert begin is not None
    scan = view.scan_over(op.position or 0)
    acknowledged = act.anomaly == LOST
    what = f"acknowledged {value} at offset {op.position}" if acknowledged else f"showed {value} to a reader"
    done_ns = op.completed_ns if op.completed_ns is not None else op.invoked_ns
    steps = (
        f"Epoch {begin.epoch} of {view.key} had begun at {seconds(begin.at_ns)}: {begin.how}.",
        f"{op.node}, leader of epoch {reign.epoch}, {what} in answer to the {op.f} of event {op.invoke_index}, sent "
        f"{duration(op.invoked_ns - begin.at_ns)} and answered {duration(done_ns - begin.at_ns)} after that.",
        f"The final content of {view.key} lacks {value}.",
    )
    return Finding(about=0, anomaly=act.anomaly, operations=(op,) if scan is None else (op, scan), steps=steps)


def _counted(deeds: Sequence[PartitionDeeds]) -> dict[str, Traced[int]]:
    """Count requests over all partitions, by how they ended."""

    def every(chosen: Callable[[PartitionDeeds], Iterable[Operation]]) -> list[Operation]:
        return [operation for one in deeds for operation in chosen(one)]

    return numbers_of(
        {
            "appends_acknowledged": every(lambda d: d.acknowledged),
            "appends_survived": every(lambda d: d.survived),
            "appends_lost": every(lambda d: d.acted(LOST)),
            "appends_fenced": every(lambda d: d.fenced),
            "appends_unknown": every(lambda d: d.unknown),
            "reads_answered": every(lambda d: d.reads),
            "reads_stale": every(lambda d: (s.read for s in d.stale)),
            "reads_vanished": every(lambda d: d.acted(VANISHED)),
        }
    )


def _figures(
    history: History,
    facts: Facts,
    views: list[PartitionView],
    reigns: dict[str, Reigns],
    deeds: Sequence[PartitionDeeds],
    marks: Landmarks,
) -> Figures:
    claims = {key: claim_figures(own, marks) for key, own in reigns.items()}
    spans = [{"partition": key} | span for key, own in claims.items() for span in own[CLAIMED]]
    changed = [view for view in views if len(reigns[view.key].reigns) > 1][:_PARTITIONS_MAX]
    return {
        "acks": str(facts.options.get("acks", "all")),
        "superseded_leaders": total(own[CLAIMED_COUNT] for own in claims.values()),
        "superseded_for_ns_max": most(own["claimed_ns_max"] for own in claims.values()),
        "two_leaders_ns": total(own["two_leaders_ns"] for own in claims.values()),
        CLAIMED: tuple(sorted(spans, key=lambda span: -span["length_ns"].value)[:_SHOWN_MAX]),
        **_counted(deeds),
        "reads_stale_ns_max": most(_age(stale) for one in deeds for stale in one.stale),
        DEEDS: tuple([_deed(one, marks) for one in deeds if one.requests][:_SHOWN_MAX]),
        CUT_LEADERS: tuple(cut_leaders(history, facts, views, reigns, marks)[:_SHOWN_MAX]),
        # Of each partition the first row that names it.
        PARTITIONS: number_of(view.first for view in views),
        PARTITIONS_QUIET: number_of(view.first for view in views if len(reigns[view.key].reigns) <= 1),
        "partitions_shown": number_of(view.first for view in changed),
        REIGNS: tuple(_reign(view.key, own, marks) for view in changed for own in reigns[view.key].reigns),
    }


def _age(stale: Stale) -> Traced[int]:
    """How old the record was that a read lacked."""
    return Traced(stale.age_ns, (row(stale.missed), stale.read.invoke_index))


def _deed(deeds: PartitionDeeds, marks: Landmarks) -> LeaderDeeds:
    """Lay out the deeds of one superseded leader as a row."""
    reign, begin = deeds.reign, deeds.reign.superseded
    assert begin is not None
    last = max(reign.samples, key=lambda s: s.lo_ns)
    claimed_rows = (begin.event, *marks.since(last)) if reign.claimed else ()
    return LeaderDeeds(
        partition=deeds.view.key,
        node=reign.node,
        incarnation=reign.incarnation,
        epoch=Traced(reign.epoch, (reign.samples[-1].index,)),
        superseded_by=Traced(begin.epoch, (begin.event,)),
        superseded_ns=Traced(begin.at_ns, (begin.event,)),
        claimed_for_ns=Traced(max(0, reign.last_ns - begin.at_ns), claimed_rows),
        requests=number_of(deeds.requests),
        acknowledged=number_of(deeds.acknowledged),
        survived=number_of(deeds.survived),
        lost=number_of(deeds.acted(LOST)),
        fenced=number_of(deeds.fenced),
        unknown=number_of(deeds.unknown),
        reads=number_of(deeds.reads),
        stale_reads=number_of(s.read for s in deeds.stale),
        vanished_reads=number_of(deeds.acted(VANISHED)),
        stale_ns_max=most(map(_age, deeds.stale)),
    )


def _reign(key: str, reign: Reign, marks: Landmarks) -> PolledReign:
    begin = reign.superseded
    last = max(reign.samples, key=lambda s: s.lo_ns)
    return PolledReign(
        partition=key,
        node=reign.node,
        incarnation=reign.incarnation,
        epoch=Traced(reign.epoch, (last.index,)),
        from_ns=Traced(reign.first_ns, marks.until(min(reign.samples, key=lambda s: s.hi_ns))),
        to_ns=Traced(reign.last_ns, marks.since(last)),
        samples=tally(s.index for s in reign.samples),
        superseded_by=None if begin is None else Traced(begin.epoch, (begin.event,)),
        superseded_ns=None if begin is None else Traced(begin.at_ns, (begin.event,)),
        claimed_samples=tally(s.index for s in reign.claimed),
    )


def cut_leaders(
    history: History, facts: Facts, views: list[PartitionView], reigns: dict[str, Reigns], marks: Landmarks
) -> list[Figures]:
    """Describe, for each node that led a partition when it was cut off from every majority, how it went on."""
    leaders = []
    for cut in cuts(history, facts.nodes, facts.voters):
        led = [view for view in views if _led(reigns[view.key], cut)]
        if led:
            leaders.append(_cut_leader(cut, led, reigns, marks))
    return leaders


def _led(reigns: Reigns, cut: Cut) -> list[Reign]:
    """List the broker's reigns that held when it was cut off."""
    return [
        r
        for r in reigns.reigns
        if r.node == cut.node and r.first_ns <= cut.from_ns and (r.over_ns is None or r.over_ns > cut.from_ns)
    ]


def _cut_leader(cut: Cut, led: list[PartitionView], reigns: dict[str, Reigns], marks: Landmarks) -> Figures:
    def inside(operation: Operation) -> bool:
        done_ns = operation.completed_ns
        return operation.node == cut.node and operation.invoked_ns >= cut.from_ns and (done_ns or 0) <= cut.to_ns

    appends = [(view, a) for view in led for a in view.acknowledged if inside(a)]
    reads = [r for view in led for r in view.reads if inside(r)]
    lost = [a for view, a in appends if a.value not in view.final_values and view.scans and view.complete]
    own = [(reigns[view.key], r) for view in led for r in reigns[view.key].reigns if r.node == cut.node]
    over = [(of, r) for of, r in own if r.over_ns is not None and r.over_ns > cut.from_ns]
    first_over = min(over, key=lambda pair: pair[1].over_ns or 0, default=None)
    begins = [r.superseded for _, r in own if r.superseded is not None]
    superseded = min((b for b in begins if cut.from_ns <= b.at_ns <= cut.to_ns), key=lambda b: b.at_ns, default=None)
    last_append = max((a for _, a in appends), key=completed_ns, default=None)
    last_read = max(reads, key=completed_ns, default=None)
    began = marks.at(cut.from_ns)

    def since(at_ns: int, *rows: int) -> Traced[int]:
        return Traced(at_ns - cut.from_ns, (*began, *rows))

    return {
        "node": cut.node,
        "cut_from_ns": Traced(cut.from_ns, began),
        "cut_ns": since(cut.to_ns, *marks.at(cut.to_ns)),
        "partitions_led": tally(_led(reigns[view.key], cut)[0].samples[0].index for view in led),
        "superseded_after_ns": None if superseded is None else since(superseded.at_ns, superseded.event),
        "appends_acknowledged": number_of(a for _, a in appends),
        "appends_lost": number_of(lost),
        "last_append_after_ns": None if last_append is None else since(completed_ns(last_append), row(last_append)),
        "last_read_after_ns": None if last_read is None else since(completed_ns(last_read), row(last_read)),
        "stopped_leading_after_ns": None
        if first_over is None
        else since(first_over[1].over_ns or 0, *end_rows(*first_over, marks)),
    }
