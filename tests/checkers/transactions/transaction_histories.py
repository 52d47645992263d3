"""Histories of transactions for tests: a tiny language, simulated stores of known isolation, and a dumb oracle.

In the tiny language a transaction is one string: `ax1` appends 1 to x, `wx1` writes it, `rx1,2` read that list (or
`rx1` that register), `rx` read an empty list, `rx_` a register that holds nothing, `rx?` was never answered. `@2-5` is
its interval, `#3` its process, `!info` and `!fail` its outcome; else it is ok, concurrent with all, of a process of its
own.
"""

import itertools
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

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

OUTCOMES: Final = {"!ok": OK, "!fail": FAIL, "!info": INFO}


@dataclass(frozen=True, slots=True)
class Op:
    """One micro-operation; `seen` is the list read, `value` what was written or read of a register."""

    kind: int
    key: str
    value: int = 0
    seen: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Txn:
    ops: tuple[Op, ...]
    invoked: int
    completed: int
    process: int
    outcome: int = OK


def exposed(txns: Sequence[Txn]) -> bool:
    """Whether an ok transaction reads a key that another one writes, which did not fail."""
    return any(
        other is not txn and wrote.kind == WRITE and wrote.key == op.key and other.outcome != FAIL
        for txn in txns
        if txn.outcome == OK
        for op in txn.ops
        if op.kind == READ
        for other in txns
        for wrote in other.ops
    )


def columns(txns: Sequence[Txn]) -> TransactionColumns:
    """The columns of some transactions, keys numbered as they come."""
    keys: dict[str, int] = {}
    first, start, elements = [0], [0], list[int]()
    ops = [op for txn in txns for op in txn.ops]
    for txn in txns:
        first.append(first[-1] + len(txn.ops))
    for op in ops:
        keys.setdefault(op.key, len(keys))
        elements += op.seen
        start.append(len(elements))

    def array(values: Iterable[int]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        return np.array(list(values), dtype=np.int64)

    return TransactionColumns(
        process=array(txn.process for txn in txns),
        outcome=array(txn.outcome for txn in txns),
        invoked=array(txn.invoked for txn in txns),
        completed=array(txn.completed if txn.outcome == OK else NEVER for txn in txns),
        first=array(first),
        kind=array(op.kind for op in ops),
        key=array(keys[op.key] for op in ops),
        value=array(op.value for op in ops),
        start=array(start),
        elements=array(elements),
        keys=tuple(keys),
    )


def told(*rows: str) -> list[Txn]:
    """Transactions in the tiny language."""
    txns = []
    for place, row in enumerate(rows):
        ops, begin, end, process, outcome = list[Op](), place, 1000 + place, 1000 + place, OK
        for word in row.split():
            if word.startswith("@"):
                begin, end = (int(part) for part in word[1:].split("-"))
            elif word.startswith("#"):
                process = int(word[1:])
            elif word.startswith("!"):
                outcome = OUTCOMES[word]
            elif word[0] in "aw":
                ops.append(Op(WRITE, word[1], int(word[2:])))
            elif word[2:] == "?":
                ops.append(Op(READ_UNKNOWN, word[1]))
            elif word[2:] == "_":
                ops.append(Op(READ, word[1], NIL))
            else:
                seen = tuple(int(value) for value in word[2:].split(",") if value)
                ops.append(Op(READ, word[1], seen[0] if len(seen) == 1 else 0, seen))
        txns.append(Txn(tuple(ops), begin, end, process, outcome))
    return txns


def explainable(txns: Sequence[Txn], *, realtime: bool, lists: bool) -> bool:
    """Whether some serial order of the ok transactions, and of some of unknown outcome, returns what was returned.

    All orders are tried, one transaction after the other: no more than about six.
    """
    required = {place for place, txn in enumerate(txns) if txn.outcome == OK}
    usable = [place for place, txn in enumerate(txns) if txn.outcome != FAIL]

    def extend(placed: frozenset[int], state: dict[str, tuple[int, ...]]) -> bool:
        if required <= placed:
            return True
        for place in usable:
            if place in placed:
                continue
            if realtime and any(txns[other].completed < txns[place].invoked for other in required - placed - {place}):
                continue
            after = _carry_out(txns[place], state, lists)
            if after is not None and extend(placed | {place}, after):
                return True
        return False

    return extend(frozenset(), {})


def _carry_out(txn: Txn, state: dict[str, tuple[int, ...]], lists: bool) -> dict[str, tuple[int, ...]] | None:
    state = dict(state)
    for op in txn.ops:
        held = state.get(op.key, ())
        if op.kind == WRITE:
            state[op.key] = (*held, op.value) if lists else (op.value,)
        elif op.kind == READ and txn.outcome == OK and held != wanted(op, lists):
            return None
    return state


def wanted(op: Op, lists: bool) -> tuple[int, ...]:
    """What a key must hold for a read to return what it returned."""
    return op.seen if lists else () if op.value == NIL else (op.value,)


def small(rng: random.Random, *, lists: bool, most: int = 6) -> list[Txn]:
    """Two to `most` transactions on one to three keys: mostly of a correct store, with some reads made wrong."""
    count, keys = rng.randint(2, most), "xyz"[: rng.randint(1, 3)]
    wrong = rng.choice((0.0, 0.1, 0.4, 0.8))
    state: dict[str, tuple[int, ...]] = {}
    past: dict[str, list[tuple[int, ...]]] = {key: [()] for key in keys}
    written = itertools.count(1)
    spread = rng.choice((1, 3, 8))
    ends: dict[int, int] = {}
    txns = []
    for place in range(count):
        outcome = rng.choices((OK, INFO, FAIL), (8, 1, 1))[0]
        ops = []
        lost = outcome == FAIL or (outcome == INFO and rng.random() < 0.5)
        begun = dict(state)
        for _ in range(rng.randint(1, 3)):
            key = rng.choice(keys)
            if rng.random() < 0.5:
                value = next(written)
                state[key] = (*state.get(key, ()), value) if lists else (value,)
                if rng.random() < 0.9:
                    past[key].append(state[key])
                ops.append(Op(WRITE, key, value))
                continue
            seen = state.get(key, ())
            if rng.random() < wrong:
                seen = rng.choice(past[key])
            if rng.random() < wrong / 8:
                seen = (*seen, rng.randint(1, 9))
            if rng.random() < wrong / 8 and seen:
                seen = tuple(rng.sample(seen, len(seen)))
            if outcome != OK:
                ops.append(Op(READ_UNKNOWN, key))
            elif lists:
                ops.append(Op(READ, key, 0, seen))
            else:
                ops.append(Op(READ, key, seen[-1] if seen else NIL))
        if lost and rng.random() < 0.9:
            state = begun
        middle = 10 * place + 5
        process = rng.randrange(4)
        begin = max(middle - rng.randrange(1, 10 * spread), ends.get(process, -1) + 1)
        if begin >= middle:
            process, begin = 10 + place, middle - rng.randrange(1, 10 * spread)
        end = middle + rng.randrange(1, 10 * spread)
        if outcome == OK:
            ends[process] = end
        else:
            process = 100 + place
        txns.append(Txn(tuple(ops), 2 * begin, 2 * end + 1, process, outcome))
    rng.shuffle(txns)
    return txns


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Of a simulated history: `isolation` is serializable, snapshot, read-committed or read-uncommitted."""

    transactions: int
    clients: int = 8
    keys: int = 8
    ops: int = 4
    per_key: int = 60
    reads: float = 0.5
    info: float = 0.0
    fails: float = 0.0
    isolation: str = "serializable"
    lists: bool = True


class _Store:
    """Versions of each key, the committed ones with the moment of their commit."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.held: dict[str, tuple[int, ...]] = {}
        self.locks: dict[str, int] = {}
        self.changed: dict[str, int] = {}

    def lock(self, op: Op, client: int) -> bool:
        """Whether a client may go on: a write takes the key for it until the end of its transaction."""
        return op.kind != WRITE or self.locks.setdefault(op.key, client) == client

    def unlock(self, client: int) -> None:
        self.locks = {key: owner for key, owner in self.locks.items() if owner != client}

    def write(self, key: str, value: int, state: dict[str, tuple[int, ...]]) -> None:
        state[key] = (*state.get(key, ()), value) if self.shape.lists else (value,)


def simulated(rng: random.Random, shape: Shape) -> list[Txn]:
    """Clients that run transactions on a store of `shape.isolation`, their steps interleaved at random."""
    store = _Store(shape)
    active = [f"k{place}" for place in range(shape.keys)]
    uses = dict.fromkeys(active, 0)
    fresh = itertools.count(shape.keys)
    values = itertools.count(1)
    clock = itertools.count()
    running: dict[int, _Running] = {}
    processes = list(range(shape.clients))
    done: list[Txn] = []
    started = 0
    while started < shape.transactions or running:
        client = rng.randrange(shape.clients)
        now = running.get(client)
        if now is None:
            if started == shape.transactions:
                client = rng.choice(list(running))
                now = running[client]
            else:
                started += 1
                running[client] = _Running(next(clock), _plan(rng, shape, active, uses, fresh, values))
                continue
        if not now.begun:
            now.begun = True
            now.state = dict(store.held) if shape.isolation in ("serializable", "snapshot") else {}
            now.since = next(clock)
            if shape.isolation == "serializable":
                while now.left:
                    now.act(store, now.state)
                store.held = now.state if now.lives(rng, shape) else store.held
            continue
        if now.left:
            if shape.isolation == "snapshot":
                now.act(store, now.state)
            elif shape.isolation == "read-uncommitted":
                now.act(store, store.held)
            elif not store.lock(now.left[-1], client):
                # Another's uncommitted write of the key: wait, or give up, so that two never wait for each other long.
                if rng.random() < 0.1:
                    now.left, now.committed, now.outcome = [], True, FAIL
                    store.unlock(client)
            else:
                view = dict(store.held)
                for op in now.done:
                    if op.kind == WRITE:
                        store.write(op.key, op.value, view)
                now.act(store, view)
            continue
        if not now.committed:
            now.committed = True
            now.commit(rng, store, next(clock))
            store.unlock(client)
            continue
        outcome = now.outcome
        process = processes[client]
        if outcome == INFO:
            processes[client] += shape.clients
        ops = tuple(now.done) if outcome == OK else tuple(_unread(op) for op in now.done)
        done.append(Txn(ops, now.invoked, next(clock), process, outcome))
        del running[client]
    return sorted(done, key=lambda txn: txn.invoked)


def _unread(op: Op) -> Op:
    return op if op.kind == WRITE else Op(READ_UNKNOWN, op.key)


def _plan(
    rng: random.Random,
    shape: Shape,
    active: list[str],
    uses: dict[str, int],
    fresh: "itertools.count[int]",
    values: "itertools.count[int]",
) -> list[Op]:
    ops = []
    for _ in range(rng.randint(1, shape.ops)):
        place = rng.randrange(len(active))
        key = active[place]
        if rng.random() < shape.reads:
            ops.append(Op(READ, key))
            continue
        uses[key] += 1
        ops.append(Op(WRITE, key, next(values)))
        if uses[key] >= shape.per_key:
            active[place] = f"k{next(fresh)}"
            uses[active[place]] = 0
    return ops


class _Running:
    """One transaction on its way."""

    def __init__(self, invoked: int, plan: list[Op]) -> None:
        self.invoked = invoked
        self.left = plan[::-1]
        self.done: list[Op] = []
        self.state: dict[str, tuple[int, ...]] = {}
        self.begun = self.committed = False
        self.since = 0
        self.outcome = OK

    def act(self, store: _Store, view: dict[str, tuple[int, ...]]) -> None:
        op = self.left.pop()
        if op.kind == WRITE:
            store.write(op.key, op.value, view)
        else:
            held = view.get(op.key, ())
            last = held[-1] if held else NIL
            op = replace(op, seen=held) if store.shape.lists else replace(op, value=last)
        self.done.append(op)

    def lives(self, rng: random.Random, shape: Shape) -> bool:
        """Decide the outcome as the client learns it, and whether the transaction took effect."""
        drawn = rng.random()
        if drawn < shape.fails:
            self.outcome = FAIL
        elif drawn < shape.fails + shape.info:
            self.outcome = INFO
            return rng.random() < 0.5
        return self.outcome == OK

    def commit(self, rng: random.Random, store: _Store, now: int) -> None:
        shape = store.shape
        if shape.isolation == "serializable":
            return
        keys = {op.key for op in self.done if op.kind == WRITE}
        if shape.isolation == "snapshot" and any(store.changed.get(key, -1) > self.since for key in keys):
            self.outcome = FAIL
            return
        if not self.lives(rng, shape):
            return
        if shape.isolation == "read-uncommitted":
            return
        for op in self.done:
            if op.kind == WRITE:
                store.write(op.key, op.value, store.held)
                store.changed[op.key] = now


def spliced(history: Sequence[Txn], motif: Sequence[Txn], at: float) -> list[Txn]:
    """A motif, on keys and processes of its own, amid a history: its places come between two events of it."""
    events = sorted({place for txn in history for place in (txn.invoked, txn.completed)})
    middle = events[int(len(events) * at)]
    span = 10_000

    def moved(place: int) -> int:
        return place * span

    def within(place: int) -> int:
        return middle * span + 1 + place

    def renamed(op: Op) -> Op:
        return replace(op, key=f"motif-{op.key}")

    base = [replace(txn, invoked=moved(txn.invoked), completed=moved(txn.completed)) for txn in history]
    extra = [
        replace(
            txn,
            invoked=within(txn.invoked),
            completed=within(txn.completed),
            process=10**6 + txn.process,
            ops=tuple(renamed(op) for op in txn.ops),
        )
        for txn in motif
    ]
    return sorted(base + extra, key=lambda txn: txn.invoked)


def ring(kind: str, count: int) -> list[Txn]:
    """`count` concurrent transactions, each before the next and the last before the first, by edges of one kind."""
    txns = []
    for place in range(count):
        own, following = f"k{place}", f"k{(place + 1) % count}"
        ops = {
            "wr": (Op(WRITE, own, 1), Op(READ, f"k{(place - 1) % count}", 1, (1,))),
            "rw": (Op(WRITE, own, 1), Op(READ, following, NIL, ())),
            "ww": (Op(WRITE, own, 1), Op(WRITE, following, 0)),
        }[kind]
        txns.append(Txn(ops, place, 10 * count + place, place))
    if kind == "ww":
        # Transaction p appends 1 to its key after transaction p - 1 had appended 0 to it.
        for place in range(count):
            seen = (Op(READ, f"k{place}", 1, (0, 1)),)
            txns.append(Txn(seen, count + place, 20 * count + place, count + place))
    return txns


def replicated(rng: random.Random, *, transactions: int, sticky: bool) -> list[Txn]:
    """Registers on three replicas that take each other's transactions whole, in causal order, the last writer winning.

    `sticky`: each client stays with one replica, which is causal consistency; else only atomic reads are kept.
    """
    replicas: list[dict[str, tuple[int, int]]] = [{}, {}, {}]
    known: list[set[int]] = [set(), set(), set()]
    made: list[tuple[set[int], dict[str, tuple[int, int]]]] = []
    txns = []
    for number in range(transactions):
        client = rng.randrange(6)
        at = client % 3 if sticky else rng.randrange(3)
        # Logical time: above everything that the replica has seen.
        time = number + 1
        ops, left, view = list[Op](), dict[str, tuple[int, int]](), dict(replicas[at])
        for place in range(rng.randint(1, 4)):
            key = rng.choice("xyz")
            if rng.random() < 0.5:
                left[key] = view[key] = (time, 10 * number + place)
                ops.append(Op(WRITE, key, 10 * number + place))
            else:
                ops.append(Op(READ, key, view[key][1] if key in view else NIL))
        replicas[at] = view
        made.append((set(known[at]), left))
        known[at].add(number)
        txns.append(Txn(tuple(ops), 2 * number, 2 * number + 1, client))
        for to in range(3):
            for other, (needed, wrote) in enumerate(made):
                if other not in known[to] and needed <= known[to] and rng.random() < 0.3:
                    known[to].add(other)
                    for key, version in wrote.items():
                        replicas[to][key] = max(replicas[to].get(key, (0, 0)), version)
    return txns
