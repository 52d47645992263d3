"""The core of all dependencies: collected from wherever they are, and judged natively together with real time.

`checkers.tables.transactions_windows` says which edges are its; `collected` asks for them round by round, `judged`
looks for the cycles among them. No cycle has other edges.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from fencepost.checkers import _core
from fencepost.checkers.tables.transactions_windows import UNRAISED, Column, Edges, Points, Windows, raised, windows
from fencepost.checkers.transactions.anomalies import STEPS
from fencepost.harness.verdict import Stop

#: Rounds in which points are raised. None is worth its cost for edges that are no more than this share of all.
ROUNDS: Final = 8
_ENOUGH: Final = 1 / 10_000

#: The edges that are not forward, or, given windows, those within them.
Scan = Callable[[Points, Windows | None], Edges]


class Collected(NamedTuple):
    """The core under some points; None: it is larger than was allowed. `rounds`: how often points were raised."""

    points: Points
    edges: Edges | None
    rounds: int


class Transactions(NamedTuple):
    """Transactions in the order of invocation, `number` naming them; the rest as in `TransactionColumns`."""

    number: Column
    process: Column
    outcome: Column
    invoked: Column
    completed: Column


class Judged(NamedTuple):
    """Cycles by name, with steps: transaction, the one after it, kind. Without any, points that rise along edges.

    Neither, where the search of cycles ended by its budget: `stop`.
    """

    cycles: list[tuple[str, list[tuple[int, int, str]]]]
    points: Points | None
    stop: Stop | None
    figures: dict[str, int]


def collected(scan: Scan, total: int, limit: int) -> Collected:
    """Collect the core of `total` edges round by round; `scan` returns edges, and no more than `limit` are held."""
    points, known, before = UNRAISED, list[Edges](), limit + 1
    for turn in range(ROUNDS + 1):
        behind = scan(points, None)
        if not len(behind):
            return Collected(points, behind, turn)
        if len(behind) + sum(map(len, known)) > limit:
            return Collected(points, None, turn)
        settled = turn > 0 and len(behind) <= _ENOUGH * total
        if turn == ROUNDS or settled or len(behind) >= before:
            break
        known.append(behind)
        before = len(behind)
        points = raised(Edges.joined(known), points)
    core = scan(points, windows(behind, points))
    return Collected(points, core if len(core) <= limit else None, turn)


def judged(core: Edges, points: Points, transactions: Transactions) -> Judged:
    """Judge a core; `transactions` are its nodes.

    A transaction of unknown outcome that nobody saw is on no cycle: nothing depends on it, and it precedes nothing.
    """
    virtual = np.unique(np.concatenate([core.source[core.source < 0], core.target[core.target < 0]]))
    numbers = np.concatenate([transactions.number, virtual])
    order = np.argsort(numbers)
    source, target = (order[np.searchsorted(numbers[order], column)] for column in (core.source, core.target))
    report = _core.judge_transaction_core(
        *transactions[1:],
        *points.of(transactions.number, 2 * transactions.invoked),
        *(np.ascontiguousarray(column, dtype=np.int64) for column in (source, target, core.kind)),
        nodes=len(numbers),
        steps=STEPS,
    )
    figures = {"components": report.components, "largest_component": report.largest, "steps": report.steps}
    if report.points is None:
        number = transactions.number.tolist()
        named = [
            (name, [(number[step[0]], number[step[1]], step[2]) for step in steps]) for name, _, steps in report.cycles
        ]
        return Judged(named, None, None if report.stop is None else Stop(report.stop), figures)
    kept = ~np.isin(points.node, transactions.number)
    merged = [
        np.concatenate([old[kept], new]) for old, new in zip(points, (transactions.number, *report.points), strict=True)
    ]
    by_node = np.argsort(merged[0])
    return Judged([], Points(*(column[by_node] for column in merged)), None, figures)
