"""From a history of a store with numbered writes to its verdict; what is valid has been carried out once more."""

from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Final

import msgspec

from fencepost.checkers.facts.answers import exposed
from fencepost.checkers.facts.evidence import rows
from fencepost.checkers.findings.finding import Finding, few_of_each, one_of_each_first
from fencepost.checkers.findings.ladder import ORDERED_MAX, Doubt, Findings
from fencepost.checkers.storage.kv.acts import Act, Dialect, Kind, by_key
from fencepost.checkers.storage.kv.breach import Breach, breach_of
from fencepost.checkers.storage.kv.deciding import decided, in_doubt, unsettled
from fencepost.checkers.storage.kv.facts import Store
from fencepost.checkers.storage.kv.order import Judged, judge
from fencepost.checkers.storage.kv.proving import all_hold, compares_of, refutes, window_of
from fencepost.checkers.storage.kv.reading import acts_of, operations_as_acts
from fencepost.checkers.storage.kv.refutation import PROVEN, holds
from fencepost.checkers.storage.kv.replay import order_of, refusal, unheld
from fencepost.checkers.storage.kv.rules import rules_of
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Cause, Facts, Proof, Validity, Verdict

EXPOSURE_OF: Final = "ok reads with another operation on their key before or behind them"
_WITNESSES_MAX: Final = 10


def judged(history: History, facts: Facts, dialect: Dialect) -> list[Verdict]:
    """Judge all operations on a store whose writes have numbers.

    Args:
        history: the operations that `dialect` names; others are not read.
        facts: the guarantee of the run's reads, and the plan's threshold of exposure.
        dialect: the store's words, and what it promises.

    Returns:
        One verdict: `invalid` with proven witnesses; `unknown` where it is open which writes of unknown outcome took
        effect, or nothing was exposed; `valid` with an order that was carried out.

    Raises:
        MalformedHistory: a reply that cannot be read; names the event.
        RuntimeError: a defect: an order that cannot be carried out, or an anomaly that its operations do not show.

    Cost: O(n log n), and a bounded search for writes of unknown outcome.
    """
    operations = [op for op in history.operations if op.f in dialect.functions]
    acts = acts_of(operations, dialect, facts)
    store = Store(acts, dialect)
    judgement = judge(acts, dialect)
    shown = _proven(judgement.breaches, store)
    if judgement.breaches and not any(proof for _, proof in shown):
        judgement = in_doubt(judgement)
    if not judgement.breaches and not judgement.doubts:
        judgement, shown = _settled(judgement, acts, store)
    if judgement.doubts and not judgement.breaches:
        judgement = decided(judgement, acts, store)
        shown = _proven(judgement.breaches, store)
    placed = [act for act, _ in judgement.order if act.done is None]
    proven = {breach.anomaly for breach, proof in shown if proof is not None}
    unproven = [breach for breach, proof in shown if proof is None]
    breaches = [breach for breach in judgement.breaches if breach.anomaly in proven and breach not in unproven]
    seen = _exposed(acts, dialect)
    answered = [act for act in acts if act.done is not None]
    keys: dict[str | None, Operation] = {}
    for act in by_key(acts):
        if act.kind is not Kind.SYNC:
            keys.setdefault(act.key, act.op)
    counted = {
        "keys": list(keys.values()),
        "operations": operations,
        "answers_judged": [act.op for act in answered],
        "info_operations": [op for op in operations if op.type is Outcome.INFO],
        "info_that_took_effect": [act.op for act in placed],
    }
    verdict = Findings(
        checker=dialect.name,
        guarantee=facts.read_guarantee,
        findings=[_finding(breach) for breach in breaches],
        broken=f"{len(breaches)} answers fit no order of the {dialect.number}s",
        doubt=_doubt(judgement.doubts, answered, dialect),
        exposed=rows(seen),
        exposure_of=EXPOSURE_OF,
        rules=rules_of(acts, dialect),
        shown=[_finding(breach, proof) for breach, proof in shown if proof is not None],
        counted={name: rows(own) for name, own in counted.items()},
    ).verdict(facts)
    if verdict.validity is not Validity.VALID:
        return [verdict]
    return [msgspec.structs.replace(verdict, proofs=_proofs(judgement.order))]


def _exposed(acts: Sequence[Act], dialect: Dialect) -> list[Operation]:
    """Return the reads that an ordered operation could contradict; a Txn counts as what it did to each of its keys."""
    by_name: dict[str | None, dict[int, tuple[Operation, set[Kind]]]] = {}
    for act in by_key(acts):
        kind = act.kind if act.head is not None else dialect.functions[act.op.f]
        by_name.setdefault(act.key, {}).setdefault(act.row, (act.op, set()))[1].add(kind)
    seen: dict[int, Operation] = {}
    for own in by_name.values():
        kinds = {row: did for row, (_, did) in own.items()}
        ops = [op for op, _ in own.values()]
        writes = partial(_did, kinds, {Kind.PUT, Kind.DELETE})
        seen |= {op.invoke_index: op for op in exposed(ops, writes, partial(_did, kinds, {Kind.READ}))}
    return list(seen.values())


def _did(kinds: dict[int, set[Kind]], wanted: set[Kind], op: Operation) -> bool:
    return bool(kinds[op.invoke_index] & wanted)


def _doubt(doubts: Sequence[str], answered: Sequence[Act], dialect: Dialect) -> Doubt | None:
    if not answered:
        return Doubt(Cause.NO_EXPOSURE, f"no {', '.join(dialect.functions)} was answered in this history")
    more = f"; and {len(doubts) - 1} more" if len(doubts) > 1 else ""
    return Doubt(Cause.UNDECIDED, f"{doubts[0]}{more}") if doubts else None


def _proofs(order: Sequence[tuple[Act, int]]) -> tuple[Proof, ...]:
    if len(order) > ORDERED_MAX:
        return ()
    links = tuple(
        (act.row, at) if act.txn is None else (act.row, at, int(act.txn.succeeded))
        for act, at in order
        if act.at is None
    )
    return (Proof(kind="order", rows=tuple(act.row for act, _ in order), links=links),)


def _most_telling(breaches: Sequence[Breach]) -> list[Breach]:
    """Return the first breaches of each name; those of few operations before those of many."""
    by_size = sorted(breaches, key=lambda b: len(b.acts))
    return one_of_each_first(few_of_each(by_size))[:_WITNESSES_MAX]


def _proven(breaches: Sequence[Breach], store: Store) -> list[tuple[Breach, Proof | None]]:
    return [(breach, _proof(breach, store)) for breach in _most_telling(breaches)]


def _settled(judgement: Judged, acts: Sequence[Act], store: Store) -> tuple[Judged, list[tuple[Breach, Proof | None]]]:
    """Carry out the order; what its transactions say of their compares may be wrong, or the order open."""
    tried = unsettled(judgement, acts, store)
    if not tried.doubts:
        return judgement, []
    if all(act.done is not None and act.at is not None and act.txn is None for act, _ in judgement.order):
        wrong = refusal(acts, store.dialect, judgement.order)
        raise RuntimeError(f"{store.dialect.name}: an order was found that cannot be: {wrong}")
    breaches = [_unheld(head) for head in unheld(acts, store.dialect, judgement.order) if head.done is not None]
    shown = _proven(breaches, store)
    if any(proof is not None for _, proof in shown):
        return msgspec.structs.replace(judgement, breaches=breaches), shown
    return tried, []


def _unheld(head: Act) -> Breach:
    held = head.txn is not None and head.txn.succeeded
    return breach_of("wrong-compare", (head,), f"It says that its compares {'held' if held else 'did not all hold'}.")


def _proof(breach: Breach, store: Store) -> Proof | None:
    """Return the operations as a proof if they show the breach by themselves, else answers that leave no state.

    None: no proof was found. Raises RuntimeError for a breach that the numbers of its operations should show.
    """
    if breach.anomaly == "wrong-compare":
        return compares_of(store, breach.acts[-1].whole)
    if breach.anomaly in PROVEN and holds(breach.anomaly, breach.acts, store):
        rows = tuple(act.row for act in breach.acts)
        return Proof(kind="finding", key=breach.acts[-1].key, rows=rows, name=breach.anomaly)
    proof = window_of(store, breach.anomaly, breach.acts)
    # Of two keys one transaction may have been meant, if not this one.
    first, last = breach.acts[0].key, breach.acts[-1].key
    if (
        proof is None
        and (first == last or not store.together(first, last))
        and breach.anomaly in PROVEN
        and breach.acts[-1].made is not None
        and all(act.at is not None for act in breach.acts)
    ):
        raise RuntimeError(f"{store.dialect.name}: {breach.anomaly} was found, and its operations do not show it")
    return proof


def _finding(breach: Breach, proof: Proof | None = None) -> Finding:
    return Finding(
        anomaly=breach.anomaly,
        operations=tuple(act.op for act in breach.acts),
        steps=breach.steps,
        key=breach.acts[-1].key,
        proof=proof,
    )


def wrong_proof(history: History, dialect: Dialect, proof: Proof) -> str | None:
    """Return what is wrong with a proof of a stored verdict; None: it holds.

    A history does not say whether its reads ask for what the dialect's sign says: a proof that holds for either is
    accepted.
    """
    objections = [
        _wrong(operations_as_acts(history.operations, dialect, signed=signed), dialect, proof)
        for signed in (False, True)
    ]
    return None if None in objections else objections[0]


def _wrong(acts: Sequence[Act], dialect: Dialect, proof: Proof) -> str | None:
    match proof.kind:
        case "order":
            return refusal(acts, dialect, order_of(acts, proof.rows, proof.links))
        case "finding" if proof.name in PROVEN:
            store = Store(acts, dialect)
            parts = [[act for act in (*acts, *by_key(acts)) if act.row == row] for row in proof.rows]
            if not all(parts):
                return f"event {proof.rows[parts.index([])]} invokes nothing that could show it"
            # Of a transaction any part may be meant.
            shown = any(holds(proof.name, chosen, store) for chosen in product(*parts))
            return None if shown else f"the rows do not show {proof.name}"
        case "compares":
            store = Store(acts, dialect)
            heads = [act for act in acts if act.row in proof.rows and act.txn is not None and act.done is not None]
            wrong = [head for head in heads if head.txn is not None and not head.txn.succeeded]
            return None if wrong and all(all_hold(store, head) for head in wrong) else "a compare may not have held"
        case "window":
            since = -1 if proof.since is None else proof.since
            if refutes(Store(acts, dialect), proof.key, proof.rows, since):
                return None
            return "there are states that explain the answers"
    return f"no proof about a store is of the kind {proof.kind!r}"
