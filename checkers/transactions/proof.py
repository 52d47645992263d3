"""Whether an anomaly of transactions is there: from the rows that it names alone, apart from whatever found it.

Each rule says what the rows must hold. They share nothing with the native search but the columns; a finding that a rule
does not confirm is a defect of the search and no verdict.

That a transaction of unknown outcome happened is shown by any ok read of something that it wrote.
"""

from collections.abc import Iterator
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


class Proof:
    """The rules that lists and registers have in common.

    `shown` is what a read shows of its key: a list, or the one value of a register, if there is one.
    """

    def __init__(self, columns: TransactionColumns) -> None:
        self.columns = columns

    # -- the few questions that rules ask of the columns

    def owner(self, op: int) -> int:
        """The transaction of a micro-operation."""
        return int(np.searchsorted(self.columns.first, op, side="right")) - 1

    def ops(self, t: int) -> range:
        return range(int(self.columns.first[t]), int(self.columns.first[t + 1]))

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

    def happened(self, t: int) -> bool:
        """Whether a transaction took effect."""
        outcome = int(self.columns.outcome[t])
        if outcome != INFO:
            return outcome == OK
        writes = (op for op in self.ops(t) if self.is_write(op, t))
        return any(True for write in writes for _ in self._reads_of(self.key(write), self.value(write)))

    def shown(self, op: int) -> list[int]:
        """What a read shows."""
        raise NotImplementedError

    def outside(self, op: int, t: int) -> list[int]:
        """What a read shows of other transactions."""
        return self.shown(op)

    def shows(self, read: int, write: int) -> bool:
        """Whether a read shows the version of a write as the newest, or for -1 nothing."""
        seen = self.outside(read, self.owner(read))
        if write < 0:
            return not seen
        return self.key(read) == self.key(write) and seen[-1:] == [self.value(write)]

    def _places_of(self, key: int, value: int) -> list[int]:
        """The micro-operations that may be reads of a key that show a value."""
        raise NotImplementedError

    def _reads_of(self, key: int, value: int) -> Iterator[int]:
        """The ok reads of a key that show a value."""
        for op in self._places_of(key, value):
            if self.key(op) == key and self.is_read(op, self.owner(op)):
                yield op

    def _is_written(self, key: int, value: int) -> bool:
        c = self.columns
        return bool(((c.value == value) & (c.key == key) & (c.kind == WRITE)).any())

    def _later_write(self, op: int, t: int) -> bool:
        """Whether a transaction writes to the key of its micro-operation `op` after that."""
        return any(other > op and self.is_write(other, t) and self.key(other) == self.key(op) for other in self.ops(t))

    # -- cycles

    def cycle(self, cycle: CycleProof) -> bool:
        """Whether every edge of a cycle holds."""
        return is_cycle(cycle) and all(self.step(step) for step in cycle.steps)

    def step(self, step: CycleStep) -> bool:
        """Whether one edge holds."""
        c, before, after = self.columns, step.before, step.after
        if step.kind in ("realtime", "process"):
            by_one = step.kind == "realtime" or int(c.process[before]) == int(c.process[after])
            return by_one and self.is_ok(before) and int(c.completed[before]) < int(c.invoked[after])
        a, b = step.before_op, step.after_op
        if a not in self.ops(before) or b not in self.ops(after) or self.key(a) != self.key(b):
            return False
        if not self.happened(before) or not self.happened(after):
            return False
        match step.kind:
            case "wr":
                return self.is_write(a, before) and self.is_read(b, after) and self.value(a) in self.shown(b)
            case "rw":
                return self.is_read(a, before) and self.is_write(b, after) and self._is_overwritten(step)
            case "ww":
                return self.is_write(a, before) and self.is_write(b, after) and self._precedes(step)
        return False

    def _is_overwritten(self, step: CycleStep) -> bool:
        """Whether what a read shows is older than what a write made."""
        raise NotImplementedError

    def _precedes(self, step: CycleStep) -> bool:
        """Whether what one write made is older than what the other one made."""
        raise NotImplementedError

    # -- other findings

    def anomaly(self, claim: NativeAnomaly) -> bool:
        """Whether a finding apart from cycles holds."""
        op, than, t, other = claim.op, claim.than, claim.transaction, claim.other
        if not self.is_read(op, t):
            return False
        seen = self.shown(op)
        match claim.name:
            case "garbage-read":
                return claim.value in seen and not self._is_written(self.key(op), claim.value)
            case "G1a":
                return self._is_failed(than, other, self.key(op)) and self.value(than) in seen
            case "G1b":
                amid = self.is_write(than, other) and other != t and self.key(than) == self.key(op)
                ends = amid and self.value(than) in (self.outside(op, t)[-1:] or seen[-1:])
                return ends and self._later_write(than, other) and self.happened(other)
            case "internal":
                return self._contradicts(op, t)
            case "future-read":
                later = than > op and self.is_write(than, t) and self.key(than) == self.key(op)
                return later and self.value(than) in seen
            case "lost-update":
                both = self.is_read(than, other) and self.key(than) == self.key(op) and t != other
                same = both and self.outside(op, t) == self.outside(than, other)
                return same and self._later_write(op, t) and self._later_write(than, other)
        return False

    def _is_failed(self, op: int, t: int, key: int) -> bool:
        """Whether it is a write of a failed transaction to a key."""
        return self.is_write(op, t) and int(self.columns.outcome[t]) == FAIL and self.key(op) == key

    def _contradicts(self, op: int, t: int) -> bool:
        """Whether a read differs from what its transaction had read and written before it."""
        raise NotImplementedError


class ListProof(Proof):
    """The rules for lists to which transactions append."""

    def shown(self, op: int) -> list[int]:
        c = self.columns
        elements: list[int] = c.elements[int(c.start[op]) : int(c.start[op + 1])].tolist()
        return elements

    def outside(self, op: int, t: int) -> list[int]:
        """What a read shows but for the appends of its own transaction before it, where it ends with all of them."""
        own = [self.value(o) for o in self.ops(t) if o < op and self.is_write(o, t) and self.key(o) == self.key(op)]
        seen = self.shown(op)
        length = len(seen) - len(own)
        return seen[:length] if length >= 0 and seen[length:] == own else seen

    def _places_of(self, key: int, value: int) -> list[int]:
        c = self.columns
        ops = np.searchsorted(c.start, np.flatnonzero(c.elements == value), side="right") - 1
        return list(dict.fromkeys(ops.tolist()))

    def _is_overwritten(self, step: CycleStep) -> bool:
        # Lists only grow, so what a read lacks was appended later.
        return self.value(step.after_op) not in self.shown(step.before_op)

    def _precedes(self, step: CycleStep) -> bool:
        """Whether one read shows the first append, and the second behind it or not at all."""
        if not self.is_read(step.shown, self.owner(step.shown)) or self.key(step.shown) != self.key(step.before_op):
            return False
        seen, first, second = self.shown(step.shown), self.value(step.before_op), self.value(step.after_op)
        return first in seen and (second not in seen or seen.index(first) < seen.index(second))

    def anomaly(self, claim: NativeAnomaly) -> bool:
        """Whether a finding apart from cycles holds."""
        op, than, t, other = claim.op, claim.than, claim.transaction, claim.other
        match claim.name:
            case "dirty-update":
                # An append of a failed transaction stands in a list before one that happened.
                if not (self.is_write(op, t) and self.happened(t) and self._is_failed(than, other, self.key(op))):
                    return False
                lists = map(self.shown, self._reads_of(self.key(op), self.value(than)))
                return any(self.value(op) in seen[seen.index(self.value(than)) :] for seen in lists)
            case "duplicate-elements":
                return self.is_read(op, t) and self.shown(op).count(claim.value) > 1
            case "incompatible-order":
                if not self.is_read(op, t):
                    return False
                if self.is_write(than, other):
                    return self._against_its_order(claim, self.shown(op))
                if not self.is_read(than, other) or self.key(than) != self.key(op):
                    return False
                return any(one != two for one, two in zip(self.shown(op), self.shown(than), strict=False))
        return super().anomaly(claim)

    def _against_its_order(self, claim: NativeAnomaly, seen: list[int]) -> bool:
        """Whether a list shows an append, and the same transaction's earlier one of that key behind it or not."""
        first, key = claim.than, self.key(claim.op)
        behind = (op for op in self.ops(claim.other) if op > first and self.is_write(op, claim.other))
        if self.key(first) != key or not any(self.value(op) == claim.value and self.key(op) == key for op in behind):
            return False
        before = seen[: seen.index(claim.value)] if claim.value in seen else seen
        return claim.value in seen and self.value(first) not in before and self.happened(claim.other)

    def _contradicts(self, op: int, t: int) -> bool:
        known: list[int] | None = None
        own: list[int] = []
        for other in self.ops(t):
            if self.key(other) != self.key(op):
                continue
            if other == op:
                break
            if self.is_write(other, t):
                own.append(self.value(other))
            elif self.is_read(other, t):
                known, own = self.shown(other), []
        seen = self.shown(op)
        if known is not None:
            return seen != known + own
        return seen[len(seen) - len(own) :] != own


class RegisterProof(Proof):
    """The rules for registers of which every write writes a value of its own."""

    def shown(self, op: int) -> list[int]:
        value = self.value(op)
        return [] if value == NIL else [value]

    def _places_of(self, key: int, value: int) -> list[int]:
        c = self.columns
        ops: list[int] = np.flatnonzero((c.value == value) & (c.key == key)).tolist()
        return ops

    def cycle(self, cycle: CycleProof) -> bool:
        """Whether every edge of a cycle of transactions, or of versions, holds."""
        return self._versions(cycle) if cycle.name == "cyclic-versions" else super().cycle(cycle)

    def _versions(self, cycle: CycleProof) -> bool:
        """Versions of one key, each before the next; a step names the micro-operations that bear them."""
        steps = cycle.steps
        values = [(self.value(step.before_op), self.value(step.after_op)) for step in steps]
        joined = all(after == values[(place + 1) % len(steps)][0] for place, (_, after) in enumerate(values))
        one_key = len({self.key(op) for step in steps for op in (step.before_op, step.after_op)}) == 1
        return joined and one_key and all(self._precedes(step) for step in steps)

    def _is_overwritten(self, step: CycleStep) -> bool:
        return self._precedes(step)

    def _precedes(self, step: CycleStep) -> bool:
        """The value at `before_op` is an earlier version than that at `after_op`.

        `shown` and `shown_too` name the micro-operations that say so: of one transaction that read the one and then
        wrote the other, or of two of which one was completed before the other was invoked. Nothing precedes all.
        """
        first, second = self.value(step.before_op), self.value(step.after_op)
        if first == second:
            return False
        if first == NIL:
            return True
        a, b = step.shown, step.shown_too
        if a < 0 or b < 0 or self.key(a) != self.key(step.before_op) or self.key(b) != self.key(a):
            return False
        if self.value(a) != first or self.value(b) != second:
            return False
        s, t, c = self.owner(a), self.owner(b), self.columns
        if s == t:
            return a < b and self.is_read(a, s) and self.is_write(b, t) and self.happened(t)
        return self.is_ok(s) and self.happened(t) and int(c.completed[s]) < int(c.invoked[t])

    def anomaly(self, claim: NativeAnomaly) -> bool:
        """Whether a finding apart from cycles holds."""
        if claim.name != "dirty-update":
            return super().anomaly(claim)
        # A transaction read what a failed one wrote, and wrote the key itself.
        op, t = claim.op, claim.transaction
        read = self.is_read(op, t) and self._is_failed(claim.than, claim.other, self.key(op))
        return read and self.value(claim.than) in self.shown(op) and self._later_write(op, t)

    def _contradicts(self, op: int, t: int) -> bool:
        known = None
        for other in self.ops(t):
            if other == op:
                break
            if self.key(other) == self.key(op) and (self.is_write(other, t) or self.is_read(other, t)):
                known = self.value(other)
        return known is not None and known != self.value(op)
