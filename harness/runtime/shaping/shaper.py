"""The process that holds, drops and doubles packets of shaped links: `python -m harness.runtime.shaping.shaper`.

Each network namespace with shaped links has a queue; its sockets come with the order "add". The order "set" contains
the complete tables of all namespaces, {source and target address: shape}. Held packets of a link that is no longer in
the tables go on at once, so that later packets, which are no longer queued, do not overtake them.
"""

import heapq
import select
import socket
import time
from dataclasses import asdict
from typing import Final

from fencepost.harness.runtime.linux.companion_orders import Order, Orders
from fencepost.harness.runtime.network import Shape
from fencepost.harness.runtime.shaping.packet_queue import PacketQueue
from fencepost.harness.runtime.shaping.packets import Lane

#: One held packet: when it goes on, its rank among equals, its link's key, its number, its bytes if this is a copy.
_Held = tuple[int, int, bytes, int, bytes | None]

now_ns: Final = time.monotonic_ns


class _Field:
    """One network namespace: its queue, the lanes of its shaped links, and the packets that they hold."""

    def __init__(self, queue: PacketQueue) -> None:
        self.queue = queue
        self.lanes: dict[bytes, Lane] = {}
        self.held: list[_Held] = []
        self._place = 0

    def set(self, shapes: dict[bytes, Shape]) -> None:
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
        self._fields: dict[str, _Field] = {}
        self._do = {"add": self._add, "remove": self._remove, "set": self._set, "counts": self._counts}

    def run(self) -> None:
        while True:
            fields = list(self._fields.values())
            next_ns = min((field.held[0][0] for field in fields if field.held), default=None)
            wait_s = None if next_ns is None else max(0.0, (next_ns - now_ns()) / 1e9)
            waiting: list[Orders | PacketQueue] = [self._orders, *(field.queue for field in fields)]
            ready, _, _ = select.select(waiting, [], [], wait_s)
            for field in fields:
                field.release_due()
                if field.queue in ready:
                    field.take()
                    field.release_due()
            if self._orders in ready:
                self._orders.carry_out(self._do)

    def _add(self, order: Order, fds: list[int]) -> Order:
        self._fields[order["field"]] = _Field(PacketQueue(*(socket.socket(fileno=fd) for fd in fds)))
        return {}

    def _remove(self, order: Order, _: list[int]) -> Order:
        self._fields.pop(order["field"]).queue.close()
        return {}

    def _set(self, order: Order, _: list[int]) -> Order:
        for name, table in order["tables"].items():
            self._fields[name].set({bytes.fromhex(key): Shape(**shape) for key, shape in table.items()})
        return {}

    def _counts(self, _: Order, __: list[int]) -> Order:
        return {
            "fields": {
                name: {
                    "untold": field.queue.untold,
                    "lanes": {key.hex(): asdict(lane.counts.frozen()) for key, lane in field.lanes.items()},
                }
                for name, field in self._fields.items()
            }
        }


if __name__ == "__main__":
    Shaper().run()
