"""Which dependencies can close a cycle: found by moments that rise along nearly all of them.

Give every transaction a point, a moment and a level, which is its invocation at first. An edge is *forward* when its
target's point is above its source's. Points rise along a path of forward edges, so every cycle has an edge that is
not. Real time is forward by itself as long as no point is later than the completion: whatever was completed before
another was invoked has the lower point. So has, within its process, whatever was invoked before.

The window rule. An edge that is not forward spans the moments from its target's to its source's. Unions of
overlapping spans are *windows*. Both ends of every edge of a cycle lie in one window, the same for all: take two
neighbouring moments of the cycle's transactions. The cycle comes from above the gap between them to below it by some
edge; that one is not forward and spans the gap. So the spans of the cycle's edges leave no gap between its least and
its greatest moment. What lies in no window, or leads from one to another, is on no cycle; the rest is the *core*.

Invocations alone leave nearly everything in windows, since one transaction that lasts long spans them all. So points
are raised first, as an order of the transactions would have them: a point that is not above those of what leads to it
moves there, unless that is beyond the transaction's completion. Only edges that are not forward raise anything, so
only these need to be looked at, and each round leaves fewer; where all are forward there is no cycle, and the points
are an order that keeps real time. Any points that keep to invocation and completion are sound: rounds may end at any
time.

Moments are doubled, so that a virtual node (`native/src/transactions/graph.rs`) has one after those that lead to it.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: What `target_until` is for what has no completion.
FOREVER: Final = np.iinfo(np.int64).max
#: Rounds at one place until edges that are known there are forward, or stand in a circle.
_ROUNDS: Final = 100


class Edges(NamedTuple):
    """Edges with the invocations of both ends, doubled, and the completion of the target.

    Transactions are numbered from 0, virtual nodes from -1 downwards. `kind` is that of the native core.
    """

    source: Column
    target: Column
    kind: Column
    source_time: Column
    target_time: Column
    target_until: Column

    def __len__(self) -> int:
        return len(self.source)

    def at(self, places: Mask) -> "Edges":
        return Edges(*(column[places] for column in self))

    @staticmethod
    def joined(edges: list["Edges"]) -> "Edges":
        return Edges(*(np.concatenate(columns) for columns in zip(*edges, strict=True)))


class Points(NamedTuple):
    """Points of the nodes that were raised, sorted by node; all others are at their invocation, level 0."""

    node: Column
    time: Column
    level: Column

    def of(self, node: Column, invoked: Column) -> tuple[Column, Column]:
        """Moments and levels of some nodes."""
        time, level = invoked.copy(), np.zeros(len(node), np.int64)
        if len(self.node):
            place = np.minimum(np.searchsorted(self.node, node), len(self.node) - 1)
            raised = self.node[place] == node
            time[raised], level[raised] = self.time[place[raised]], self.level[place[raised]]
        return time, level


class Windows(NamedTuple):
    """Stretches of time without a common moment, both ends included, in order."""

    begin: Column
    end: Column

    def of(self, time: Column) -> Column:
        """The window in which each moment lies, -1 where it lies in none."""
        if not len(self.begin):
            return np.full(len(time), -1, np.int64)
        place = np.searchsorted(self.begin, time, side="right") - 1
        inside = (place >= 0) & (time <= self.end[np.maximum(place, 0)])
        return np.where(inside, place, -1).astype(np.int64)


UNRAISED: Final = Points(*(np.zeros(0, np.int64) for _ in range(3)))


def not_forward(edges: Edges, points: Points) -> Mask:
    """Which edges do not lead to a higher point."""
    (source_time, source_level), (target_time, target_level) = _ends(edges, points)
    behind: Mask = (source_time > target_time) | ((source_time == target_time) & (source_level >= target_level))
    return behind


def raised(edges: Edges, points: Points) -> Points:
    """Points raised by these edges, until all of them are forward or as far as is worth it."""
    known = np.unique(np.concatenate([edges.source, edges.target]))
    place = {name: np.searchsorted(known, getattr(edges, name)) for name in ("source", "target")}
    invoked, until = np.zeros(len(known), np.int64), np.full(len(known), FOREVER, np.int64)
    invoked[place["source"]], invoked[place["target"]] = edges.source_time, edges.target_time
    until[place["target"]] = edges.target_until
    time, level = points.of(known, invoked)
    source, target = place["source"], place["target"]
    for _ in range(_ROUNDS):
        behind = (time[source] > time[target]) | ((time[source] == time[target]) & (level[source] >= level[target]))
        behind &= time[source] <= until[target]
        if not behind.any():
            break
        to, moment, step = target[behind], time[source[behind]], level[source[behind]] + 1
        # Of several that raise a node the highest is written last.
        order = np.lexsort((step, moment))
        time[to[order]], level[to[order]] = moment[order], step[order]
    changed = (time != invoked) | (level != 0)
    apart = ~np.isin(points.node, known)
    node = np.concatenate([known[changed], points.node[apart]])
    order = np.argsort(node)
    merged = (
        np.concatenate([time[changed], points.time[apart]]),
        np.concatenate([level[changed], points.level[apart]]),
    )
    return Points(node[order], merged[0][order], merged[1][order])


def windows(edges: Edges, points: Points) -> Windows:
    """The windows that edges, none of them forward, span."""
    (source_time, _), (target_time, _) = _ends(edges, points)
    if not len(edges):
        return Windows(source_time, target_time)
    order = np.argsort(target_time, kind="stable")
    begin, end = target_time[order], np.maximum.accumulate(source_time[order])
    first = np.append(True, begin[1:] > end[:-1])
    last = np.append(first[1:], True)
    return Windows(begin[first], end[last])


def within(edges: Edges, points: Points, spanned: Windows) -> Mask:
    """Which edges have both ends in one window: the core."""
    (source_time, _), (target_time, _) = _ends(edges, points)
    window = spanned.of(source_time)
    same: Mask = (window >= 0) & (window == spanned.of(target_time))
    return same


def _ends(edges: Edges, points: Points) -> tuple[tuple[Column, Column], tuple[Column, Column]]:
    return points.of(edges.source, edges.source_time), points.of(edges.target, edges.target_time)
