"""Whether a proof that a register was not linearizable holds: from the history alone, apart from whatever found it.

The proof names a few operations. Some *must* be explained: they were invoked and returned between two moments. Others
*may* take effect in between: all operations of the key that could, and that made a value which one of those named saw.
Nothing else of the history counts. If no order explains them, none explains the history: put every operation at an
instant of its order, look at those between the two moments, and take out all that are not named. Each that is left
finds the value that it saw still there, for the last one that wrote before it made that value, and so is named.

That is why a write may be left out only if nobody who is named saw it; any other may at most be let go, as if its
outcome were unknown.

Linearizability of one register in plain Python: slow, obvious, the oracle that the native search is tested by.

Wing & Gong's question, asked head-on: which operation may come first? Any operation that was invoked before another one
without a place returned, and that the register's value allows. Dead ends are remembered by (operations placed, value).
It shares no shortcut with the native search: operations of unknown outcome simply need no place.
"""

from collections.abc import Collection, Sequence
from typing import Final, Protocol

import msgspec

READ: Final = 0
WRITE: Final = 1
CAS: Final = 2

NEVER: Final = float("inf")


class ProofRow(msgspec.Struct, frozen=True):
    """One operation: `returned` is NEVER when its outcome is unknown."""

    f: int
    a: int
    b: int
    invoked: float
    returned: float


def step(state: int, row: ProofRow) -> int | None:
    """The register's value after `row`, or None where `state` forbids it."""
    if row.f == WRITE:
        return row.a
    if row.a != state:
        return None
    return row.b if row.f == CAS else state


def linearize(rows: Sequence[ProofRow], initial: int = 0, optional: Collection[int] = ()) -> list[int] | None:
    """Find an order that explains all rows, by trying every one.

    Args:
        rows: the operations of one register; one whose `returned` is NEVER need not take effect.
        initial: the value that the register holds at first.
        optional: row numbers that need not take effect either; where they do, real time is kept.

    Returns:
        Row numbers in such an order; None: there is none.

    Cost: exponential in the number of concurrent rows, at worst.
    Source: Wing & Gong (1993).
    """
    required = frozenset(i for i, row in enumerate(rows) if row.returned != NEVER) - frozenset(optional)
    dead: set[tuple[frozenset[int], int]] = set()
    stack: list[tuple[frozenset[int], int, tuple[int, ...]]] = [(frozenset(), initial, ())]
    while stack:
        placed, state, order = stack.pop()
        if required <= placed:
            return list(order)
        if (placed, state) in dead:
            continue
        dead.add((placed, state))
        horizon = min(rows[i].returned for i in required - placed)
        latest = max((rows[i].invoked for i in placed), default=-NEVER) if optional else -NEVER
        for i, row in enumerate(rows):
            if i in placed or row.invoked > horizon or row.returned < latest:
                continue
            after = step(state, row)
            if after is not None:
                stack.append((placed | {i}, after, (*order, i)))
    return None


def explains(rows: Sequence[ProofRow], order: Sequence[int], initial: int = 0) -> bool:
    """Whether `order` explains `rows`: each row at most once, all that returned, in real time, every step allowed."""
    placed = set(order)
    if len(placed) != len(order):
        return False
    if any(row.returned != NEVER and i not in placed for i, row in enumerate(rows)):
        return False
    state = initial
    latest_invocation = -NEVER
    for i in order:
        if rows[i].returned < latest_invocation:
            return False
        latest_invocation = max(latest_invocation, rows[i].invoked)
        after = step(state, rows[i])
        if after is None:
            return False
        state = after
    return True


INITIAL: Final = 0


class _Window(Protocol):
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


def made(row: ProofRow) -> int | None:
    """The value that an operation leaves; None for a read."""
    return None if row.f == READ else row.a if row.f == WRITE else row.b


def seen(row: ProofRow) -> int | None:
    """The value that an operation found; None for a write."""
    return None if row.f == WRITE else row.a


def refuted(rows: Sequence[ProofRow], window: _Window) -> str | None:
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
    calls = [ProofRow(rows[i].f, rows[i].a, rows[i].b, rows[i].invoked, until[i]) for i in window.must]
    for i in window.may:
        may = rows[i]
        early = may.invoked < since and until[i] <= window.until
        calls.append(ProofRow(may.f, may.a, may.b, may.invoked, until[i] if early else NEVER))
    optional = range(len(window.must), len(calls))
    for start in sorted(_starts(rows, since, wanted)):
        order = linearize(calls, start, optional)
        if order is not None:
            return f"there is an order from {start}: {[(*window.must, *window.may)[i] for i in order]}"
    return None


def _is_shown(rows: Sequence[ProofRow], row: int, by: int) -> bool:
    """`row` alone made a value, not the initial one either, and `by` saw it."""
    value = made(rows[row])
    if row == by or value is None or value == INITIAL or seen(rows[by]) != value:
        return False
    return sum(made(other) == value for other in rows) == 1


def _starts(rows: Sequence[ProofRow], since: float, wanted: set[int | None]) -> set[int]:
    """What the register may hold at `since`: of the values that nobody saw, one stands for all."""
    held = {INITIAL} | {value for row in rows if row.invoked < since and (value := made(row)) is not None}
    return {*(held & wanted), *sorted(held - wanted)[:1]}
