"""Whether an anomaly of transactions is there: from the rows that it names alone, apart from whatever found it.

Each rule says what the rows must hold. They share nothing with the native search but the columns; a finding that a rule
does not confirm is a defect of the search and no verdict.

That a transaction of unknown outcome happened is shown by any ok read of something that it wrote.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from fencepost.checkers.transactions.columns import FAIL, INFO, NIL, OK, READ, WRITE, TransactionColumns

#: Cycles: which kinds of edges, and how many rw (least, most), with adjacent ones required (True), forbidden (False).
_RW: Final[dict[str, tuple[int, int, bool | None]]] = {
    "G0": (0, 0, None),
    "G1c": (0, 0, None),
    "G-single": (1, 1, None),
    "G-nonadjacent": (2, 1 << 30, False),
    "G2-item": (2, 1 << 30, True),
}


class NativeAnomaly(NamedTuple):
    """One finding of the native module: transactions, micro-operations, key and value; -1 where there is none."""

    name: str
    transaction: int
    other: int
    op: int
    than: int
    key: int
    value: int


class CycleStep(NamedTuple):
    """One edge of a cycle: the transactions, its kind, a micro-operation of each, and the rows that show the order."""

    before: int
    after: int
    kind: str
    before_op: int
    after_op: int
    shown: int
    shown_too: int


class CycleProof(NamedTuple):
    """A cycle of one class; `shortest`: no shorter one exists."""

    name: str
    shortest: bool
    steps: tuple[CycleStep, ...]


class _Rows:
    """The few questions that rules ask of the columns."""

    def __init__(self, columns: TransactionColumns) -> None:
        self.columns = columns

    def owner(self, op: int) -> int:
        """The transaction of a micro-operation."""
        return int(np.searchsorted(self.columns.first, op, side="right")) - 1

    def ops(self, t: int) -> range:
        return range(int(self.columns.first[t]), int(self.columns.first[t + 1]))

    def seen(self, op: int) -> list[int]:
        """The list that a micro-operation read."""
        c = self.columns
        elements: list[int] = c.elements[int(c.start[op]) : int(c.start[op + 1])].tolist()
        return elements

    def key(self, op: int) -> int:
        return int(self.columns.key[op])

    def value(self, op: int) -> int:
        return int(self.columns.value[op])

    def is_ok(self, t: int) -> bool:
        return 0 <= t < len(self.columns) and int(self.columns.outcome[t]) == OK

    def is_write(self, op: int, t: int) -> bool:
        return op in self.ops(t) and int(self.columns.kind[op]) == WRITE

    def is_read(self, op: int, t: int) -> bool:
        """A read of an ok transaction, with its answer."""
        return op in self.ops(t) and int(self.columns.kind[op]) == READ and self.is_ok(t)

    def writers(self, key: int, value: int) -> list[int]:
        """All writes of a value to a key."""
        c = self.columns
        ops: list[int] = np.flatnonzero((c.value == value) & (c.key == key) & (c.kind == WRITE)).tolist()
        return ops

    def happened(self, t: int, read: Callable[[int, int], bool]) -> bool:
        """Whether a transaction took effect; `read(key, value)`: whether an ok read shows a value."""
        outcome = int(self.columns.outcome[t])
        if outcome != INFO:
            return outcome == OK
        return any(self.is_write(op, t) and read(self.key(op), self.value(op)) for op in self.ops(t))

    def later_write(self, op: int, t: int) -> bool:
        """Whether a transaction writes to the key of its write `op` once more."""
        return any(other > op and self.is_write(other, t) and self.key(other) == self.key(op) for other in self.ops(t))


def realtime(rows: _Rows, step: CycleStep) -> bool:
    """`before` was completed before `after` was invoked."""
    c = rows.columns
    return rows.is_ok(step.before) and int(c.completed[step.before]) < int(c.invoked[step.after])


def process(rows: _Rows, step: CycleStep) -> bool:
    """Whether `before` was completed before `after` was invoked, both by one process."""
    c = rows.columns
    return int(c.process[step.before]) == int(c.process[step.after]) and realtime(rows, step)


def is_cycle(cycle: CycleProof) -> bool:
    """The steps join, no transaction comes twice, and their kinds make the class that the cycle is said to be of."""
    steps = cycle.steps
    joined = all(step.after == steps[(place + 1) % len(steps)].before for place, step in enumerate(steps))
    if len(steps) < 2 or not joined or len({step.before for step in steps}) != len(steps):
        return False
    base = cycle.name.removesuffix("-process").removesuffix("-realtime")
    order = cycle.name[len(base) :].removeprefix("-")
    if base not in _RW:
        return False
    kinds = [step.kind for step in steps]
    least, most, adjacent = _RW[base]
    if not least <= kinds.count("rw") <= most:
        return False
    if adjacent is not None:
        pairs = zip(kinds, kinds[1:] + kinds[:1], strict=True)
        if any(pair == ("rw", "rw") for pair in pairs) != adjacent:
            return False
    allowed = {"ww", "wr", "rw"} - ({"wr"} if base == "G0" else set()) | ({order} if order else set())
    needed = {order} if order else set()
    if base == "G1c":
        needed.add("wr")
    return needed <= set(kinds) <= allowed


class ListProof:
    """The rules for lists to which transactions append."""

    def __init__(self, columns: TransactionColumns) -> None:
        self.rows = _Rows(columns)

    def shows(self, read: int, write: int) -> bool:
        """Whether a read ends with what was appended, but for appends of its own transaction, or for -1 is empty."""
        rows = self.rows
        seen = self._external(read, rows.owner(read))
        if write < 0:
            return not seen
        return rows.key(read) == rows.key(write) and seen[-1:] == [rows.value(write)]

    def _read(self, key: int, value: int) -> bool:
        """Whether an ok read shows `value` of `key`."""
        c = self.rows.columns
        for place in np.flatnonzero(c.elements == value).tolist():
            op = int(np.searchsorted(c.start, place, side="right")) - 1
            if self.rows.key(op) == key and self.rows.is_read(op, self.rows.owner(op)):
                return True
        return False

    def happened(self, t: int) -> bool:
        """Whether a transaction took effect."""
        return self.rows.happened(t, self._read)

    def cycle(self, cycle: CycleProof) -> bool:
        """Whether every edge of a cycle holds."""
        return is_cycle(cycle) and all(self.step(step) for step in cycle.steps)

    def step(self, step: CycleStep) -> bool:
        """Whether one edge holds."""
        rows = self.rows
        if step.kind in ("realtime", "process"):
            return (realtime if step.kind == "realtime" else process)(rows, step)
        a, b = step.before_op, step.after_op
        if a not in rows.ops(step.before) or b not in rows.ops(step.after) or rows.key(a) != rows.key(b):
            return False
        match step.kind:
            case "wr":
                # A read shows the append.
                shows = rows.is_write(a, step.before) and rows.is_read(b, step.after)
                return shows and rows.value(a) in rows.seen(b) and self.happened(step.before)
            case "rw":
                # A read lacks an append that happened: lists only grow, so it was made later.
                lacks = rows.is_read(a, step.before) and rows.is_write(b, step.after)
                return lacks and rows.value(b) not in rows.seen(a) and self.happened(step.after)
            case "ww":
                return self._appended_before(step)
        return False

    def _appended_before(self, step: CycleStep) -> bool:
        """Whether one read shows the first append, and the second behind it or not at all."""
        rows = self.rows
        if not rows.is_write(step.before_op, step.before) or not rows.is_write(step.after_op, step.after):
            return False
        if not rows.is_read(step.shown, rows.owner(step.shown)) or rows.key(step.shown) != rows.key(step.before_op):
            return False
        seen = rows.seen(step.shown)
        first, second = rows.value(step.before_op), rows.value(step.after_op)
        ordered = first in seen and (second not in seen or seen.index(first) < seen.index(second))
        return ordered and self.happened(step.before) and self.happened(step.after)

    def anomaly(self, claim: NativeAnomaly) -> bool:
        """Whether a finding apart from cycles holds."""
        rows = self.rows
        op, than, t = claim.op, claim.than, claim.transaction
        if claim.name == "dirty-update":
            # An append of a failed transaction stands in a list before one that happened.
            return (
                rows.is_write(op, t)
                and self.happened(t)
                and rows.is_write(than, claim.other)
                and rows.key(than) == rows.key(op)
                and int(rows.columns.outcome[claim.other]) == FAIL
                and any(
                    rows.value(op) in seen[seen.index(rows.value(than)) :]
                    for seen in self._lists(rows.key(op), rows.value(than))
                )
            )
        if not rows.is_read(op, t):
            return False
        seen = rows.seen(op)
        match claim.name:
            case "garbage-read":
                return claim.value in seen and not rows.writers(claim.key, claim.value)
            case "duplicate-elements":
                return seen.count(claim.value) > 1
            case "G1a":
                failed = rows.is_write(than, claim.other) and int(rows.columns.outcome[claim.other]) == FAIL
                return failed and rows.key(than) == rows.key(op) and rows.value(than) in seen
            case "G1b":
                return self._ends_amid(claim, seen)
            case "internal":
                return self._contradicts(op, t)
            case "future-read":
                later = than > op and rows.is_write(than, t) and rows.key(than) == rows.key(op)
                return later and rows.value(than) in seen
            case "incompatible-order":
                if rows.is_write(than, claim.other):
                    return self._against_its_order(claim, seen)
                if not rows.is_read(than, claim.other) or rows.key(than) != rows.key(op):
                    return False
                other = rows.seen(than)
                shared = min(len(seen), len(other))
                return seen[:shared] != other[:shared]
            case "lost-update":
                both = rows.is_read(than, claim.other) and rows.key(than) == rows.key(op) and t != claim.other
                same = both and self._external(op, t) == self._external(than, claim.other)
                return same and rows.later_write(op, t) and rows.later_write(than, claim.other)
        return False

    def _lists(self, key: int, value: int) -> list[list[int]]:
        """All lists of a key, read by ok transactions, that show a value."""
        c = self.rows.columns
        ops = np.unique(np.searchsorted(c.start, np.flatnonzero(c.elements == value), side="right") - 1).tolist()
        return [
            self.rows.seen(op) for op in ops if self.rows.key(op) == key and self.rows.is_read(op, self.rows.owner(op))
        ]

    def _external(self, op: int, t: int) -> list[int]:
        """What a read shows but for the appends of its own transaction before it, where it ends with all of them."""
        rows = self.rows
        own = [rows.value(o) for o in rows.ops(t) if o < op and rows.is_write(o, t) and rows.key(o) == rows.key(op)]
        seen = rows.seen(op)
        outside = len(seen) - len(own)
        return seen[:outside] if outside >= 0 and seen[outside:] == own else seen

    def _ends_amid(self, claim: NativeAnomaly, seen: list[int]) -> bool:
        rows = self.rows
        outside = self._external(claim.op, claim.transaction)
        return (
            rows.is_write(claim.than, claim.other)
            and claim.other != claim.transaction
            and rows.key(claim.than) == rows.key(claim.op)
            and rows.value(claim.than) in (outside[-1:] or seen[-1:])
            and rows.later_write(claim.than, claim.other)
            and self.happened(claim.other)
        )

    def _against_its_order(self, claim: NativeAnomaly, seen: list[int]) -> bool:
        """A list shows an append, and the same transaction's earlier one of that key behind it or not at all."""
        rows, first = self.rows, claim.than
        behind = [
            op
            for op in rows.ops(claim.other)
            if op > first
            and rows.is_write(op, claim.other)
            and rows.value(op) == claim.value
            and rows.key(op) == rows.key(claim.op)
        ]
        if not behind or rows.key(first) != rows.key(claim.op):
            return False
        before = seen[: seen.index(claim.value)] if claim.value in seen else seen
        return claim.value in seen and rows.value(first) not in before and self.happened(claim.other)

    def _contradicts(self, op: int, t: int) -> bool:
        """A read differs from what its transaction had read, and appended since, before it."""
        rows = self.rows
        known: list[int] | None = None
        own: list[int] = []
        for other in rows.ops(t):
            if rows.key(other) != rows.key(op):
                continue
            if other == op:
                break
            if rows.is_write(other, t):
                own.append(rows.value(other))
            elif rows.is_read(other, t):
                known, own = rows.seen(other), []
        seen = rows.seen(op)
        if known is not None:
            return seen != known + own
        return seen[len(seen) - len(own) :] != own


class RegisterProof:
    """The rules for registers of which every write writes a value of its own."""

    def __init__(self, columns: TransactionColumns) -> None:
        self.rows = _Rows(columns)

    def shows(self, read: int, write: int) -> bool:
        """Whether a read shows the version of a write, or for -1 nothing."""
        rows = self.rows
        if write < 0:
            return rows.value(read) == NIL
        return rows.key(read) == rows.key(write) and rows.value(read) == rows.value(write)

    def _read(self, key: int, value: int) -> bool:
        c = self.rows.columns
        ops = np.flatnonzero((c.value == value) & (c.key == key) & (c.kind == READ)).tolist()
        return any(self.rows.is_read(op, self.rows.owner(op)) for op in ops)

    def happened(self, t: int) -> bool:
        """Whether a transaction took effect."""
        return self.rows.happened(t, self._read)

    def cycle(self, cycle: CycleProof) -> bool:
        """Whether every edge of a cycle of transactions, or of versions, holds."""
        if cycle.name == "cyclic-versions":
            return self._versions(cycle)
        return is_cycle(cycle) and all(self.step(step) for step in cycle.steps)

    def _versions(self, cycle: CycleProof) -> bool:
        """Versions of one key, each before the next; a step names the micro-operations that bear them."""
        steps, rows = cycle.steps, self.rows
        values = [(rows.value(step.before_op), rows.value(step.after_op)) for step in steps]
        joined = all(after == values[(place + 1) % len(steps)][0] for place, (_, after) in enumerate(values))
        one_key = len({rows.key(op) for step in steps for op in (step.before_op, step.after_op)}) == 1
        return joined and one_key and all(self._precedes(step) for step in steps)

    def step(self, step: CycleStep) -> bool:
        """Whether one edge holds."""
        rows = self.rows
        if step.kind in ("realtime", "process"):
            return (realtime if step.kind == "realtime" else process)(rows, step)
        a, b = step.before_op, step.after_op
        if a not in rows.ops(step.before) or b not in rows.ops(step.after) or rows.key(a) != rows.key(b):
            return False
        if not self.happened(step.before) or not self.happened(step.after):
            return False
        match step.kind:
            case "wr":
                return rows.is_write(a, step.before) and rows.is_read(b, step.after) and rows.value(a) == rows.value(b)
            case "rw":
                return rows.is_read(a, step.before) and rows.is_write(b, step.after) and self._precedes(step)
            case "ww":
                return rows.is_write(a, step.before) and rows.is_write(b, step.after) and self._precedes(step)
        return False

    def _precedes(self, step: CycleStep) -> bool:
        """The value at `before_op` is an earlier version than that at `after_op`.

        `shown` and `shown_too` name the micro-operations that say so: of one transaction that read the one and then
        wrote the other, or of two of which one was completed before the other was invoked. Nothing precedes all.
        """
        rows = self.rows
        first, second = rows.value(step.before_op), rows.value(step.after_op)
        if first == second:
            return False
        if first == NIL:
            return True
        a, b = step.shown, step.shown_too
        if a < 0 or b < 0 or rows.key(a) != rows.key(step.before_op) or rows.key(b) != rows.key(a):
            return False
        if rows.value(a) != first or rows.value(b) != second:
            return False
        s, t = rows.owner(a), rows.owner(b)
        if s == t:
            return a < b and rows.is_read(a, s) and rows.is_write(b, t) and self.happened(t)
        c = rows.columns
        return rows.is_ok(s) and self.happened(t) and int(c.completed[s]) < int(c.invoked[t])

    def anomaly(self, claim: NativeAnomaly) -> bool:
        """Whether a finding apart from cycles holds."""
        rows = self.rows
        op, than, t = claim.op, claim.than, claim.transaction
        if not rows.is_read(op, t):
            return False
        seen = rows.value(op)
        match claim.name:
            case "garbage-read":
                return seen != NIL and not rows.writers(rows.key(op), seen)
            case "G1a" | "dirty-update":
                failed = rows.is_write(than, claim.other) and int(rows.columns.outcome[claim.other]) == FAIL
                read = failed and rows.key(than) == rows.key(op) and rows.value(than) == seen
                return read and (claim.name == "G1a" or rows.later_write(op, t))
            case "G1b":
                written = rows.is_write(than, claim.other) and claim.other != t and rows.key(than) == rows.key(op)
                return written and rows.value(than) == seen and rows.later_write(than, claim.other)
            case "internal":
                return self._contradicts(op, t)
            case "future-read":
                later = than > op and rows.is_write(than, t) and rows.key(than) == rows.key(op)
                return later and rows.value(than) == seen
            case "lost-update":
                both = rows.is_read(than, claim.other) and rows.key(than) == rows.key(op) and t != claim.other
                same = both and rows.value(than) == seen
                return same and rows.later_write(op, t) and rows.later_write(than, claim.other)
        return False

    def _contradicts(self, op: int, t: int) -> bool:
        rows = self.rows
        known = None
        for other in rows.ops(t):
            if other == op:
                break
            if rows.key(other) == rows.key(op) and (rows.is_write(other, t) or rows.is_read(other, t)):
                known = rows.value(other)
        return known is not None and known != rows.value(op)
