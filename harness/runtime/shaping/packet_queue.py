"""The packet queue of one network namespace (NFQUEUE), and a socket that sends copies of packets.

The kernel holds each packet and sends us its number and its bytes; we answer with verdicts. The kernel splits large
segments before it queues them, so we hold, drop or double packets as a wire would carry them. The numbers come from
linux/netfilter/nfnetlink_queue.h.
"""

import contextlib
import socket
import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from fencepost.harness.runtime.links.packet_rules import Where
from fencepost.harness.runtime.linux.netlink import REQUEST, Netlink, attribute, attributes, message
from fencepost.harness.runtime.shaping.queue_rules import MARK, QUEUE, QueueRules

_NETLINK_NETFILTER: Final = 12
_SUBSYSTEM: Final = 3 << 8
_PACKET: Final = _SUBSYSTEM | 0
_VERDICT: Final = _SUBSYSTEM | 1
_CONFIG: Final = _SUBSYSTEM | 2
_COPY_PACKET: Final = 2
_WHOLE: Final = 0xFFFF
#: The most packets that may wait in the kernel.
_LENGTH_MAX: Final = 65536
_RECEIVE_BUFFER: Final = 8 << 20
_HEADER: Final = struct.Struct("=IHHII")
_DROP: Final = 0
_ACCEPT: Final = 1
#: The most verdicts in one send.
_TOGETHER: Final = 64
_SOL_NETLINK: Final = 270
_NO_ENOBUFS: Final = 5
_READS_MAX: Final = 64


class Packet(NamedTuple):
    """An IPv4 packet that waits for a verdict."""

    number: int
    content: bytes

    @property
    def key(self) -> bytes:
        """Return source and target address."""
        return self.content[12:20]


def open_queue() -> socket.socket:
    """Open the queue of the calling thread's network namespace. Raises OSError if the kernel has none."""
    with Netlink(_NETLINK_NETFILTER) as asking:
        head = struct.pack(">BBH", 0, 0, QUEUE)
        asking.request("bind the packet queue", _CONFIG, head + attribute(1, struct.pack(">BBH", 1, 0, 0)))
        whole = attribute(2, struct.pack(">IB", _WHOLE, _COPY_PACKET))
        asking.request("set up the packet queue", _CONFIG, head + whole + attribute(3, struct.pack(">I", _LENGTH_MAX)))
        opened = asking.detach()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
    # A full buffer loses packets, as gaps in the numbers show; the next read must not fail because of it.
    opened.setsockopt(_SOL_NETLINK, _NO_ENOBUFS, 1)
    opened.setblocking(False)
    return opened


def open_copier() -> socket.socket:
    """Open a socket of the calling thread's namespace that sends whole IPv4 packets from any address."""
    opened = socket.socket(socket.AF_INET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.IPPROTO_RAW)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, MARK)
    opened.setblocking(False)
    return opened


class PacketQueue:
    """Both sockets, and the rules that fill the queue, in the calling thread's network namespace.

    Raises OSError with the kernel's explanation if it has no such queue.
    """

    def __init__(self, where: Where) -> None:
        with contextlib.ExitStack() as undo:
            self._queue = undo.enter_context(open_queue())
            self._copier = undo.enter_context(open_copier())
            self.rules = QueueRules(where)
            undo.pop_all()
        self._last_number = 0
        #: The number of packets that the kernel could not report to us and therefore dropped.
        self.untold = 0

    def fileno(self) -> int:
        return self._queue.fileno()

    def receive(self) -> Iterator[Packet]:
        """Yield some of the packets that wait now."""
        for _ in range(_READS_MAX):
            try:
                data = self._queue.recv(1 << 17)
            except BlockingIOError:
                return
            at = 0
            while at + _HEADER.size <= len(data):
                length, kind, _, _, _ = _HEADER.unpack_from(data, at)
                if kind == _PACKET:
                    fields = dict(attributes(data[at + _HEADER.size + 4 : at + length]))
                    number = int(struct.unpack_from(">I", fields[1])[0])
                    if self._last_number:
                        self.untold += number - self._last_number - 1
                    self._last_number = number
                    yield Packet(number, fields[10])
                at += (length + 3) & ~3

    def let_go(self, numbers: Iterable[int]) -> None:
        """Let these packets go on, in this order."""
        self._conclude([_verdict(number, _ACCEPT) for number in numbers])

    def drop(self, numbers: Iterable[int]) -> None:
        self._conclude([_verdict(number, _DROP) for number in numbers])

    def _conclude(self, verdicts: list[bytes]) -> None:
        for at in range(0, len(verdicts), _TOGETHER):
            self._queue.send(b"".join(verdicts[at : at + _TOGETHER]))

    def copy(self, content: bytes) -> None:
        """Send the packet once more. A copy that finds no room is lost, as on a wire."""
        target = socket.inet_ntoa(content[16:20])
        try:
            self._copier.sendto(content, (target, 0))
        except OSError:
            # There was no room, or the output hook of a cut link dropped it.
            return


def _verdict(number: int, verdict: int) -> bytes:
    head = struct.pack(">BBH", 0, 0, QUEUE)
    return message(_VERDICT, REQUEST, head + attribute(2, struct.pack(">II", verdict, number)), 0)
