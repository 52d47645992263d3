"""Anomalies of transactions in words: a sentence for each step of the argument, by the micro-operations that show it.

Transactions are named by their rows, T0 being the first.
"""

from dataclasses import dataclass

import numpy as np

from fencepost.checkers.transactions import weak_isolation
from fencepost.checkers.transactions.columns import NIL, WRITE, TransactionColumns
from fencepost.checkers.transactions.exhaustion import Exhaustion
from fencepost.checkers.transactions.proof import CycleProof, CycleStep, NativeAnomaly
from fencepost.harness.verdict import Edge, EdgeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFinding:
    """One anomaly: the transactions in it and one sentence for each step of the argument.

    `edges` are the steps of a cycle of transactions or versions. `shortest` is False for a cycle when the budget ended
    before it was certain that no shorter one exists. `proof` is what was confirmed.
    """

    anomaly: str
    transactions: tuple[int, ...]
    steps: tuple[str, ...]
    edges: tuple[Edge, ...] = ()
    shortest: bool = True
    proof: NativeAnomaly | CycleProof | weak_isolation.CommitCircle | Exhaustion


class Words:
    """Findings in words; transactions are named by their rows, T0 being the first."""

    def __init__(self, columns: TransactionColumns) -> None:
        self._columns = columns

    def anomaly(self, anomaly: NativeAnomaly) -> TransactionFinding:
        rows = dict.fromkeys(t for t in (anomaly.transaction, anomaly.other) if t >= 0)
        return TransactionFinding(
            anomaly=anomaly.name, transactions=tuple(rows), steps=(self._sentence(anomaly),), proof=anomaly
        )

    def cycle(self, cycle: CycleProof) -> TransactionFinding:
        if cycle.name.startswith("cyclic-versions"):
            rows = dict.fromkeys(t for step in cycle.steps for t in (step.before, step.after) if t >= 0)
            edges = tuple(map(self._version_edge, cycle.steps))
        else:
            rows = dict.fromkeys(step.before for step in cycle.steps)
            edges = tuple(map(self._edge, cycle.steps))
        last = "each would have to come before the next, and the last before the first"
        return TransactionFinding(
            anomaly=cycle.name,
            transactions=tuple(rows),
            steps=(*(edge.sentence for edge in edges), last),
            edges=edges,
            shortest=cycle.shortest,
            proof=cycle,
        )

    def _edge(self, step: CycleStep) -> Edge:
        return Edge(
            source=step.before,
            target=step.after,
            kind=EdgeKind(step.kind),
            text=self._because(step),
            shown_by=self._shown_by(step),
        )

    def _version_edge(self, step: CycleStep) -> Edge:
        before, after = str(self._value(step.before_op)), str(self._value(step.after_op))
        key, text = self._key(step.before_op), self._why(step)
        return Edge(
            source=before, target=after, kind=EdgeKind.BEFORE, text=text, key=key, shown_by=self._shown_by(step)
        )

    def _shown_by(self, step: CycleStep) -> tuple[int, ...]:
        """The transactions of the rows that show the order."""
        return tuple(dict.fromkeys(self._owner(op) for op in (step.shown, step.shown_too) if op >= 0))

    def circle(self, circle: weak_isolation.CommitCircle) -> TransactionFinding:
        """The steps of a circle of commits, each with what was seen and what was read instead."""
        rows = dict.fromkeys(
            t
            for weak in circle.steps
            for t in (weak.step.before, *(step.after for step in weak.path), weak.step.after)
            if t >= 0
        )
        sentences = [self._commit(weak) for weak in circle.steps]
        last = "each would have to commit before the next, and the last before the first"
        if circle.steps[-1].step.after < 0:
            last = "nothing is there before every commit"
        plain = all(not weak.path for weak in circle.steps)
        edges = tuple(self._edge(weak.step) for weak in circle.steps) if plain else ()
        return TransactionFinding(
            anomaly=circle.name, transactions=tuple(rows), steps=(*sentences, last), edges=edges, proof=circle
        )

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

    def exhaustion(self, exhaustion: Exhaustion) -> TransactionFinding:
        """That all orders were tried."""
        of_versions = exhaustion.name == "no-version-order"
        schedules = "schedule of starts and commits" if exhaustion.name.startswith("no-schedule") else "serial order"
        kind = "order of the versions" if of_versions else schedules
        suffix = exhaustion.name.rpartition("-")[2]
        kept = {"process": " that keeps the order of each process", "realtime": " that keeps real time"}.get(suffix, "")
        names = ", ".join(f"T{t}" for t in exhaustion.transactions)
        tried = f"every {kind}{kept} of {names} was tried, with and without those of unknown outcome"
        return TransactionFinding(
            anomaly=exhaustion.name,
            transactions=exhaustion.transactions,
            steps=(
                tried,
                "each lacks what a read returned, or has a cycle of at most one anti-dependency"
                if of_versions
                else "in none of them does each return what it returned",
            ),
            proof=exhaustion,
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

    def _because(self, step: CycleStep) -> str:
        if step.kind == "realtime":
            return f"T{step.before} was completed before T{step.after} was invoked"
        if step.kind == "process":
            process = int(self._columns.process[step.before])
            return f"process {process} was done with T{step.before} before it began T{step.after}"
        return self._dependency(step)

    def _dependency(self, step: CycleStep) -> str:
        raise NotImplementedError

    def _sentence(self, anomaly: NativeAnomaly) -> str:
        raise NotImplementedError

    def _why(self, step: CycleStep) -> str:
        raise NotImplementedError


class ListWords(Words):
    def _list(self, op: int) -> str:
        c = self._columns
        seen = [str(self._name(value)) for value in c.elements[int(c.start[op]) : int(c.start[op + 1])].tolist()]
        return f"[{' '.join(seen if len(seen) <= 8 else ['...', *seen[-7:]])}]"

    def _dependency(self, step: CycleStep) -> str:
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

    def _sentence(self, anomaly: NativeAnomaly) -> str:
        t, other, key = f"T{anomaly.transaction}", f"T{anomaly.other}", f"key {self._key_name(anomaly.key)}"
        value = self._name(anomaly.value)
        match anomaly.name:
            case "garbage-read":
                return f"{t} read {value} from {key}, which no transaction appended"
            case "duplicate-elements":
                return f"{t} read {value} from {key} more than once: {self._list(anomaly.op)}"
            case "G1a":
                return f"{t} read {value} from {key}, which {other} appended, and {other} failed"
            case "G1b":
                return f"{t} read {key} up to {value}, amid the appends of {other}, which appended more to it"
            case "dirty-update":
                return f"{t} appended {self._value(anomaly.op)} to {key} behind {value} of {other}, and {other} failed"
            case "internal":
                return f"{t} read {self._list(anomaly.op)} from {key}, against what it had read and appended before"
            case "future-read":
                return f"{t} read {value} from {key} before it appended that itself"
            case "incompatible-order" if int(self._columns.kind[anomaly.than]) == WRITE:
                order = f"{other} had appended {self._value(anomaly.than)} to it before {value}"
                return f"{t} read {self._list(anomaly.op)} from {key}, but {order}"
            case "incompatible-order":
                lists = f"{self._list(anomaly.op)}, {other} read {self._list(anomaly.than)}"
                return f"{t} read from {key} {lists}: neither is the beginning of the other"
        return f"{t} and {other} both read {self._list(anomaly.op)} from {key}, and both appended to it"


class RegisterWords(Words):
    def _dependency(self, step: CycleStep) -> str:
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

    def _why(self, step: CycleStep) -> str:
        if step.shown < 0:
            return "nothing was there before every value"
        s, t = self._owner(step.shown), self._owner(step.shown_too)
        if s == t:
            return f"T{s} read the one and then wrote the other"
        return f"T{s} met the one, and was completed before T{t} was invoked, which met the other"

    def _sentence(self, anomaly: NativeAnomaly) -> str:
        t, other, key = f"T{anomaly.transaction}", f"T{anomaly.other}", f"key {self._key_name(anomaly.key)}"
        value = self._name(anomaly.value)
        match anomaly.name:
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
