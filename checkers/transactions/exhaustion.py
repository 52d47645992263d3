"""Small histories that no shorter argument settles: every order of their transactions is tried.

Where the order of versions stays open, neither an anomaly nor a certificate may come of the edges that are certain.
Of a few transactions all serial orders, all schedules of starts and commits, or all orders of versions, can be tried
one by one on the rows. That none of them fits is the proof; `checkers.confirm` tries them again.

Orders of versions decide parallel snapshot isolation and consistent view: one has to exist that, with what the reads
show, makes no cycle of at most one anti-dependency (Adya 1999, PL-2+; Cerone & Gotsman, PODC 2016, theorem on PSI).
Repeatable read forbids no less than serializability does where nothing is read by predicates. Both say nothing of
transactions that miss their own writes, so those are left undecided (`OWN_WRITES`).

Slow and obvious on purpose: states are remembered, nothing else is spared.
"""

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fencepost.checkers.transactions.columns import FAIL, READ, WRITE, TransactionColumns
from fencepost.checkers.transactions.proof import ListProof, Proof, RegisterProof

#: Transactions, those that failed left out, of which all orders are tried.
TRANSACTIONS_MAX: Final = 6

#: Per model: what is shown where no order keeps it.
SERIAL: Final = {
    "repeatable-read": "no-serial-order",
    "serializable": "no-serial-order",
    "strong-session-serializable": "no-serial-order-process",
    "strict-serializable": "no-serial-order-realtime",
}
SCHEDULES: Final = {
    "snapshot-isolation": "no-schedule",
    "strong-session-snapshot-isolation": "no-schedule-process",
    "strong-snapshot-isolation": "no-schedule-realtime",
}

VERSIONS: Final = {
    "parallel-snapshot-isolation": "no-version-order",
    "consistent-view": "no-version-order",
}
ALL: Final = SERIAL | SCHEDULES | VERSIONS
#: Models that need not show a transaction its own writes: undecided where one misses them.
OWN_WRITES: Final = ("repeatable-read", "consistent-view")

#: What each key holds: the list, or the last value that was written, if any.
_State = tuple[tuple[int, ...], ...]


class Exhaustion(NamedTuple):
    """No order of these transactions, which are all that did not fail, explains them."""

    name: str
    transactions: tuple[int, ...]


def tried(columns: TransactionColumns, model: str, *, lists: bool) -> NDArray[np.uint32] | Exhaustion | None:
    """Try every order of a few transactions.

    Returns:
        An order that shows `model` (a schedule has starts, twice the row, and commits, one more; an order of versions
        is that of their transactions); or that there is none; or None for other models and for histories of more than
        `TRANSACTIONS_MAX` transactions.
    """
    name = ALL.get(model)
    if name is None or int(np.count_nonzero(columns.outcome != FAIL)) > TRANSACTIONS_MAX:
        return None
    orders = _Orders(columns, name, lists=lists)
    order = orders.serial() if model in SERIAL else orders.schedule() if model in SCHEDULES else orders.versions()
    return Exhaustion(name, tuple(orders.usable)) if order is None else np.array(order, dtype=np.uint32)


def is_exhausted(columns: TransactionColumns, claim: Exhaustion, *, lists: bool) -> bool:
    """Whether a history has no order of the kind that `claim` names."""
    model = next((model for model, name in ALL.items() if name == claim.name), "")
    nothing = tried(columns, model, lists=lists)
    return isinstance(nothing, Exhaustion) and nothing == claim


class _Orders:
    """The orders of one history's transactions, tried depth first."""

    def __init__(self, columns: TransactionColumns, name: str, *, lists: bool) -> None:
        c = self._columns = columns
        self._lists = lists
        self._proof: Proof = ListProof(columns) if lists else RegisterProof(columns)
        self._keys = {key: place for place, key in enumerate(np.unique(c.key).tolist())}
        self.usable = [t for t in range(len(c)) if int(c.outcome[t]) != FAIL]
        self._required = frozenset(t for t in self.usable if self._proof.is_ok(t))
        self._before = {t: frozenset(self._must_precede(t, name)) for t in self.usable}
        self._written = {
            t: frozenset(int(c.key[m]) for m in self._proof.ops(t) if c.kind[m] == WRITE) for t in self.usable
        }

    def _must_precede(self, t: int, name: str) -> Iterator[int]:
        """Transactions that were completed before it was invoked, as far as the model asks for that."""
        c = self._columns
        for other in self._required - {t}:
            same = name.endswith("-process") and int(c.process[other]) == int(c.process[t])
            if (name.endswith("-realtime") or same) and int(c.completed[other]) < int(c.invoked[t]):
                yield other

    def _after(self, t: int, state: _State) -> _State | None:
        """The state behind a transaction; None where it did not return what is there."""
        c, held = self._columns, list(state)
        for m in self._proof.ops(t):
            place = self._keys[int(c.key[m])]
            if c.kind[m] == WRITE:
                held[place] = (*(held[place] if self._lists else ()), int(c.value[m]))
            elif c.kind[m] == READ and self._proof.is_ok(t) and held[place] != tuple(self._proof.shown(m)):
                return None
        return tuple(held)

    def serial(self) -> list[int] | None:
        """One transaction after the other."""
        dead = set[tuple[frozenset[int], _State]]()

        def extended(order: list[int], state: _State) -> list[int] | None:
            placed = frozenset(order)
            if self._required <= placed:
                return order
            if (placed, state) in dead:
                return None
            dead.add((placed, state))
            for t in self.usable:
                after = self._after(t, state) if t not in placed and self._before[t] <= placed else None
                if after is not None and (whole := extended([*order, t], after)) is not None:
                    return whole
            return None

        return extended([], ((),) * len(self._keys))

    def schedule(self) -> list[int] | None:
        """Starts, which see what was committed, and commits, before which nobody else changed what is written."""
        dead = set[tuple[frozenset[tuple[int, frozenset[int]]], frozenset[int], _State]]()

        def extended(
            order: list[int], open_: dict[int, frozenset[int]], done: frozenset[int], state: _State
        ) -> list[int] | None:
            if self._required <= done:
                return order
            known = frozenset(open_.items()), done, state
            if known in dead:
                return None
            dead.add(known)
            for t in self.usable:
                whole = None
                if t in open_ and not open_[t] & self._written[t]:
                    others = {o: changed | self._written[t] for o, changed in open_.items() if o != t}
                    whole = extended([*order, 2 * t + 1], others, done | {t}, self._committed(t, state))
                elif t not in open_ and t not in done and self._before[t] <= done and self._after(t, state) is not None:
                    whole = extended([*order, 2 * t], open_ | {t: frozenset()}, done, state)
                if whole is not None:
                    return whole
            return None

        return extended([], {}, frozenset(), ((),) * len(self._keys))

    def _committed(self, t: int, state: _State) -> _State:
        c, held = self._columns, list(state)
        for m in self._proof.ops(t):
            if c.kind[m] == WRITE:
                place = self._keys[int(c.key[m])]
                held[place] = (*(held[place] if self._lists else ()), int(c.value[m]))
        return tuple(held)

    def versions(self) -> list[int] | None:
        """Transactions in an order by which their versions make no cycle of at most one anti-dependency."""
        included = [t for t in self.usable if self._proof.happened(t)]
        return next((list(order) for order in permutations(included) if self._is_kept(order)), None)

    def _is_kept(self, order: Sequence[int]) -> bool:
        """Whether the reads fit these versions, and no anti-dependency leads against what depends on each other."""
        writers = {key: [t for t in order if key in self._written[t]] for key in set(self._columns.key.tolist())}
        behind: dict[int, set[int]] = {t: set() for t in order}
        for chain in writers.values():
            for place, t in enumerate(chain):
                behind[t].update(chain[place + 1 :])
        against = list[tuple[int, int]]()
        for t in self._required:
            for m in (m for m in self._proof.ops(t) if self._columns.kind[m] == READ):
                chain = writers[int(self._columns.key[m])]
                version = self._version(t, m, chain)
                if version is None:
                    return False
                for writer in chain[max(version - 1, 0) : version]:
                    behind[writer].add(t)
                against += [(t, later) for later in chain[version:] if later != t]
        at = {t: place for place, t in enumerate(order)}
        if any(at[after] <= at[t] for t in order for after in behind[t] - {t}):
            return False
        for t in reversed(order):
            behind[t] = behind[t].union(*(behind[after] for after in behind[t] - {t}))
        return not any(reader in behind[writer] for reader, writer in against)

    def _version(self, t: int, m: int, chain: list[int]) -> int | None:
        """How many versions of its key precede what the read `m` shows, its own included; None if it shows none."""
        c, key = self._columns, int(self._columns.key[m])
        own = tuple(int(c.value[o]) for o in self._proof.ops(t) if o < m and c.kind[o] == WRITE and c.key[o] == key)
        seen = tuple(self._proof.shown(m))
        if own and not self._lists:
            return chain.index(t) + 1 if seen == own[-1:] else None
        made: tuple[int, ...] = ()
        for place in range(len(chain) + 1):
            if place:
                ops = self._proof.ops(chain[place - 1])
                values = tuple(int(c.value[o]) for o in ops if c.kind[o] == WRITE and c.key[o] == key)
                made = (*made, *values) if self._lists else values[-1:]
            # A list that ends with own appends shows all that was appended before these.
            fits = chain[place : place + 1] == [t] if own else t not in chain[:place]
            if fits and seen == (*made, *own):
                return place + bool(own)
        return None
