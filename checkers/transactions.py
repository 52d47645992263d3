"""Judge transactions: which anomalies a history shows, why, and which consistency models that rules out.

Two kinds of histories: lists to which transactions append (`check_list_append`), whose reads show the order of
versions; and registers of which every write writes a value of its own (`check_register`), where that order is inferred
as far as is sound. The native core finds anomalies and shortest cycles, or an order of all transactions.

A verdict is confirmed before it is given. `valid` rests on an order that was carried out, transaction by transaction,
and returned what the history returned; `invalid` on findings that `checkers.transaction_proof` derived again from the
rows that they name. What fails that is a defect (`HarnessError`), never a verdict.

Transactions that failed never happened; one of unknown outcome happened if an ok transaction read what it wrote, and
may be left out else.

Sources: Adya, "Weak Consistency" (1999); Kingsbury & Alvaro, "Elle: Inferring Isolation Anomalies from Experimental
Observations" (VLDB 2020).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from checkers import _core
from checkers.consistency_models import NAMES, implied, ruled_out, weakest
from checkers.transaction_columns import INFO, NIL, OK, READ, TransactionColumns
from checkers.transaction_proof import Anomaly, Cycle, ListProof, RegisterProof, Step
from harness.errors import HarnessError, MalformedHistory, unknown_choice
from harness.verdict import Validity

STRICT: Final = "strict-serializable"
#: Steps that the search for shortest cycles may take; whether there is a cycle costs none of them.
STEPS: Final = 30_000_000
#: Findings of one name that are confirmed and told; the others are counted.
SHOWN_MAX: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One anomaly: the transactions in it and one sentence for each step of the argument.

    `shortest` is False for a cycle when the budget ended before it was certain that no shorter one exists.
    """

    anomaly: str
    transactions: tuple[int, ...]
    steps: tuple[str, ...]
    shortest: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionVerdict:
    """What a history of transactions shows.

    `anomalies` counts by name, `findings` tells some of each. `ruled_out` are the consistency models that the history
    does not keep, weakest first; `weakest` are those of them that no other of them is implied by. `order` proves
    `valid`: row numbers of transactions. `unfinished` are classes of cycles that the budget left unsearched.
    """

    validity: Validity
    model: str
    reason: str = ""
    anomalies: dict[str, int]
    findings: tuple[Finding, ...] = ()
    ruled_out: tuple[str, ...] = ()
    weakest: tuple[str, ...] = ()
    order: NDArray[np.uint32] | None = None
    unfinished: tuple[str, ...] = ()
    figures: dict[str, int]


def check_list_append(columns: TransactionColumns, *, model: str = STRICT, steps: int = STEPS) -> TransactionVerdict:
    """Judge lists to which transactions append values, each value to a key once.

    Raises:
        MalformedHistory: columns that mean nothing, a process with two open transactions, a value appended twice.

    Cost: O(n log n) in transactions, linear in micro-operations and elements read; past that, `steps`.
    """
    _known(model)
    report = _lists(columns, realtime=True, steps=steps)
    proof = ListProof(columns)
    order = report.order
    if order is None and _may_hold_without_realtime(report, model):
        order = _lists(columns, realtime=False, steps=0).order
    return _verdict(columns, model, report, proof, order, telling=_ListWords(columns))


def check_register(
    columns: TransactionColumns,
    *,
    model: str = STRICT,
    wfr_keys: bool = True,
    sequential_keys: bool = False,
    linearizable_keys: bool = True,
    steps: int = STEPS,
) -> TransactionVerdict:
    """Judge registers, each value written to a key once. The order of versions is inferred from:

    Args:
        wfr_keys: within one transaction, a version that it wrote follows the one that it read before.
        sequential_keys: versions follow each other as the transactions of one process met them.
        linearizable_keys: they follow each other as transactions met them of which one was completed before the other
            was invoked. Sound where each key is to be linearizable, as strict serializability demands.

    Nothing, the initial value, precedes every version. `unknown` when neither an anomaly nor an order was found:
    serializability of registers is hard (Papadimitriou 1979), and only one order is tried.

    Raises:
        MalformedHistory: columns that mean nothing, a process with two open transactions, a value written twice.
    """
    _known(model)
    inferred = {"wfr": wfr_keys, "sequential": sequential_keys, "linearizable": linearizable_keys}
    report = _registers(columns, realtime=True, steps=steps, **inferred)
    proof = RegisterProof(columns)
    order = report.order
    if order is None and _may_hold_without_realtime(report, model):
        order = _registers(columns, realtime=False, steps=0, **inferred).order
    return _verdict(columns, model, report, proof, order, telling=_RegisterWords(columns))


def _may_hold_without_realtime(report: _core.TransactionReport, model: str) -> bool:
    """Whether an order that need not keep real time would prove the model, and nothing that was found forbids one."""
    named = [found[0] for found in report.anomalies] + [found[0] for found in report.cycles]
    return model in implied("serializable") and "serializable" not in ruled_out(named)


def _known(model: str) -> None:
    if model not in NAMES:
        raise unknown_choice("consistency model", model, NAMES)


def _lists(columns: TransactionColumns, *, realtime: bool, steps: int) -> _core.TransactionReport:
    c = columns
    try:
        return _core.check_list_append(
            c.process,
            c.outcome,
            c.invoked,
            c.completed,
            c.first,
            c.kind,
            c.key,
            c.value,
            c.start,
            c.elements,
            realtime=realtime,
            steps=steps,
        )
    except ValueError as error:
        raise MalformedHistory(str(error)) from error
    except RuntimeError as error:
        raise HarnessError(f"the native checker of transactions: {error}") from error


def _registers(
    columns: TransactionColumns, *, realtime: bool, steps: int, wfr: bool, sequential: bool, linearizable: bool
) -> _core.TransactionReport:
    c = columns
    try:
        return _core.check_rw_register(
            c.process,
            c.outcome,
            c.invoked,
            c.completed,
            c.first,
            c.kind,
            c.key,
            c.value,
            realtime=realtime,
            wfr=wfr,
            sequential=sequential,
            linearizable=linearizable,
            steps=steps,
        )
    except ValueError as error:
        raise MalformedHistory(str(error)) from error
    except RuntimeError as error:
        raise HarnessError(f"the native checker of transactions: {error}") from error


def _findings(report: _core.TransactionReport) -> tuple[list[Anomaly], list[Cycle]]:
    anomalies = [Anomaly(*found) for found in report.anomalies]
    cycles = [Cycle(name, shortest, tuple(Step(*step) for step in steps)) for name, shortest, steps in report.cycles]
    return anomalies, cycles


def _verdict(
    columns: TransactionColumns,
    model: str,
    report: _core.TransactionReport,
    proof: ListProof | RegisterProof,
    order: NDArray[np.uint32] | None,
    telling: "_Words",
) -> TransactionVerdict:
    anomalies, cycles = _findings(report)
    told: list[Finding] = []
    counts = Counter(found.name for found in anomalies)
    shown: Counter[str] = Counter()
    for found in anomalies:
        shown[found.name] += 1
        if shown[found.name] <= SHOWN_MAX:
            if not proof.anomaly(found):
                raise HarnessError(f"a finding of the native checker of transactions is not confirmed: {found}")
            told.append(telling.anomaly(found))
    for cycle in cycles:
        if not proof.cycle(cycle):
            raise HarnessError(f"a cycle of the native checker of transactions is not confirmed: {cycle}")
        counts[cycle.name] += 1
        told.append(telling.cycle(cycle))
    out = ruled_out(counts)
    figures = {
        "transactions": len(columns),
        "micro_operations": len(columns.kind),
        "info_transactions": int(np.count_nonzero(columns.outcome == INFO)),
        "edges": report.edges,
        "components": report.components,
        "largest_component": report.largest,
        "steps": report.steps,
    }
    validity, reason = _conclude(
        columns,
        model,
        out,
        counts,
        order,
        proves_realtime=report.order is not None,
        unfinished=bool(report.unfinished),
    )
    return TransactionVerdict(
        validity=validity,
        model=model,
        reason=reason,
        anomalies=dict(counts),
        findings=tuple(told),
        ruled_out=out,
        weakest=weakest(out),
        order=order if validity is Validity.VALID else None,
        unfinished=tuple(report.unfinished),
        figures=figures,
    )


def _conclude(
    columns: TransactionColumns,
    model: str,
    out: Sequence[str],
    counts: Counter[str],
    order: NDArray[np.uint32] | None,
    *,
    proves_realtime: bool,
    unfinished: bool,
) -> tuple[Validity, str]:
    if model in out:
        return Validity.INVALID, f"{model} is ruled out by {', '.join(counts)}"
    if not np.any((columns.kind == READ) & np.repeat(columns.outcome == OK, np.diff(columns.first))):
        return Validity.UNKNOWN, "no ok transaction read anything: there is nothing to judge"
    if order is not None and model in implied(STRICT if proves_realtime else "serializable"):
        return Validity.VALID, ""
    if counts:
        found = f"{', '.join(counts)} do not rule out {model}"
        return Validity.UNKNOWN, f"{found}, and no order of the transactions proves it"
    if unfinished:
        return Validity.UNKNOWN, "there are cycles; the budget ended before any of them was found"
    return Validity.UNKNOWN, "no anomaly was found, and no order of the transactions that explains what they returned"


class _Words:
    """Findings in words; transactions are named by their rows, T0 being the first."""

    def __init__(self, columns: TransactionColumns) -> None:
        self._columns = columns

    def anomaly(self, found: Anomaly) -> Finding:
        rows = dict.fromkeys(t for t in (found.transaction, found.other) if t >= 0)
        return Finding(anomaly=found.name, transactions=tuple(rows), steps=(self._sentence(found),))

    def cycle(self, cycle: Cycle) -> Finding:
        if cycle.name == "cyclic-versions":
            rows = dict.fromkeys(t for step in cycle.steps for t in (step.before, step.after) if t >= 0)
            told = [f"{self._version(step)}: {self._why(step)}" for step in cycle.steps]
        else:
            rows = dict.fromkeys(step.before for step in cycle.steps)
            told = [f"T{step.before} < T{step.after} ({step.kind}): {self._because(step)}" for step in cycle.steps]
        last = "each would have to come before the next, and the last before the first"
        return Finding(anomaly=cycle.name, transactions=tuple(rows), steps=(*told, last), shortest=cycle.shortest)

    def _key(self, op: int) -> str:
        return f"key {self._key_name(int(self._columns.key[op]))}"

    def _key_name(self, key: int) -> object:
        return self._columns.keys[key] if key < len(self._columns.keys) else key

    def _name(self, value: int) -> object:
        return "nothing" if value == NIL else self._columns.names.get(value, value)

    def _value(self, op: int) -> object:
        return self._name(int(self._columns.value[op]))

    def _owner(self, op: int) -> int:
        return int(np.searchsorted(self._columns.first, op, side="right")) - 1

    def _because(self, step: Step) -> str:
        if step.kind == "realtime":
            return f"T{step.before} was completed before T{step.after} was invoked"
        if step.kind == "process":
            process = int(self._columns.process[step.before])
            return f"process {process} was done with T{step.before} before it began T{step.after}"
        return self._dependency(step)

    def _dependency(self, step: Step) -> str:
        raise NotImplementedError

    def _sentence(self, found: Anomaly) -> str:
        raise NotImplementedError

    def _version(self, step: Step) -> str:
        raise NotImplementedError

    def _why(self, step: Step) -> str:
        raise NotImplementedError


class _ListWords(_Words):
    def _list(self, op: int) -> str:
        c = self._columns
        seen = [str(self._name(value)) for value in c.elements[int(c.start[op]) : int(c.start[op + 1])].tolist()]
        return f"[{' '.join(seen if len(seen) <= 8 else ['...', *seen[-7:]])}]"

    def _dependency(self, step: Step) -> str:
        a, b, key = step.before_op, step.after_op, self._key(step.before_op)
        match step.kind:
            case "wr":
                return f"T{step.after} read {self._value(a)} from {key}, which T{step.before} had appended"
            case "rw":
                return (
                    f"T{step.before} read {self._list(a)} from {key}, without {self._value(b)}, which T{step.after} "
                    "appended: it did so later"
                )
        seen = self._list(step.shown)
        return (
            f"T{step.after} appended {self._value(b)} to {key} after T{step.before} had appended {self._value(a)}, as "
            f"T{self._owner(step.shown)} shows, which read {seen}"
        )

    def _sentence(self, found: Anomaly) -> str:
        t, other, key = f"T{found.transaction}", f"T{found.other}", f"key {self._key_name(found.key)}"
        value = self._name(found.value)
        match found.name:
            case "garbage-read":
                return f"{t} read {value} from {key}, which no transaction appended"
            case "duplicate-elements":
                return f"{t} read {value} from {key} more than once: {self._list(found.op)}"
            case "G1a":
                return f"{t} read {value} from {key}, which {other} appended, and {other} failed"
            case "G1b":
                return f"{t} read {key} up to {value}, amid the appends of {other}, which appended more to it"
            case "dirty-update":
                return f"{t} appended {self._value(found.op)} to {key} behind {value} of {other}, and {other} failed"
            case "internal":
                return f"{t} read {self._list(found.op)} from {key}, against what it had read and appended before"
            case "future-read":
                return f"{t} read {value} from {key} before it appended that itself"
            case "incompatible-order":
                lists = f"{self._list(found.op)}, {other} read {self._list(found.than)}"
                return f"{t} read from {key} {lists}: neither is the beginning of the other"
        return f"{t} and {other} both read {self._list(found.op)} from {key}, and both appended to it"


class _RegisterWords(_Words):
    def _dependency(self, step: Step) -> str:
        a, b, key = step.before_op, step.after_op, self._key(step.before_op)
        match step.kind:
            case "wr":
                return f"T{step.after} read {self._value(a)} from {key}, which T{step.before} had written"
            case "rw":
                return (
                    f"T{step.before} read {self._value(a)} from {key}, which T{step.after} overwrote with "
                    f"{self._value(b)}: {self._why(step)}"
                )
        return (
            f"T{step.after} wrote {self._value(b)} to {key} after T{step.before} had written {self._value(a)}: "
            f"{self._why(step)}"
        )

    def _version(self, step: Step) -> str:
        return f"{self._key(step.before_op)}: {self._value(step.before_op)} before {self._value(step.after_op)}"

    def _why(self, step: Step) -> str:
        if step.shown < 0:
            return "nothing was there before every value"
        s, t = self._owner(step.shown), self._owner(step.shown_too)
        if s == t:
            return f"T{s} read the one and then wrote the other"
        return f"T{s} met the one, and was completed before T{t} was invoked, which met the other"

    def _sentence(self, found: Anomaly) -> str:
        t, other, key = f"T{found.transaction}", f"T{found.other}", f"key {self._key_name(found.key)}"
        value = self._name(found.value)
        match found.name:
            case "garbage-read":
                return f"{t} read {value} from {key}, which no transaction wrote"
            case "G1a":
                return f"{t} read {value} from {key}, which {other} wrote, and {other} failed"
            case "G1b":
                return f"{t} read {value} from {key}, which {other} wrote and overwrote itself"
            case "dirty-update":
                return f"{t} wrote to {key} after it read {value} of {other}, and {other} failed"
            case "internal":
                return f"{t} read {value} from {key}, against what it had read or written before"
            case "future-read":
                return f"{t} read {value} from {key} before it wrote that itself"
        return f"{t} and {other} both read {value} from {key}, and both wrote to it"
