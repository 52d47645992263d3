"""Whether a proof that a register was not linearizable holds: from the history alone, apart from whatever found it.

The proof names a few operations. Some *must* be explained: they were invoked and returned between two moments. Others
*may* take effect in between: all operations of the key that could, and that made a value which one of those named saw.
Nothing else of the history counts. If no order explains them, none explains the history: put every operation at an
instant of its order, look at those between the two moments, and take out all that are not named. Each that is left
finds the value that it saw still there, for the last one that wrote before it made that value, and so is named.

That is why a write may be left out only if nobody who is named saw it; any other may at most be let go, as if its
outcome were unknown.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from fencepost.checkers import _core
from fencepost.checkers.storage.reference import NEVER, READ, WRITE, Row, linearize
from fencepost.harness.history import Operation
from fencepost.harness.verdict import Proof

INITIAL: Final = 0


class Window(Protocol):
    """The shape of a proof: row numbers of one key's operations; `since` None is the beginning of the history."""

    @property
    def since(self) -> int | None: ...
    @property
    def until(self) -> int: ...
    @property
    def must(self) -> Sequence[int]: ...
    @property
    def may(self) -> Sequence[int]: ...
    @property
    def shown(self) -> Sequence[tuple[int, int]]: ...


def made(row: Row) -> int | None:
    """The value that an operation leaves; None for a read."""
    return None if row.f == READ else row.a if row.f == WRITE else row.b


def seen(row: Row) -> int | None:
    """The value that an operation found; None for a write."""
    return None if row.f == WRITE else row.a


def refuted(rows: Sequence[Row], window: Window) -> str | None:
    """Check a proof that the operations of one key have no order.

    Args:
        rows: all operations of the key but those that failed, and reads of unknown outcome.
        window: the proof, by row numbers.

    Returns:
        What is wrong with the proof; None: it holds.

    Cost: that of `linearize` for the operations that the proof names, once for each value that may be there at first.
    """
    since = -NEVER if window.since is None else window.since
    named = {*window.must, *window.may}
    if len(named) != len(window.must) + len(window.may):
        return "an operation is named twice"
    if not all(0 <= row < len(rows) for row in (*named, *(row for pair in window.shown for row in pair))):
        return "an operation is named that is not there"
    until = [row.returned for row in rows]
    for row, by in window.shown:
        if not _is_shown(rows, row, by):
            return f"operation {by} does not show that operation {row} had taken effect"
    for _ in window.shown:  # one may be shown by one that is shown itself
        for row, by in window.shown:
            until[row] = min(until[row], until[by])
    if any(until[row] < rows[row].invoked for row, _ in window.shown):
        return "an operation was shown before it was invoked, which is another proof"
    for row in window.must:
        if rows[row].invoked < since or until[row] > window.until:
            return f"operation {row} need not take effect between the two moments"
    wanted = {seen(rows[row]) for row in named}
    for i, other in enumerate(rows):
        could = other.f != READ and other.invoked <= window.until and until[i] >= since
        if could and made(other) in wanted and i not in named:
            return f"operation {i} is left out, and made a value that was seen"
    calls = [Row(rows[i].f, rows[i].a, rows[i].b, rows[i].invoked, until[i]) for i in window.must]
    for i in window.may:
        may = rows[i]
        early = may.invoked < since and until[i] <= window.until
        calls.append(Row(may.f, may.a, may.b, may.invoked, until[i] if early else NEVER))
    optional = range(len(window.must), len(calls))
    for start in sorted(_starts(rows, since, wanted)):
        order = linearize(calls, start, optional)
        if order is not None:
            return f"there is an order from {start}: {[(*window.must, *window.may)[i] for i in order]}"
    return None


def _is_shown(rows: Sequence[Row], row: int, by: int) -> bool:
    """`row` alone made a value, not the initial one either, and `by` saw it."""
    value = made(rows[row])
    if row == by or value is None or value == INITIAL or seen(rows[by]) != value:
        return False
    return sum(made(other) == value for other in rows) == 1


def _starts(rows: Sequence[Row], since: float, wanted: set[int | None]) -> set[int]:
    """What the register may hold at `since`: of the values that nobody saw, one stands for all."""
    held = {INITIAL} | {value for row in rows if row.invoked < since and (value := made(row)) is not None}
    return {*(held & wanted), *sorted(held - wanted)[:1]}


def proof_of(native: _core.Proof, operations: Sequence[Operation], key: str | None) -> Proof:
    """A proof of the native core as a verdict keeps it; `operations` are those that its rows number."""

    def named(rows: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted(operations[row].invoke_index for row in rows))

    return Proof(
        kind=native.kind,
        key=key,
        rows=named(native.must),
        may=named(native.may),
        since=native.since,
        until=native.until,
        shown=tuple((operations[row].invoke_index, operations[by].invoke_index) for row, by in native.shown),
    )


def order_of(result: _core.KeyResult, operations: Sequence[Operation], key: str | None) -> Proof:
    """The order that the native core found for a key, as a verdict keeps it."""
    return Proof(kind="order", key=key, rows=tuple(operations[row].invoke_index for row in result.order))
