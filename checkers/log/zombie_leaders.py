"""Zombie brokers: superseded leaders of topic partitions that went on, and what became of their answers.

The subject is the topic partition ("p0"), and its epochs are leader epochs. Polls show who led and when
(`checkers.facts.partitions`); `checkers.facts.reigns` defines reigns, claims and supersession, and
`checkers.facts.partitions` sorts the requests.

A superseded leader breaks the guarantee if what it acknowledged, or showed as committed, is gone. Its reads may be
stale on every Kafka: that is a figure. Brokers that were cut off from every majority of voters have figures on how long
they went on.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from fencepost.checkers.facts.acts import LOST
from fencepost.checkers.facts.claims import Landmarks, claim_evidence, claim_figures, claimed_spans
from fencepost.checkers.facts.evidence import Rows, row, rows
from fencepost.checkers.facts.partitions import (
    VANISHED,
    PartitionAct,
    PartitionDeeds,
    PartitionView,
    deeds_of_partitions,
    partitions,
    reigns_of_partitions,
)
from fencepost.checkers.facts.reigns import Reign, Reigns
from fencepost.checkers.findings.finding import Finding, Findings, duration, rule, seconds
from fencepost.checkers.log.cut_leaders import cut_leaders
from fencepost.checkers.log.standing import ZOMBIE, judged_as
from fencepost.harness.history import History, Operation
from fencepost.harness.verdict import Facts, Verdict, in_words
from fencepost.harness.verdict.figures import (
    ClaimedSpan,
    ClaimFigures,
    LeaderDeeds,
    PolledReign,
    ZombieLeaderFigures,
)

CHECKER: Final = "zombie-brokers"
EXPOSURE_OF: Final = "operations asked of a superseded partition leader"
_WITNESSES_MAX: Final = 3
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
    requests = [operation for one in deeds for operation in one.requests]
    return [
        Findings(
            checker=CHECKER,
            guarantee=judged_as(ZOMBIE, facts),
            findings=findings,
            broken=f"a superseded partition leader acted: {in_words(Counter(f.anomaly for f in findings))}",
            exposed=rows(requests),
            exposure_of=EXPOSURE_OF,
            kept=f"of {len(requests)} {EXPOSURE_OF} none had an effect that was lost",
            rules=(
                rule(
                    LOST,
                    sum(len(one.acknowledged) + len(one.fenced) + len(one.unknown) for one in deeds),
                    "no append was sent to a superseded partition leader",
                ),
                rule(
                    VANISHED,
                    sum(len(one.reads) for one in deeds),
                    "no superseded partition leader answered a poll",
                ),
            ),
            shown=findings[:_WITNESSES_MAX],
            figures=_figures(history, facts, views, reigns, deeds, marks),
            evidence={**_evidence(reigns, deeds, marks), **_partition_rows(views, reigns)},
        ).verdict(facts)
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


def _counted(deeds: Sequence[PartitionDeeds]) -> dict[str, list[Operation]]:
    """Map the names of figures to what they count over all partitions."""

    def every(chosen: Callable[[PartitionDeeds], Iterable[Operation]]) -> list[Operation]:
        return [operation for one in deeds for operation in chosen(one)]

    return {
        "appends_acknowledged": every(lambda d: d.acknowledged),
        "appends_survived": every(lambda d: d.survived),
        "appends_lost": every(lambda d: d.acted(LOST)),
        "appends_fenced": every(lambda d: d.fenced),
        "appends_unknown": every(lambda d: d.unknown),
        "reads_answered": every(lambda d: d.reads),
        "reads_stale": every(lambda d: (s.read for s in d.stale)),
        "reads_vanished": every(lambda d: d.acted(VANISHED)),
    }


def _figures(
    history: History,
    facts: Facts,
    views: list[PartitionView],
    reigns: dict[str, Reigns],
    deeds: Sequence[PartitionDeeds],
    marks: Landmarks,
) -> ZombieLeaderFigures:
    claims = {key: claim_figures(own, marks) for key, own in reigns.items()}
    counted = {**_counted(deeds), **_partition_rows(views, reigns)}
    counts: dict[str, Any] = {name: len(own) for name, own in counted.items()}
    return ZombieLeaderFigures(
        acks=str(facts.options.get("acks", "all")),
        superseded_leaders=sum(own.claimed_count for own in claims.values()),
        superseded_for_ns_max=max((own.claimed_ns_max for own in claims.values()), default=0),
        two_leaders_ns=sum(own.two_leaders_ns for own in claims.values()),
        claimed=_longest_claims(claims),
        **counts,
        reads_stale_ns_max=max((s.age_ns for one in deeds for s in one.stale), default=0),
        deeds=tuple([_deed(one, marks) for one in deeds if one.requests][:_SHOWN_MAX]),
        cut_leaders=tuple(cut_leaders(history, facts, views, reigns, marks)[:_SHOWN_MAX]),
        reigns=_changed_reigns(views, reigns, marks),
    )


def _longest_claims(claims: dict[str, ClaimFigures]) -> tuple[ClaimedSpan, ...]:
    spans = [msgspec.structs.replace(span, partition=key) for key, own in claims.items() for span in own.claimed]
    return tuple(sorted(spans, key=lambda span: -span.length_ns)[:_SHOWN_MAX])


def _evidence(reigns: dict[str, Reigns], deeds: Sequence[PartitionDeeds], marks: Landmarks) -> dict[str, Rows]:
    claims = [claim_evidence(own, marks) for own in reigns.values()]
    longest = max(
        reigns.values(), key=lambda own: max((s.length_ns for s in claimed_spans(own)), default=0), default=None
    )
    stale = max((s for one in deeds for s in one.stale), key=lambda s: s.age_ns, default=None)
    return {
        "superseded_leaders": tuple(i for own in claims for i in own["claimed_count"]),
        "superseded_for_ns_max": () if longest is None else claim_evidence(longest, marks)["claimed_ns_max"],
        "two_leaders_ns": tuple(i for own in claims for i in own["two_leaders_ns"]),
        **{name: rows(own) for name, own in _counted(deeds).items()},
        "reads_stale_ns_max": () if stale is None else (row(stale.missed), stale.read.invoke_index),
    }


def _deed(deeds: PartitionDeeds, marks: Landmarks) -> LeaderDeeds:
    """Lay out the deeds of one superseded leader as a row."""
    reign, begin = deeds.reign, deeds.reign.superseded
    assert begin is not None
    last = max(reign.samples, key=lambda s: s.lo_ns)
    stalest = max(deeds.stale, key=lambda s: s.age_ns, default=None)
    counted = {
        "acknowledged": deeds.acknowledged,
        "survived": deeds.survived,
        "lost": deeds.acted(LOST),
        "fenced": deeds.fenced,
        "unknown": deeds.unknown,
        "reads": deeds.reads,
        "stale_reads": [s.read for s in deeds.stale],
        "vanished_reads": deeds.acted(VANISHED),
    }
    return LeaderDeeds(
        partition=deeds.view.key,
        node=reign.node,
        incarnation=reign.incarnation,
        epoch=reign.epoch,
        superseded_by=begin.epoch,
        superseded_ns=begin.at_ns,
        claimed_for_ns=max(0, reign.last_ns - begin.at_ns),
        requests=len(deeds.requests),
        **{name: len(own) for name, own in counted.items()},
        stale_ns_max=0 if stalest is None else stalest.age_ns,
        events={
            "epoch": (reign.samples[-1].index,),
            "superseded_by": (begin.event,),
            "superseded_ns": (begin.event,),
            "claimed_for_ns": (begin.event, *marks.since(last)) if reign.claimed else (),
            "asked": rows(deeds.requests),
            **{name: rows(own) for name, own in counted.items()},
            "stale_ns_max": () if stalest is None else (row(stalest.missed), stalest.read.invoke_index),
        },
    )


def _changed_reigns(views: list[PartitionView], reigns: dict[str, Reigns], marks: Landmarks) -> tuple[PolledReign, ...]:
    """Return every reign of the partitions with more than one leader or epoch; other partitions are only counted."""
    changed = [view.key for view in views if len(reigns[view.key].reigns) > 1]
    return tuple(_reign(key, own, marks) for key in changed[:_PARTITIONS_MAX] for own in reigns[key].reigns)


def _partition_rows(views: list[PartitionView], reigns: dict[str, Reigns]) -> dict[str, Rows]:
    """Return, for each partition that is counted, the first row that names it."""
    changed = [view for view in views if len(reigns[view.key].reigns) > 1]
    quiet = [view for view in views if len(reigns[view.key].reigns) <= 1]
    return {
        "partitions": rows(view.first for view in views),
        "partitions_quiet": rows(view.first for view in quiet),
        "partitions_shown": rows(view.first for view in changed[:_PARTITIONS_MAX]),
    }


def _reign(key: str, reign: Reign, marks: Landmarks) -> PolledReign:
    begin, claimed = reign.superseded, reign.claimed
    last = max(reign.samples, key=lambda s: s.lo_ns)
    return PolledReign(
        partition=key,
        node=reign.node,
        incarnation=reign.incarnation,
        epoch=reign.epoch,
        from_ns=reign.first_ns,
        to_ns=reign.last_ns,
        samples=len(reign.samples),
        superseded_by=None if begin is None else begin.epoch,
        superseded_ns=None if begin is None else begin.at_ns,
        claimed_samples=len(claimed),
        events={
            "epoch": (last.index,),
            "from_ns": marks.until(min(reign.samples, key=lambda s: s.hi_ns)),
            "to_ns": marks.since(last),
            "samples": tuple(s.index for s in reign.samples),
            "superseded_by": () if begin is None else (begin.event,),
            "superseded_ns": () if begin is None else (begin.event,),
            "claimed_samples": tuple(s.index for s in claimed),
        },
    )
