"""Transactions cut by key: what whole keys show, and whether an order of all transactions explains them.

Whatever is wrong with a history apart from cycles concerns one key, and so does every dependency
(`native/src/transactions/parts.rs`). So micro-operations are dealt out by key (MICRO), in batches that may cut one: the
key that is still open is carried over (`whole_keys`), and each call of the native core sees whole keys (`pieces`), once
they break no rule of the table.

An order of all transactions is given by their points (`checkers.tables.transactions_windows`). It explains a history
if it explains each key by itself (`explained`): that is carried out on the rows alone, and shares nothing with
the edges.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.checkers import _core
from fencepost.checkers.tables.transactions import micro_rules, written_twice
from fencepost.checkers.tables.transactions_windows import FOREVER, Column, Points
from fencepost.checkers.transactions.columns import INFO, NIL, OK, READ, READ_UNKNOWN, WRITE, tested_reads
from fencepost.checkers.transactions.native import Assumed
from fencepost.checkers.transactions.rules import Micro, count

#: What a row of PIECE is: an edge, an anomaly, a transaction that somebody saw, a cycle of versions, a broken rule of
#: the table, a value written twice, what there was to judge, how often a rule could have fired.
EDGE: Final = 0
ANOMALY: Final = 1
OBSERVED: Final = 2
CIRCLE: Final = 3
BROKEN: Final = 4
TWICE: Final = 5
COUNTED: Final = 6
CHANCES: Final = 7

#: As `kind` of what is BROKEN: it is said of all rows, not of one transaction.
NO_TRANSACTION: Final = -1

#: Micro-operations, each with its transaction, as the table has them. `f` is above 127 where something is null that
#: may not be; a key that is null is 0 then. `elsewhere` is as in `checkers.transactions.rules.Micro`.
MICRO: Final[dict[str, Any]] = {
    "key": pa.int64(),
    "transaction": pa.int64(),
    "process": pa.int32(),
    "outcome": pa.int8(),
    "invoked": pa.int64(),
    "completed": pa.int64(),
    "place": pa.int32(),
    "elsewhere": pa.int8(),
    "f": pa.int32(),
    "value": pa.int64(),
    "list": pa.list_(pa.int64()),
}
#: What is null, by `f`.
NULLS: Final = {
    200: "a micro-operation in `ops`",
    201: "field 'f' of `ops`",
    202: "field 'key' of `ops`",
}

#: What was found; which columns count depends on `what`. An EDGE has those of `transaction_windows.Edges`.
PIECE: Final[dict[str, Any]] = {
    "what": pa.int64(),
    "name": pa.string(),
    "key": pa.int64(),
    "source": pa.int64(),
    "target": pa.int64(),
    "kind": pa.int64(),
    "source_time": pa.int64(),
    "target_time": pa.int64(),
    "target_until": pa.int64(),
}

#: Virtual nodes that one part may number.
VIRTUAL_MAX: Final = 1 << 40


def whole_keys(batches: Iterable[Any]) -> Iterator[Any]:
    """The same rows, cut so that no key is in two parts; `batches` (MICRO) are sorted by key.

    Raises RuntimeError when they are not: keys would be judged in pieces.
    """
    held: list[Any] = []
    last = None
    for batch in batches:
        if not batch.num_rows:
            continue
        key = _numbers(batch, "key")
        if np.any(key[1:] < key[:-1]) or (last is not None and key[0] < last):
            raise RuntimeError("the micro-operations do not come sorted by key")
        if held and key[0] != last:
            yield _joined(held)
            held = []
        begin = int(np.searchsorted(key, key[-1]))
        if begin:
            yield _joined([*held, batch.slice(0, begin)])
            held = []
        held.append(batch.slice(begin))
        last = key[-1]
    if held:
        yield _joined(held)


def pieces(part: Any, *, lists: bool, assumed: Assumed, virtual: int = 0) -> Any:
    """What whole keys show (MICRO -> PIECE). Virtual nodes are numbered from `virtual` downwards, -1 at most."""
    broken = _broken(part, lists=lists)
    if broken is not None:
        return broken
    m = _Part(part, lists=lists)
    try:
        shown = _core.transaction_part(*m.columns, lists=lists, **assumed._asdict())
    except ValueError:
        twice = m.written_twice()
        if twice is None:
            raise
        key, value, first_, second = twice
        return _record(PIECE, 1, what=[TWICE], key=[key], kind=[value], source=[first_], target=[second])
    return (
        pa.Table.from_batches(
            [
                m.edges(shown, virtual - 1),
                m.anomalies(shown),
                m.observed(shown),
                m.circles(shown),
                m.counted(),
                m.chances(),
            ]
        )
        .combine_chunks()
        .to_batches()[0]
    )


def _broken(part: Any, *, lists: bool) -> Any | None:
    """The first micro-operation that breaks a rule (-> PIECE), if one does."""
    f, elements = _numbers(part, "f"), part.column("list").flatten()
    for null, what in NULLS.items():
        if rows := int(np.count_nonzero(f == null)):
            return _said_of_all(f"{what} is null in {rows} rows")
    if elements.null_count:
        return _said_of_all(f"an element of field 'list' of `ops` is null in {elements.null_count} rows")
    transaction, invoked, place = (_numbers(part, name) for name in ("transaction", "invoked", "place"))
    named, listed = (np.asarray(part.column(name).is_valid()) for name in ("value", "list"))
    rules = micro_rules(
        f, _numbers(part, "value"), _numbers(part, "outcome") == OK, named=named, listed=listed, lists=lists
    )
    violations: list[tuple[int, int, int, str]] = []
    for mask, tell in rules:
        rows_ = np.flatnonzero(mask)
        if len(rows_):
            row = int(rows_[np.lexsort((place[rows_], transaction[rows_], invoked[rows_]))[0]])
            why = f"micro-operation {place[row]}: {tell(row)}"
            violations.append((int(invoked[row]), int(transaction[row]), int(place[row]), why))
    if not violations:
        return None
    at, number, _, why = min(violations)
    return _record(PIECE, 1, what=[BROKEN], name=[why], source=[number], source_time=[at])


def _said_of_all(why: str) -> Any:
    return _record(PIECE, 1, what=[BROKEN], name=[why], kind=[NO_TRANSACTION])


def explained(part: Any, points: Points, seen: Column, *, lists: bool) -> Any:
    """Whether the order of `points` returns what whole keys returned; of those that it does not, the keys (int64).

    `seen`: the transactions of unknown outcome that happened, sorted. Transactions stand within their intervals.
    """
    key, transaction, outcome = (_numbers(part, name) for name in ("key", "transaction", "outcome"))
    f = _kinds(part)
    invoked, completed, place = (_numbers(part, name) for name in ("invoked", "completed", "place"))
    time, level = points.of(transaction, 2 * invoked)
    late = (time < 2 * invoked) | ((outcome == OK) & (time > 2 * completed))
    happened = (outcome == OK) | ((outcome == INFO) & np.isin(transaction, seen))
    chosen = np.flatnonzero(happened & ((f == WRITE) | (f == READ)))
    order = chosen[np.lexsort((place[chosen], transaction[chosen], level[chosen], time[chosen], key[chosen]))]
    key_, write = key[order], f[order] == WRITE
    first = np.searchsorted(key_, key_)
    # Writes before each row, over all keys and in its own.
    before = np.cumsum(write) - write
    own = before - before[first]
    values = _numbers(part, "value")[order]
    wrong = np.zeros(len(order), bool)
    read = np.flatnonzero(~write)
    if lists:
        wrong[read] = _lists_differ(part.column("list"), order[read], values[write], before[first][read], own[read])
    else:
        written = np.append(values[write], NIL)
        held = np.where(own > 0, written[before - 1], NIL)
        wrong[read] = held[read] != values[read]
    return np.unique(np.concatenate([key[late & happened], key_[wrong]]))


def _lists_differ(lists: Any, rows: Column, appended: Column, begin: Column, length: Column) -> Any:
    """Which of these lists are not the stretch of `appended` of this begin and length."""
    offsets = np.asarray(lists.offsets, dtype=np.int64)
    seen = offsets[rows + 1] - offsets[rows]
    differs = seen != length
    chosen = np.flatnonzero(~differs & (seen > 0))
    counts = seen[chosen]
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    elements = np.asarray(lists.values, dtype=np.int64)
    same = (
        elements[np.repeat(offsets[rows[chosen]], counts) + within]
        == appended[np.repeat(begin[chosen], counts) + within]
    )
    differs[chosen[np.unique(np.repeat(np.arange(len(chosen)), counts)[~same])]] = True
    return differs


class _Part:
    """Whole keys as the columns that the native core takes, transactions in the order of invocation."""

    def __init__(self, part: Any, *, lists: bool) -> None:
        order = np.lexsort(tuple(_numbers(part, name) for name in ("place", "transaction", "invoked")))
        part = part.take(pa.array(order))
        transaction, invoked = _numbers(part, "transaction"), _numbers(part, "invoked")
        begins = np.flatnonzero(np.append(True, (transaction[1:] != transaction[:-1]) | (invoked[1:] != invoked[:-1])))
        self._numbers = transaction[begins]
        self._key = _numbers(part, "key")
        self._keys, places = np.unique(self._key, return_inverse=True)
        start, elements = np.zeros(0, np.int64), np.zeros(0, np.int64)
        if lists:
            column = part.column("list")
            start = np.asarray(column.offsets, dtype=np.int64)
            elements = np.asarray(column.values, dtype=np.int64)[start[0] : start[-1]]
            start = start - start[0]
        self._outcome, self._invoked, self._completed = (
            _numbers(part, name)[begins] for name in ("outcome", "invoked", "completed")
        )
        self._kind, self._value = _kinds(part), _numbers(part, "value")
        self._elsewhere, self._lists = _numbers(part, "elsewhere"), lists
        self._owner = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(transaction))))
        self._elements = len(elements)
        self.columns = (
            _numbers(part, "process")[begins],
            self._outcome,
            self._invoked,
            self._completed,
            np.append(begins, len(transaction)).astype(np.int64),
            self._kind,
            np.ascontiguousarray(places.reshape(-1), dtype=np.int64),
            self._value,
            start,
            elements,
        )

    def edges(self, shown: _core.TransactionPart, virtual: int) -> Any:
        sources, targets, kinds = shown.edges
        moments, count = shown.moments, len(self._numbers)
        more = len(moments) - count
        names = np.concatenate([self._numbers, virtual - np.arange(more)])
        until = np.concatenate([np.where(self._outcome == OK, 2 * self._completed, FOREVER), np.full(more, FOREVER)])
        return _record(
            PIECE,
            len(sources),
            what=np.full(len(sources), EDGE),
            source=names[sources],
            target=names[targets],
            kind=kinds,
            source_time=moments[sources],
            target_time=moments[targets],
            target_until=until[targets],
        )

    def anomalies(self, shown: _core.TransactionPart) -> Any:
        anomalies = shown.anomalies
        return _record(
            PIECE,
            len(anomalies),
            what=np.full(len(anomalies), ANOMALY),
            name=[row[0] for row in anomalies],
            key=[int(self._keys[row[5]]) for row in anomalies],
        )

    def observed(self, shown: _core.TransactionPart) -> Any:
        """Those that were seen, each with the keys that it writes here."""
        write = np.flatnonzero((self._kind == WRITE) & np.isin(self._owner, shown.observed))
        of = self._numbers[self._owner[write]]
        return _record(PIECE, len(write), what=np.full(len(write), OBSERVED), source=of, key=self._key[write])

    def circles(self, shown: _core.TransactionPart) -> Any:
        keys = self._keys[shown.circles]
        return _record(PIECE, len(keys), what=np.full(len(keys), CIRCLE), key=keys)

    def counted(self) -> Any:
        """Keys, micro-operations, reads that another transaction could have contradicted, elements read."""
        tested = tested_reads(
            kind=self._kind, key=self._key, transaction=self._owner, outcome=self._outcome[self._owner]
        )
        return _record(
            PIECE,
            1,
            what=[COUNTED],
            key=[len(self._keys)],
            source=[len(self._kind)],
            target=[int(tested.sum())],
            kind=[self._elements],
        )

    def chances(self) -> Any:
        """How often each rule could have fired in these keys."""
        outcome = self._outcome[self._owner]
        chances = count(Micro(self._kind, self._key, self._owner, outcome, self._elsewhere), lists=self._lists)
        fields = len(chances)
        return _record(PIECE, fields, what=np.full(fields, CHANCES), name=chances._fields, source=chances)

    def written_twice(self) -> tuple[int, int, int, int] | None:
        """The least key and value that are written twice, and the two transactions."""
        return written_twice(self._kind, self._key, self._value, self._numbers[self._owner])


def _numbers(batch: Any, name: str) -> Column:
    """A column of numbers; null is `NIL`."""
    column = batch.column(name)
    if column.null_count:
        column = pc.fill_null(column, NIL)
    return np.ascontiguousarray(column.to_numpy(zero_copy_only=False), dtype=np.int64)


def _kinds(part: Any) -> Column:
    """What micro-operations do: what was read counts only in ok transactions."""
    f = _numbers(part, "f")
    return np.where((f == READ) & (_numbers(part, "outcome") != OK), READ_UNKNOWN, f)


def _record(columns: dict[str, Any], count: int, **given: Any) -> Any:
    """A batch of these columns; those that are not given are 0, or null where they hold no numbers."""
    arrays = []
    for name, kind in columns.items():
        value = given.get(name)
        if value is None:
            value = np.zeros(count, np.int64) if kind == pa.int64() else pa.nulls(count, kind)
        arrays.append(value if isinstance(value, pa.Array) else pa.array(value, kind))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(columns))


def _joined(batches: list[Any]) -> Any:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
