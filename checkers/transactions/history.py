"""Transactions in a run's history: operations `txn` whose value is a list of micro-operations, judged as they stand.

A micro-operation is [function, key, value]: `append` (lists) or `w` (registers) with what was written, `r` with what
was read, null before it was answered. Numbers stand for themselves; any other value is given a number of its own.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from fencepost.checkers.derived.evidence import row
from fencepost.checkers.derived.positions import is_ok
from fencepost.checkers.transactions.anomalies import (
    STRICT,
    TransactionVerdict,
    check_list_append,
    check_register,
)
from fencepost.checkers.transactions.columns import (
    FAIL,
    INFO,
    NEVER,
    NIL,
    OK,
    READ,
    READ_UNKNOWN,
    WRITE,
    TransactionColumns,
)
from fencepost.checkers.transactions.exhaustion import Exhaustion
from fencepost.checkers.transactions.findings import SHOWN_MAX
from fencepost.checkers.transactions.native import RULE, WrittenTwice
from fencepost.checkers.transactions.proof import CycleProof, NativeAnomaly
from fencepost.checkers.transactions.weak_isolation import CommitCircle
from fencepost.checkers.transactions.words import TransactionFinding
from fencepost.checkers.violations.finding import WITNESSES_MAX, one_of_each_first
from fencepost.checkers.violations.impossible import Micro, judges_answers, same_request, unanswered, unreadable
from fencepost.harness.base.errors import MalformedHistory
from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.verdict import Facts, Verdict, VerdictProof, Witness
from fencepost.harness.verdict.consistency_models import ruled_out, ruled_out_of_registers
from fencepost.harness.verdict.figures import Traced, tallies

EXPOSURE_OF: Final = "reads in ok transactions of what another transaction writes"
_OUTCOMES: Final = {Outcome.OK: OK, Outcome.FAIL: FAIL, Outcome.INFO: INFO}
_HINT: Final = "nothing of this history was judged; docs/explanation/transactions.md says what a transaction is"
#: Numbers from here downwards stand for values that are no integers.
_NAMED: Final = -(2**62)


def _reader(*, lists: bool) -> Callable[[Operation], None]:
    """Read a transaction, and compare what was done with what was asked for."""

    def read(op: Operation) -> None:
        if op.f == "txn":
            request = _micro_operations(unanswered(op), lists=lists)
            if is_ok(op):
                same_request(op, request, _micro_operations(op, lists=lists))

    return read


IMPOSSIBLE_IN_LISTS: Final = unreadable(_reader(lists=True))
IMPOSSIBLE_IN_WRITES: Final = unreadable(_reader(lists=False))


@judges_answers(IMPOSSIBLE_IN_LISTS)
def check_lists(history: History, facts: Facts) -> list[Verdict]:
    """Judge transactions that append to lists by the consistency model that the plan requires first.

    Raises:
        MalformedHistory: a micro-operation that means nothing; names the event.
    """
    operations = transactions_of(history.operations)
    columns = encode(operations, lists=True)
    return [verdict_of("list-append", operations, _judged(check_list_append, operations, columns, facts))]


@judges_answers(IMPOSSIBLE_IN_WRITES)
def check_registers(history: History, facts: Facts) -> list[Verdict]:
    """Judge transactions that write registers, as `check_lists` judges lists."""
    operations = transactions_of(history.operations)
    columns = encode(operations, lists=False)
    return [verdict_of("rw-register", operations, _judged(check_register, operations, columns, facts))]


def _judged(
    check: Callable[..., TransactionVerdict],
    operations: Sequence[Operation],
    columns: TransactionColumns,
    facts: Facts,
) -> TransactionVerdict:
    try:
        return check(columns, model=_model(facts))
    except WrittenTwice as error:
        first, second = (f"event {operations[row].invoke_index}" for row in error.rows)
        raise MalformedHistory(f"{second}: it writes {error.what}, as {first} does; {RULE}", hint=error.hint) from None


def _model(facts: Facts) -> str:
    """The consistency model that is asked for by name, or else the strongest."""
    return facts.required[0] if facts.required else STRICT


def transactions_of(operations: Sequence[Operation]) -> list[Operation]:
    """Return the operations that are transactions."""
    return [op for op in operations if op.f == "txn"]


def encode(operations: Sequence[Operation], *, lists: bool) -> TransactionColumns:
    """The columns of transactions, row i being operation i; places are indexes of events.

    Raises:
        MalformedHistory: a micro-operation that is not as the module says; names the event.
    """
    numbers, keys = _Numbers(), dict[Any, int]()
    first, start = [0], [0]
    kinds, places, values, elements = list[int](), list[int](), list[int](), list[int]()
    for op in operations:
        answered = op.type is Outcome.OK
        for write, key, value in _micro_operations(op, lists=lists):
            kinds.append(WRITE if write else READ if answered else READ_UNKNOWN)
            places.append(keys.setdefault(_plain(key), len(keys)))
            if not write and answered and lists:
                elements += (numbers.number(element) for element in value or ())
            values.append(numbers.number(value) if write or (answered and not lists) else 0)
            start.append(len(elements))
        first.append(len(kinds))

    def column(given: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array(given, dtype=np.int64)

    return TransactionColumns(
        process=column([op.process for op in operations]),
        outcome=column([_OUTCOMES[op.type] for op in operations]),
        invoked=column([op.invoke_index for op in operations]),
        completed=column([NEVER if op.complete_index is None else op.complete_index for op in operations]),
        first=column(first),
        kind=column(kinds),
        key=column(places),
        value=column(values),
        start=column(start),
        elements=column(elements),
        keys=tuple(keys),
        names=numbers.names,
    )


def _micro_operations(op: Operation, *, lists: bool) -> list[Micro]:
    given = op.result if op.type is Outcome.OK and op.result is not None else op.value
    if not isinstance(given, list):
        raise _malformed(op, "a list of micro-operations", given)
    micros: list[Micro] = []
    for micro in given:
        if not isinstance(micro, list) or len(micro) != 3:
            raise _malformed(op, "micro-operations [function, key, value]", micro)
        f, key, value = micro
        name = str(f).removeprefix(":")
        write = name == ("append" if lists else "w")
        if not write and name != "r":
            raise _malformed(op, f"{'append' if lists else 'w'} or r", name)
        if write and value is None:
            raise _malformed(op, "a value to write", value)
        if not write and lists and op.type is Outcome.OK and not isinstance(value, (list, type(None))):
            raise _malformed(op, "a list, or null for an empty one, from a read", value)
        micros.append((write, key, value))
    return micros


def _malformed(op: Operation, expected: str, given: object) -> MalformedHistory:
    return MalformedHistory(
        f"event {op.invoke_index}: in a transaction, expected {expected}, not {given!r}", hint=_HINT
    )


def _plain(value: Any) -> Any:
    """The value, or for a list or a mapping its text: something that can be looked up."""
    return value if value is None or isinstance(value, (str, int, float)) else repr(value)


class _Numbers:
    """Integers as they are, nothing as `NIL`, other values as numbers with a name."""

    def __init__(self) -> None:
        self.names: dict[int, object] = {}
        self._numbers: dict[tuple[str, Any], int] = {}

    def number(self, value: Any) -> int:
        if value is None:
            return NIL
        if type(value) is int and abs(value) < -_NAMED:
            return value
        known = (type(value).__name__, _plain(value))
        if known not in self._numbers:
            self._numbers[known] = _NAMED - len(self._numbers)
            self.names[self._numbers[known]] = value
        return self._numbers[known]


def verdict_of(checker: str, operations: Sequence[Operation], judged: TransactionVerdict) -> Verdict:
    """The verdict on transactions, row i of whose columns is operation i; only what a witness names is looked at."""
    shown = most_telling(judged.findings, judged.model, lists=checker == "list-append")
    counted = tallies(
        (finding.anomaly, row(operations[finding.transactions[0]]))
        for finding in judged.findings
        if judged.anomalies[finding.anomaly] <= SHOWN_MAX
    )
    rows = {name: number.rows for name, number in counted.items()}
    return Verdict(
        checker=checker,
        guarantee=judged.model,
        validity=judged.validity,
        reason=judged.reason,
        cause=judged.cause,
        exposure=Traced(judged.exposure),
        exposure_of=EXPOSURE_OF,
        rules=judged.rules,
        anomalies={name: Traced(count, rows.get(name, ())) for name, count in judged.anomalies.items()},
        witnesses=tuple(_witness(finding, operations) for finding in shown),
        figures=judged.figures,
        allowed=judged.allowed,
    )


def most_telling(findings: Sequence[TransactionFinding], model: str, *, lists: bool) -> list[TransactionFinding]:
    """One finding of each name before the second of any, and of those first the ones that rule out the model; a few."""
    rule = ruled_out if lists else ruled_out_of_registers
    telling_first = sorted(findings, key=lambda finding: model not in rule([finding.anomaly]))
    return one_of_each_first(telling_first)[:WITNESSES_MAX]


def _witness(finding: TransactionFinding, operations: Sequence[Operation]) -> Witness:
    shown = [operations[t] for t in finding.transactions]
    events = {op.invoke_index for op in shown} | {op.complete_index for op in shown if op.complete_index is not None}
    ends = [op.completed_ns for op in shown if op.completed_ns is not None]
    return Witness(
        anomaly=finding.anomaly,
        events=tuple(sorted(events)),
        steps=finding.steps,
        edges=finding.edges,
        from_ns=min(op.invoked_ns for op in shown),
        to_ns=max(ends, default=max(op.invoked_ns for op in shown)),
        nodes=tuple(sorted({op.node for op in shown})),
        proof=_proof(finding, operations),
    )


def _proof(finding: TransactionFinding, operations: Sequence[Operation]) -> VerdictProof:
    rows = tuple(operations[t].invoke_index for t in finding.transactions)
    proof = finding.proof
    match proof:
        case CycleProof():
            return VerdictProof(
                kind="cycle", rows=rows, name=proof.name, links=tuple(tuple(step) for step in proof.steps)
            )
        case CommitCircle():
            links: list[tuple[int | str, ...]] = []
            for weak in proof.steps:
                links.append((*weak.step, weak.read, len(weak.path)))
                links.extend((*step,) for step in weak.path)
            return VerdictProof(kind="circle", rows=rows, name=proof.name, links=tuple(links))
        case Exhaustion():
            return VerdictProof(kind="exhaustion", rows=rows, name=proof.name)
        case NativeAnomaly():
            return VerdictProof(kind="finding", rows=rows, name=proof.name, links=(tuple(proof[1:]),))
