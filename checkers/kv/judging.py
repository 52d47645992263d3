"""From a history of a store with numbered writes to its verdict; what is valid has been carried out once more."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from checkers.evidence import rows, violations
from checkers.kv.acts import Act, Dialect, Kind, acts_of, operations_as_acts
from checkers.kv.breach import Breach
from checkers.kv.deciding import decided
from checkers.kv.order import judge
from checkers.kv.proving import refutes, window_of
from checkers.kv.refutation import PROVEN, holds
from checkers.kv.replay import order_of, refusal
from checkers.kv.states import Store
from checkers.objects.judging import exposed
from harness.history import History
from harness.operation import Operation, Outcome
from harness.verdict import Facts, Proof, Validity, Verdict, Witness

#: Of longer histories the order is not kept in the verdict.
ORDERED_MAX: Final = 5_000
_WITNESSES_OF_EACH: Final = 2
_WITNESSES_MAX: Final = 10


def judged(history: History, facts: Facts, dialect: Dialect) -> list[Verdict]:
    """One verdict on all operations; raises MalformedHistory, and RuntimeError where the order does not bear it out."""
    operations = [op for op in history.operations if op.f in dialect.functions]
    acts = acts_of(operations, dialect, facts)
    store = Store(acts, dialect)
    found = judge(acts, dialect)
    if found.doubts and not found.breaches:
        found = decided(found, acts, store)
    doubts = list(found.doubts)
    placed = [act for act, _ in found.order if act.done is None]
    if not found.breaches and not doubts and (wrong := refusal(acts, dialect, found.order)) is not None:
        if not placed and all(act.at is not None for act, _ in found.order):
            raise RuntimeError(f"{dialect.name}: an order was found that cannot be: {wrong}")
        doubts.append("it is open where what no reply places took effect")
    shown = [(breach, _proof(breach, store)) for breach in _most_telling(found.breaches)]
    proven = {breach.anomaly for breach, proof in shown if proof is not None}
    breaches = [breach for breach in found.breaches if breach.anomaly in proven]
    doubts += [f"it is open whether there was a {breach.anomaly}" for breach, _ in shown if breach not in breaches]
    witnesses = tuple(_witness(breach, proof) for breach, proof in shown if proof is not None)
    seen = _exposed(operations, dialect)
    validity, reason = _conclude(breaches, doubts, acts, seen, facts, dialect)
    answered = [act for act in acts if act.done is not None]
    keys: dict[str | None, Operation] = {}
    for act in acts:
        if act.kind is not Kind.SYNC:
            keys.setdefault(act.key, act.op)
    counted = {
        "keys": list(keys.values()),
        "operations": operations,
        "answers_judged": [act.op for act in answered],
        "info_operations": [op for op in operations if op.type is Outcome.INFO],
        "info_that_took_effect": [act.op for act in placed],
    }
    return [
        Verdict(
            checker=dialect.name,
            guarantee=facts.read_guarantee,
            validity=validity,
            reason=reason,
            exposure=len(seen),
            exposure_of=_exposure_of(dialect),
            anomalies=dict(Counter(breach.anomaly for breach in breaches)),
            witnesses=witnesses,
            proofs=_proofs(found.order, validity),
            figures={name: len(own) for name, own in counted.items()},
            evidence={
                "exposure": rows(seen),
                **violations((breach.anomaly, breach.acts[-1].op) for breach in breaches),
                **{name: rows(own) for name, own in counted.items()},
            },
        )
    ]


def _exposed(operations: Sequence[Operation], dialect: Dialect) -> list[Operation]:
    by_key: dict[str | None, list[Operation]] = {}
    for op in operations:
        by_key.setdefault(op.key, []).append(op)

    def kind(op: Operation) -> Kind:
        return dialect.functions[op.f]

    return [
        op
        for own in by_key.values()
        for op in exposed(own, lambda op: kind(op) in (Kind.PUT, Kind.DELETE), lambda op: kind(op) is Kind.READ)
    ]


def _exposure_of(dialect: Dialect) -> str:
    return f"ok reads of a key invoked after another process's write of it had its {dialect.number}"


def _conclude(
    breaches: Sequence[Breach],
    doubts: Sequence[str],
    acts: Sequence[Act],
    seen: Sequence[Operation],
    facts: Facts,
    dialect: Dialect,
) -> tuple[Validity, str]:
    if breaches:
        return Validity.INVALID, f"{len(breaches)} answers fit no order of the {dialect.number}s"
    if not any(act.done is not None for act in acts):
        return Validity.UNKNOWN, f"no {', '.join(dialect.functions)} was answered in this history"
    if doubts:
        more = len(doubts) - 1
        return Validity.UNKNOWN, f"{doubts[0]}{f'; and {more} more' if more else ''}"
    if len(seen) < facts.thresholds.exposure_min:
        return Validity.UNKNOWN, f"{len(seen)} {_exposure_of(dialect)}; at least {facts.thresholds.exposure_min}"
    return Validity.VALID, ""


def _proofs(order: Sequence[tuple[Act, int]], validity: Validity) -> tuple[Proof, ...]:
    if validity is not Validity.VALID or len(order) > ORDERED_MAX:
        return ()
    links = tuple((act.row, at) for act, at in order if act.at is None)
    return (Proof(kind="order", rows=tuple(act.row for act, _ in order), links=links),)


def _most_telling(breaches: Sequence[Breach]) -> list[Breach]:
    """The first ones of each name; those of few operations before those of many."""
    met: Counter[str] = Counter()
    shown = []
    for breach in sorted(breaches, key=lambda b: len(b.acts)):
        met[breach.anomaly] += 1
        if met[breach.anomaly] <= _WITNESSES_OF_EACH:
            shown.append((met[breach.anomaly], breach))
    return [breach for _, breach in sorted(shown, key=lambda s: s[0])][:_WITNESSES_MAX]


def _proof(breach: Breach, store: Store) -> Proof | None:
    """The operations where they show it by themselves, else answers that leave no state; None if none are found.

    Raises RuntimeError where numbers that the operations tell should show it, and neither do.
    """
    if breach.anomaly in PROVEN and holds(breach.anomaly, breach.acts, store.dialect):
        rows = tuple(act.row for act in breach.acts)
        return Proof(kind="finding", key=breach.acts[-1].key, rows=rows, name=breach.anomaly)
    proof = window_of(store, breach.anomaly, breach.acts)
    if (
        proof is None
        and breach.anomaly in PROVEN
        and breach.acts[-1].made is not None
        and all(act.at is not None for act in breach.acts)
    ):
        raise RuntimeError(f"{store.dialect.name}: {breach.anomaly} was found, and its operations do not show it")
    return proof


def _witness(breach: Breach, proof: Proof) -> Witness:
    shown = [act.op for act in breach.acts]
    events = {op.invoke_index for op in shown} | {op.complete_index for op in shown if op.complete_index is not None}
    return Witness(
        anomaly=breach.anomaly,
        events=tuple(sorted(events)),
        steps=breach.steps,
        from_ns=min(op.invoked_ns for op in shown),
        to_ns=max(op.completed_ns if op.completed_ns is not None else op.invoked_ns for op in shown),
        key=breach.acts[-1].key,
        nodes=tuple(sorted({op.node for op in shown})),
        proof=proof,
    )


def wrong_proof(history: History, dialect: Dialect, proof: Proof) -> str | None:
    """What is wrong with a proof of a verdict that was kept; None: it holds.

    Whether reads ask for what the dialect's sign says is no matter of a history's: an order that holds for either will
    do, and a finding that does.
    """
    found = [
        _wrong(operations_as_acts(history.operations, dialect, signed=signed), dialect, proof)
        for signed in (False, True)
    ]
    return None if None in found else found[0]


def _wrong(acts: Sequence[Act], dialect: Dialect, proof: Proof) -> str | None:
    match proof.kind:
        case "order":
            return refusal(acts, dialect, order_of(acts, proof.rows, proof.links))
        case "finding" if proof.name in PROVEN:
            by_row = {act.row: act for act in acts}
            missing = [row for row in proof.rows if row not in by_row]
            if missing:
                return f"event {missing[0]} invokes nothing that could show it"
            shown = holds(proof.name, [by_row[row] for row in proof.rows], dialect)
            return None if shown else f"the rows do not show {proof.name}"
        case "window":
            since = -1 if proof.since is None else proof.since
            if refutes(Store(acts, dialect), proof.key, proof.rows, since):
                return None
            return "there are states that explain the answers"
    return f"no proof about a store is of the kind {proof.kind!r}"
