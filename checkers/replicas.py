"""Whether all replicas hold the same once every fault is healed and the load is over.

The runner reads each replica by itself until all agree. What is judged is what they held at the end, and had held
unchanged for long: replicas that applied the same log and differ (`replicas-differ`), and one that stays behind
(`lagging-replica`). A replica that nobody could read, or that changed still, agrees with nobody: the verdict names it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from fencepost.checkers.rules import Rule, verdict
from fencepost.checkers.violations.finding import Doubt, Finding, duration, seconds
from fencepost.harness.history import DiskEffect, FaultOutcome, History, PhaseName, ReplicaEvent
from fencepost.harness.verdict import Cause, Facts, Verdict

GUARANTEE: Final = "replicas-agree"
#: What a replica holds must have stood for so long before it counts as what it holds for good.
_STANDS_NS: Final = 8_000_000_000
_LACKS: Final = "fewer than two replicas were read after the load"
_DIFFERS: Final = Rule(
    checker="replicas",
    guarantee=GUARANTEE,
    anomaly="replicas-differ",
    tested="replicas that were compared with another one after the load",
    lacks=_LACKS,
)
_BEHIND: Final = Rule(
    checker="replicas", guarantee=GUARANTEE, anomaly="lagging-replica", tested=_DIFFERS.tested, lacks=_LACKS
)
_KEYS_MAX: Final = 5


def check(history: History, facts: Facts) -> list[Verdict]:
    """Compare what the replicas held at the end; no verdict where the system does not state the guarantee."""
    if facts.guarantee(GUARANTEE) is None:
        return []
    rows = history.of(ReplicaEvent)
    damaged = {node for f in history.faults if f.effects.disk is DiskEffect.DAMAGED for node in f.nodes}
    wholes = [row for row in rows if row.key is None and row.value is not None and row.node not in damaged]
    unread = [f"{node} was left out, since its disk was damaged" for node in sorted(damaged)]
    unread += [f"{row.node} was not read ({row.detail})" for row in rows if row.detail]
    compared, differing, behind, doubts = [], list[Finding](), list[Finding](), list[str]()
    for subject, group in groupby(sorted(wholes, key=_subject), key=_subject):
        replicas = sorted(group, key=lambda row: -1 if row.position is None else row.position)
        if len(replicas) > 1:
            compared += replicas
            keys = [row for row in rows if row.subject == subject and row.key is not None]
            _compare(history, replicas, keys, differing, behind, doubts)
    if any(fault.ended_ns is None and fault.outcome is not FaultOutcome.SKIPPED for fault in history.faults):
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
