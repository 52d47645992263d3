"""Leadership: which leaders were superseded, what they were asked after that, and whether they still acted.

To claim an old epoch is allowed and gives a figure; to act under it is a violation. One history gives up to five
verdicts:
  - the guarantee of the run's reads, by stale answers of superseded leaders. A read is held to what the system promises
    for reads, so ZooKeeper's `sync`, which recipes rely on and the manual disclaims, does not make every run invalid;
  - "superseded-leader-does-not-act", by the effects of changes: lost acknowledgements, stamped effects and, where the
    maker rules them out, acknowledgements;
  - "leader-self-fencing", where the system states a bound;
  - "one-leader-per-epoch", where the system's samples allow to judge it;
  - "groups-keep-their-size", where the system's nodes tell how large they believe their group to be.

Only requests that reached a superseded leader put it to the test, whether it answered them, refused them or left them
unanswered: changes test its effects, and reads after a newer acknowledged write test its answers. Where reads have to
be linearizable, or a store stamps no write with an epoch (Consul), this checker is silent about reads unless an answer
is stale: other checkers decide about all reads.

Source: a leader cannot know by itself that it was superseded, so it must ask a majority before it answers a read, or
hold a lease (Ongaro, "Consensus: Bridging Theory and Practice", 2014, section 6.4). In Zab, followers that have
promised a newer epoch refuse the proposals of an older one (Junqueira, Reed, Serafini, "Zab", 2011). The definitions
of claims, episodes and acts stand in docs/explanation/design.md.

Two leaders of one epoch are judged only where a source says role and epoch together, as the system's own facts say.

While nobody changes the members of a group, every node believes in the same number of them, and in its majority. A
server that starts again and takes its group for a smaller one may elect itself alone and acknowledge what no other
server has (nats-server, release 2.12.4). The same is true of a server that never learns how many members a change
brought. So a node's answers after a start or a change of members count; the others put nothing to the test.
"""

import re
from collections import Counter
from typing import Final

import msgspec

from fencepost.checkers.derived.acts import (
    ACKNOWLEDGED,
    LOST,
    NOT_SERVING,
    REFUSALS,
    STAMPED,
    Acts,
    LostAdd,
    Request,
    StaleAnswer,
    StampedWrite,
    code_of,
    find_acts,
)
from fencepost.checkers.derived.claims import Landmarks, claim_figures
from fencepost.checkers.derived.evidence import numbers_of, rows
from fencepost.checkers.derived.positions import CURRENT, ok_writes, view_position, write_position
from fencepost.checkers.derived.reigns import FirstClaim, Reigns, leaders_by_epoch, reigns_of, subjects
from fencepost.checkers.derived.servers import SizedBelief, sized_beliefs
from fencepost.checkers.leadership import self_fencing
from fencepost.checkers.rules import Rule, sorted_out, verdict
from fencepost.checkers.violations.circumstances import answered_words
from fencepost.checkers.violations.finding import Finding, duration, seconds, shown
from fencepost.harness.base.quantities import counted
from fencepost.harness.history import Claim, History, Operation, Outcome
from fencepost.harness.verdict import Cause, Facts, Validity, Verdict, in_words
from fencepost.harness.verdict.figures import ACTED, ASKED, FENCED, SERVED, STALE_ANSWERS, UNKNOWN, Figures
from fencepost.harness.verdict.guarantee import anomaly_count

NO_ACT: Final = "superseded-leader-does-not-act"
STALE: Final = Rule(
    guarantee="linearizable",
    anomaly="stale-answer-by-superseded-leader",
    tested="fresh reads that reached a superseded leader after a newer write was acknowledged",
)
_PARTITION: Final = re.compile(r"p\d+")


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge the leaders of each subject, such as "leader" or "controller", that nodes make claims about.

    Args:
        history: one run; its beliefs (claims), log lines, stamps and faults are used.
        facts: what the system promises: the guarantee of reads, its bound on claims, its voters.

    Returns:
        Up to five verdicts for each subject, which they name. A verdict is `unknown` where no request
        reached a superseded leader, or where stalls of the machine explain what was seen.

    Cost: O(n log n) for n events.
    """
    verdicts: list[Verdict] = []
    marks = Landmarks(history)
    for subject in sorted(subjects(history), key=lambda s: facts.subjects.index(s) if s in facts.subjects else -1):
        if _PARTITION.fullmatch(subject):
            # Its epochs and its effects are another log's: `checkers.log.zombie_leaders` judges them.
            continue
        reigns = reigns_of(history, subject)
        acts = find_acts(history, facts, reigns)
        figures = {**claim_figures(reigns, marks), **_figures(acts)}
        of_subject = [
            *_stale_answers(history, facts, acts),
            _no_act(history, facts, reigns, acts, figures),
            *self_fencing.judge(history, facts, reigns, subject),
            *_judge_one_leader(history, facts, reigns),
            *_judge_group_size(history, facts, subject),
        ]
        # Two layers of one node are judged alike: every verdict names its layer.
        verdicts += [msgspec.structs.replace(v, subject=subject) for v in of_subject]
    return _answered_for(verdicts, facts)


def _answered_for(verdicts: list[Verdict], facts: Facts) -> list[Verdict]:
    """Let a layer that was not put to the test weigh nothing beside the first layer, if that kept the guarantee.

    Each layer can break a guarantee. A layer whose verdict is `unknown` for any other reason still weighs.
    """
    if not facts.subjects:
        return verdicts
    first = facts.subjects[0]
    kept = {v.guarantee for v in verdicts if v.validity is Validity.VALID and v.subject == first}
    untested = [v for v in verdicts if v.cause is Cause.NO_EXPOSURE and v.guarantee in kept]
    return [_beside(v, first) if v in untested else v for v in verdicts]


def _beside(verdict: Verdict, first: str) -> Verdict:
    reason = f"only the {first} layer was put to the test, not the {verdict.subject} layer: {verdict.reason}"
    return msgspec.structs.replace(verdict, weighs=False, reason=reason)


def _figures(acts: Acts) -> Figures:
    return numbers_of(
        {
            ASKED: acts.requests,
            "writes_asked_of_superseded_leader": acts.write_requests,
            "writes_that_reached_superseded_leader": acts.reached_writes,
            SERVED: acts.served,
            FENCED: acts.fenced,
            UNKNOWN: acts.unknown,
            "failed_for_other_reasons": acts.refused_otherwise,
            "fresh_reads_answered": acts.fresh_reads_exposed,
            STALE_ANSWERS: [stale.read for stale in acts.stale],
            ACTED: [
                *(s.read for s in acts.stale),
                *(lost.add for lost in acts.lost),
                *(s.write for s in acts.stamped),
                *(request.operation for request in acts.acknowledged),
            ],
        }
    )


def _stale_answers(history: History, facts: Facts, acts: Acts) -> list[Verdict]:
    guarantee = facts.read_guarantee
    unstamped = all(write.epoch is None for write in ok_writes(history))
    if guarantee not in CURRENT or (not acts.stale and (guarantee == "linearizable" or unstamped)):
        return []
    findings = [_stale_finding(history, stale) for stale in acts.stale]
    stale = STALE.here(guarantee=guarantee)
    return [verdict(facts, stale.tally(findings, rows(acts.fresh_reads_exposed)))]


def _no_act(history: History, facts: Facts, reigns: Reigns, acts: Acts, figures: Figures) -> Verdict:
    lost = [_lost_finding(history, one) for one in acts.lost]
    stamped = [_stamped_finding(one) for one in acts.stamped]
    acknowledged = [_acknowledged_finding(history, one) for one in acts.acknowledged]
    findings = [*lost, *stamped, *acknowledged]
    counts = Counter(finding.anomaly for finding in findings)
    stale = anomaly_count(len(acts.stale), STALE.anomaly)
    beside = f"; held against {facts.read_guarantee}: {stale}" if acts.stale else ""
    tested = "changes that reached a superseded leader"
    chances = {
        Rule(guarantee=NO_ACT, anomaly=name, tested=tested, lacks=acts.lacks[name]): len(own)
        for name, own in acts.chances.items()
    }
    return verdict(
        facts,
        *sorted_out(findings, chances),
        broken=f"a superseded leader acted: {in_words(counts)}{beside}",
        exposed=rows(acts.exposed),
        untested=_untested_words(reigns, acts) + beside,
        kept=f"{_endings(acts.exposed)}; none took effect by its hand{beside}",
        figures=figures,
    )


def _endings(changes: list[Operation]) -> str:
    """How the changes that reached superseded leaders ended."""
    passed_on = sum(o.type is Outcome.OK for o in changes)
    refused = sum(o.type is not Outcome.OK and code_of(o) in REFUSALS for o in changes)
    at_the_door = sum(code_of(o) == NOT_SERVING for o in changes)
    door = f" ({at_the_door} with every client, since it served nobody)" if at_the_door else ""
    return (
        f"{counted(len(changes), 'change')} reached superseded leaders: {refused} refused{door}, "
        f"{len(changes) - refused - passed_on} not answered, {passed_on} passed on to the successor"
    )


def _untested_words(reigns: Reigns, acts: Acts) -> str:
    if not reigns.samples:
        return "no node was ever asked whether it leads"
    if not any(reign.superseded for reign in reigns.reigns):
        return "no leader was superseded"
    lacks = (acts.lacks[name] for name, own in acts.chances.items() if not own)
    return next(lacks, "") or "no change reached a superseded leader"


def _stale_finding(history: History, stale: StaleAnswer) -> Finding:
    read, write, reign = stale.read, stale.write, stale.reign
    begin = reign.superseded
    assert begin is not None
    assert write.completed_ns is not None
    return STALE.finding(
        write,
        read,
        events=(begin.event, *_nearest_claims(stale)),
        steps=(
            f"Epoch {begin.epoch} had begun: {begin.how}.",
            f"{write.f} of {write.value!r} to {write.key} was acknowledged by {write.node} in epoch {write.epoch}, at "
            f"position {shown(write_position(write))}.",
            f"{duration(read.invoked_ns - write.completed_ns)} later process {read.process} asked {read.node} to read "
            f"{read.key}.",
            answered_words(history, read, reign) + f": {read.result!r}, of position {shown(view_position(read))}.",
            "The answer lacks a write that was acknowledged before it was asked for, so it is not current.",
        ),
        from_ns=min(begin.at_ns, write.invoked_ns),
        to_ns=read.completed_ns if read.completed_ns is not None else read.invoked_ns,
        nodes=tuple(dict.fromkeys((read.node, write.node))),
    )


def _nearest_claims(stale: StaleAnswer) -> list[int]:
    """The claim of the old epoch that is nearest to the answer."""
    at_ns = stale.read.completed_ns or stale.read.invoked_ns
    nearest = min(stale.reign.samples, key=lambda s: min(abs(s.lo_ns - at_ns), abs(s.hi_ns - at_ns)))
    return [nearest.index]


def _lost_finding(history: History, lost: LostAdd) -> Finding:
    add, read, begin = lost.add, lost.read, lost.reign.superseded
    assert begin is not None
    return Finding(
        anomaly=LOST,
        operations=(add, read),
        about=0,
        events=(begin.event,),
        steps=(
            f"Epoch {begin.epoch} had begun: {begin.how}.",
            f"After that process {add.process} asked {add.node} to add {add.value!r}.",
            answered_words(history, add, lost.reign) + ": it acknowledged the add.",
            f"The last final read of {read.key}, answered by {read.node}, lacks it; no strong read ever showed it, and "
            "nothing removed it.",
        ),
        from_ns=begin.at_ns,
        to_ns=read.completed_ns if read.completed_ns is not None else read.invoked_ns,
        nodes=tuple(dict.fromkeys((add.node, read.node))),
    )


def _stamped_finding(stamped: StampedWrite) -> Finding:
    write, earlier, reader = stamped.write, stamped.earlier, stamped.seen_by
    operations = (write, earlier) if reader is None else (write, earlier, reader)
    return Finding(
        anomaly=STAMPED,
        operations=operations,
        about=0,
        steps=(
            f"{_placed(earlier)} is stamped with epoch {earlier.epoch}.",
            *(_after_in_time(stamped) if reader is None else _after_in_order(write, reader)),
        ),
        nodes=tuple(dict.fromkeys(o.node for o in operations)),
    )


def _after_in_order(write: Operation, reader: Operation) -> tuple[str, str]:
    return (
        f"{_placed(write)} stands after it, stamped with the superseded epoch {write.epoch}.",
        f"{reader.node} answered a read in epoch {reader.epoch} with it, so it is committed.",
    )


def _after_in_time(stamped: StampedWrite) -> tuple[str, str]:
    write, earlier, reign = stamped.write, stamped.earlier, stamped.reign
    assert earlier.completed_ns is not None
    assert reign is not None
    return (
        f"{duration(write.invoked_ns - earlier.completed_ns)} after it was acknowledged, process {write.process} sent "
        f"a {write.f} of {write.value!r} to {write.node}, the superseded leader of epoch {reign.epoch}.",
        f"{write.node} acknowledged it at position {shown(write_position(write))}, in epoch {write.epoch}: in front of "
        f"what had been acknowledged before.",
    )


def _acknowledged_finding(history: History, request: Request) -> Finding:
    change, begin = request.operation, request.reign.superseded
    assert begin is not None
    return Finding(
        anomaly=ACKNOWLEDGED,
        operations=(change,),
        events=(begin.event,),
        steps=(
            f"Epoch {begin.epoch} had begun: {begin.how}.",
            f"After that process {change.process} sent a {change.f} of {change.value!r} to {change.node}.",
            answered_words(history, change, request.reign) + ": it acknowledged it, and can have passed it on to "
            "nobody.",
        ),
        from_ns=begin.at_ns,
    )


def _placed(write: Operation) -> str:
    return f"{write.f} of {write.value!r} to {write.key} at position {shown(write_position(write))}"


OTHER_SIZE: Final = Rule(
    guarantee="groups-keep-their-size",
    anomaly="other-group-size",
    tested="starts of a server, or changes of members, after which it told the size of its group",
    lacks="no server told the size of its group after it had started again or members had changed",
)
NO_MAJORITY: Final = msgspec.structs.replace(OTHER_SIZE, anomaly="quorum-without-majority")
#: How long after the proof of a change a member may still name the group as it was: it learns of it from the log.
_LEARNS_NS: Final = 2_000_000_000


def _judge_group_size(history: History, facts: Facts, subject: str) -> list[Verdict]:
    """Judge whether all nodes agree on the size and the quorum of one group while nobody changes its members.

    Args:
        history: one run.
        facts: the guarantees that the system states.
        subject: whose group it is.

    Returns:
        One verdict, which counts the starts of servers that told a size, and the servers that told one after a change
        of members; none where the system states nothing of sizes, or no node tells one.
    """
    beliefs = sized_beliefs(history, subject)
    if facts.guarantee(OTHER_SIZE.name) is None or not any(belief.event.claims is Claim.YES for belief in beliefs):
        return []
    stretches = _stretches(history)
    findings: list[Finding] = []
    tested: dict[tuple[int, str, int], SizedBelief] = {}
    sizes: set[int] = set()
    for number, (from_ns, to_ns) in enumerate(stretches):
        answers = [belief for belief in beliefs if from_ns <= belief.event.answered_ns <= to_ns]
        first = next((belief for belief in answers if belief.event.claims is Claim.YES), None)
        if first is None:
            continue
        sizes.add(first.size)
        findings += [
            _group_size_finding(subject, first, belief, changed=number > 0) for belief in _differing(answers, first)
        ]
        for belief in answers:
            if belief.event.incarnation or (number and belief.event.node != first.event.node):
                tested.setdefault((number, belief.event.node, belief.event.incarnation), belief)
    named = " or ".join(map(str, sorted(sizes)))
    return [
        verdict(
            facts,
            *sorted_out(
                findings, dict.fromkeys((OTHER_SIZE, NO_MAJORITY), tuple(b.event.index for b in tested.values()))
            ),
            kept=f"every server believes in a group of {named}, after {len(tested)} starts and changes too",
        )
    ]


def _stretches(history: History) -> list[tuple[int, int]]:
    """The times from and to which nobody changed members, in ns; the first one begins with the run.

    A member that was cut off or stopped may learn of a change late, and act by the old members meanwhile. So a stretch
    after a change counts only where no other fault was in force since that change began, and from a while after the
    proof on. A change without a proof ends the last stretch.
    """
    changes = [fault for fault in history.faults if fault.effects.changes_members]
    others = [fault for fault in history.faults if not fault.effects.changes_members]
    end_ns = history.end_ns
    if not changes:
        return [(0, end_ns)]
    stretches = [(0, changes[0].began_ns)]
    for number, change in enumerate(changes):
        if change.certain_from_ns is None or change.ended_ns is None:
            break
        next_ns = changes[number + 1].began_ns if changes[number + 1 :] else end_ns
        in_force_to_ns = end_ns if change.certain_to_ns is None else change.certain_to_ns
        for since_ns, from_ns, to_ns in (
            (change.began_ns, change.certain_from_ns, in_force_to_ns),
            (change.began_ns, change.ended_ns, next_ns),
        ):
            disturbed = any(
                fault.began_ns <= to_ns and (fault.ended_ns is None or fault.ended_ns >= since_ns) for fault in others
            )
            if not disturbed and from_ns + _LEARNS_NS < to_ns:
                stretches.append((from_ns + _LEARNS_NS, to_ns))
    return stretches


def _differing(beliefs: list[SizedBelief], first: SizedBelief) -> list[SizedBelief]:
    """The first answer of each life of a server that names another size, or a quorum that is no majority."""
    differing: dict[tuple[str, int], SizedBelief] = {}
    for belief in beliefs:
        if belief.size != first.size or belief.quorum != belief.size // 2 + 1:
            differing.setdefault((belief.event.node, belief.event.incarnation), belief)
    return list(differing.values())


def _group_size_finding(subject: str, first: SizedBelief, belief: SizedBelief, *, changed: bool) -> Finding:
    other, led, answer = belief.size != first.size, first.event, belief.event
    return Finding(
        anomaly=(OTHER_SIZE if other else NO_MAJORITY).anomaly,
        events=tuple(dict.fromkeys((led.index, answer.index))),
        counted_by=answer.index,
        steps=(
            f"{led.node} led the {subject} group at {seconds(led.answered_ns)}, with {first.quorum} of {first.size} for"
            " a quorum.",
            f"{answer.node} answered at {seconds(answer.answered_ns)}, after {answer.incarnation} restarts, that it"
            f" needs {belief.quorum} of {belief.size}.",
            _since(changed=changed) if other else "Two such quorums may have no server in common.",
        ),
        from_ns=led.answered_ns,
        to_ns=answer.answered_ns,
        nodes=tuple(dict.fromkeys((led.node, answer.node))),
    )


def _since(*, changed: bool) -> str:
    if changed:
        return (
            f"The members had been changed at least {_LEARNS_NS / 1e9:g} s before, and nobody changed them meanwhile."
        )
    return "Nobody had changed the members."


TWO_LEADERS: Final = Rule(
    guarantee="one-leader-per-epoch", anomaly="two-leaders-in-one-epoch", tested="epochs that a node said it led"
)


def _judge_one_leader(history: History, facts: Facts, reigns: Reigns) -> list[Verdict]:
    """Judge whether each epoch had at most one leader.

    Args:
        history: one run.
        facts: `leadership.one_leader_per_epoch` says whether this system's samples allow to _judge_one_leader it.
        reigns: the reigns of one subject of this history.

    Returns:
        One verdict, which counts the epochs that some node said it led; none where the samples do not allow it.

    Source: election safety, "at most one leader can be elected in a given term" (Ongaro & Ousterhout, "In Search of
    an Understandable Consensus Algorithm", 2014); in Zab an epoch has one primary (Junqueira, Reed, Serafini, 2011).
    """
    if facts.leadership is None or not facts.leadership.one_leader_per_epoch:
        return []
    evidence = leaders_by_epoch(history, reigns)
    double = [(epoch, nodes) for epoch, nodes in sorted(evidence.items()) if len(nodes) > 1]
    findings = [_finding(history, epoch, nodes) for epoch, nodes in double]
    nodes_heard = {s.node for s in reigns.samples if s.claims is not Claim.SILENT}
    nodes_heard |= {node for nodes in evidence.values() for node in nodes}
    epochs = tuple(next(iter(nodes.values())).event for _, nodes in sorted(evidence.items()))
    alone = "fewer than two nodes said anything of whether they lead" if len(nodes_heard) < 2 else ""
    judged = TWO_LEADERS.here(lacks=alone).tally(findings, () if alone else epochs)
    return [verdict(facts, judged, exposed=epochs, untested=f"no {TWO_LEADERS.tested}")]


def _finding(history: History, epoch: int, nodes: dict[str, FirstClaim]) -> Finding:
    ordered = sorted(nodes.items(), key=lambda item: item[1].event)
    events = [leading.event for leading in nodes.values()]
    times = [history.events[index].time_ns for index in events]
    steps = []
    for node, leading in ordered:
        statement = "wrote in its log that it came to lead" if leading.logged else "answered that it led"
        steps.append(f"{node} {statement} epoch {epoch}.")
    return Finding(
        anomaly=TWO_LEADERS.anomaly,
        events=tuple(events),
        counted_by=max(events),
        steps=(*steps, "An epoch belongs to at most one leader."),
        from_ns=min(times),
        to_ns=max(times),
        nodes=tuple(node for node, _ in ordered),
    )
