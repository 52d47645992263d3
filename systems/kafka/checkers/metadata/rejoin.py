"""What a fault cost the quorum: a disruptive rejoin, time without a leader, epochs used up, brokers left behind.

A rejoin is disruptive when a voter that was away (cut off from every majority, or paused) comes back and the leader
that was elected meanwhile, healthy and touched by no fault, loses its epoch within `REJOIN_NS` (KIP-996: without
pre-vote a voter that is cut off raises its epoch again and again, and everybody else has to follow it).

Everything here is measured: nobody promises how quickly a quorum recovers.

How long a node without a vote stayed with a superseded controller, and how old its answers were meanwhile.

A broker passes on the question who leads the quorum, so its answer names the controller that it is attached to. While
that controller can commit nothing, the broker may not answer at all. So there are two figures for every epoch that
began: how long after that the broker certainly still named an older one, and when it first named the new or a later
one; the second includes silence.
"""

from collections.abc import Sequence
from typing import Final

from fencepost.checkers.derived.claims import (
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
from fencepost.checkers.derived.clocks import overlapping, stalls_of
from fencepost.checkers.derived.evidence import grouped, number_of, row
from fencepost.checkers.derived.reigns import (
    EpochBegin,
    LeaderSample,
    Reign,
    Reigns,
    epoch_subject,
    reigns_of,
    statements,
)
from fencepost.checkers.derived.servers import cuts
from fencepost.checkers.rules import Rule, verdict
from fencepost.checkers.violations.finding import Doubt, Finding, duration
from fencepost.harness.history import Claim, FaultSpan, History, Operation, Outcome
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.harness.verdict.figures import Figures, Rows, Traced, most, tally
from fencepost.systems.kafka.checkers.metadata.changes import MetadataChanges
from fencepost.systems.kafka.checkers.metadata.staleness import Staleness, age, missed, staleness
from fencepost.systems.kafka.figures import Attachment, FaultCost

DISRUPTIVE: Final = Rule(
    guarantee="no-disruptive-rejoin",
    anomaly="disruptive-rejoin",
    tested="voters that came back while another one led, untouched by faults",
    lacks="no voter came back while another one led",
)
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
    return [_verdict(costs, (attached, deposed), findings, DISRUPTIVE.lacks, facts)]


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
    began, ended = marks.at(from_ns), marks.at(to_ns)
    healed_rows = () if healthy is None else (last_claim(healthy, to_ns).index,)
    came_back = away if fault.certain_to_ns is not None else ()
    lost_lead = None if healthy is None or deposed is None else (healthy, deposed)
    return FaultCost(
        fault_id=fault.fault_id,
        fault=fault.fault,
        target=fault.target,
        nodes=fault.nodes,
        from_ns=Traced(from_ns, began),
        to_ns=Traced(to_ns, ended),
        leader=None if led is None else Traced(led.node, (last_claim(led, from_ns).index,)),
        epoch_before=None if led is None else Traced(led.epoch, _named(before)),
        epoch_when_healed=None if healed is None else Traced(healed.epoch, _named(healed)),
        epoch_after=None if after is None else Traced(after.epoch, _named(after)),
        leaderless_ns=None if leaderless is None else Traced(leaderless.at_ns - from_ns, (*began, *_named(leaderless))),
        changes_resumed_ns=None
        if resumed is None
        else Traced((resumed.completed_ns or 0) - from_ns, (*began, row(resumed))),
        came_back=Traced(came_back, fault.events if came_back else ()),
        healthy_leader=None if healthy is None else Traced(healthy.node, healed_rows),
        deposed_after_ns=None
        if lost_lead is None
        else Traced(over_ns(*lost_lead, to_ns) - to_ns, (*ended, *_end(reigns, *lost_lead, to_ns, marks))),
        deposed_leaderless_ns=None
        if lost_lead is None
        else Traced(leaderless_ns(*lost_lead), (*marks.since(last_certain(*lost_lead)), lost_lead[1].event)),
        deposed_epochs=Traced(0)
        if lost_lead is None
        else Traced(lost_lead[1].epoch - lost_lead[0].epoch, (*healed_rows, lost_lead[1].event)),
        stalled=bool(overlapping(stalls, to_ns - FRESH_NS, to_ns + REJOIN_NS)),
    )


def _named(begin: EpochBegin | None) -> Rows:
    return () if begin is None else (begin.event,)


def _doubtful(cost: FaultCost) -> bool:
    """Whether a leader that was deposed may have been deposed by a stall."""
    late = cost.deposed_after_ns is not None and cost.deposed_after_ns.value > _AT_ONCE_NS
    return late and cost.stalled and cost.deposed_epochs.value < _EPOCHS_BROUGHT


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
    after: tuple[list[Attachment], list[Figures]],
    findings: list[Finding],
    vacuous: str,
    facts: Facts,
) -> Verdict:
    attached, deposed = after
    exposed = [c for c in costs if c.healthy_leader is not None and c.came_back.value]
    stalled = Doubt(Cause.STALLED, "a leader was deposed as a voter came back, but the machine stalled")
    slow = [a for a in attached if a.length.value >= AT_ONCE_NS]
    shown = sorted(sorted(attached, key=lambda a: -a.length.value)[:_SHOWN_MAX], key=lambda a: a.from_ns.value)
    return verdict(
        facts,
        DISRUPTIVE.tally(findings, len(exposed)),
        broken=f"{len(findings)} of {len(exposed)} returning voters deposed a healthy leader",
        doubt=stalled if any(map(_doubtful, exposed)) else None,
        exposed=Traced(len(exposed), tuple(i for c in exposed for i in c.to_ns.rows)),
        untested=vacuous,
        kept=f"{len(exposed)} voters came back, and the leader stayed",
        figures={
            "faults": tuple(costs[:_SHOWN_MAX]),
            "leaderless_ns_max": most(c.leaderless_ns for c in costs if c.leaderless_ns is not None),
            "epochs_used_max": most(map(_used, costs)),
            "attachments": tuple(shown),
            "deposed": tuple(deposed[:_SHOWN_MAX]),
            "attached_ns_max": most(a.length for a in attached),
            "told": tuple(attached_words(a) for a in slow[:_SHOWN_MAX]),
        },
    )


def _used(cost: FaultCost) -> Traced[int]:
    before, after = cost.epoch_before, cost.epoch_after or Traced(0)
    return Traced(0) if before is None else Traced(after.value - before.value, (*before.rows, *after.rows))


def _finding(history: History, reigns: Reigns, cost: FaultCost) -> Finding:
    fault = next(f for f in history.faults if f.fault_id == cost.fault_id)
    came_back, from_ns, to_ns = cost.came_back.value, cost.from_ns.value, cost.to_ns.value
    healthy = leader_at(reigns, to_ns, came_back)
    assert healthy is not None
    begin = next_begin(reigns.begins, healthy.epoch, to_ns)
    assert begin is not None
    last = last_claim(healthy, begin.at_ns)
    deposed_ns, leaderless_ns = (
        0 if own is None else own.value for own in (cost.deposed_after_ns, cost.deposed_leaderless_ns)
    )
    return DISRUPTIVE.finding(
        events=(*fault.events, last.index, begin.event),
        counted_by=cost.deposed_epochs.rows[1],
        steps=(
            f"{', '.join(came_back)} was away for {duration(to_ns - from_ns)} ({fault.fault}).",
            f"{healthy.node} led epoch {healthy.epoch} when it came back, and no fault touched {healthy.node}.",
            f"{duration(deposed_ns)} later it led no more; epoch {begin.epoch} began: {begin.how}.",
            f"{cost.deposed_epochs.value} epochs were used up, and nobody led for up to {duration(leaderless_ns)}.",
        ),
        from_ns=from_ns,
        to_ns=begin.at_ns,
        nodes=tuple(dict.fromkeys((*came_back, healthy.node))),
    )


#: A broker that follows within this time follows at once: it is asked 10 times a second, and answers take time.
AT_ONCE_NS: Final = 500_000_000


def attached_words(attachment: Attachment) -> str:
    """Return one sentence about an attachment for the report."""
    broker, leader, epoch = attachment.broker, attachment.leader, attachment.epoch.value
    if attachment.followed_ns is None:
        how = f"broker {broker} never followed in this run"
    else:
        how = f"broker {broker} followed after {duration(attachment.followed_ns.value)}"
    if attachment.named_ns.value:
        whom = f"{leader.value} (epoch {epoch})" if leader else f"epoch {epoch}"
        how += f", and named {whom} for at least {duration(attachment.named_ns.value)}"
    elif attachment.silent.value:
        how += f", and left {attachment.silent.value} questions unanswered"
    if stale := attachment.stale_describes.value:
        oldest = duration(attachment.stale_age_ns_max.value)
        least = "at least " if attachment.undecided_describes.value else ""
        how += f"; {least}{stale} configuration reads there were stale, the oldest by {oldest}"
    return f"Epoch {attachment.superseded_by.value} had begun: {how}."


def attachments(history: History, facts: Facts, reigns: Reigns, subject: str, stale: Staleness) -> list[Attachment]:
    """Return one attachment for each node without a vote and each epoch that began while it was asked, by time."""
    others = (s for s in statements(history) if s.subject == subject and s.node not in facts.voters)
    answers = grouped(others, lambda sample: sample.node)
    attached = []
    for broker, own in answers.items():
        of_broker = Staleness(
            stale=[s for s in stale.stale if s.read.node == broker],
            undecided=[read for read in stale.undecided if read.node == broker],
        )
        for begin in reigns.begins:
            one = _attachment(broker, own, begin, of_broker)
            if one is not None:
                attached.append(one)
    return sorted(attached, key=lambda a: (a.from_ns.value, a.broker))


def _attachment(broker: str, samples: list[LeaderSample], begin: EpochBegin, stale: Staleness) -> Attachment | None:
    """Return how long one broker stayed with an older epoch; None if it named no older epoch before."""
    epoch, from_ns = begin.epoch, begin.at_ns
    answers = sorted(
        (s for s in samples if s.claims is not Claim.SILENT and s.named is not None), key=lambda s: s.answered_ns
    )
    before = [s for s in answers if (s.named or 0) < epoch]
    if not before:
        return None
    follows = next((s for s in answers if (s.named or 0) >= epoch), None)
    until_ns = follows.answered_ns if follows is not None else max(s.answered_ns for s in samples)
    # Asked after the new epoch had begun, and still naming an older one.
    late = max((s for s in before if s.asked_ns > from_ns), key=lambda s: s.asked_ns, default=None)
    last = max((s for s in before if s.answered_ns <= until_ns), key=lambda s: s.answered_ns, default=before[0])
    own = [s for s in stale.stale if from_ns <= s.read.invoked_ns <= until_ns]
    undecided = [read for read in stale.undecided if from_ns <= read.invoked_ns <= until_ns]
    silent = [s for s in samples if s.claims is Claim.SILENT and from_ns < s.asked_ns < until_ns]
    return Attachment(
        broker=broker,
        epoch=Traced(last.named or 0, (last.index,)),
        leader=None if last.leader is None else Traced(last.leader, (last.index,)),
        superseded_by=Traced(epoch, (begin.event,)),
        from_ns=Traced(from_ns, (begin.event,)),
        named_ns=Traced(0) if late is None else Traced(late.asked_ns - from_ns, (begin.event, late.index)),
        followed_ns=None
        if follows is None
        else Traced(max(0, follows.answered_ns - from_ns), (begin.event, follows.index)),
        silent=tally(s.index for s in silent),
        stale_describes=number_of(s.read for s in own),
        undecided_describes=number_of(undecided),
        stale_age_ns_max=most(map(age, own)),
        missed=missed(own),
    )


def deposed_answers(reigns: Reigns, stale: Staleness, reads: Sequence[Operation]) -> list[Figures]:
    """Return what each superseded leader itself answered to reads of settings, until it led again.

    Undecided answers may be stale or not; the stale ones are a lower bound then.
    """
    answers = []
    for reign in reigns.reigns:
        begin = reign.superseded
        if begin is not None:
            again = [r.first_ns for r in reigns.reigns if r.node == reign.node and r.first_ns > begin.at_ns]
            until_ns = min(again, default=None)
            own = [read for read in reads if read.node == reign.node and _between(read, begin.at_ns, until_ns)]
            if own:
                answers.append(_deposed(reign, begin, own, stale))
    return answers


def _between(read: Operation, from_ns: int, until_ns: int | None) -> bool:
    return read.invoked_ns > from_ns and (until_ns is None or read.invoked_ns < until_ns)


def _deposed(reign: Reign, begin: EpochBegin, own: Sequence[Operation], stale: Staleness) -> Figures:
    indexes = {read.invoke_index for read in own}
    late = [s for s in stale.stale if s.read.invoke_index in indexes]
    undecided = [read for read in stale.undecided if read.invoke_index in indexes]
    return {
        "node": reign.node,
        "epoch": Traced(reign.epoch, (reign.samples[-1].index,)),
        "superseded_by": Traced(begin.epoch, (begin.event,)),
        "from_ns": Traced(begin.at_ns, (begin.event,)),
        "describes": number_of(own),
        "stale_describes": number_of(s.read for s in late),
        "undecided_describes": number_of(undecided),
        "stale_age_ns_max": most(map(age, late)),
        "missed": missed(late),
    }
