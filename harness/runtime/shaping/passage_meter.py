"""The process that measures links by numbered datagrams from socket to socket.

It runs as `python -m fencepost.harness.runtime.shaping.passage_meter`, and does nothing else. In the lab all ends of
links are sockets of one such process; with side-cars each end has its own, all get the same order, and each does its
part of it. A one-way time is the difference of two readings of the one clock of this kernel, without an event loop in
between.
"""

import contextlib
import heapq
import select
import socket
import statistics
import struct
import time
from typing import Any, Final

from fencepost.harness.runtime.linux.companion_orders import Order, Orders

#: The fields of a datagram: measurement, link, number, time of sending.
_TAG: Final = struct.Struct("=QIIQ")
#: Bytes of the IPv4 and UDP headers, which a rate counts too.
_HEADERS: Final = 28
_READ_BYTES: Final = 2048
#: The port of the datagrams, at every end.
METER_PORT: Final = 10079
_RECEIVE_BUFFER: Final = 1 << 20

now_ns: Final = time.monotonic_ns


class _Link:
    """The datagrams of one link: how many were sent, and how they arrived."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.source, self.target, self.address = plan["source"], plan["target"], plan["address"]
        self.count, self.gap_ns, self.size = plan["count"], plan["gap_ns"], max(plan["size"], _TAG.size)
        self.sent = 0
        self.came: set[int] = set()
        self.doubled = self.overtaken = 0
        self.times_ns: list[int] = []
        self.first_ns = self.last_ns = self.bytes = 0
        self._latest = -1

    def arrive(self, number: int, sent_ns: int, at_ns: int) -> None:
        if number in self.came:
            self.doubled += 1
            return
        if self.came:
            self.bytes += self.size + _HEADERS
        else:
            self.first_ns = at_ns
        self.last_ns = at_ns
        self.came.add(number)
        if number < self._latest:
            self.overtaken += 1
        else:
            self._latest = number
            self.times_ns.append(at_ns - sent_ns)

    @property
    def came_so_far(self) -> Order:
        """What happened to the datagrams so far; the fields of `Passage` without `sent`."""
        times = self.times_ns
        elapsed_ns = self.last_ns - self.first_ns
        return {
            "arrived": len(self.came),
            "doubled": self.doubled,
            "overtaken": self.overtaken,
            "least_ms": min(times) / 1e6 if times else None,
            "median_ms": statistics.median(times) / 1e6 if times else None,
            "most_ms": max(times) / 1e6 if times else None,
            "rate_bytes_s": self.bytes * 1e9 / elapsed_ns if elapsed_ns else 0.0,
        }


def open_end(address: str) -> socket.socket:
    """Open the socket of an end, in the network namespace of the calling thread."""
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        opened.bind((address, METER_PORT))
    except OSError:
        opened.close()
        raise
    return opened


class Meter:
    def __init__(self) -> None:
        self._orders = Orders()
        self._ends: dict[str, socket.socket] = {}
        self._number = 0
        self._last: list[_Link] = []
        self._do = {"add": self._add, "measure": self._measure, "again": self._again}

    def run(self) -> None:
        while True:
            self._orders.carry_out(self._do)

    def _add(self, order: Order, fds: list[int]) -> Order:
        """Measure at this end too: by the given socket, or one of this process's own namespace."""
        if order["end"] not in self._ends:
            self._ends[order["end"]] = socket.socket(fileno=fds[0]) if fds else open_end(order["address"])
        return {}

    def _measure(self, order: Order, _: list[int]) -> Order:
        """Send everything as planned; then wait up to `tail_ns` for datagrams that have not arrived yet."""
        self._number = order["number"]
        links = [_Link(plan) for plan in order["links"]]
        expected = [link for link in links if link.target in self._ends]
        ends = [*{self._ends[link.target] for link in expected}]
        # Links take turns within a gap, so that they do not all send at the same moment.
        begin_ns = now_ns() + order["lead_ns"]
        plan = [
            (begin_ns + at * link.gap_ns // len(links), at)
            for at, link in enumerate(links)
            if link.source in self._ends
        ]
        heapq.heapify(plan)
        # Others may send later than planned too.
        tail_ends_ns = begin_ns + max((link.count * link.gap_ns for link in expected), default=0) + order["tail_ns"]
        while True:
            now = now_ns()
            while plan and plan[0][0] <= now:
                due_ns, at = heapq.heappop(plan)
                link = links[at]
                self._send(link, at)
                if link.sent < link.count:
                    # No burst follows a late datagram.
                    heapq.heappush(plan, (max(due_ns + link.gap_ns, now_ns()), at))
                tail_ends_ns = max(tail_ends_ns, now_ns() + order["tail_ns"])
            if not plan and (now_ns() >= tail_ends_ns or all(len(link.came) == link.count for link in expected)):
                break
            until_ns = plan[0][0] if plan else tail_ends_ns
            ready, _, _ = select.select(ends, [], [], max(0.0, (until_ns - now_ns()) / 1e9))
            for end in ready:
                self._receive(end, links)
        time.sleep(order["linger_s"])
        self._last = links
        return self._again(order, [])

    def _again(self, _: Order, __: list[int]) -> Order:
        """Return the last measurement again, with the datagrams that have arrived by now: this process's part of it."""
        for end in {self._ends[link.target] for link in self._last if link.target in self._ends}:
            self._receive(end, self._last)
        return {"links": [self._part(link) for link in self._last]}

    def _part(self, link: _Link) -> Order:
        sent = {"sent": link.sent} if link.source in self._ends else {}
        return sent | (link.came_so_far if link.target in self._ends else {})

    def _send(self, link: _Link, at: int) -> None:
        tag = _TAG.pack(self._number, at, link.sent, now_ns())
        # A cut may refuse the datagram at once: it counts as sent, and does not arrive.
        with contextlib.suppress(OSError):
            self._ends[link.source].sendto(tag.ljust(link.size, b"\0"), (link.address, METER_PORT))
        link.sent += 1

    def _receive(self, end: socket.socket, links: list[_Link]) -> None:
        while True:
            try:
                data = end.recv(_READ_BYTES)
            except BlockingIOError:
                return
            except OSError:
                continue  # a refusal; reading it removes it
            at_ns = now_ns()
            measurement, at, number, sent_ns = _TAG.unpack_from(data)
            if measurement == self._number:
                links[at].arrive(number, sent_ns, at_ns)


if __name__ == "__main__":
    Meter().run()
