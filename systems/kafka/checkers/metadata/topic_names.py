"""Judge the set of names: taking one and asking whether it is taken are linearizable, name by name.

Each name is a register that goes once from absent to taken: taking it is a compare-and-set from absent, asking for it a
read. The native search decides each name (they are independent: Herlihy & Wing, 1990); since a name never becomes free,
every false answer can then be named without a search:

  denied-taken-name     "not taken", asked after the name was certainly taken
  invented-name         "taken", answered before anybody had asked to take it
  name-taken-twice      two acknowledgements, or one that was asked for when the name was certainly taken

A request to take a name that a controller refused because it exists says "taken", as an answer does. Nobody promises
that such answers are current, so this is measured, and decides only where the plan requires it.
"""

import sys
from collections.abc import Sequence
from typing import Final

import msgspec

from fencepost.checkers.facts.evidence import Rows, row
from fencepost.checkers.facts.reigns import NamedEpochs, Reigns, epoch_subject, leader_of, reigns_of, statements
from fencepost.checkers.findings.circumstances import answered_words
from fencepost.checkers.findings.finding import Finding, Findings, duration, rule, stopped
from fencepost.checkers.storage.register_anomalies import Columns, encode
from fencepost.checkers.storage.register_proofs import proof_of
from fencepost.checkers.storage.registers import search
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Facts, Verdict
from fencepost.systems.kafka.checkers.metadata.changes import completed
from fencepost.systems.kafka.figures import Denied, TopicNameFigures

CHECKER: Final = "topic-names"
GUARANTEE: Final = "topic-names-linearizable"
EXPOSURE_OF: Final = "answers about a name that another process had certainly taken before they were asked for"
#: Refusals that say that the name is taken.
_TAKEN: Final = frozenset({"exists", "topic-already-exists"})
_NEVER: Final = sys.maxsize
#: So many false answers are looked at closely enough to say who gave them.
_EXPLAINED_MAX: Final = 200
#: Of so many names the proof is kept.
_PROOFS_MAX: Final = 100


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge the answers about names, each name as a register that is set once.

    Returns:
        One verdict: `invalid` with each false answer, `unknown` if the budget ended before all names were decided.

    Source: linearizability is local, so names are judged one by one (Herlihy & Wing, "Linearizability", 1990).

    Cost: that of the search; O(n) for n operations in histories like these.
    """
    rows = names_of(history.operations)
    columns = encode(rows)
    results = search(columns, facts.budget) if rows else []
    refuted = {columns.keys[r.key] for r in results if r.verdict == "invalid"}
    unfinished = [r for r in results if r.verdict == "unknown"]
    names: dict[str | None, list[Operation]] = {}
    for one in rows:
        names.setdefault(one.key, []).append(one)
    findings = [f for name in names if name in refuted for f in _false_answers(names[name])]
    unexplained = refuted - {f.operations[-1].key for f in findings}
    findings += [_unexplained(names[name]) for name in sorted(unexplained, key=str)]
    denials = [f.operations[-1] for f in findings if f.anomaly == "denied-taken-name"]
    findings.sort(key=lambda f: f.operations[-1].invoked_ns)
    ranked = _Explainer(history).explained(findings)
    denied = _denied_rows(denials, _proofs(ranked))
    proven = [(r.minimal, columns.keys[r.key]) for r in results if r.minimal is not None]
    return [
        Findings(
            checker=CHECKER,
            guarantee=GUARANTEE,
            findings=ranked,
            broken=f"{len(ranked)} false answers about names",
            doubt=stopped([r.stop for r in unfinished], f"{len(unfinished)} of {len(results)} names were not decided"),
            exposed=tuple(row(o) for own in names.values() for o in _exposed(own)),
            exposure_of=EXPOSURE_OF,
            untested="no name was asked for after another process had taken it",
            rules=(
                rule(
                    "denied-taken-name",
                    sum(map(len, map(_exposed, names.values()))),
                    "no name was asked for after another process had taken it",
                ),
                rule(
                    "invented-name",
                    sum(o.f == "read" for o in rows),
                    "nobody was told whether a name is taken",
                ),
                rule(
                    "name-taken-twice",
                    sum(max(0, sum(o.f == "cas" for o in own) - 1) for own in names.values()),
                    "no name was asked for twice",
                ),
            ),
            kept=f"{len(results)} names: every answer is explained",
            proofs=tuple(proof_of(minimal, columns.operations, name) for minimal, name in proven[:_PROOFS_MAX]),
            figures=_figures(len(results), sum(o.f == "read" for o in rows), denials, ranked),
            evidence={
                "names": tuple(row(own[0]) for own in names.values()),
                "answers": tuple(row(o) for o in rows if o.f == "read"),
                "denials": denied.get("denials", ()),
                "denial_late_ns_max": denied.get("late_ns_max", ()),
                "denials_from_ns": denied.get("from_ns", ()),
                "denials_to_ns": denied.get("to_ns", ()),
            },
        ).verdict(facts)
    ]


def as_registers(operations: Sequence[Operation]) -> Columns:
    """Make registers of the operations, as the search and the check of its proofs have them."""
    return encode(names_of(operations))


def names_of(operations: Sequence[Operation]) -> list[Operation]:
    """Translate the operations into operations on a register for each name."""
    return [own for operation in operations if (own := _row(operation)) is not None]


def _row(operation: Operation) -> Operation | None:
    """Translate an operation into one on the register of its name; None if it says nothing about the name."""
    change = msgspec.structs.replace
    if operation.f == "exists":
        return change(operation, f="read") if operation.type is Outcome.OK else None
    if operation.f != "create":
        return None
    if operation.type is Outcome.FAIL:
        # A refusal is an answer: completed at its end, though it took no effect.
        is_denial = operation.error in _TAKEN and operation.ended_ns is not None
        return (
            change(operation, f="read", type=Outcome.OK, result=1, completed_ns=operation.ended_ns)
            if is_denial
            else None
        )
    return change(operation, f="cas", value=[None, 1])


def _false_answers(rows: Sequence[Operation]) -> list[Finding]:
    """Find every answer about one name that contradicts another, with the earliest one that it contradicts."""
    takes = [r for r in rows if r.f == "cas"]
    proofs = sorted((r for r in rows if r.type is Outcome.OK and (r.f == "cas" or r.result is not None)), key=completed)
    asked_ns = min((r.invoked_ns for r in takes), default=_NEVER)
    findings: list[Finding] = []
    for own in rows:
        if own.type is not Outcome.OK:
            continue
        proof = proofs[0] if proofs and completed(proofs[0]) < own.invoked_ns else None
        if own.f == "cas":
            other = proof or next((t for t in takes if t is not own and t.type is Outcome.OK), None)
            if other is not None and (proof is not None or other.invoke_index < own.invoke_index):
                findings.append(_finding("name-taken-twice", other, own))
        elif own.result is None and proof is not None:
            findings.append(_finding("denied-taken-name", proof, own))
        elif own.result is not None and completed(own) < asked_ns:
            findings.append(_finding("invented-name", takes[0] if takes else None, own))
    return findings


def _finding(anomaly: str, proof: Operation | None, row: Operation) -> Finding:
    if proof is None:
        steps: tuple[str, ...] = ("Nobody ever asked to take this name.",)
    elif anomaly == "invented-name":
        steps = (f"The first request to take it, of process {proof.process}, came only later.",)
    else:
        how = f"took the name {proof.key}" if proof.f == "cas" else f"was told that the name {proof.key} is taken,"
        late_ns = row.invoked_ns - completed(proof)
        question = f"Process {row.process} asked {row.node} {duration(max(0, late_ns))} later"
        answers = {"name-taken-twice": "was given the name once more", "denied-taken-name": "was told that it is free"}
        steps = (
            f"Process {proof.process} {how} through {proof.node}.",
            f"{question}, and {answers[anomaly]}; nothing frees names.",
        )
    return Finding(anomaly=anomaly, operations=(row,) if proof is None else (proof, row), steps=steps)


def _unexplained(rows: Sequence[Operation]) -> Finding:
    answered = [r for r in rows if r.type is Outcome.OK]
    steps = (f"No order explains the {len(answered)} answers about {rows[0].key}.",)
    return Finding(anomaly="non-linearizable", operations=tuple(answered[:8]), steps=steps)


class _Explainer:
    """Says who gave each denial: a superseded leader, a broker that stayed with one, or a node that was cut off."""

    def __init__(self, history: History) -> None:
        self._history = history
        subject = epoch_subject(history)
        self._reigns = None if subject is None else reigns_of(history, subject)
        self._named: Final = NamedEpochs(s for s in statements(history) if s.subject == subject and s.leader)

    def explained(self, findings: Sequence[Finding]) -> list[Finding]:
        """Return the findings, those of superseded leaders first; the first ones get a sentence about their node."""
        if self._reigns is None:
            return list(findings)
        shown = [self._tell(finding, self._reigns) for finding in findings[:_EXPLAINED_MAX]]
        shown.sort(key=lambda pair: pair[0])
        return [finding for _, finding in shown] + list(findings[_EXPLAINED_MAX:])

    def _tell(self, finding: Finding, reigns: Reigns) -> tuple[int, Finding]:
        answer = finding.operations[-1]
        if finding.anomaly != "denied-taken-name":
            return 2, finding
        reign = leader_of(reigns, answer)
        sentence = answered_words(self._history, answer, reign)
        rank = 0 if reign is not None and reign.superseded is not None else 2
        named = self._named.last(answer.node, completed(answer))
        begin = None if named is None or named.named is None else reigns.superseded(named.named)
        if reign is None and named is not None and begin is not None and begin.at_ns <= completed(answer):
            rank = 1
            late = duration(completed(answer) - begin.at_ns)
            sentence += (
                f"; it was attached to {named.leader} (epoch {named.named}), {late} after epoch {begin.epoch} began"
            )
        return rank, msgspec.structs.replace(finding, steps=(*finding.steps, f"{sentence}."))


def _exposed(rows: Sequence[Operation]) -> list[Operation]:
    """List the answers about one name that another process had certainly taken before they were asked for."""
    proofs = sorted((r for r in rows if r.type is Outcome.OK and (r.f == "cas" or r.result is not None)), key=completed)
    if not proofs:
        return []
    first = proofs[0]
    return [r for r in rows if r.f == "read" and r.invoked_ns > completed(first) and r.process != first.process]


def _proofs(findings: Sequence[Finding]) -> dict[int, Operation]:
    """Map each denial, by its invocation, to the operation that proves that the name was taken."""
    return {f.operations[-1].invoke_index: f.operations[0] for f in findings if f.anomaly == "denied-taken-name"}


def _figures(names: int, answers: int, denials: list[Operation], findings: Sequence[Finding]) -> TopicNameFigures:
    proofs = _proofs(findings)
    by_node: dict[str, list[Operation]] = {}
    for denial in denials:
        by_node.setdefault(denial.node, []).append(denial)
    return TopicNameFigures(
        names=names,
        answers=answers,
        denials=len(denials),
        denial_late_ns_max=max((_late_ns(o, proofs) for o in denials), default=0),
        denials_from_ns=min((o.invoked_ns for o in denials), default=None),
        denials_to_ns=max((completed(o) for o in denials), default=None),
        by_node=tuple(_denied(node, own, proofs) for node, own in by_node.items()),
    )


def _denied(node: str, denials: list[Operation], proofs: dict[int, Operation]) -> Denied:
    return Denied(
        node=node,
        denials=len(denials),
        from_ns=min(o.invoked_ns for o in denials),
        to_ns=max(completed(o) for o in denials),
        late_ns_max=max(_late_ns(o, proofs) for o in denials),
        events=_denied_rows(denials, proofs),
    )


def _denied_rows(denials: list[Operation], proofs: dict[int, Operation]) -> dict[str, Rows]:
    if not denials:
        return {}
    latest = max(denials, key=lambda o: _late_ns(o, proofs))
    return {
        "denials": tuple(row(o) for o in denials),
        "late_ns_max": (row(proofs[latest.invoke_index]), latest.invoke_index),
        "from_ns": (min(denials, key=lambda o: o.invoked_ns).invoke_index,),
        "to_ns": (row(max(denials, key=completed)),),
        "taken": tuple(dict.fromkeys(row(proofs[o.invoke_index]) for o in denials)),
    }


def _late_ns(denial: Operation, proofs: dict[int, Operation]) -> int:
    """Return how long before the denial was asked for its name was certainly taken, in ns."""
    return denial.invoked_ns - completed(proofs[denial.invoke_index])
