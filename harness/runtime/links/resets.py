"""Resets of open TCP connections over links, proven by watching idle connections of our own.

A packet rule answers the next packet of a connection with a reset; an idle connection would notice nothing. So we ask
the kernel to end every connection between the two ends (SOCK_DESTROY, linux/sock_diag.h): the end where we ask sees an
error, and the other end a reset.
"""

import asyncio
import errno
import itertools
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from typing import Any, Final

from fencepost.harness.runtime.linux.netlink import Netlink
from fencepost.harness.runtime.network import CLIENT, Link

_NETLINK_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_DESTROY: Final = 21
#: struct inet_diag_req_v2 before the socket's id, and the id (struct inet_diag_sockid).
_REQUEST: Final = struct.Struct("=BBBxI")
_ID_BYTES: Final = 48
#: The bits of all TCP states except listening, closed, and those of ended connections (net/tcp_states.h).
_CONNECTED: Final = sum(1 << state for state in (1, 2, 3, 4, 5, 8, 9, 11))
_CONNECT_S: Final = 1.0
_LOOK_S: Final = 0.005
_ENDS: Final = {errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE}

#: Calls a method of the `IdleEnd` of an end of links.
At = Callable[..., Awaitable[Any]]


def destroy_connections(remote: str) -> int:
    """End every TCP connection with one remote address, in the calling thread's network namespace.

    Args:
        remote: the IPv4 address of the other end.

    Returns:
        The number of connections that were ended.

    Raises:
        OSError: the kernel cannot do it (it lacks CONFIG_INET_DIAG_DESTROY).
    """
    plain = socket.inet_aton(remote)
    mapped = bytes(10) + b"\xff\xff" + plain
    ended = 0
    with Netlink(_NETLINK_SOCK_DIAG) as kernel:
        for family, wanted in ((socket.AF_INET, plain), (socket.AF_INET6, mapped)):
            head = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, _CONNECTED)
            for body in kernel.dump("list connections", _BY_FAMILY, head + bytes(_ID_BYTES)):
                # struct inet_diag_msg: family, state, timer, retransmissions, then the id, whose ports come first.
                identity = body[4 : 4 + _ID_BYTES]
                if identity[20 : 20 + len(wanted)] != wanted:
                    continue
                try:
                    kernel.request("end a connection", _DESTROY, head + identity)
                    ended += 1
                except OSError as error:
                    if error.errno != errno.ENOENT:  # it ended by itself
                        raise
    return ended


class IdleEnd:
    """The idle connections of one end of links, by a key. Opened in its network namespace; no call of it waits."""

    def __init__(self) -> None:
        self._listeners: dict[str, socket.socket] = {}
        self._connections: dict[str, socket.socket] = {}
        self._broken: set[str] = set()

    def listen(self, key: str, address: str) -> int:
        """Listen for this connection; return the port."""
        opened = self._listeners[key] = socket.create_server((address, 0), backlog=1)
        opened.setblocking(False)
        return int(opened.getsockname()[1])

    def dial(self, key: str, address: str, port: int) -> None:
        opened = self._connections[key] = socket.socket()
        opened.setblocking(False)
        opened.connect_ex((address, port))

    def accept(self, key: str) -> bool:
        """Say whether the connection is there."""
        try:
            accepted, _ = self._listeners[key].accept()
        except BlockingIOError:
            return False
        accepted.setblocking(False)
        self._connections[key] = accepted
        return True

    def broken(self) -> list[str]:
        """Return the connections that an error broke. A regular close or silence is no error."""
        for key in self._connections.keys() - self._broken:
            try:
                self._connections[key].recv(1)
            except OSError as error:
                if error.errno in _ENDS:
                    self._broken.add(key)
        return sorted(self._broken)

    def destroy(self, remote: str) -> int:
        return destroy_connections(remote)

    def close(self, *keys: str) -> None:
        """Close these connections; without a key, all of them."""
        for opened in (self._listeners, self._connections):
            for key in keys or list(opened):
                if key in opened:
                    opened.pop(key).close()


async def break_between(links: Iterable[Link], addresses: Mapping[str, str], at: At) -> int:
    """End the connections between the two ends of each link, whose direction does not matter; return their number."""
    return sum([await at(here, "destroy", addresses[there]) for here, there in _pairs(links, addresses)])


def _pairs(links: Iterable[Link], known: Container[str]) -> list[tuple[str, str]]:
    """Return each pair of known ends once, with a node first."""
    pairs = {(b, a) if a == CLIENT or (b != CLIENT and b < a) else (a, b) for a, b in links}
    return sorted((a, b) for a, b in pairs if a in known and b in known)


class IdleConnections:
    """`harness.runtime.network.Witness`."""

    _numbers: Final = itertools.count()

    def __init__(self, at: At) -> None:
        self._at = at
        self._pairs: dict[str, tuple[str, str]] = {}
        self._connected: list[str] = []

    @classmethod
    async def open(cls, links: Iterable[Link], addresses: Mapping[str, str], at: At) -> "IdleConnections":
        """Open one connection over each pair of ends that can be connected now."""
        opened = cls(at)
        try:
            for accepting, dialling in _pairs(links, addresses):
                key = f"{accepting}-{dialling}-{next(cls._numbers)}"
                opened._pairs[key] = accepting, dialling
                port = await at(accepting, "listen", key, addresses[accepting])
                await at(dialling, "dial", key, addresses[accepting], port)
                deadline = time.monotonic() + _CONNECT_S
                while not (is_there := await at(accepting, "accept", key)) and time.monotonic() < deadline:
                    await asyncio.sleep(_LOOK_S)
                if is_there:  # else another fault cuts this link, and there is nothing to watch
                    opened._connected.append(key)
        except BaseException:
            await opened.close()
            raise
        return opened

    async def ended(self, timeout_s: float) -> Mapping[frozenset[str], bool]:
        deadline = time.monotonic() + timeout_s
        ends = {end for key in self._connected for end in self._pairs[key]}
        while True:
            # Read before looking: the harness itself may have been late.
            is_last = time.monotonic() > deadline
            broken = {end: await self._at(end, "broken") for end in ends}
            ended = {
                frozenset(self._pairs[key]): all(key in broken[end] for end in self._pairs[key])
                for key in self._connected
            }
            if is_last or all(ended.values()):
                return ended
            await asyncio.sleep(_LOOK_S)

    async def close(self) -> None:
        for key, ends in self._pairs.items():
            for end in ends:
                await self._at(end, "close", key)
