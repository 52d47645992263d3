"""What a fault cost the quorum: a disruptive rejoin, time without a leader, epochs used up, brokers left behind.

A rejoin is disruptive when a voter that was away (cut off from every majority, or paused) comes back and the leader
that was elected meanwhile, healthy and touched by no fault, loses its epoch within `REJOIN_NS` (KIP-996: without
pre-vote a voter that is cut off raises its epoch again and again, and everybody else has to follow it).

Everything here is measured: nobody promises how quickly a quorum recovers.
"""

from typing import Final

import msgspec

from fencepost.checkers.facts.claims import (
    FRESH_NS,
    Landmarks,
    begin_at,
    end_rows,
    last_certain,
    last_claim,
    leader_at,
    leaderless_ns,
    next_begin,
    over_ns,
)
from fencepost.checkers.facts.clocks import overlapping, stalls_of
from fencepost.checkers.facts.evidence import Rows, row
from fencepost.checkers.facts.reigns import EpochBegin, Reign, Reigns, epoch_subject, reigns_of
from fencepost.checkers.facts.servers import cuts
from fencepost.checkers.findings.finding import Doubt, Finding, Findings, duration, rule
from fencepost.harness.history import FaultSpan, History, Operation, Outcome
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.systems.kafka.checkers.metadata.attachment import (
    AT_ONCE_NS,
    attached_words,
    attachments,
    deposed_answers,
)
from fencepost.systems.kafka.checkers.metadata.changes import MetadataChanges
from fencepost.systems.kafka.checkers.metadata.staleness import staleness
from fencepost.systems.kafka.figures import Attachment, DeposedAnswers, FaultCost, RejoinFigures

CHECKER: Final = "rejoin"
GUARANTEE: Final = "no-disruptive-rejoin"
EXPOSURE_OF: Final = "voters that came back while another one led, untouched by faults"
ANOMALY: Final = "disruptive-rejoin"
REJOIN_NS: Final = 5_000_000_000
#: What comes so soon after the return is not put down to a busy machine, which would have to strike just then; nor is
#: a jump of so many epochs, which elections take longer for: somebody brought it along.
_AT_ONCE_NS: Final = 2_000_000_000
_EPOCHS_BROUGHT: Final = 5
_CHANGES: Final = frozenset({"alter", "create", "write", "cas", "add", "append"})
_SHOWN_MAX: Final = 50


def check(history: History, facts: Facts) -> list[Verdict]:
    """Measure what each fault that held cost, and judge whether returning voters deposed a healthy leader.

    Returns:
        One verdict with figures for every such fault. It is `unknown` if no voter came back while another one led, or
        if the machine stalled when a leader was deposed.

    Source: a server that was cut off has raised its term and can depose a healthy leader (Ongaro, 2014, section 9.6,
    which prevents this by a pre-vote).

    Cost: O(faults x n) for n events.
    """
    subject = epoch_subject(history)
    if subject is None:
        return [_verdict([], ([], []), [], "no node named the epoch of a leader", facts)]
    reigns = reigns_of(history, subject)
    marks = Landmarks(history)
    costs = [_cost(history, facts, reigns, fault, later, marks) for fault, later in _held(history)]
    stale = staleness(history, facts, MetadataChanges(history, facts))
    attached = attachments(history, facts, reigns, subject, stale)
    disruptive = [c for c in costs if c.deposed_after_ns is not None and not _doubtful(c)]
    findings = [_finding(history, reigns, cost) for cost in disruptive]
    deposed = deposed_answers(reigns, stale, MetadataChanges(history, facts).reads)
    return [_verdict(costs, (attached, deposed), findings, "no voter came back while another one led", facts)]


def _held(history: History) -> list[tuple[FaultSpan, int]]:
    """List the faults that certainly held, each with the time at which the next fault may have begun."""
    spans = []
    for fault in history.faults:
        if fault.certain_from_ns is None:
            continue
        healed_ns = fault.began_ns if fault.certain_to_ns is None else fault.certain_to_ns
        later = [f.began_ns for f in history.faults if f.began_ns > healed_ns and f.fault_id != fault.fault_id]
        spans.append((fault, min(later, default=history.end_ns)))
    return spans


def _cost(
    history: History, facts: Facts, reigns: Reigns, fault: FaultSpan, next_ns: int, marks: Landmarks
) -> FaultCost:
    span = history.certain(fault)
    assert span is not None
    from_ns, to_ns = span
    away = _away(history, facts, fault)
    led = leader_at(reigns, from_ns)
    leader_away = led is not None and (led.node in away or led.node in fault.nodes)
    replaced = next_begin(reigns.begins, led.epoch, from_ns) if led is not None else None
    healthy = leader_at(reigns, to_ns, (*away, *_touched(history, fault, to_ns))) if away else None
    deposed = next_begin(reigns.begins, healthy.epoch, to_ns) if healthy is not None else None
    if deposed is not None and deposed.at_ns > min(to_ns + REJOIN_NS, max(next_ns, to_ns)):
        deposed = None
    stalls = stalls_of(history, facts.thresholds.stall_ns_max)
    resumed = _resumed(history, from_ns)
    before, healed = begin_at(reigns.begins, from_ns), begin_at(reigns.begins, to_ns)
    after = begin_at(reigns.begins, max(next_ns, to_ns))
    leaderless = replaced if leader_away else None
    cost = FaultCost(
        fault_id=fault.fault_id,
        fault=fault.fault,
        target=fault.target,
        nodes=fault.nodes,
        from_ns=from_ns,
        to_ns=to_ns,
        leader=None if led is None else led.node,
        epoch_before=None if led is None else led.epoch,
        epoch_when_healed=None if healed is None else healed.epoch,
        epoch_after=None if after is None else after.epoch,
        leaderless_ns=None if leaderless is None else leaderless.at_ns - from_ns,
        changes_resumed_ns=None if resumed is None else (resumed.completed_ns or 0) - from_ns,
        came_back=away if fault.certain_to_ns is not None else (),
        healthy_leader=None if healthy is None else healthy.node,
        deposed_after_ns=None if healthy is None or deposed is None else over_ns(healthy, deposed, to_ns) - to_ns,
        deposed_leaderless_ns=None if healthy is None or deposed is None else leaderless_ns(healthy, deposed),
        deposed_epochs=0 if healthy is None or deposed is None else deposed.epoch - healthy.epoch,
        stalled=bool(overlapping(stalls, to_ns - FRESH_NS, to_ns + REJOIN_NS)),
    )
    began, ended = marks.at(from_ns), marks.at(to_ns)
    events = {
        "from_ns": began,
        "to_ns": ended,
        "leader": () if led is None else (last_claim(led, from_ns).index,),
        "epoch_before": _named(before) if led is not None else (),
        "epoch_when_healed": _named(healed),
        "epoch_after": _named(after),
        "leaderless_ns": (*began, *_named(leaderless)) if leaderless is not None else (),
        "changes_resumed_ns": () if resumed is None else (*began, row(resumed)),
        "came_back": fault.events if cost.came_back else (),
        "healthy_leader": () if healthy is None else (last_claim(healthy, to_ns).index,),
    }
    if healthy is not None and deposed is not None:
        events["deposed_after_ns"] = (*ended, *_end(reigns, healthy, deposed, to_ns, marks))
        events["deposed_leaderless_ns"] = (*marks.since(last_certain(healthy, deposed)), deposed.event)
        events["deposed_epochs"] = (last_claim(healthy, to_ns).index, deposed.event)
    return msgspec.structs.replace(cost, events={name: rows for name, rows in events.items() if rows})


def _named(begin: EpochBegin | None) -> Rows:
    return () if begin is None else (begin.event,)


def _doubtful(cost: FaultCost) -> bool:
    """Whether a leader that was deposed may have been deposed by a stall."""
    late = cost.deposed_after_ns is not None and cost.deposed_after_ns > _AT_ONCE_NS
    return late and cost.stalled and cost.deposed_epochs < _EPOCHS_BROUGHT


def _away(history: History, facts: Facts, fault: FaultSpan) -> tuple[str, ...]:
    """Return the voters that this fault paused, or cut off from every majority until its end."""
    paused = tuple(node for node in fault.nodes if node in facts.voters and history.paused(fault, node))
    if paused:
        return paused
    cut = [c for c in cuts(history, facts.nodes, facts.voters) if fault.fault_id in c.fault_ids]
    ended = {c.node for c in cut if c.to_ns == fault.certain_to_ns}
    return tuple(node for node in facts.voters if node in ended)


def _touched(history: History, fault: FaultSpan, to_ns: int) -> list[str]:
    """Return the nodes that another fault may have affected when `fault` was healed."""
    others = (f for f in history.faults if f.fault_id != fault.fault_id and f.began_ns <= to_ns)
    return [node for f in others if f.ended_ns is None or f.ended_ns >= to_ns for node in f.nodes]


def _end(reigns: Reigns, reign: Reign, begin: EpochBegin, since_ns: int, marks: Landmarks) -> Rows:
    """Return the row that shows that `reign` was over, by the rule of `over_ns`."""
    own = () if over_ns(reign, begin, since_ns) == begin.at_ns else end_rows(reigns, reign, marks)
    return own or (begin.event,)


def _resumed(history: History, from_ns: int) -> Operation | None:
    """Return the first acknowledged change among those that were sent after `from_ns`."""
    done = [o for o in history.operations if o.f in _CHANGES and o.type is Outcome.OK and o.invoked_ns >= from_ns]
    return min((o for o in done if o.completed_ns is not None), key=lambda o: o.completed_ns or 0, default=None)


def _verdict(
    costs: list[FaultCost],
    after: tuple[list[Attachment], list[DeposedAnswers]],
    findings: list[Finding],
    vacuous: str,
    facts: Facts,
) -> Verdict:
    attached, deposed = after
    exposed = [c for c in costs if c.healthy_leader is not None and c.came_back]
    stalled = Doubt(Cause.STALLED, "a leader was deposed as a voter came back, but the machine stalled")
    slow = [a for a in attached if a.length_ns >= AT_ONCE_NS]
    shown = sorted(sorted(attached, key=lambda a: -a.length_ns)[:_SHOWN_MAX], key=lambda a: a.from_ns)
    return Findings(
        checker=CHECKER,
        guarantee=GUARANTEE,
        findings=findings,
        broken=f"{len(findings)} of {len(exposed)} returning voters deposed a healthy leader",
        doubt=stalled if any(map(_doubtful, exposed)) else None,
        exposure=len(exposed),
        exposure_of=EXPOSURE_OF,
        untested="" if exposed else vacuous,
        rules=(rule(ANOMALY, len(exposed), vacuous),),
        kept=f"{len(exposed)} voters came back, and the leader stayed",
        figures=RejoinFigures(
            faults=tuple(costs[:_SHOWN_MAX]),
            leaderless_ns_max=max((c.leaderless_ns or 0 for c in costs), default=0),
            epochs_used_max=max((_used(c) for c in costs), default=0),
            attachments=tuple(shown),
            deposed=tuple(deposed[:_SHOWN_MAX]),
            attached_ns_max=max((a.length_ns for a in attached), default=0),
            sentences=tuple(attached_words(a) for a in slow[:_SHOWN_MAX]),
        ),
        evidence=_evidence(costs, attached, exposed),
    ).verdict(facts)


def _evidence(costs: list[FaultCost], attached: list[Attachment], exposed: list[FaultCost]) -> dict[str, Rows]:
    leaderless = max(costs, key=lambda c: c.leaderless_ns or 0, default=None)
    inflated = max(costs, key=_used, default=None)
    longest = max(attached, key=lambda a: a.length_ns, default=None)
    stayed = "named_ns" if longest is not None and longest.followed_ns is None else "followed_ns"
    return {
        "exposure": tuple(i for c in exposed for i in c.events["to_ns"]),
        "leaderless_ns_max": () if leaderless is None else leaderless.events.get("leaderless_ns", ()),
        "epochs_used_max": ()
        if inflated is None
        else (*inflated.events.get("epoch_before", ()), *inflated.events.get("epoch_after", ())),
        "attached_ns_max": () if longest is None else longest.events[stayed],
    }


def _used(cost: FaultCost) -> int:
    return (cost.epoch_after or 0) - (cost.epoch_before or 0) if cost.epoch_before is not None else 0


def _finding(history: History, reigns: Reigns, cost: FaultCost) -> Finding:
    fault = next(f for f in history.faults if f.fault_id == cost.fault_id)
    healthy = leader_at(reigns, cost.to_ns, cost.came_back)
    assert healthy is not None
    begin = next_begin(reigns.begins, healthy.epoch, cost.to_ns)
    assert begin is not None
    last = last_claim(healthy, begin.at_ns)
    return Finding(
        anomaly=ANOMALY,
        events=(*fault.events, last.index, begin.event),
        counted_by=cost.events["deposed_epochs"][1],
        steps=(
            f"{', '.join(cost.came_back)} was away for {duration(cost.to_ns - cost.from_ns)} ({fault.fault}).",
            f"{healthy.node} led epoch {healthy.epoch} when it came back, and no fault touched {healthy.node}.",
            f"{duration(cost.deposed_after_ns or 0)} later it led no more; epoch {begin.epoch} began: {begin.how}.",
            f"{cost.deposed_epochs} epochs were used up, and nobody led for up to "
            f"{duration(cost.deposed_leaderless_ns or 0)}.",
        ),
        from_ns=cost.from_ns,
        to_ns=begin.at_ns,
        nodes=tuple(dict.fromkeys((*cost.came_back, healthy.node))),
    )
