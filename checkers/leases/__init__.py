"""Leases: a key lives while its lease is kept alive, goes when the lease is over, and stays away.

Five guarantees, each with its own verdict. Where the system states no bound, or nobody looked, they are `unknown`. If a
live lease was revoked, the verdict also names the superseded leader that may have asked for it.

Source: Gray & Cheriton, "Leases: An Efficient Fault-Tolerant Mechanism for Distributed File Cache Consistency" (1989):
a lease is a right for a term, renewed by its holder; it is safe only while clocks keep their bounds, so every bound
here counts by the clocks of the nodes. docs/explanation/leases.md says how each system counts.

The successor may commit a superseded leader's revoke, so nothing in the store says who asked for it. Two observations
point to a node: it claimed a superseded epoch until shortly before, or it was stopped while it led such an epoch and
had just woken. Its own log adds to that if it names leases that the node asked to end without success. A revoke that
is carried out leaves no line.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from fencepost.checkers.derived.claims import Landmarks
from fencepost.checkers.derived.evidence import number_of, row
from fencepost.checkers.derived.reigns import EpochBegin, Reign, Reigns, first_subject, reigns_of
from fencepost.checkers.leases.exposure import (
    keep_alives_after_an_end,
    keep_alives_in_doubt,
    looks_after_an_end,
    looks_after_the_bound,
    looks_at_the_living,
)
from fencepost.checkers.leases.findings import BACK, DEAD, IN_VAIN, OUTLIVED, REVOKED, JudgedLease, LeaseFinding, judge
from fencepost.checkers.leases.lives import Lives
from fencepost.checkers.leases.view import GrantedLease, LookAtKeys, leases_of, looks_of
from fencepost.checkers.rules import Rule, verdict
from fencepost.checkers.violations.finding import WITNESSES_MAX, Doubt, duration, seconds
from fencepost.harness.history import AttemptEvent, History
from fencepost.harness.verdict import Cause, Facts, LeaseBound, Verdict
from fencepost.harness.verdict.figures import Rows, Traced, tallies, tally
from fencepost.harness.verdict.guarantee import anomaly_count


class Superseded(msgspec.Struct, frozen=True, kw_only=True):
    """A leader of a superseded epoch at the time; `attempts` are its log's lines about this lease."""

    reign: Reign
    attempts: tuple[AttemptEvent, ...]
    steps: tuple[str, ...]
    events: tuple[int, ...]


LIVES: Final = Rule.of(
    "live-lease-lives",
    REVOKED,
    "looks at keys whose leases were certainly alive",
    "no look at the key of a lease that lived",
)
COUNTS: Final = Rule.of(
    "answered-keep-alive-counts",
    IN_VAIN,
    "keep-alives that a superseded leader may have answered, with a look at the key while they prolonged its life",
    "no key was looked for while a keep-alive that a superseded leader may have answered prolonged its life",
)
ENDS: Final = Rule.of(
    "expired-lease-ends",
    OUTLIVED,
    "looks after the bound, while nothing disturbed the cluster, for keys of leases that nobody renewed",
    "no look came after the bound",
)
STAYS: Final = Rule.of(
    "ended-lease-stays-ended",
    BACK,
    "looks that were asked for after a lease was known to have ended",
    "no look came after an end",
)
NO_DEAD: Final = Rule.of(
    "no-keep-alive-of-the-dead",
    DEAD,
    "keep-alives that were asked for after their lease was known to have ended, and answered either way",
    "no keep-alive came after an end",
)


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge every lease that was granted.

    Args:
        history: grants, keep-alives, revokes and looks; its beliefs and log lines name superseded leaders.
        facts: `leases` has the longest time in nanoseconds that a lease may outlive its time to live, and the clocks
            that count it; None makes the verdicts `unknown`.

    Returns:
        Five verdicts, one for each guarantee; the first one carries the figures.

    Raises:
        MalformedHistory: a lease was granted twice, or a look's result is no list of numbers; names the event.

    Cost: O(n log n) in operations and in keys that looks showed.
    """
    subject = first_subject(history, facts)
    reigns = reigns_of(history, subject)
    bound = facts.leases if facts.leases is not None else LeaseBound(extra_ns=1 << 60, source="nothing bounds it")
    lives = Lives(history, facts, reigns, bound)
    looks = looks_of(history)
    judged = [judge(lease, lives, looks) for lease in leases_of(history, looks)]
    exposed = _exposed(judged, lives, looks)
    leaders = {id(f): superseded_leader(f, history, reigns) for one in judged for f in one.findings if _early(f)}
    figures = _figures(history, judged, reigns, leaders)
    unbounded = Doubt(Cause.NOT_APPLICABLE, f"{facts.system} does not say when a lease is over")
    verdicts = []
    for rule, tested in exposed.items():
        findings = [f for one in judged for f in one.findings if f.anomaly == rule.anomaly]
        verdicts.append(
            verdict(
                facts,
                rule.tally(findings, tested),
                broken=_broken(findings, leaders),
                doubt=unbounded if facts.leases is None else None,
                shown=[_shown(f, leaders.get(id(f)), lives) for f in findings[:WITNESSES_MAX]],
                figures=figures if rule is LIVES else {},
            )
        )
    return verdicts


def _early(finding: LeaseFinding) -> bool:
    return finding.anomaly in (REVOKED, IN_VAIN)


def _broken(findings: Sequence[LeaseFinding], leaders: dict[int, Superseded | None]) -> str:
    if not findings:
        return ""
    zombies = [leader for f in findings if (leader := leaders.get(id(f))) is not None]
    acted = sum(bool(leader.attempts) for leader in zombies)
    beside = f"; {len(zombies)} under a superseded leader that claimed or had just woken" if zombies else ""
    beside += f", and its own log names {acted} of these leases" if acted else ""
    return f"{anomaly_count(len(findings), findings[0].anomaly)}{beside}"


def _exposed(judged: Sequence[JudgedLease], lives: Lives, looks: Sequence[LookAtKeys]) -> dict[Rule, Rows]:
    """Return the rows of the operations by which each rule was put to the test."""
    current = [look for look in looks if look.current]
    return {
        LIVES: looks_at_the_living(judged, current),
        COUNTS: keep_alives_in_doubt(judged, lives, current),
        ENDS: looks_after_the_bound(judged, lives, current),
        STAYS: looks_after_an_end(judged, current),
        NO_DEAD: keep_alives_after_an_end(judged),
    }


def _figures(
    history: History, judged: Sequence[JudgedLease], reigns: Reigns, leaders: dict[int, Superseded | None]
) -> dict[str, Any]:
    requests = (op for op in history.operations if op.f in ("grant", "attach", "keep", "revoke"))
    elsewhere = [r.op for one in judged for r in one.lease.renewals[1:] if r.op.node != one.lease.grant.op.node]
    begun_ns = sorted(begin.at_ns for begin in reigns.begins)
    across = [
        one.lease.grant.op
        for one in judged
        if any(bisect_right(begun_ns, start) < bisect_left(begun_ns, end) for start, end in one.alive)
    ]
    superseded = [f.counted for one in judged for f in one.findings if leaders.get(id(f))]
    figures = {
        **tallies((f"{op.f}_{op.type.value}", row(op)) for op in requests),
        "kept_through_other_nodes": number_of(elsewhere),
        "keep_alives_in_doubt": number_of(r.op for one in judged for r in one.in_doubt),
        "seen_gone": number_of(one.lease.gone.op for one in judged if one.lease.gone is not None),
        "revokes_by_servers_not_done": tally(e.index for e in history.of(AttemptEvent) if e.f == "revoke"),
        "alive_across_elections": number_of(across),
        "revoked_under_superseded_leader": number_of(superseded),
    }
    waits = [waited for one in judged if (waited := _gone_after(one.lease)) is not None]
    waits.sort(key=lambda waited: (waited.value, waited.rows))
    for name, place in (("gone_after_last_answer_ns_max", -1), ("gone_after_last_answer_ns_median", len(waits) // 2)):
        if waits:
            figures[name] = waits[place]
    return figures


def _gone_after(lease: GrantedLease) -> Traced[int] | None:
    """Return how long after the answer to its last renewal its key was seen gone, in ns; None if it was revoked."""
    last_ns = lease.last_answer_ns
    if lease.gone is None or lease.revokes or last_ns is None or lease.gone.completed_ns < last_ns:
        return None
    last = next(o for o in lease.may_renew if o.completed_ns == last_ns)
    return Traced(lease.gone.completed_ns - last_ns, (row(last), row(lease.gone.op)))


def _shown(finding: LeaseFinding, leader: Superseded | None, lives: Lives) -> LeaseFinding:
    """Add to a finding what clocks and a superseded leader contribute to it."""
    nodes = (*(() if leader is None else (leader.reign.node,)), *(o.node for o in finding.operations))
    return msgspec.structs.replace(
        finding,
        events=(*lives.fastest.rows(finding.since_ns, finding.by_ns), *(() if leader is None else leader.events)),
        steps=(*finding.steps, *(() if leader is None else leader.steps)),
        from_ns=min(o.invoked_ns for o in finding.operations[-2:]),
        to_ns=finding.by_ns,
        nodes=tuple(dict.fromkeys(nodes)),
    )


#: What a leader had queued may still go out this long after it led: etcd has 16 revokes under way at a time, each waits
#: for 5 s and two election time-outs, and a node that has become a follower hands the next ones on.
_SHORTLY_NS: Final = 10_000_000_000
#: A member may log this late that its revoke was not answered, although the revoke was carried out.
_SAID_LATER_NS: Final = 15_000_000_000
#: Leases that the node tried to end within this time of each other were in the same queue.
_BESIDE_NS: Final = 2_000_000_000
#: The node asked whether it leads, and learned that it does not.
_FENCED: Final = "not-leader"
#: This does not say that the node acted: answers and effects with an epoch decide that, and a revoke carries none.
ASKED: Final = (
    "A leader that had been superseded asked for it, and the live lease was revoked; whose request was carried out is "
    "recorded nowhere."
)


def superseded_leader(finding: LeaseFinding, history: History, reigns: Reigns) -> Superseded | None:
    """Return the superseded leader that may have caused a finding; None if there was none.

    Of several, a leader whose own log names the lease comes first, then the one that led last.
    """
    candidates = [one for reign in reigns.reigns if (one := _involvement(reign, finding, history, reigns)) is not None]
    return max(candidates, key=lambda s: (bool(s.attempts), s.reign.last_ns), default=None)


def _involvement(reign: Reign, finding: LeaseFinding, history: History, reigns: Reigns) -> Superseded | None:
    begin = reign.superseded
    if begin is None or begin.at_ns > finding.by_ns:
        return None
    lines = [e for e in history.of(AttemptEvent) if e.node == reign.node and e.error != _FENCED and e.key]
    own = tuple(e for e in lines if e.key == finding.lease.handle and _in_its_time(e, finding))
    beside = [e for e in lines if e.key != finding.lease.handle and abs(e.time_ns - finding.by_ns) <= _BESIDE_NS]
    how = _claimed(reign, begin, finding, named=bool(own)) or _woke(reign, begin, finding, history, reigns)
    if how is None:
        return None
    sentence, events = how
    steps = (
        f"{reign.node} led epoch {reign.epoch}. Epoch {begin.epoch} had begun by {seconds(begin.at_ns)}: {sentence}",
    )
    return Superseded(
        reign=reign,
        attempts=own,
        steps=(*steps, *_log_words(reign.node, own, beside)),
        events=(begin.event, *events, *(e.index for e in (own or beside)[:1])),
    )


def _in_its_time(event: AttemptEvent, finding: LeaseFinding) -> bool:
    return finding.lease.grant.asked_ns <= event.time_ns <= finding.by_ns + _SAID_LATER_NS


def _claimed(reign: Reign, begin: EpochBegin, finding: LeaseFinding, *, named: bool) -> tuple[str, Rows] | None:
    """Say how it claimed to lead after it was superseded, during the life of the lease; None if it did not.

    If its log does not name the lease, its last claim must come shortly before the key can have vanished.
    """
    since_ns = finding.lease.grant.asked_ns if named else finding.since_ns - _SHORTLY_NS
    if not reign.claimed or reign.last_ns < since_ns:
        return None
    last = max((s for s in reign.claimed if s.lo_ns <= finding.by_ns), key=lambda s: s.lo_ns, default=reign.claimed[0])
    sentence = f"{begin.how}; {reign.node} still claimed to lead {duration(last.lo_ns - begin.at_ns)} later."
    return sentence, (last.index,)


def _woke(
    reign: Reign, begin: EpochBegin, finding: LeaseFinding, history: History, reigns: Reigns
) -> tuple[str, Rows] | None:
    """Say how it was stopped while it led, superseded meanwhile, and woke shortly before; None if it was not."""
    for start_ns, end_ns in reigns.stopped.get(reign.node, []):
        led = reign.first_ns <= start_ns and start_ns < begin.at_ns <= end_ns
        over = reign.over_ns is not None and reign.over_ns <= start_ns
        if led and not over and finding.since_ns - _SHORTLY_NS <= end_ns <= finding.by_ns:
            sentence = (
                f"{begin.how}. {reign.node} had been stopped at {seconds(start_ns)}, as its leader, and ran again from "
                f"{seconds(end_ns)} on: {duration(finding.by_ns - end_ns)} later the key was seen to be gone."
            )
            marks = Landmarks(history)
            return sentence, (reign.samples[-1].index, *marks.at(start_ns), *marks.at(end_ns))
    return None


def _log_words(node: str, own: Sequence[AttemptEvent], beside: Sequence[AttemptEvent]) -> tuple[str, ...]:
    if own:
        first = own[0]
        return (
            f"{node}'s own log says that it asked for the end of this lease as its leader, and got no answer "
            f"({first.error}; read at {seconds(first.time_ns)}).",
            ASKED,
        )
    if beside:
        return (
            f"{node}'s own log says that it asked for the end of {len({e.key for e in beside})} other leases as their "
            f"leader, at the same time ({beside[0].error}; read at {seconds(beside[0].time_ns)}). A revoke that is "
            "carried out leaves no line.",
            ASKED,
        )
    return (f"Who asked for the end of the lease is not known; {node} may have.",)
