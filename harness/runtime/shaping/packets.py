"""Decides what happens to each packet of a slow or lossy link: how faults add up, and when a packet goes on.

These are pure functions of the time, so every runtime shapes links in the same way, and tests need no network. Delays
add up, losses are independent of each other, and the smaller of two rates counts.
"""

import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from fencepost.harness.runtime.network import Handled, Link, PacketShape

#: The capacity of a slow line, as time; further packets are lost, as in a full router.
BACKLOG_NS: Final = 1_000_000_000


def merged(by_fault: Mapping[int, Mapping[Link, PacketShape]]) -> dict[Link, PacketShape]:
    """Merge the shapes of all faults, by link; the order of the faults does not matter."""
    by_link: dict[Link, list[PacketShape]] = {}
    for links in by_fault.values():
        for link, shape in links.items():
            by_link.setdefault(link, []).append(shape)
    return {link: _one(shapes) for link, shapes in by_link.items()}


def _one(shapes: list[PacketShape]) -> PacketShape:
    return PacketShape(
        delay_ns=sum(shape.delay_ns for shape in shapes),
        jitter_ns=sum(shape.jitter_ns for shape in shapes),
        loss=_either(shape.loss for shape in shapes),
        duplicate=_either(shape.duplicate for shape in shapes),
        reorder=_either(shape.reorder for shape in shapes),
        reorder_by_ns=max(shape.reorder_by_ns for shape in shapes),
        rate_bytes_s=min((shape.rate_bytes_s for shape in shapes if shape.rate_bytes_s), default=0),
        seed=sum(shape.seed for shape in shapes),
    )


def _either(shares: Iterable[float]) -> float:
    """Return the share of packets that at least one of several independent draws selects."""
    hit = sorted(share for share in shares if share)
    if len(hit) == 1:
        return hit[0]
    return 1.0 - math.prod(1.0 - share for share in hit)


@dataclass(slots=True)
class Counts:
    seen: int = 0
    lost: int = 0
    doubled: int = 0
    overtaken: int = 0
    crowded_out: int = 0

    def frozen(self) -> Handled:
        return Handled(
            seen=self.seen,
            lost=self.lost,
            doubled=self.doubled,
            overtaken=self.overtaken,
            crowded_out=self.crowded_out,
        )


class Lane:
    """Decides for one directed link when each of its packets goes on."""

    def __init__(self, shape: PacketShape) -> None:
        self.counts = Counts()
        self._draw = random.Random(shape.seed)
        self._line_free_ns = 0
        self._last_due_ns = 0
        self.shape = shape

    def due_ns(self, now_ns: int, length: int) -> tuple[int, ...]:
        """Return when a packet of `length` bytes that arrives now goes on: two times if doubled, none if lost."""
        shape, draw, counts = self.shape, self._draw.random, self.counts
        counts.seen += 1
        if shape.loss and draw() < shape.loss:
            counts.lost += 1
            return ()
        due_ns = now_ns
        if shape.rate_bytes_s:
            begins_ns = max(now_ns, self._line_free_ns)
            if begins_ns - now_ns > BACKLOG_NS:
                counts.crowded_out += 1
                return ()
            due_ns = self._line_free_ns = begins_ns + length * 1_000_000_000 // shape.rate_bytes_s
        due_ns += shape.delay_ns
        if shape.jitter_ns:
            due_ns = max(now_ns, due_ns + round((2 * draw() - 1) * shape.jitter_ns))
        # Packets keep their order: a shorter draw does not let a packet pass the one before it.
        due_ns = self._last_due_ns = max(due_ns, self._last_due_ns)
        if shape.reorder and draw() < shape.reorder:
            counts.overtaken += 1
            due_ns += shape.reorder_by_ns
        if shape.duplicate and draw() < shape.duplicate:
            counts.doubled += 1
            return (due_ns, due_ns)
        return (due_ns,)
