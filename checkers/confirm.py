"""Check a kept verdict against the history alone: `confirm(history, document)`.

The document is that of `verdict.json`, or what `fencepost check --json` prints; one of its verdicts will do too. Every
proof in it is checked by rules that share nothing with the search that found it. An order is carried out step by step.
For a window the plain search of `checkers.storage.register_proofs` looks for an order. A cycle, and any other finding
about transactions, is derived again from the rows that it names. For a few operations on another object
`checkers.objects.sub_history` looks for an order. Verdicts of other checkers have no such proof; their numbers name the
rows that they rest on.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fencepost.checkers.derived.evidence import grouped
from fencepost.checkers.derived.positions import is_ok
from fencepost.checkers.objects.collections import Set
from fencepost.checkers.objects.kind import Kind
from fencepost.checkers.objects.models import MODELS, model_of
from fencepost.checkers.objects.sub_history import KeyRows, objection
from fencepost.checkers.storage.register_anomalies import CAS_REGISTER, Columns, encode
from fencepost.checkers.storage.register_proofs import NEVER, ProofRow, explains, refuted
from fencepost.checkers.storage.registers import IMPOSSIBLE as IMPOSSIBLE_IN_REGISTERS
from fencepost.checkers.transactions.exhaustion import Exhaustion, is_exhausted
from fencepost.checkers.transactions.history import IMPOSSIBLE_IN_LISTS, IMPOSSIBLE_IN_WRITES, transactions_of
from fencepost.checkers.transactions.history import encode as encode_transactions
from fencepost.checkers.transactions.proof import CycleProof, CycleStep, ListProof, NativeAnomaly, RegisterProof
from fencepost.checkers.transactions.weak_isolation import CommitCircle, CommitStep, is_circle
from fencepost.checkers.violations.impossible import PROOF as ANSWER
from fencepost.checkers.violations.impossible import Impossible, impossible_answers, nothing_impossible, set_aside
from fencepost.harness.base.errors import UsageError
from fencepost.harness.history import History, Operation
from fencepost.harness.verdict import Validity, VerdictProof

_REGISTERS: Final = "linearizable"
_TRANSACTIONS: Final = ("list-append", "rw-register")
#: By checker: the answers that no correct object can give.
_IMPOSSIBLE: Final[dict[str, Impossible]] = {
    "linearizable": IMPOSSIBLE_IN_REGISTERS,
    "list-append": IMPOSSIBLE_IN_LISTS,
    "rw-register": IMPOSSIBLE_IN_WRITES,
}


def _object(checker: str) -> Kind | None:
    """The model of this name; a semaphore's proofs alone say how many permits it has."""
    if checker not in MODELS:
        return None
    return model_of("semaphore:1" if checker == "semaphore" else checker)


class _Kept(msgspec.Struct, frozen=True):
    """What is read of a verdict."""

    checker: str
    validity: Validity
    witnesses: tuple["_KeptWitness", ...] = ()
    proofs: tuple[VerdictProof, ...] = ()


class _KeptWitness(msgspec.Struct, frozen=True):
    anomaly: str
    proof: VerdictProof | None = None


class ProofFails(UsageError):
    """A stored verdict that its history contradicts; names the verdict, the proof and what is wrong with it."""


class _Window(msgspec.Struct, frozen=True, kw_only=True):
    """A window by the row numbers of one key's operations (`checkers.storage.register_proofs._Window`)."""

    since: int | None
    until: int
    must: tuple[int, ...]
    may: tuple[int, ...]
    shown: tuple[tuple[int, int], ...]


def confirm(history: History, document: Mapping[str, Any]) -> int:
    """Check every proof of a verdict, or of all verdicts of a document.

    Args:
        history: what was judged.
        document: the verdict, or what has "verdicts".

    Returns:
        The number of proofs, all of which hold.

    Raises:
        ProofFails: a proof that does not hold, or an `invalid` without one from a checker that proves its anomalies.
        UsageError: the document is no verdict.
    """
    given = document.get("verdicts", [document])
    try:
        verdicts = msgspec.convert(given, list[_Kept])
    except msgspec.ValidationError as error:
        raise UsageError(f"the verdict cannot be read: {error}") from None
    return sum(_confirmed(history, verdict) for verdict in verdicts)


def _confirmed(history: History, verdict: _Kept) -> int:
    proofs = (*verdict.proofs, *(w.proof for w in verdict.witnesses if w.proof is not None))
    if not proofs and verdict.validity is not Validity.INVALID:
        return 0
    kind, operations = _object(verdict.checker), history.operations
    own = operations if kind is None else [op for op in operations if op.f in kind.functions]
    impossible = _IMPOSSIBLE.get(verdict.checker, nothing_impossible) if kind is None else kind.impossible
    strange = impossible_answers(impossible, own)
    if not strange:
        return _confirmed_rest(history, verdict, proofs)
    if verdict.validity is not Validity.INVALID:
        raise ProofFails(f"{verdict.checker}: the operation of event {min(strange)} has an impossible answer")
    answers = [proof for proof in proofs if proof.kind == ANSWER]
    if wrong := {row for proof in answers for row in proof.rows} - strange.keys():
        raise ProofFails(f"{verdict.checker}: the answer to the operation of event {min(wrong)} is possible")
    rest = tuple(proof for proof in proofs if proof.kind != ANSWER)
    aside = history.with_operations(set_aside(operations, strange))
    return len(answers) + (_confirmed_rest(aside, verdict, rest) if rest or not answers else 0)


def _confirmed_rest(history: History, verdict: _Kept, proofs: Sequence[VerdictProof]) -> int:
    if verdict.checker == _REGISTERS:
        rows = _Registers(encode(history.operations, CAS_REGISTER))
        check: Callable[[VerdictProof], str | None] = rows.wrong
        if verdict.validity is Validity.INVALID and all(proof.kind == "order" for proof in proofs):
            raise ProofFails(f"{verdict.checker}: invalid without a proof")
        if verdict.validity is Validity.VALID and rows.keys != {p.key for p in proofs}:
            raise ProofFails(f"{verdict.checker}: valid with orders of some keys only")
    elif verdict.checker in _TRANSACTIONS:
        check = _Transactions(history.operations, lists=verdict.checker == "list-append").wrong
        if verdict.validity is Validity.INVALID and not proofs:
            raise ProofFails(f"{verdict.checker}: invalid without a proof")
    elif (kind := _object(verdict.checker)) is not None:
        objects = _Objects(history.operations, verdict.checker, kind)
        check = objects.wrong
        if verdict.validity is Validity.INVALID and all(proof.kind == "order" for proof in proofs):
            raise ProofFails(f"{verdict.checker}: invalid without a proof")
        if verdict.validity is Validity.VALID and (key := objects.unexplained(proofs)) is not None:
            raise ProofFails(f"{verdict.checker}: valid with orders of some objects only, not of {key[0]}")
    else:
        return 0
    for proof in proofs:
        if (wrong := check(proof)) is not None:
            of = "" if proof.key is None else f" of {proof.key}"
            raise ProofFails(f"{verdict.checker}: the {proof.kind}{of} does not hold: {wrong}")
    return len(proofs)


class _Registers:
    """The operations of each key as rows."""

    def __init__(self, columns: Columns) -> None:
        self._rows: dict[str | None, list[ProofRow]] = {key: [] for key in columns.keys}
        self._place: dict[str | None, dict[int, int]] = {key: {} for key in columns.keys}
        numbers = zip(
            columns.key.tolist(),
            columns.f.tolist(),
            columns.a.tolist(),
            columns.b.tolist(),
            columns.invoked.tolist(),
            columns.returned.tolist(),
            strict=True,
        )
        for key, f, a, b, invoked, returned in numbers:
            rows = self._rows[columns.keys[key]]
            self._place[columns.keys[key]][invoked] = len(rows)
            rows.append(ProofRow(f, a, b, invoked, NEVER if returned < 0 else returned))

    @property
    def keys(self) -> set[str | None]:
        return set(self._rows)

    def wrong(self, proof: VerdictProof) -> str | None:
        rows, place = self._rows.get(proof.key), self._place.get(proof.key, {})
        if rows is None:
            return "the history has no such key"
        named = {*proof.rows, *proof.may, *(row for pair in proof.shown for row in pair)}
        missing = sorted(row for row in named if row not in place)
        if missing:
            return f"event {missing[0]} invokes no operation on it that may have taken effect"
        match proof.kind:
            case "order":
                holds = explains(rows, [place[row] for row in proof.rows])
                return None if holds else "the operations cannot have happened in this order"
            case "window" | "zone-pair" if proof.until is not None:
                window = _Window(
                    since=proof.since,
                    until=proof.until,
                    must=tuple(place[row] for row in proof.rows),
                    may=tuple(place[row] for row in proof.may),
                    shown=tuple((place[row], place[by]) for row, by in proof.shown),
                )
                return refuted(rows, window)
        return f"no proof about registers is of the kind {proof.kind!r}"


class _Objects:
    """The operations of each key, for the models of objects."""

    def __init__(self, operations: Sequence[Operation], checker: str, kind: Kind) -> None:
        self._checker = checker
        self._keys = grouped((o for o in operations if o.f in kind.functions), lambda o: o.key)

    def wrong(self, proof: VerdictProof) -> str | None:
        if proof.key not in self._keys:
            return "the history has no such key"
        if proof.name.partition(":")[0] != self._checker:
            return f"it is about another object, {proof.name!r}"
        wrong = objection(self._keys[proof.key], proof)
        return None if wrong is None else wrong.reason

    def unexplained(self, proofs: Sequence[VerdictProof]) -> tuple[str | None] | None:
        """A key without orders that explain all of it: one, or one for each of a set's elements if nobody reads all."""
        explained: dict[str | None, set[tuple[str, ...] | None]] = {}
        for proof in proofs:
            explained.setdefault(proof.key, set()).add(proof.about)
        for key, operations in self._keys.items():
            abouts = explained.get(key, set())
            apart = self._checker == Set.name and not any(op.f == "members" and is_ok(op) for op in operations)
            if None in abouts:
                continue
            own = KeyRows(operations, self._checker, None) if apart else None
            if own is None or any((part,) not in abouts for op in own.operations for part in own.parts(op)):
                return (key,)
        return None


class _Transactions:
    """The transactions, asked by the rules of `checkers.transactions.proof`."""

    def __init__(self, operations: Sequence[Operation], *, lists: bool) -> None:
        self._transactions = transactions_of(operations)
        self._lists = lists
        self._columns = columns = encode_transactions(self._transactions, lists=lists)
        self._rules = ListProof(columns) if lists else RegisterProof(columns)

    def wrong(self, proof: VerdictProof) -> str | None:
        try:
            match proof.kind:
                case "cycle":
                    steps = tuple(msgspec.convert(link, CycleStep) for link in proof.links)
                    holds = self._rules.cycle(CycleProof(proof.name, True, steps))
                case "circle":
                    holds = is_circle(self._rules, CommitCircle(proof.name, _circle(proof.links)))
                case "exhaustion":
                    at = {op.invoke_index: row for row, op in enumerate(self._transactions)}
                    claim = Exhaustion(proof.name, tuple(at.get(row, -1) for row in proof.rows))
                    holds = is_exhausted(self._columns, claim, lists=self._lists)
                case "finding":
                    (link,) = proof.links
                    holds = self._rules.anomaly(msgspec.convert((proof.name, *link), NativeAnomaly))
                case _:
                    return f"no proof about transactions is of the kind {proof.kind!r}"
        except (ValueError, IndexError) as error:
            return f"its links cannot be read: {error}"
        return None if holds else f"the rows do not show {proof.name}"


def _circle(links: Sequence[Sequence[int | str]]) -> tuple[CommitStep, ...]:
    """The steps of a circle of commits; each says behind it how many links of its path follow."""
    steps: list[CommitStep] = []
    rest = iter(links)
    for *step, read, length in rest:
        path = tuple(msgspec.convert(next(rest, ()), CycleStep) for _ in range(int(length)))
        steps.append(msgspec.convert((step, read, path), CommitStep))
    return tuple(steps)
