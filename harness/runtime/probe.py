"""UDP probes: one numbered datagram over a directed link, and what became of it. Independent of the servers under test.

Every end of a link has one socket, at its own address and a fixed port, that sends and receives. A datagram that
arrives at the other end proves the link open. A refusal comes back as an ICMP error with the datagram inside
(IP_RECVERR), so it is known which one was refused. What is neither by the deadline was dropped. All links are probed
at once: a probe matrix costs well under a millisecond when all is open, and one time-out when something is dropped.
"""

import asyncio
import contextlib
import errno
import socket
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from harness.runtime.node import Link, Reach

PORT: Final = 10077
_IP_RECVERR: Final = 11
#: Probe number, source index, target index.
_TAG: Final = struct.Struct("=QHH")
#: Attempts to send past errors that the socket still holds from earlier datagrams; each clears one.
_SEND_ATTEMPTS: Final = 64


def open_socket(address: str) -> socket.socket:
    """The probe socket of one end; call it in the end's network namespace."""
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    opened.bind((address, PORT))
    opened.setsockopt(socket.IPPROTO_IP, _IP_RECVERR, 1)
    return opened


class Prober:
    """The probe sockets of all ends of a lab, read by the event loop."""

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self._names = list(addresses)
        self._index = {name: number for number, name in enumerate(self._names)}
        self._addresses = dict(addresses)
        self._sockets: dict[str, socket.socket] = {}
        self._number = 0
        self._waiting: dict[bytes, Callable[[Reach], None]] = {}

    def add(self, name: str, opened: socket.socket) -> None:
        self._sockets[name] = opened
        asyncio.get_running_loop().add_reader(opened.fileno(), self._read, name)

    def close(self) -> None:
        for opened in self._sockets.values():
            # After the loop has ended there is no reader left to remove.
            with contextlib.suppress(RuntimeError):
                asyncio.get_running_loop().remove_reader(opened.fileno())
            opened.close()
        self._sockets.clear()

    async def probe(self, links: Iterable[Link], timeout_s: float) -> dict[Link, Reach]:
        """Probe all `links` at once; those from which nothing was heard after `timeout_s` are DROPPED."""
        asked = dict.fromkeys(links)
        found: dict[Link, Reach] = {}
        all_found = asyncio.Event()
        self._number += 1
        tags: list[bytes] = []

        def note(link: Link, reach: Reach) -> None:
            found.setdefault(link, reach)
            if len(found) == len(asked):
                all_found.set()

        try:
            for link in asked:
                tag = _TAG.pack(self._number, self._index[link.source], self._index[link.target])
                tags.append(tag)
                self._waiting[tag] = lambda reach, link=link: note(link, reach)  # type: ignore[misc]  # bound now
                self._send(link, tag)
            if asked:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(timeout_s):
                        await all_found.wait()
            # What arrived while the loop was busy is in the sockets: a stall of ours must not look like a drop.
            for name in self._sockets:
                self._read(name)
        finally:
            for tag in tags:
                self._waiting.pop(tag, None)
        return {link: found.get(link, Reach.DROPPED) for link in asked}

    def _send(self, link: Link, tag: bytes) -> None:
        opened = self._sockets[link.source]
        for _ in range(_SEND_ATTEMPTS):
            try:
                opened.sendto(tag, (self._addresses[link.target], PORT))
                return
            except PermissionError:
                # The output hook took the packet: dropped, unless an ICMP error says that it was refused.
                return
            except OSError as error:
                # A refusal of an earlier datagram is reported by this call, which then has sent nothing.
                if error.errno not in (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH):
                    raise
                self._read_errors(opened)

    def _read(self, name: str) -> None:
        opened = self._sockets[name]
        self._read_errors(opened)
        while True:
            try:
                tag = opened.recv(64)
            except BlockingIOError:
                return
            except ConnectionRefusedError:
                self._read_errors(opened)
                continue
            self._tell(tag, Reach.OPEN)

    def _read_errors(self, opened: socket.socket) -> None:
        """Take the ICMP errors; each carries the datagram that was refused."""
        while True:
            try:
                tag, _, _, _ = opened.recvmsg(64, 512, socket.MSG_ERRQUEUE)
            except BlockingIOError:
                return
            self._tell(tag, Reach.RESET)

    def _tell(self, tag: bytes, reach: Reach) -> None:
        waiting = self._waiting.get(tag)
        if waiting is not None:
            waiting(reach)
