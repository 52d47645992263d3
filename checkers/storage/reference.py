"""Linearizability of one register in plain Python: slow, obvious, the oracle that the native search is tested by.

Wing & Gong's question, asked head-on: which operation may come first? Any operation that was invoked before another one
without a place returned, and that the register's value allows. Dead ends are remembered by (operations placed, value).
It shares no shortcut with the native search: operations of unknown outcome simply need no place.
"""

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

READ: Final = 0
WRITE: Final = 1
CAS: Final = 2

NEVER: Final = float("inf")


class Row(msgspec.Struct, frozen=True):
    """One operation: `returned` is NEVER when its outcome is unknown."""

    f: int
    a: int
    b: int
    invoked: float
    returned: float


def step(state: int, row: Row) -> int | None:
    """The register's value after `row`, or None where `state` forbids it."""
    if row.f == WRITE:
        return row.a
    if row.a != state:
        return None
    return row.b if row.f == CAS else state


def linearize(rows: Sequence[Row], initial: int = 0, optional: Collection[int] = ()) -> list[int] | None:
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


def explains(rows: Sequence[Row], order: Sequence[int], initial: int = 0) -> bool:
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
