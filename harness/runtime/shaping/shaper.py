"""The process that holds, drops and doubles packets of shaped links: `python -m harness.runtime.shaping.shaper`.

There is one in each network namespace with shaped links: the lab's router, or each node's side-car. The order "set"
contains the complete table, {source and target address: shape}. Held packets of a link that is no longer in the table
go on at once, so that later packets, which are no longer queued, do not overtake them.
"""

import heapq
import select
import time
from dataclasses import asdict
from typing import Final

from fencepost.harness.runtime.links.packet_rules import Where
from fencepost.harness.runtime.linux.companion_orders import Order, Orders
from fencepost.harness.runtime.network import PacketShape
from fencepost.harness.runtime.shaping.packet_queue import PacketQueue
from fencepost.harness.runtime.shaping.packets import Lane

#: One held packet: when it goes on, its rank among equals, its link's key, its number, its bytes if this is a copy.
_Held = tuple[int, int, bytes, int, bytes | None]

now_ns: Final = time.monotonic_ns


class _Field:
    """The queue of this namespace, the lanes of its shaped links, and the packets that they hold."""

    def __init__(self, queue: PacketQueue) -> None:
        self.queue = queue
        self.lanes: dict[bytes, Lane] = {}
        self.held: list[_Held] = []
        self._place = 0

    def set(self, shapes: dict[bytes, PacketShape]) -> None:
        for key, shape in shapes.items():
            if key in self.lanes:
                self.lanes[key].shape = shape
            else:
                self.lanes[key] = Lane(shape)
        gone = self.lanes.keys() - shapes.keys()
        for key in gone:
            del self.lanes[key]
        if gone:
            self._release([held for held in sorted(self.held) if held[2] in gone])
            self.held = [held for held in self.held if held[2] not in gone]
            heapq.heapify(self.held)
        # After the lanes: queued packets must find their shape, and no packet may overtake held ones.
        self.queue.rules.replace(shapes)

    def take(self) -> None:
        """Decide about some of the packets that have arrived."""
        lost, at_once = [], []
        for packet in self.queue.receive():
            lane = self.lanes.get(packet.key)
            if lane is None:
                at_once.append(packet.number)
                continue
            due = lane.due_ns(now_ns(), len(packet.content))
            if not due:
                lost.append(packet.number)
            for copies, due_ns in enumerate(due):
                self._place += 1
                content = packet.content if copies else None
                heapq.heappush(self.held, (due_ns, self._place, packet.key, packet.number, content))
        if at_once:
            self.queue.let_go(at_once)
        if lost:
            self.queue.drop(lost)

    def release_due(self) -> None:
        now = now_ns()
        due = []
        while self.held and self.held[0][0] <= now:
            due.append(heapq.heappop(self.held))
        self._release(due)

    def _release(self, due: list[_Held]) -> None:
        together: list[int] = []
        for _, _, _, number, content in due:
            if content is None:
                together.append(number)
            else:
                # The original goes before its copy.
                self.queue.let_go(together)
                together = []
                self.queue.copy(content)
        if together:
            self.queue.let_go(together)


class Shaper:
    def __init__(self) -> None:
        self._orders = Orders()
        self._field: _Field | None = None
        self._do = {"open": self._open, "set": self._set, "read": self._read, "counts": self._counts}

    def run(self) -> None:
        while True:
            field = self._field
            waiting: list[Orders | PacketQueue] = [self._orders, *([field.queue] if field else [])]
            due_ns = field.held[0][0] if field and field.held else None
            ready, _, _ = select.select(
                waiting, [], [], None if due_ns is None else max(0.0, (due_ns - now_ns()) / 1e9)
            )
            if field:
                field.release_due()
                if field.queue in ready:
                    field.take()
                    field.release_due()
            if self._orders in ready:
                self._orders.carry_out(self._do)

    def _open(self, order: Order, _: list[int]) -> Order:
        if self._field is None:
            self._field = _Field(PacketQueue(Where[order["where"]]))
        return {}

    def _opened(self) -> _Field:
        if self._field is None:
            raise OSError('"open" comes first')
        return self._field

    def _set(self, order: Order, _: list[int]) -> Order:
        self._opened().set({bytes.fromhex(key): PacketShape(**shape) for key, shape in order["table"].items()})
        return {}

    def _read(self, _: Order, __: list[int]) -> Order:
        """Return the keys whose packets the kernel hands over, as it lists them."""
        return {"keys": [key.hex() for key in self._opened().queue.rules.read()]}

    def _counts(self, _: Order, __: list[int]) -> Order:
        return {"lanes": {key.hex(): asdict(lane.counts.frozen()) for key, lane in self._opened().lanes.items()}}


if __name__ == "__main__":
    Shaper().run()
