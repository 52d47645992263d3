"""Which rules about transactions could have fired, and how often: counted by what was asked, whatever was answered.

A rule is named for the anomaly that it finds. Its chances are the micro-operations by which a wrong answer would have
shown that anomaly: a dirty read needs a failed write of the key, a lost update two transactions that read the key
before they wrote it, a cycle with one anti-dependency a transaction that reads and depends on another one besides. The
conditions are necessary, not sufficient: whether transactions overlapped is not asked.

Every condition concerns one key and the shape of one transaction, so chances of parts of a history that share no key
can be added up.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fencepost.checkers.findings.finding import rule
from fencepost.checkers.transactions.columns import FAIL, OK, READ, WRITE, Column, Mask, TransactionColumns
from fencepost.checkers.transactions.exhaustion import ALL, TRANSACTIONS_MAX
from fencepost.harness.verdict import Rule
from fencepost.harness.verdict.consistency_models import ruled_out, ruled_out_of_registers

#: What a micro-operation's transaction does to other keys, as bits of a `Micro`'s `elsewhere`.
WRITES_ELSEWHERE: Final = 1
READS_ELSEWHERE: Final = 2

_READ: Final = "no ok transaction read what another one writes"
_OVERWRITTEN: Final = "no two transactions write one key"
_FAILED: Final = "no ok transaction read a key that a failed one writes"
_TWICE: Final = "no ok transaction read a key that another one writes twice"
_UPDATES: Final = "no two transactions read one key and then wrote it"

#: Rules by the anomaly that they are named for: by which count of `Chances`, and what is lacking where that is 0.
_LISTS: Final = {
    "duplicate-elements": ("read", "no ok transaction read a list"),
    "incompatible-order": ("read_again", "no list was read twice, and no transaction appends to one twice"),
}
_REGISTERS: Final = {
    "cyclic-versions": ("updates", _UPDATES),
    "cyclic-versions-process": ("tested", _READ),
    "cyclic-versions-realtime": ("tested", _READ),
}
_BOTH: Final = {
    "garbage-read": ("read", "no ok transaction read anything"),
    "G1a": ("read_of_failed", _FAILED),
    "dirty-update": ("update_of_failed", f"{_FAILED} and another one overwrites"),
    "G1b": ("read_of_twice_written", _TWICE),
    "internal": ("read_of_own", "no ok transaction read a key that it had read or written before"),
    "future-read": ("read_before_own_write", "no ok transaction read a key before it wrote it"),
    "lost-update": ("updates", _UPDATES),
    "G0": ("overwritten_in_two_keys", f"{_OVERWRITTEN} and a second one"),
    "G0-process": ("overwritten", _OVERWRITTEN),
    "G0-realtime": ("overwritten", _OVERWRITTEN),
    "G1c": ("read_by_writer", f"{_READ}, and wrote besides"),
    "G1c-process": ("tested", _READ),
    "G1c-realtime": ("tested", _READ),
    "G-single": ("read_with_more", f"{_READ}, and did more besides"),
    "G-single-process": ("tested", _READ),
    "G-single-realtime": ("tested", _READ),
    "G-nonadjacent": ("read_with_more", f"{_READ}, and did more besides"),
    "G-nonadjacent-process": ("tested", _READ),
    "G-nonadjacent-realtime": ("tested", _READ),
    "G2-item": ("read_by_writer", f"{_READ}, and wrote besides"),
    "G2-item-process": ("tested", _READ),
    "G2-item-realtime": ("tested", _READ),
    "observed-transaction-vanishes": ("read_with_read", f"{_READ}, and read besides"),
    "observed-transaction-vanishes-process": ("tested", _READ),
    "fractured-reads": ("read_with_read", f"{_READ}, and read besides"),
    "fractured-reads-process": ("tested", _READ),
    "causality-violation": ("read_with_read", f"{_READ}, and read besides"),
    "causality-violation-process": ("tested", _READ),
}
#: Each of these comes with a cycle of one anti-dependency.
_SPECIAL_CASES: Final = frozenset(name for name in _BOTH if name.startswith(("observed-", "fractured-", "causality-")))


class Micro(NamedTuple):
    """Micro-operations of whole keys, one a row, those of a transaction side by side and in its order.

    `kind`, `key` and `outcome` are as in `TransactionColumns`; `transaction` is any number that never decreases;
    `elsewhere` says what the transaction does to other keys, by the bits above.
    """

    kind: Column
    key: Column
    transaction: Column
    outcome: Column
    elsewhere: Column


class Chances(NamedTuple):
    """How many micro-operations could have shown an anomaly, by what that takes."""

    #: Reads of ok transactions.
    read: int = 0
    #: Reads of keys that another transaction writes, which did not fail. The next three are tested reads, too.
    tested: int = 0
    #: The reader writes as well.
    read_by_writer: int = 0
    #: The reader reads or writes besides, or another transaction writes the key twice.
    read_with_more: int = 0
    #: The reader reads something besides.
    read_with_read: int = 0
    #: Reads of keys that are read twice, or that one transaction writes twice.
    read_again: int = 0
    #: Reads of keys that a failed transaction writes; and that then (lists) anybody or (registers) the reader writes.
    read_of_failed: int = 0
    update_of_failed: int = 0
    #: Reads of keys that another transaction writes twice.
    read_of_twice_written: int = 0
    #: Reads of keys that the reader had read or written before.
    read_of_own: int = 0
    #: Reads of keys that the reader then writes; and that another transaction reads and then writes, too.
    read_before_own_write: int = 0
    updates: int = 0
    #: Writes of keys that another transaction writes, whose order a read can show; where one of the writers writes
    #: once more, there or elsewhere.
    overwritten: int = 0
    overwritten_in_two_keys: int = 0


def chances_of(columns: TransactionColumns, *, lists: bool) -> Chances:
    """The chances of a whole history. Cost: O(n log n) in micro-operations, over arrays."""
    counts = np.diff(columns.first)
    owner = np.repeat(np.arange(len(columns), dtype=np.int64), counts)
    outcome = np.repeat(columns.outcome, counts)
    writes = (columns.kind == WRITE) & (outcome != FAIL)
    reads = (columns.kind == READ) & (outcome == OK)
    elsewhere = WRITES_ELSEWHERE * _elsewhere(writes, columns.key, owner)
    elsewhere += READS_ELSEWHERE * _elsewhere(reads, columns.key, owner)
    return count(Micro(columns.kind, columns.key, owner, outcome, elsewhere), lists=lists)


def _elsewhere(chosen: Mask, key: Column, owner: Column) -> Column:
    """Whether a row's transaction has a chosen row of another key (1), or not (0)."""
    transactions = int(owner.max(initial=-1)) + 1
    least = np.full(transactions, np.iinfo(np.int64).max)
    most = np.full(transactions, np.iinfo(np.int64).min)
    np.minimum.at(least, owner[chosen], key[chosen])
    np.maximum.at(most, owner[chosen], key[chosen])
    least, most = least[owner], most[owner]
    others: Mask = (least <= most) & ((least != key) | (most != key))
    return others.astype(np.int64)


def count(micro: Micro, *, lists: bool) -> Chances:
    """The chances of some whole keys, of lists or of registers."""
    if not len(micro.kind):
        return Chances()
    order = np.argsort(micro.key, kind="stable")
    kind, key, owner, outcome, elsewhere = (column[order] for column in micro)
    keys = _groups(np.append(True, key[1:] != key[:-1]))
    # A pair is what one transaction does to one key.
    pairs = _groups(np.append(True, (key[1:] != key[:-1]) | (owner[1:] != owner[:-1])))
    write, read = (kind == WRITE) & (outcome != FAIL), (kind == READ) & (outcome == OK)
    writes, reads = _sums(write, pairs), _sums(read, pairs)
    leads = np.append(True, pairs[1:] != pairs[:-1])
    before, seen = _earlier(write, leads, pairs), _earlier(read | write, leads, pairs)
    writers = _sums(leads & (writes > 0), keys)
    twice = _sums(leads & (writes > 1), keys)
    others = writers - (writes > 0)
    failed = _sums((kind == WRITE) & (outcome == FAIL), keys) > 0
    tested = read & (others > 0)
    writes_there, reads_there = elsewhere & WRITES_ELSEWHERE > 0, elsewhere & READS_ELSEWHERE > 0
    updates = read & (writes > before)
    updaters = _sums(_first_of(updates, pairs), keys)
    by_writer = tested & ((writes > 0) | writes_there)
    twice_elsewhere = twice - (writes > 1) > 0
    shown = (_sums(read, keys) > 0) if lists else np.ones(len(kind), bool)
    overwritten = write & (others > 0) & shown
    chances = {
        "read": read,
        "tested": tested,
        "read_by_writer": by_writer,
        "read_with_more": by_writer | (tested & (reads_there | (reads > 1) | twice_elsewhere)),
        "read_with_read": tested & (reads_there | (reads > 1)),
        "read_again": read & ((_sums(read, keys) > 1) | (twice > 0)),
        "read_of_failed": read & failed,
        "update_of_failed": read & failed & (writers > 0 if lists else writes > before),
        "read_of_twice_written": read & twice_elsewhere,
        "read_of_own": read & (seen > 0),
        "read_before_own_write": updates,
        "updates": updates & (updaters > 1),
        "overwritten": overwritten,
        "overwritten_in_two_keys": overwritten & (writes_there | (writes > 1) | twice_elsewhere),
    }
    return Chances(**{name: int(np.count_nonzero(rows)) for name, rows in chances.items()})


def _groups(begins: NDArray[np.bool_]) -> Column:
    """The number of each row's group, from 0; `begins`: whether a row is the first of one."""
    return np.cumsum(begins) - 1


def _sums(rows: NDArray[np.bool_], groups: Column) -> Column:
    """How many of these rows each row's group has."""
    return np.bincount(groups, weights=rows).astype(np.int64)[groups]


def _earlier(rows: NDArray[np.bool_], leads: NDArray[np.bool_], groups: Column) -> Column:
    """How many of these rows stand before each row in its group, which begins at the row that leads."""
    before: Column = np.cumsum(rows) - rows
    return before - before[leads][groups]


def _first_of(rows: NDArray[np.bool_], groups: Column) -> Mask:
    """The first of these rows in each group."""
    places = np.flatnonzero(rows)
    first = np.zeros(len(rows), bool)
    first[places[np.unique(groups[places], return_index=True)[1]]] = True
    return first


def rules_of(model: str, chances: Chances, *, lists: bool, transactions: int) -> tuple[Rule, ...]:
    """The rules by which `model` could have been ruled out; `transactions` of the history did not fail.

    A rule that keeps the order of each process is left out where another one keeps that of real time, and so are the
    special cases of a cycle with one anti-dependency where every such cycle counts.
    """
    names = _BOTH | (_LISTS if lists else _REGISTERS)
    out = ruled_out if lists else ruled_out_of_registers
    against = {name for name in names if model in out([name])}
    against -= {f"{name.removesuffix('-realtime')}-process" for name in against if name.endswith("-realtime")}
    against -= _SPECIAL_CASES if "G-single" in against else set()
    counts = chances._asdict()
    rules = tuple(rule(name, counts[count], lacks) for name, (count, lacks) in names.items() if name in against)
    all_orders = ALL.get(model)
    if all_orders is None:
        return rules
    few = transactions <= TRANSACTIONS_MAX
    lacks = _READ if few else f"there are more than {TRANSACTIONS_MAX} transactions: not all orders can be tried"
    return (*rules, rule(all_orders, chances.tested if few else 0, lacks))
