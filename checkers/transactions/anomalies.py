"""Judge transactions: which anomalies a history shows, why, and which consistency models that rules out.

Two kinds of histories: lists to which transactions append (`check_list_append`), whose reads show the order of
versions; and registers of which every write writes a value of its own (`check_register`), where that order is inferred
as far as is sound. The native core finds anomalies and shortest cycles, or an order of all transactions.

A verdict is about one consistency model, and confirmed before it is given. `invalid` rests on findings that
`checkers.transactions.proof` and `checkers.transactions.weak_isolation` derived again from the rows that they name;
`valid` on an order that was carried out and returned what the history returned: a serial order, a schedule of starts
and commits, or an order of commits, as the model demands. What fails that is a defect (`HarnessError`), never a
verdict.

Transactions that failed never happened; one of unknown outcome happened if an ok transaction read what it wrote, and
may be left out else.

Sources: Adya, "Weak Consistency" (1999); Kingsbury & Alvaro, "Elle: Inferring Isolation Anomalies from Experimental
Observations" (VLDB 2020); those of `harness.verdict.consistency_models` and `checkers.transactions.weak_isolation`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fencepost.checkers import _core
from fencepost.checkers.findings.ladder import Conclusion, Doubt, conclude
from fencepost.checkers.transactions import weak_isolation
from fencepost.checkers.transactions.columns import INFO, NIL, OK, READ, WRITE, TransactionColumns
from fencepost.checkers.transactions.proof import Anomaly, Cycle, ListProof, RegisterProof, Step
from fencepost.harness.base.errors import HarnessError, MalformedHistory, unknown_choice
from fencepost.harness.verdict import Cause, Edge, EdgeKind, Validity
from fencepost.harness.verdict.consistency_models import NAMES, implied, ruled_out, ruled_out_of_registers, weakest

STRICT: Final = "strict-serializable"
NOTHING_READ: Final = "no ok transaction read anything: there is nothing to judge"
#: Steps that the search for shortest cycles may take; whether there is a cycle costs none of them.
STEPS: Final = 30_000_000
#: Findings of one name that are confirmed and told; the others are counted.
SHOWN_MAX: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One anomaly: the transactions in it and one sentence for each step of the argument.

    `edges` are the steps of a cycle of transactions or versions. `shortest` is False for a cycle when the budget ended
    before it was certain that no shorter one exists. `proof` is what was confirmed.
    """

    anomaly: str
    transactions: tuple[int, ...]
    steps: tuple[str, ...]
    edges: tuple[Edge, ...] = ()
    shortest: bool = True
    proof: Anomaly | Cycle | weak_isolation.CommitCircle


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionVerdict:
    """What a history of transactions shows.

    `anomalies` counts by name, `findings` tells some of each; `allowed` are those of them that do not rule out the
    model that was asked for. `ruled_out` are the consistency models that the history does not keep, weakest first;
    `weakest` are those of them that no other of them is implied by. `order` proves `valid`: rows of transactions.
    `unfinished` are classes of cycles that the budget left unsearched, but for those that rule out no further model.
    """

    validity: Validity
    model: str
    reason: str = ""
    cause: Cause | None = None
    anomalies: dict[str, int]
    allowed: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    ruled_out: tuple[str, ...] = ()
    weakest: tuple[str, ...] = ()
    order: NDArray[np.uint32] | None = None
    certificate: str = ""
    unfinished: tuple[str, ...] = ()
    figures: dict[str, int]


class _Certificate(NamedTuple):
    """What shows a model, and with it all that the model implies."""

    model: str
    words: str
    order: NDArray[np.uint32]


#: Serial orders by the model that they show, weakest first: whether sessions, whether real time is kept; in words.
_SERIAL: Final = {
    "serializable": (False, False, "a serial order"),
    "strong-session-serializable": (True, False, "a serial order that keeps the order of each process"),
    STRICT: (False, True, "a serial order that keeps real time"),
}
_SCHEDULES: Final = {
    "snapshot-isolation": "a schedule of starts and commits",
    "strong-session-snapshot-isolation": "a schedule of starts and commits that keeps the order of each process",
    "strong-snapshot-isolation": "a schedule of starts and commits that keeps real time",
}


def check_list_append(columns: TransactionColumns, *, model: str = STRICT, steps: int = STEPS) -> TransactionVerdict:
    """Judge lists to which transactions append values, each value to a key once.

    Raises:
        MalformedHistory: columns that mean nothing, a process with two open transactions, a value appended twice.

    Cost: O(n log n) in transactions, linear in micro-operations and elements read; past that, `steps`. For a model that
    `checkers.transactions.weak_isolation` decides, what that costs besides.
    """
    _known(model)
    report = _lists(columns, sessions=False, realtime=True, steps=steps)
    findings = _Findings(columns, ListProof(columns), _ListWords(columns), ruled_out)
    findings.take(*_found(report))
    return _verdict(columns, model, report, findings, lambda **kept: _lists(columns, steps=0, **kept), lists=True)


def check_register(
    columns: TransactionColumns,
    *,
    model: str = STRICT,
    wfr_keys: bool = True,
    sequential_keys: bool | None = None,
    linearizable_keys: bool | None = None,
    steps: int = STEPS,
) -> TransactionVerdict:
    """Judge registers, each value written to a key once. The order of versions is inferred from:

    Args:
        wfr_keys: within one transaction, a version that it wrote follows the one that it read before; as read committed
            demands.
        sequential_keys: versions follow each other as the transactions of one process met them. By default where the
            model demands it, strong session snapshot isolation or what implies that; a finding that rests on it then
            ends in `-process`, and rules out such models only. True: the caller vouches for it under any model.
        linearizable_keys: they follow each other as transactions met them of which one was completed before the other
            was invoked. Likewise, with strong snapshot isolation and `-realtime`.

    Nothing, the initial value, precedes every version. `unknown` when neither an anomaly nor an order was found:
    serializability of registers is hard (Papadimitriou 1979), and orders are tried within bounds.

    Raises:
        MalformedHistory: columns that mean nothing, a process with two open transactions, a value written twice.
    """
    _known(model)
    vouched = {"wfr": wfr_keys, "sequential": bool(sequential_keys), "linearizable": bool(linearizable_keys)}
    inferred = dict(vouched)
    if sequential_keys is None:
        inferred["sequential"] = "strong-session-snapshot-isolation" in implied(model)
    if linearizable_keys is None:
        inferred["linearizable"] = "strong-snapshot-isolation" in implied(model)
    findings = _Findings(columns, RegisterProof(columns), _RegisterWords(columns), ruled_out_of_registers)
    last = inferred == vouched
    # Where real time need not be kept, an order that keeps it is looked for at length only after others.
    thorough = last and "strong-snapshot-isolation" in implied(model)
    report = _registers(columns, sessions=False, realtime=True, steps=steps, thorough=thorough, **vouched)
    findings.take(*_found(report))
    if not last and report.order is None:
        # What was inferred from the model itself counts against such models alone.
        base, suffix = (
            ("strong-snapshot-isolation", "-realtime")
            if inferred["linearizable"]
            else ("strong-session-snapshot-isolation", "-process")
        )
        if base not in findings.ruled_out():
            report = _registers(columns, sessions=False, realtime=True, steps=steps, **inferred)
            findings.take([], _found(report)[1], suffix)

    def ask(*, sessions: bool, realtime: bool) -> _core.TransactionReport:
        kept = vouched | ({"sequential": True} if sessions else {}) | ({"linearizable": True} if realtime else {})
        return _registers(columns, sessions=sessions, realtime=realtime, steps=0, **kept)

    return _verdict(columns, model, report, findings, ask, lists=False)


class _Ask(Protocol):
    """The native report of one kind of serial order."""

    def __call__(self, *, sessions: bool, realtime: bool) -> _core.TransactionReport: ...


def _verdict(
    columns: TransactionColumns,
    model: str,
    report: _core.TransactionReport,
    findings: "_Findings",
    ask: _Ask,
    *,
    lists: bool,
) -> TransactionVerdict:
    found: _Certificate | None = None
    if report.order is not None:
        found = _Certificate(STRICT, _SERIAL[STRICT][2], report.order)
    elif model not in findings.ruled_out() and _anything_read(columns):
        found = _certify(columns, model, findings, ask, lists=lists)
    out = findings.ruled_out()
    validity, reason, cause = _conclude(columns, model, out, findings, found, unfinished=bool(report.unfinished))
    proven = found if validity is Validity.VALID else None
    return TransactionVerdict(
        validity=validity,
        model=model,
        reason=reason,
        cause=cause,
        anomalies=dict(findings.counts),
        allowed=tuple(name for name in findings.counts if name not in findings.against(model)),
        findings=tuple(findings.told),
        ruled_out=out,
        weakest=weakest(out),
        order=proven.order if proven else None,
        certificate=proven.words if proven else "",
        unfinished=tuple(report.unfinished),
        figures={
            "transactions": len(columns),
            "micro_operations": len(columns.kind),
            "info_transactions": int(np.count_nonzero(columns.outcome == INFO)),
            "edges": report.edges,
            "components": report.components,
            "largest_component": report.largest,
            "steps": report.steps,
        },
    )


def _certify(
    columns: TransactionColumns, model: str, findings: "_Findings", ask: _Ask, *, lists: bool
) -> _Certificate | None:
    """Look for an order that shows a model which nothing rules out so far; what forbids one becomes a finding."""
    if model in weak_isolation.COMMITS:
        return _commits(columns, model, findings, lists=lists)
    # What shows a stronger model is looked for where the weakest that shows this one is.
    name = next((name for name in _SCHEDULES if model in implied(name)), None)
    if name and name not in findings.ruled_out():
        order = weak_isolation.schedule(columns, name, lists=lists)
        if order is not None:
            return _Certificate(name, _SCHEDULES[name], order)
    # Only without any finding is there a serial order; that with real time was looked for before.
    name = next(name for name in _SERIAL if model in implied(name))
    if name != STRICT and name not in findings.ruled_out():
        sessions, realtime, words = _SERIAL[name]
        order = ask(sessions=sessions, realtime=realtime).order
        if order is not None:
            return _Certificate(name, words, order)
    needed = [name for name in weak_isolation.COMMITS if name in implied(model)]
    return _commits(columns, needed[-1], findings, lists=lists, steps=weak_isolation.REFUTING_STEPS) if needed else None


def _commits(
    columns: TransactionColumns,
    model: str,
    findings: "_Findings",
    *,
    lists: bool,
    steps: int = weak_isolation.STEPS,
) -> _Certificate | None:
    if findings.misses_own:
        return None
    if model == "causal-cerone":
        # Processes are the few chains that cover all transactions; without their order it takes many more, and longer.
        found = weak_isolation.commits(columns, "causal", lists=lists, steps=steps)
        if isinstance(found, np.ndarray):
            return _Certificate("causal", _order_of_commits("causal"), found)
    found = weak_isolation.commits(columns, model, lists=lists, steps=steps)
    if isinstance(found, weak_isolation.CommitCircle):
        findings.take_circle(found)
        return None
    if found is None:
        return None
    return _Certificate(model, _order_of_commits(model), found)


def _order_of_commits(model: str) -> str:
    seen = "" if model == "read-committed" else " and has what each transaction must have seen before what it read"
    kept = " keeps the order of each process" if weak_isolation.COMMITS[model][1] else ""
    return "an order of commits that" + " and".join(filter(None, (kept, " has writers before readers"))) + seen


def _known(model: str) -> None:
    if model not in NAMES:
        raise unknown_choice("consistency model", model, NAMES)


def _lists(columns: TransactionColumns, *, sessions: bool, realtime: bool, steps: int) -> _core.TransactionReport:
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
            sessions=sessions,
            realtime=realtime,
            steps=steps,
        )
    except ValueError as error:
        raise MalformedHistory(str(error)) from error
    except RuntimeError as error:
        raise HarnessError(f"the native checker of transactions: {error}") from error


def _registers(
    columns: TransactionColumns,
    *,
    sessions: bool,
    realtime: bool,
    steps: int,
    wfr: bool,
    sequential: bool,
    linearizable: bool,
    thorough: bool = True,
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
            sessions=sessions,
            realtime=realtime,
            wfr=wfr,
            sequential=sequential,
            linearizable=linearizable,
            thorough=thorough,
            steps=steps,
        )
    except ValueError as error:
        raise MalformedHistory(str(error)) from error
    except RuntimeError as error:
        raise HarnessError(f"the native checker of transactions: {error}") from error


def _found(report: _core.TransactionReport) -> tuple[list[Anomaly], list[Cycle]]:
    anomalies = [Anomaly(*found) for found in report.anomalies]
    cycles = [Cycle(name, shortest, tuple(Step(*step) for step in steps)) for name, shortest, steps in report.cycles]
    return anomalies, cycles


class _Findings:
    """What was found, confirmed as it comes in, and what that rules out."""

    def __init__(
        self,
        columns: TransactionColumns,
        proof: ListProof | RegisterProof,
        words: "_Words",
        rules_out: Callable[[Iterable[str]], tuple[str, ...]],
    ) -> None:
        self.told: list[Finding] = []
        self.counts: Counter[str] = Counter()
        #: Whether some transaction did not read what it had written itself.
        self.misses_own = False
        self._columns = columns
        self._proof = proof
        self._words = words
        self._rules_out = rules_out

    def ruled_out(self) -> tuple[str, ...]:
        """Models, weakest first."""
        return self._rules_out(self.counts)

    def against(self, model: str) -> list[str]:
        """The anomalies that rule it out."""
        return [name for name in self.counts if model in self._rules_out([name])]

    def take(self, anomalies: Iterable[Anomaly], cycles: Iterable[Cycle], suffix: str = "") -> None:
        """Confirm and tell; `suffix`: what the cycles' order of versions rests on, if their names do not say it."""
        anomalies = list(anomalies)
        self.misses_own |= any(map(self._lacks_own, self._own_written(anomalies)))
        for found in anomalies:
            self.counts[found.name] += 1
            if self.counts[found.name] <= SHOWN_MAX:
                if not self._proof.anomaly(found):
                    raise HarnessError(f"a finding of the native checker of transactions is not confirmed: {found}")
                self.told.append(self._words.anomaly(found))
        for cycle in cycles:
            if not self._proof.cycle(cycle):
                raise HarnessError(f"a cycle of the native checker of transactions is not confirmed: {cycle}")
            named = cycle
            base = cycle.name.removesuffix("-realtime").removesuffix("-process")
            if suffix:
                if any(self.counts[name] for name in (base, f"{base}-process", f"{base}{suffix}", cycle.name)):
                    continue
                named = cycle if cycle.name.endswith("-realtime") else cycle._replace(name=base + suffix)
            self.counts[named.name] += 1
            self.told.append(self._words.cycle(named))

    def take_circle(self, circle: weak_isolation.CommitCircle) -> None:
        """A circle of commits, confirmed where it was found."""
        self.counts[circle.name] += 1
        self.told.append(self._words.circle(circle))

    def _own_written(self, anomalies: list[Anomaly]) -> list[Anomaly]:
        """Reads that contradict their transaction, and come after it had written to their key."""
        found = [anomaly for anomaly in anomalies if anomaly.name == "internal"]
        c = self._columns
        op = np.array([anomaly.op for anomaly in found], dtype=np.int64)
        first = c.first[[anomaly.transaction for anomaly in found]]
        wrote = np.zeros(len(found), dtype=np.bool_)
        for back in range(1, int((op - first).max(initial=0)) + 1):
            earlier = np.maximum(op - back, first)
            wrote |= (earlier < op) & (c.kind[earlier] == WRITE) & (c.key[earlier] == c.key[op])
        return [found[place] for place in np.flatnonzero(wrote).tolist()]

    def _lacks_own(self, found: Anomaly) -> bool:
        """Whether a read that contradicts its transaction lacks what that had written; a list ends with it."""
        c = self._columns
        ops = slice(int(c.first[found.transaction]), found.op)
        own = c.value[ops][(c.kind[ops] == WRITE) & (c.key[ops] == c.key[found.op])].tolist()
        if not isinstance(self._proof, ListProof):
            return bool(own)
        seen = c.elements[int(c.start[found.op]) : int(c.start[found.op + 1])].tolist()
        return bool(seen[len(seen) - len(own) :] != own)


def _anything_read(columns: TransactionColumns) -> bool:
    return bool(np.any((columns.kind == READ) & np.repeat(columns.outcome == OK, np.diff(columns.first))))


def _conclude(
    columns: TransactionColumns,
    model: str,
    out: Sequence[str],
    findings: _Findings,
    proof: _Certificate | None,
    *,
    unfinished: bool,
) -> Conclusion:
    beside = f"{', '.join(findings.counts)} do not rule out {model}" if findings.counts else ""
    kept, doubt = "", None
    if not _anything_read(columns):
        doubt = Doubt(Cause.NO_EXPOSURE, NOTHING_READ)
    elif proof is not None and model in implied(proof.model):
        shows = f"{proof.words} shows it"
        kept = "" if proof.model == STRICT else f"{beside}; {shows}" if beside else shows
    elif beside:
        doubt = Doubt(Cause.UNDECIDED, f"{beside}, and no order of the transactions proves it")
    elif unfinished:
        doubt = Doubt(Cause.OUT_OF_BUDGET, "there are cycles; the budget ended before any of them was found")
    else:
        why = "no anomaly was found, and no order of the transactions that explains what they returned"
        doubt = Doubt(Cause.UNDECIDED, why)
    broken = f"{model} is ruled out by {', '.join(findings.against(model))}" if model in out else ""
    return conclude(broken=broken, doubt=doubt, kept=kept)


class _Words:
    """Findings in words; transactions are named by their rows, T0 being the first."""

    def __init__(self, columns: TransactionColumns) -> None:
        self._columns = columns

    def anomaly(self, found: Anomaly) -> Finding:
        rows = dict.fromkeys(t for t in (found.transaction, found.other) if t >= 0)
        return Finding(anomaly=found.name, transactions=tuple(rows), steps=(self._sentence(found),), proof=found)

    def cycle(self, cycle: Cycle) -> Finding:
        if cycle.name.startswith("cyclic-versions"):
            rows = dict.fromkeys(t for step in cycle.steps for t in (step.before, step.after) if t >= 0)
            edges = tuple(map(self._version_edge, cycle.steps))
        else:
            rows = dict.fromkeys(step.before for step in cycle.steps)
            edges = tuple(map(self._edge, cycle.steps))
        last = "each would have to come before the next, and the last before the first"
        return Finding(
            anomaly=cycle.name,
            transactions=tuple(rows),
            steps=(*(edge.sentence for edge in edges), last),
            edges=edges,
            shortest=cycle.shortest,
            proof=cycle,
        )

    def _edge(self, step: Step) -> Edge:
        return Edge(
            source=step.before,
            target=step.after,
            kind=EdgeKind(step.kind),
            text=self._because(step),
            shown_by=self._shown_by(step),
        )

    def _version_edge(self, step: Step) -> Edge:
        before, after = str(self._value(step.before_op)), str(self._value(step.after_op))
        key, text = self._key(step.before_op), self._why(step)
        return Edge(
            source=before, target=after, kind=EdgeKind.BEFORE, text=text, key=key, shown_by=self._shown_by(step)
        )

    def _shown_by(self, step: Step) -> tuple[int, ...]:
        """The transactions of the rows that show the order."""
        return tuple(dict.fromkeys(self._owner(op) for op in (step.shown, step.shown_too) if op >= 0))

    def circle(self, circle: weak_isolation.CommitCircle) -> Finding:
        """The steps of a circle of commits, each with what was seen and what was read instead."""
        rows = dict.fromkeys(
            t
            for weak in circle.steps
            for t in (weak.step.before, *(step.after for step in weak.path), weak.step.after)
            if t >= 0
        )
        told = [self._commit(weak) for weak in circle.steps]
        last = "each would have to commit before the next, and the last before the first"
        if circle.steps[-1].step.after < 0:
            last = "nothing is there before every commit"
        plain = all(not weak.path for weak in circle.steps)
        edges = tuple(self._edge(weak.step) for weak in circle.steps) if plain else ()
        return Finding(anomaly=circle.name, transactions=tuple(rows), steps=(*told, last), edges=edges, proof=circle)

    def _commit(self, weak: weak_isolation.CommitStep) -> str:
        step = weak.step
        if not weak.path:
            return self._edge(step).sentence
        seen = "; ".join(self._because(other) for other in weak.path)
        reader, key = self._owner(weak.read), self._key(weak.read)
        wrote = f"{self._value(step.before_op)} of T{step.before}"
        if step.after < 0:
            return f"T{reader} had to see {wrote} in {key} ({seen}), but found nothing there"
        instead = f"{self._value(step.after_op)} of T{step.after}"
        return (
            f"T{step.before} < T{step.after}: T{reader} had to see {wrote} in {key} ({seen}), but read {instead}: "
            "that was committed later"
        )

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
            case "incompatible-order" if int(self._columns.kind[found.than]) == WRITE:
                order = f"{other} had appended {self._value(found.than)} to it before {value}"
                return f"{t} read {self._list(found.op)} from {key}, but {order}"
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
