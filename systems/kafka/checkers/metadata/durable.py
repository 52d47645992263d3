"""Is every acknowledged change in every final view, unless a later change overwrote it?

A view may lag for any time, so an answer proves that change X was lost only if the answer cannot be old. That is so if
the same server had shown, in the final phase and at least `PUBLISHED_NS` before, a change Y that was invoked after X
had taken effect. One log orders all changes, so X stands before Y, and a view that holds Y holds X or something later.
The margin of time allows for nodes that publish what they learn one setting after the other.

Questions about names are passed on to the controller in charge. So a name is lost if the last answer of every node
denies it, and one of these nodes is a controller, and no broker, that had shown a later name in this way.

Only changes that something could have taken away count as tests (`changes.controller_risk`).
"""

from typing import Final

import msgspec

from fencepost.checkers.derived.evidence import numbers_of, rows
from fencepost.checkers.derived.positions import completed_ns, in_final
from fencepost.checkers.derived.servers import Incarnations
from fencepost.checkers.rules import Rule, sorted_out, verdict
from fencepost.checkers.violations.finding import Doubt, Finding, duration
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.harness.verdict.figures import Traced
from fencepost.systems.kafka.checkers.metadata.changes import (
    UNTOUCHED,
    MetadataChange,
    MetadataChanges,
    controller_risk,
    direct_nodes,
    newest_in_effect,
    view_of,
)

GUARANTEE: Final = "metadata-durable"
PUBLISHED_NS: Final = 1_000_000_000
LOST, CONTRADICT = (
    Rule(
        guarantee=GUARANTEE,
        anomaly=anomaly,
        tested="acknowledged changes that something disturbed, and that a later final view had to show",
        lacks=UNTOUCHED,
    )
    for anomaly in ("lost-acknowledged-change", "views-contradict")
)
REFUSED: Final = Rule(guarantee=GUARANTEE, anomaly="refused-change-took-effect", tested="refused changes of a setting")

#: The operation by which a change was put to the test, and the change.
_Due = tuple[Operation, Operation]


class _Evidence(msgspec.Struct, frozen=True):
    """By the time of `read`, its server had everything that was in effect when `change` was invoked."""

    read: Operation
    change: Operation


def judge(history: History, changes: MetadataChanges, incarnations: Incarnations, facts: Facts) -> Verdict:
    """Judge "metadata-durable" by the answers of the final phase.

    Args:
        history: one run with a final phase.
        changes: its changes of settings, with when each had certainly taken effect.
        incarnations: which run of a server answered.
        facts: voters, and the faults that the plan asks for.

    Returns:
        A verdict that is `unknown` if nothing was read in the final phase, or if nothing disturbed a change.

    Cost: O(n log n) for n operations.
    """
    final = _final(history, history.operations)
    lost, due = _settings(final, changes, incarnations)
    lost_names, due_names = _names(history, final, incarnations, facts)
    due += due_names
    risk = controller_risk(history, facts)
    figures = _figures(history, changes)
    exposed = rows(answer for answer, change in due if risk.runs(change))
    acknowledged = figures["alters_ok"].value + figures["creates_ok"].value
    lacks = UNTOUCHED if due else "no final view was proven to be late enough"
    return verdict(
        facts,
        *sorted_out(
            [*lost, *lost_names], dict.fromkeys((LOST.here(lacks=lacks), CONTRADICT.here(lacks=lacks)), exposed)
        ),
        REFUSED.tally(
            _refused_but_shown(changes), sum(o.type is Outcome.FAIL for o in history.operations if o.f == "alter")
        ),
        doubt=None if final else Doubt(Cause.NO_EXPOSURE, "nothing was read in the final phase"),
        kept=f"{acknowledged} acknowledged changes: none is missing from a final view",
        figures=figures,
    )


def _final(history: History, operations: list[Operation]) -> list[Operation]:
    """List the answered reads of the final phase, in the order of invocation."""
    reads = (o for o in operations if o.f in ("describe", "exists") and o.type is Outcome.OK)
    return [o for o in reads if in_final(history, o)]


def _figures(history: History, changes: MetadataChanges) -> dict[str, Traced[int]]:
    """Count changes by how they ended, and the unanswered ones that were seen."""
    ended = {
        f"{f}s_{outcome.value}": [o for o in history.operations if o.f == f and o.type is outcome]
        for f in ("alter", "create")
        for outcome in (Outcome.OK, Outcome.FAIL, Outcome.INFO)
    }
    unanswered = [c for key in changes.keys for c in changes.of(key) if c.operation.type is Outcome.INFO]
    return numbers_of(ended | {"alters_info_seen": [c.seen_by for c in unanswered if c.seen_by is not None]})


# -- settings -----------------------------------------------------------------------------------------------------


def _refused_but_shown(changes: MetadataChanges) -> list[Finding]:
    findings = []
    for key in changes.keys:
        for change in changes.of(key):
            alter, read = change.operation, change.seen_by
            if alter.type is not Outcome.FAIL or read is None:
                continue
            steps = (
                f"{alter.node} refused to set {key} to {alter.value!r} ({alter.error}).",
                f"{read.node} shows it nevertheless.",
            )
            findings.append(REFUSED.finding(alter, read, steps=steps))
    return findings


def _settings(
    final: list[Operation], changes: MetadataChanges, incarnations: Incarnations
) -> tuple[list[Finding], list[_Due]]:
    """Return what was lost, and the answers that had to show a change."""
    required = {key: newest_in_effect(changes.of(key)) for key in changes.keys}
    servers: dict[tuple[str, int, str], list[Operation]] = {}
    for read in final:
        incarnation = incarnations.of(read) if read.f == "describe" else None
        if incarnation is not None:
            servers.setdefault((read.node, incarnation, view_of(read.key)), []).append(read)
    findings: list[Finding] = []
    answered: list[_Due] = []
    newest_elsewhere = {(read.key, read.result): read for read in final if read.f == "describe"}
    for reads in servers.values():
        evidence = _evidence(reads, {r.invoke_index: c for r in reads if (c := changes.shown(r)) is not None})
        last = {read.key: read for read in reads}
        for read in last.values():
            proof = _proof(evidence, read)
            due = required[read.key].before(proof.change.invoked_ns) if proof and read.key in required else None
            if proof is None or due is None:
                continue
            answered.append((read, due.operation))
            last_by_ns = changes.last_by(read)
            if last_by_ns is not None and last_by_ns < due.invoked_ns:
                findings.append(_lost(read, due, proof, newest_elsewhere.get((read.key, due.operation.value))))
    return findings, answered


def _evidence(reads: list[Operation], shown: dict[int, MetadataChange]) -> list[_Evidence]:
    """List one server's answers by completion, each with the latest change that it had shown by then."""
    evidence: list[_Evidence] = []
    for read in sorted(reads, key=completed_ns):
        change = shown.get(read.invoke_index)
        if change is None:
            continue
        if evidence and evidence[-1].change.invoked_ns >= change.invoked_ns:
            continue
        evidence.append(_Evidence(read, change.operation))
    return evidence


def _proof(evidence: list[_Evidence], read: Operation) -> _Evidence | None:
    """Return the latest evidence of what the server held when it was asked for `read`; None without any."""
    before = [e for e in evidence if completed_ns(e.read) + PUBLISHED_NS <= read.invoked_ns]
    return before[-1] if before else None


def _lost(read: Operation, due: MetadataChange, proof: _Evidence, elsewhere: Operation | None) -> Finding:
    change = due.operation
    standing = "acknowledged" if due.acknowledged else "unanswered, but seen"
    steps = [
        f"Process {change.process} set {read.key} to {change.value!r} through {change.node}: {standing}.",
        f"After that process {proof.change.process} set {proof.change.key} to {proof.change.value!r}, and {read.node} "
        f"showed it: so its view held everything up to there.",
        f"{duration(read.invoked_ns - completed_ns(proof.read))} later {read.node} answered that {read.key} is "
        f"{read.result!r}, which is older than {change.value!r}.",
    ]
    shown = [change, proof.change, proof.read, read]
    if elsewhere is not None and elsewhere.node != read.node:
        steps.append(f"{elsewhere.node} has it: two views of one log contradict each other.")
        shown.append(elsewhere)
        return CONTRADICT.finding(*shown, steps=steps)
    return LOST.finding(*shown, steps=steps)


# -- names --------------------------------------------------------------------------------------------------------


def _names(
    history: History, final: list[Operation], incarnations: Incarnations, facts: Facts
) -> tuple[list[Finding], list[_Due]]:
    """Return what was lost, and the acknowledged creations that a final answer had to show."""
    acknowledged: dict[str | None, Operation] = {}
    first_request: dict[str | None, Operation] = {}
    for create in (o for o in history.operations if o.f == "create" and o.type is not Outcome.FAIL):
        first_request.setdefault(create.key, create)
        if create.type is Outcome.OK:
            acknowledged.setdefault(create.key, create)
    direct = direct_nodes(facts)
    answers: dict[str | None, dict[str, Operation]] = {}
    evidence: dict[tuple[str, int], list[_Evidence]] = {}
    for read in sorted((o for o in final if o.f == "exists"), key=completed_ns):
        answers.setdefault(read.key, {})[read.node] = read
        request, incarnation = first_request.get(read.key), incarnations.of(read)
        if read.result is not None and request is not None and incarnation is not None and read.node in direct:
            own = evidence.setdefault((read.node, incarnation), [])
            if not own or own[-1].change.invoked_ns < request.invoked_ns:
                own.append(_Evidence(read, request))
    findings: list[Finding] = []
    answered: list[_Due] = []
    for name, create in acknowledged.items():
        last = answers.get(name, {})
        proofs = []
        for read in last.values():
            incarnation = incarnations.of(read)
            proof = None if incarnation is None else _proof(evidence.get((read.node, incarnation), []), read)
            if proof is not None and completed_ns(create) < proof.change.invoked_ns:
                proofs.append((proof, read))
        answered += [(create, create)] if proofs else []
        if proofs and all(read.result is None for read in last.values()):
            findings.append(_lost_name(create, *proofs[0], denied_by=tuple(last)))
    return findings, answered


def _lost_name(create: Operation, proof: _Evidence, read: Operation, *, denied_by: tuple[str, ...]) -> Finding:
    steps = (
        f"Process {create.process} took the name {create.key} through {create.node}: acknowledged.",
        f"Later {proof.change.key} was taken, and {read.node} said so: so it knew everything up to there.",
        f"After that {', '.join(denied_by)} said that {create.key} is not taken; nothing gives names back.",
    )
    return LOST.finding(create, proof.change, proof.read, read, steps=steps)
