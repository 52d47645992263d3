"""KIP-273's metastore: whether a store keeps what Kafka takes for granted of ZooKeeper's sessions.

The operations are scenarios (`campaigns.kip.metastore`), and each is judged by what it carries; nothing needs another
operation. Seven guarantees, each with its own verdict.

Sources: ZooKeeper Programmer's Guide, Consistency Guarantees (requests of one client in order), What ZooKeeper
Guarantees about Watches (the event before the new data), Ephemeral Nodes, ZooKeeper Sessions; KIP-273, which says that
etcd "can provide the same semantics".

When a session is over is up to its store: a leader that is elected gives every session its whole time again, and a node
that is cut off shows what it knew. So an ephemeral that is left counts only where no fault was in force and no leader
was elected since its session began.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from fencepost.checkers.derived.evidence import rows
from fencepost.checkers.derived.reigns import first_subject, reigns_of
from fencepost.checkers.rules import Rule, sorted_out, verdict
from fencepost.checkers.violations.finding import Finding
from fencepost.harness.history import FaultOutcome, History, Operation, Outcome
from fencepost.harness.verdict import Facts, Verdict

Breach = tuple[str, str]
#: What is wrong with one scenario: names of anomalies, each with a sentence.
Judge = Callable[[Any], list[Breach]]


class _Rules(NamedTuple):
    """How one guarantee is judged: `applies` says whether a scenario could have broken it."""

    f: str
    tested: str
    anomalies: tuple[str, ...]
    judge: Judge
    applies: Callable[[Any], bool] = lambda result: True
    #: Anomalies that a fault or an election may cause: judged only where there was neither.
    undisturbed: tuple[str, ...] = ()


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge every scenario that was played to its end.

    Returns:
        Seven verdicts, one for each guarantee.

    Cost: O(n) in what the scenarios carry.
    """
    done: dict[str, list[Operation]] = {}
    for op in history.operations:
        if op.type is Outcome.OK:
            done.setdefault(op.f, []).append(op)
    return [_verdict(name, rules, done.get(rules.f, []), history, facts) for name, rules in _GUARANTEES.items()]


def _verdict(guarantee: str, rules: _Rules, scenarios: Sequence[Operation], history: History, facts: Facts) -> Verdict:
    exposed = [op for op in scenarios if rules.applies(op.result)]
    calm = [op for op in exposed if not _was_disturbed(op, history, facts)] if rules.undisturbed else exposed
    findings, chances = [], {}
    for anomaly in rules.anomalies:
        scope = calm if anomaly in rules.undisturbed else exposed
        chances[Rule(guarantee=guarantee, anomaly=anomaly, tested=rules.tested)] = rows(scope)
        findings += [
            Finding(anomaly=anomaly, operations=(op,), steps=(f"Process {op.process} on {op.node}: {sentence}",))
            for op in scope
            for name, sentence in rules.judge(op.result)
            if name == anomaly
        ]
    return verdict(facts, *sorted_out(findings, chances))


def _was_disturbed(op: Operation, history: History, facts: Facts) -> bool:
    """Whether a fault was possibly in force during the scenario, or a leader was elected."""
    assert op.completed_ns is not None, "it was answered"
    spans = (history.possible(fault) for fault in history.faults if fault.outcome is not FaultOutcome.SKIPPED)
    leaders = reigns_of(history, first_subject(history, facts)).begins
    return any(began_ns < op.completed_ns and ended_ns > op.invoked_ns for began_ns, ended_ns in spans) or any(
        op.invoked_ns < begin.at_ns < op.completed_ns for begin in leaders
    )


def _in_order(arrived: Any) -> list[Breach]:
    made = sorted((place, position) for place, kind, refusal, position, _ in arrived if kind == "write" and not refusal)
    writes, positions = [place for place, _ in made], [position for _, position in made]
    breaches = []
    late = next((i for i in range(1, len(positions)) if positions[i] < positions[i - 1]), None)
    if late is not None:
        breaches.append(
            (
                "session-order",
                f"request {writes[late]} took effect at {positions[late]}, before request {writes[late - 1]} at "
                f"{positions[late - 1]}, which was sent earlier in the same session.",
            )
        )
    read = next((answer for answer in arrived if answer[1] == "read"), None)
    if read is not None and writes and read[4] != str(writes[-1]):
        breaches.append(
            (
                "read-before-own-write",
                f"the read that was sent behind all writes returned {read[4]!r}; the last write before it was "
                f"{str(writes[-1])!r}.",
            )
        )
    order = [place for place, *_ in arrived]
    if order != sorted(order):
        breaches.append(("answers-out-of-order", f"the requests 0 to {max(order)} were answered in the order {order}."))
    return breaches


def _goes_on(arrived: Any) -> list[Breach]:
    refused = sorted(place for place, _, refusal, *_ in arrived if refusal)
    absent = sorted(place for place, kind, *_ in arrived if kind == "absent")
    if refused == absent:
        return []
    return [("batch-broken", f"of one batch the requests {refused} were refused, and {absent} had to be.")]


def _after_the_change(arrived: Any) -> int | None:
    """The place of the first read that shows a change behind the one that set the watch."""
    if not arrived or arrived[0][1] is None:
        return None
    first = arrived[0][1]
    places = (i for i, (kind, at) in enumerate(arrived) if kind == "read" and at is not None and at > first)
    return next(places, None)


def _event_first(arrived: Any) -> list[Breach]:
    read = _after_the_change(arrived)
    assert read is not None
    if any(kind == "event" for kind, _ in arrived[:read]):
        return []
    later = "came later" if any(kind == "event" for kind, _ in arrived) else "had not come when it stopped reading"
    return [
        (
            "watch-before-answer",
            f"it watched a path at {arrived[0][1]}; an answer showed the change at {arrived[read][1]}, and the event "
            f"of that change {later}.",
        )
    ]


def _no_orphan(result: Any) -> list[Breach]:
    refusal, child_left = result
    if refusal is None and child_left:
        return [("orphan-child", "a parent with a child was deleted, and the child is still there.")]
    return []


def _counted(versions: Any) -> list[Breach]:
    if list(versions) == [0, 1, 2, 3]:
        return []
    return [("version-skew", f"a path that was created and written three times had the versions {list(versions)}.")]


def _ephemeral(result: Any) -> list[Breach]:
    child, left, _ = result
    breaches = []
    if child is None:
        breaches.append(("child-of-ephemeral", "a child of an ephemeral was created."))
    if left:
        breaches.append(("orphan-ephemeral", "an ephemeral was there long after its session had to be over."))
    return breaches


def _refused(result: Any) -> list[Breach]:
    if result[2] is not None:
        return []
    return [
        (
            "silent-new-session",
            "its session was over, its ephemeral gone, and a request in this session was carried out as if nothing had "
            "happened.",
        )
    ]


_GUARANTEES: Final = {
    "session-requests-in-order": _Rules(
        "pipeline",
        "batches of requests that were sent at once in one session",
        ("session-order", "read-before-own-write", "answers-out-of-order"),
        _in_order,
    ),
    "batches-go-on": _Rules(
        "pipeline", "batches with a request that must be refused in their middle", ("batch-broken",), _goes_on
    ),
    "versions-count-writes": _Rules("versions", "paths that were written three times", ("version-skew",), _counted),
    "ephemerals-belong-to-sessions": _Rules(
        "expire",
        "ephemerals of sessions that were left to end",
        ("child-of-ephemeral", "orphan-ephemeral"),
        _ephemeral,
        undisturbed=("orphan-ephemeral",),
    ),
    "no-orphan-children": _Rules("family", "deletions of parents that have a child", ("orphan-child",), _no_orphan),
    "ended-session-is-refused": _Rules(
        "expire",
        "requests in sessions that were over, and whose ephemeral was gone",
        ("silent-new-session",),
        _refused,
        lambda result: not result[1],
    ),
    "events-before-answers": _Rules(
        "watched",
        "answers that showed a change of a watched path",
        ("watch-before-answer",),
        _event_first,
        lambda arrived: _after_the_change(arrived) is not None,
    ),
}
