"""Judge the set of names: taking one and asking whether it is taken are linearizable, name by name.

Each name goes once from absent to taken, and never becomes free. Names are independent (Herlihy & Wing, 1990), so every
false answer is found by comparing it with the answers about its own name:

  denied-taken-name     "not taken", asked after the name was certainly taken
  invented-name         "taken", answered before anybody had asked to take it
  name-taken-twice      two acknowledgements, or one that was asked for when the name was certainly taken

A request to take a name that a controller refused because it exists says "taken", as an answer does. Nobody promises
that such answers are current, so this is measured, and decides only where the plan requires it.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from fencepost.checkers.derived.evidence import grouped, number_of, row, rows
from fencepost.checkers.derived.positions import by_key, completed_ns
from fencepost.checkers.derived.reigns import NamedEpochs, Reigns, epoch_subject, leader_of, reigns_of, statements
from fencepost.checkers.rules import Rule, sorted_out, verdict
from fencepost.checkers.violations.circumstances import answered_words
from fencepost.checkers.violations.finding import Finding, duration
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Facts, Verdict
from fencepost.harness.verdict.figures import Figures, Rows, Traced, most, tally
from fencepost.systems.kafka.figures import Denied

GUARANTEE: Final = "topic-names-linearizable"
DENIED: Final = Rule(
    guarantee=GUARANTEE,
    anomaly="denied-taken-name",
    tested="answers about a name that another process had certainly taken before they were asked for",
)
INVENTED: Final = Rule(guarantee=GUARANTEE, anomaly="invented-name", tested="answers whether a name is taken")
TWICE: Final = Rule(guarantee=GUARANTEE, anomaly="name-taken-twice", tested="names that several asked for")
#: Refusals that say that the name is taken.
_REFUSED: Final = frozenset({"exists", "topic-already-exists"})
#: So many false answers are looked at closely enough to say who gave them.
_EXPLAINED_MAX: Final = 200


class NameAnswers:
    """What was said of one name, by invocation: `takes` that may have taken it, `answers` whether it is taken."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.takes: Final = [o for o in operations if o.f == "create" and o.type is not Outcome.FAIL]
        self.answers: Final = [a for o in operations if (a := _answer(o)) is not None]
        proofs = [*(t for t in self.takes if t.type is Outcome.OK), *(a for a in self.answers if a.result is not None)]
        #: By its completion the name was certainly taken, first.
        self.proof: Final = min(proofs, key=completed_ns, default=None)

    def proven(self, question: Operation) -> Operation | None:
        """The first proof that the name was taken, if it was there before this operation was asked for."""
        return self.proof if self.proof is not None and completed_ns(self.proof) < question.invoked_ns else None

    def exposed(self) -> list[Operation]:
        """List the answers that had to be "taken", by the word of another process."""
        return [a for a in self.answers if (p := self.proven(a)) is not None and p.process != a.process]

    def false_answers(self) -> Iterator[Finding]:
        """Yield every answer that contradicts another, with the earliest one that it contradicts."""
        first = next((take for take in self.takes if take.type is Outcome.OK), None)
        for take in (take for take in self.takes if take.type is Outcome.OK):
            if other := self.proven(take) or (first if first is not take else None):
                yield TWICE.finding(other, take, steps=_twice(other, take, "was given the name once more"))
        for answer in self.answers:
            if answer.result is None and (proof := self.proven(answer)):
                yield DENIED.finding(proof, answer, steps=_twice(proof, answer, "was told that it is free"))
            elif answer.result is not None and not self.takes:
                yield INVENTED.finding(answer, steps=("Nobody ever asked to take this name.",))
            elif answer.result is not None and completed_ns(answer) < self.takes[0].invoked_ns:
                step = f"The first request to take it, of process {self.takes[0].process}, came only later."
                yield INVENTED.finding(self.takes[0], answer, steps=(step,))


def _answer(operation: Operation) -> Operation | None:
    """The operation as an answer whether its name is taken; a refusal is one, completed at its end."""
    if operation.f == "exists" and operation.type is Outcome.OK:
        return operation
    if operation.type is Outcome.FAIL and operation.error in _REFUSED and operation.ended_ns is not None:
        return msgspec.structs.replace(operation, result=1, completed_ns=operation.ended_ns)
    return None


def _twice(proof: Operation, later: Operation, what: str) -> Iterator[str]:
    take = proof.f == "create" and proof.type is Outcome.OK
    how = f"took the name {proof.key}" if take else f"was told that the name {proof.key} is taken,"
    yield f"Process {proof.process} {how} through {proof.node}."
    late = duration(max(0, later.invoked_ns - completed_ns(proof)))
    yield f"Process {later.process} asked {later.node} {late} later, and {what}; nothing frees names."


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge the answers about names, each name by itself.

    Returns:
        One verdict: `invalid` with each false answer.

    Source: linearizability is local, so names are judged one by one (Herlihy & Wing, "Linearizability", 1990).

    Cost: O(n log n) for n operations.
    """
    keyed = by_key(o for o in history.operations if o.f in ("create", "exists"))
    names = [name for own in keyed.values() if (name := NameAnswers(own)).takes or name.answers]
    findings = sorted((f for name in names for f in name.false_answers()), key=lambda f: f.operations[-1].invoked_ns)
    ranked = _Explainer(history).explained(findings)
    denials = [f.operations[-1] for f in findings if f.anomaly == DENIED.anomaly]
    answers = [answer for name in names for answer in name.answers]
    chances: dict[Rule, Rows | int] = {
        DENIED: rows(o for name in names for o in name.exposed()),
        INVENTED: len(answers),
        TWICE: sum(max(0, len(name.takes) - 1) for name in names),
    }
    return [
        verdict(
            facts,
            *sorted_out(ranked, chances),
            kept=f"{len(names)} names: every answer is explained",
            figures={
                "names": number_of((name.takes or name.answers)[0] for name in names),
                "answers": number_of(answers),
                **_figures(denials, _proofs(ranked)),
            },
        )
    ]


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
        if finding.anomaly != DENIED.anomaly:
            return 2, finding
        reign = leader_of(reigns, answer)
        sentence = answered_words(self._history, answer, reign)
        rank = 0 if reign is not None and reign.superseded is not None else 2
        named = self._named.last(answer.node, completed_ns(answer))
        begin = None if named is None or named.named is None else reigns.superseded(named.named)
        if reign is None and named is not None and begin is not None and begin.at_ns <= completed_ns(answer):
            rank = 1
            late = duration(completed_ns(answer) - begin.at_ns)
            sentence += (
                f"; it was attached to {named.leader} (epoch {named.named}), {late} after epoch {begin.epoch} began"
            )
        return rank, msgspec.structs.replace(finding, steps=(*finding.steps, f"{sentence}."))


def _proofs(findings: Sequence[Finding]) -> dict[int, Operation]:
    """Map each denial, by its invocation, to the operation that proves that the name was taken."""
    return {f.operations[-1].invoke_index: f.operations[0] for f in findings if f.anomaly == DENIED.anomaly}


def _figures(denials: list[Operation], proofs: dict[int, Operation]) -> Figures:
    by_node = grouped(denials, lambda denial: denial.node)
    of_all = _denied("", denials, proofs) if denials else None
    return {
        "denials": number_of(denials),
        "denial_late_ns_max": Traced(0) if of_all is None else of_all.late_ns_max,
        "denials_from_ns": None if of_all is None else of_all.from_ns,
        "denials_to_ns": None if of_all is None else of_all.to_ns,
        "denied": tuple(_denied(node, own, proofs) for node, own in by_node.items()),
    }


def _denied(node: str, denials: list[Operation], proofs: dict[int, Operation]) -> Denied:
    first, last = min(denials, key=lambda o: o.invoked_ns), max(denials, key=completed_ns)
    return Denied(
        node=node,
        denials=number_of(denials),
        from_ns=Traced(first.invoked_ns, (first.invoke_index,)),
        to_ns=Traced(completed_ns(last), (row(last),)),
        late_ns_max=most(Traced(_late_ns(o, proofs), (row(proofs[o.invoke_index]), o.invoke_index)) for o in denials),
        proofs=tally(dict.fromkeys(row(proofs[o.invoke_index]) for o in denials)),
    )


def _late_ns(denial: Operation, proofs: dict[int, Operation]) -> int:
    """Return how long before the denial was asked for its name was certainly taken, in ns."""
    return denial.invoked_ns - completed_ns(proofs[denial.invoke_index])
