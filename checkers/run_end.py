"""How a run ends, once every fault is healed and the load is over: replicas that agree, a cluster that serves again.

Replicas: the runner reads each by itself until all agree. What is judged is what they held at the end, and had held
unchanged for long: replicas that applied the same log and differ (`replicas-differ`), and one that stays behind
(`lagging-replica`). A replica that nobody could read, or that changed still, agrees with nobody: the verdict names it.

Service: leaders are elected, writes and reads succeed. A cluster that stays stuck violates no safety: without these
rules its run would only lack its final reads. The bound is the system's own (`ResumeBound`), and is judged with room to
spare. Clients are at rest while the cluster settles, so what counts is whether any request succeeds afterwards, or, if
it does, for how long clients tried in vain before.

Servers: each that ended is started again, several times if need be. One that ends by itself each time, on files that
no fault damaged, is lost to the cluster, although the others may serve for now.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Final

from fencepost.checkers.derived.clocks import TIMER, OwnTime, overlapping, stalls_of
from fencepost.checkers.derived.evidence import rows
from fencepost.checkers.derived.positions import ended_ns
from fencepost.checkers.derived.reigns import LeaderSample, statements
from fencepost.checkers.derived.servers import Restarts, restarts
from fencepost.checkers.rules import Rule, verdict
from fencepost.checkers.violations.finding import Doubt, Finding, duration, seconds
from fencepost.harness.base.errors import own_end
from fencepost.harness.base.quantities import NEVER_NS
from fencepost.harness.history import (
    Claim,
    DiskEffect,
    FaultOutcome,
    FaultSpan,
    History,
    Operation,
    Outcome,
    PhaseName,
    ReplicaEvent,
    Stops,
)
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.harness.verdict.figures import Rows

_AGREE: Final = "replicas-agree"
#: What a replica holds must have stood for so long before it counts as what it holds for good.
_STANDS_NS: Final = 8_000_000_000
_LACKS: Final = "fewer than two replicas were read after the load"
_DIFFERS: Final = Rule(
    guarantee=_AGREE,
    anomaly="replicas-differ",
    tested="replicas that were compared with another one after the load",
    lacks=_LACKS,
)
_BEHIND: Final = Rule(guarantee=_AGREE, anomaly="lagging-replica", tested=_DIFFERS.tested, lacks=_LACKS)
_KEYS_MAX: Final = 5


def check_replicas(history: History, facts: Facts) -> list[Verdict]:
    """Compare what the replicas held at the end; no verdict where the system does not state the guarantee."""
    if facts.guarantee(_AGREE) is None:
        return []
    read = history.of(ReplicaEvent)
    damaged = {node for f in history.faults if f.effects.disk is DiskEffect.DAMAGED for node in f.nodes}
    wholes = [row for row in read if row.key is None and row.value is not None and row.node not in damaged]
    unread = [f"{node} was left out, since its disk was damaged" for node in sorted(damaged)]
    unread += [f"{row.node} was not read ({row.detail})" for row in read if row.detail]
    compared, differing, behind, doubts = [], list[Finding](), list[Finding](), list[str]()
    for subject, group in groupby(sorted(wholes, key=_subject), key=_subject):
        replicas = sorted(group, key=lambda row: -1 if row.position is None else row.position)
        if len(replicas) > 1:
            compared += replicas
            keys = [row for row in read if row.subject == subject and row.key is not None]
            _compare(history, replicas, keys, differing, behind, doubts)
    if _never_healed(history):
        doubts += [f.steps[0] for f in (*differing, *behind)]
        differing, behind = [], []
    doubts = list(dict.fromkeys(doubts))
    nodes = ", ".join(dict.fromkeys(row.node for row in compared))
    chances = tuple(row.index for row in compared)
    return [
        verdict(
            facts,
            _DIFFERS.tally(differing, chances),
            _BEHIND.tally(behind, chances),
            doubt=Doubt(Cause.UNDECIDED, "; ".join(doubts)) if doubts else None,
            untested="; ".join([_LACKS, *unread]),
            kept="; ".join([f"{nodes} held the same after the load", *unread]),
            exposed=chances,
        )
    ]


def _timers_in_words(node: str, timers_end_ns: int) -> str:
    return f"a clock of {node} was put back: a timer that began before may run until {seconds(timers_end_ns)}"


def _subject(row: ReplicaEvent) -> str:
    return row.subject


def _compare(
    history: History,
    replicas: Sequence[ReplicaEvent],
    keys: Iterable[ReplicaEvent],
    differing: list[Finding],
    behind: list[Finding],
    doubts: list[str],
) -> None:
    """Compare each replica of a subject with what most of those hold that have applied most."""
    furthest = [row for row in replicas if row.position == replicas[-1].position]
    most = Counter(row.value for row in furthest).most_common(1)[0][0]
    last = next(row for row in furthest if row.value == most)
    for replica in replicas:
        if replica.value == last.value:
            continue
        since_ns = max(replica.asked_ns, last.asked_ns)
        at_one = replica.position == last.position
        if last.time_ns - since_ns < _STANDS_NS:
            doubts.append(f"{replica.node} and {last.node} differed still, but not for {duration(_STANDS_NS)}")
            continue
        timers_end_ns = OwnTime(history, replica.node, []).timers_end_ns
        if last.time_ns - timers_end_ns < _STANDS_NS and (not at_one or last.position is None):
            doubts.append(
                f"{replica.node} differed from {last.node} still, but {_timers_in_words(replica.node, timers_end_ns)}"
            )
            continue
        own = [row for row in keys if row.node in (replica.node, last.node)]
        rule, into = (_DIFFERS, differing) if at_one else (_BEHIND, behind)
        into.append(
            rule.finding(
                steps=_steps(history, replica, last, own, since_ns),
                nodes=(replica.node, last.node),
                events=(replica.index, last.index, *(row.index for row in own)),
                counted_by=replica.index,
                from_ns=since_ns,
                to_ns=last.time_ns,
            )
        )


def _steps(
    history: History, one: ReplicaEvent, other: ReplicaEvent, keys: Sequence[ReplicaEvent], since_ns: int
) -> Iterable[str]:
    healed = history.healed_ns
    ended = history.phases.get(PhaseName.FINAL, (since_ns, 0))[0]
    yield (
        f"{one.node} and {other.node} did not hold the same {one.subject}: unchanged from {seconds(since_ns)} until "
        f"{seconds(other.time_ns)}, without load since the final reads, which began at {seconds(ended)}"
        + (f"; every fault was healed by {seconds(healed)}." if healed is not None else ".")
    )
    if one.position is not None:
        same = one.position == other.position
        yield (
            f"Both had applied their log up to {one.position}."
            if same
            else (f"{one.node} had applied its log up to {one.position}, {other.node} up to {other.position}.")
        )
    by_key = {key: {r.node: r.value for r in keys if r.key == key} for key in dict.fromkeys(r.key for r in keys)}
    unlike = {key: held for key, held in by_key.items() if held.get(one.node) != held.get(other.node)}
    for key, held in list(unlike.items())[:_KEYS_MAX]:
        yield f"{key}: " + ", ".join(f"{n} has {held.get(n) or 'nothing'}" for n in (one.node, other.node)) + "."
    if len(unlike) > _KEYS_MAX:
        yield f"{len(unlike) - _KEYS_MAX} more keys differ, or more than that."


_NO_HEALING: Final = "no fault took hold and was healed, or nobody asked for anything after that"


def _rule(guarantee: str, anomaly: str, tested: str) -> Rule:
    return Rule(guarantee=guarantee, anomaly=anomaly, tested=tested, lacks=_NO_HEALING)


_WRITES: Final = _rule("writes-resume", "write-outage", "writes after the last fault was healed")
_READS: Final = _rule("reads-resume", "read-outage", "reads after the last fault was healed")
_LEADER: Final = _rule("leader-elected", "leader-outage", "answers on who leads, long after the last fault was healed")


_SERVERS: Final = Rule(
    guarantee="servers-return",
    anomaly="server-outage",
    tested="servers that were started again",
    lacks="no server was started again on files that no fault damaged",
)
#: A server counts as lost when it ended at once at several starts, the last of them so much later than the first.
_TRIED_NS: Final = 2_000_000_000


def check_resumption(history: History, facts: Facts) -> list[Verdict]:
    """Judge writes, reads, leaders and servers, each where the system states the guarantee."""
    bound, healed_ns = facts.resume, _healed_ns(history)
    verdicts = [] if facts.guarantee(_SERVERS.name) is None else [_returned(history, facts)]
    for rule, judge in ((_WRITES, partial(_served, _WRITES)), (_READS, partial(_served, _READS)), (_LEADER, _leaders)):
        if facts.guarantee(rule.name) is None:
            continue
        findings: Sequence[Finding] = ()
        chances: Rows = ()
        doubt = None
        if bound is not None and healed_ns is not None:
            findings, chances = judge(history, facts, healed_ns, bound.limit_ns)
            if findings:
                timers_end_ns, node = _longest_timer(history, facts)
                explained = timers_end_ns > healed_ns and not judge(history, facts, timers_end_ns, bound.limit_ns)[0]
                doubt = _waiting(node, timers_end_ns) if explained else _doubt(history, facts, healed_ns)
        verdicts.append(
            verdict(
                facts,
                rule.tally(() if doubt else findings, chances),
                doubt=doubt,
                untested=_NO_HEALING if bound is not None else "the system states no bound",
            )
        )
    return verdicts


def _returned(history: History, facts: Facts) -> Verdict:
    """Judge each node whose server was started again: it served, or ended by itself at start after start."""
    since_ns, _ = history.phases.get(PhaseName.HEAL, (NEVER_NS, 0))
    damaged = {node for f in history.faults if f.effects.disk is DiskEffect.DAMAGED for node in f.nodes}
    own = [node for node in restarts(history, since_ns) if node.node not in damaged]
    lost = [one for one in own if len(one.failed) > 1 and one.failed[-1].time_ns - one.failed[0].time_ns >= _TRIED_NS]
    findings = [
        _SERVERS.finding(
            steps=_ended_again(history, one),
            nodes=(one.node,),
            events=(one.failed[0].index, one.last_end.index),
            counted_by=one.last_end.index,
            from_ns=one.failed[0].time_ns,
            to_ns=one.last_end.time_ns,
        )
        for one in lost
        if one.last_end is not None
    ]
    returned = [at.index for one in own for at in one.returned]
    ended = [one.last_end.index for one in lost if one.last_end is not None]
    left = [f for f in _never_healed(history) if f.effects.stops is not Stops.CERTAIN]
    doubt = f"a server ended at each start, and {left[0].fault} was never healed" if left and findings else ""
    return verdict(
        facts,
        _SERVERS.tally(() if doubt else findings, tuple(sorted([*returned, *ended]))),
        doubt=Doubt(Cause.UNDECIDED, doubt) if doubt else None,
    )


def _ended_again(history: History, one: Restarts) -> Iterable[str]:
    assert one.last_end is not None
    yield (
        f"{one.node} was started {len(one.failed)} times from {seconds(one.failed[0].time_ns)} until "
        f"{seconds(one.failed[-1].time_ns)}, and {own_end(one.node, one.last_end.exit_status)} each time "
        "before it served"
        + (f"; it had served last from {seconds(one.served_ns)} on." if one.served_ns is not None else ".")
    )
    for fault in history.faults:
        if one.node in fault.nodes and fault.outcome is FaultOutcome.INSTALLED:
            over = "never healed" if fault.ended_ns is None else f"healed by {seconds(fault.ended_ns)}"
            yield f"{fault.fault} of {', '.join(fault.nodes)} from {seconds(fault.began_ns)} on, {over}."


def _never_healed(history: History) -> list[FaultSpan]:
    return [f for f in history.faults if f.ended_ns is None and f.outcome is not FaultOutcome.SKIPPED]


def _healed_ns(history: History) -> int | None:
    """When the last fault was healed; None where none took hold, or the run ended before all were healed."""
    if history.healed_ns is None or not any(f.outcome is FaultOutcome.INSTALLED for f in history.faults):
        return None
    ends = [fault.ended_ns for fault in history.faults]
    return history.healed_ns if None in ends else max(end for end in ends if end is not None)


def _longest_timer(history: History, facts: Facts) -> tuple[int, str]:
    """When the last timer ends that began before a clock was put back, and on which node; (0, "") where none was."""
    waits = ((OwnTime(history, node, []).timers_end_ns, node) for node in facts.nodes)
    return max((wait for wait in waits if wait[0]), default=(0, ""))


def _waiting(node: str, timers_end_ns: int) -> Doubt:
    return Doubt(Cause.UNDECIDED, f"the cluster was late, but {_timers_in_words(node, timers_end_ns)}")


def _doubt(history: History, facts: Facts, healed_ns: int) -> Doubt | None:
    """What else may have kept the cluster from serving: a fault that was never healed, or a harness that stalled."""
    left = _never_healed(history)
    if left:
        return Doubt(Cause.UNDECIDED, f"nothing was served at the end, and {left[0].fault} was never healed")
    stalls = overlapping(stalls_of(history, facts.thresholds.stall_ns_max), healed_ns, history.end_ns)
    if any(stall.what == TIMER for stall in stalls):
        return Doubt(Cause.STALLED, "nothing was served at the end, and the harness stalled after the healing")
    return None


def _served(rule: Rule, history: History, facts: Facts, healed_ns: int, limit_ns: int) -> tuple[list[Finding], Rows]:
    """Judge the writes or reads after the healing, of the functions that had succeeded before."""
    free = facts.effect_free or ()
    operations = [o for o in history.operations if (o.f in free) == (rule is _READS)]
    earlier = [o for o in operations if o.type is Outcome.OK and ended_ns(o) <= healed_ns]
    worked = {o.f for o in earlier}
    later = [o for o in operations if o.invoked_ns >= healed_ns and o.f in worked]
    if not later:
        return [], ()
    good = [o for o in later if o.type is Outcome.OK]
    served_ns = min(map(ended_ns, good), default=None)
    vain = [o for o in later if o.type is not Outcome.OK and ended_ns(o) < (served_ns or NEVER_NS)]
    if served_ns is None:
        late = bool(vain) and max(map(ended_ns, vain)) - healed_ns > limit_ns
    else:
        late = served_ns - later[0].invoked_ns > limit_ns
    if not late or not vain:
        return [], rows(later) if good else ()
    until = "the end of the run" if served_ns is None else seconds(served_ns)
    steps = [
        f"Every fault was healed by {seconds(healed_ns)}; the last success before was at "
        f"{seconds(max(map(ended_ns, earlier)))}.",
        f"From {seconds(later[0].invoked_ns)} until {until} {len(vain)} of {len(later)} requests "
        f"({', '.join(sorted({o.f for o in vain}))}) were made in vain; the bound is judged from "
        f"{duration(limit_ns)} on.",
        *_by_node(vain),
        *_last_leader(history),
    ]
    return [rule.finding(vain[0], vain[-1], steps=steps, from_ns=healed_ns)], rows(later)


def _by_node(vain: Sequence[Operation]) -> Iterable[str]:
    for node in dict.fromkeys(o.node for o in vain):
        own = [o for o in vain if o.node == node]
        yield f"{node}: {len(own)} requests, the last one ended with {own[-1].error or own[-1].type}."


def _last_leader(history: History) -> Iterable[str]:
    claims = [e for e in statements(history) if e.claims is Claim.YES]
    if claims:
        yield f"{claims[-1].node} was the last to claim that it leads, at {seconds(claims[-1].answered_ns)}."


def _leaders(history: History, facts: Facts, healed_ns: int, limit_ns: int) -> tuple[list[Finding], Rows]:
    """Judge each subject that somebody led before: somebody claims to lead it once the bound has passed."""
    findings, chances = [], list[int]()
    for subject in facts.subjects:
        answers = [e for e in statements(history) if e.subject == subject]
        claims = [e for e in answers if e.claims is Claim.YES]
        after = [e for e in answers if e.asked_ns >= healed_ns]
        led = [e for e in claims if e.asked_ns >= healed_ns]
        if not claims or not after:
            continue
        due = [e for e in after if e.asked_ns >= healed_ns + limit_ns]
        late = bool(due) and not any(e.claims is Claim.YES for e in due)
        if led or late:
            chances += [e.index for e in (led or due)]
        if late:
            last = {e.node: e for e in due}
            says = ", ".join(f"{node}: {_view(e)}" for node, e in sorted(last.items()))
            steps = (
                f"Every fault was healed by {seconds(healed_ns)}; {claims[-1].node} was the last to claim that it "
                f"leads ({subject}), at {seconds(claims[-1].answered_ns)}.",
                f"From {seconds(due[0].asked_ns)} until {seconds(due[-1].answered_ns)} nobody did. They said: {says}.",
            )
            shown = tuple(sorted({due[0].index, due[-1].index, claims[-1].index}))
            findings.append(
                _LEADER.finding(
                    steps=steps,
                    nodes=tuple(sorted(last)),
                    events=shown,
                    counted_by=due[-1].index,
                    from_ns=healed_ns,
                    to_ns=due[-1].answered_ns,
                )
            )
    return findings, tuple(sorted(set(chances)))


def _view(answer: LeaderSample) -> str:
    if answer.claims is Claim.SILENT:
        return "silent"
    return f"takes {answer.leader} for the leader" if answer.leader else "knows no leader"
