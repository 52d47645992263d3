"""Resets of open TCP connections over links, proven by watching idle connections of our own.

A packet rule answers the next packet of a connection with a reset; an idle connection would notice nothing. So we ask
the kernel to end every connection between the two ends (SOCK_DESTROY, linux/sock_diag.h): the end where we ask sees an
error, and the other end a reset.
"""

import asyncio
import errno
import socket
import struct
from collections.abc import Awaitable, Callable, Iterable, Mapping
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
_ENDS: Final = {errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE}

RunIn = Callable[[str, Callable[[], Any]], Awaitable[Any]]


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


async def break_between(links: Iterable[Link], addresses: Mapping[str, str], run_in: RunIn) -> int:
    """End the connections between the two ends of each link.

    Args:
        links: directed links; their direction does not matter.
        addresses: the IPv4 address of each end.
        run_in: runs a function in the namespace of an end; one of each pair's nodes is used.

    Returns:
        The number of connections that were ended.
    """
    ended = 0
    for here, there in _pairs(links):
        ended += await run_in(here, lambda there=there: destroy_connections(addresses[there]))  # type: ignore[misc]
    return ended


def _pairs(links: Iterable[Link]) -> list[tuple[str, str]]:
    """Return each pair of ends once, with a node first."""
    return sorted({(b, a) if a == CLIENT or (b != CLIENT and b < a) else (a, b) for a, b in links})


class IdleConnections:
    """`harness.runtime.network.Witness`."""

    def __init__(self) -> None:
        self._sockets: dict[frozenset[str], tuple[socket.socket, socket.socket]] = {}

    @classmethod
    async def open(cls, links: Iterable[Link], addresses: Mapping[str, str], run_in: RunIn) -> "IdleConnections":
        """Open one connection over each pair of ends that can be connected now."""
        opened = cls()
        try:
            for accepting, dialling in _pairs(links):
                await opened._connect(accepting, dialling, addresses, run_in)
        except BaseException:
            opened.close()
            raise
        return opened

    async def _connect(self, accepting: str, dialling: str, addresses: Mapping[str, str], run_in: RunIn) -> None:
        listener = await run_in(accepting, lambda: socket.create_server((addresses[accepting], 0), backlog=1))
        dialled = await run_in(dialling, socket.socket)
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        dialled.setblocking(False)
        try:
            async with asyncio.timeout(1.0):
                await loop.sock_connect(dialled, listener.getsockname())
                accepted, _ = await loop.sock_accept(listener)
        except TimeoutError:
            # Perhaps the harness was late, and the connection exists: look once more.
            try:
                accepted, _ = listener.accept()
            except OSError:
                # Another fault cuts this link, so there is nothing to watch.
                dialled.close()
                return
            accepted.setblocking(False)
        except OSError:
            dialled.close()
            return
        finally:
            listener.close()
        self._sockets[frozenset((accepting, dialling))] = accepted, dialled

    async def ended(self, timeout_s: float) -> Mapping[frozenset[str], bool]:
        ends = [end for pair in self._sockets.values() for end in pair]
        is_broken = dict(zip(ends, await asyncio.gather(*(_ended(end, timeout_s) for end in ends)), strict=True))
        return {pair: is_broken[a] and is_broken[b] for pair, (a, b) in self._sockets.items()}

    def close(self) -> None:
        for pair in self._sockets.values():
            for end in pair:
                end.close()
        self._sockets.clear()


async def _ended(end: socket.socket, timeout_s: float) -> bool:
    """Say whether an error broke the connection. A regular close or silence is no error."""
    try:
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.get_running_loop().sock_recv(end, 1)
        except TimeoutError:
            # Perhaps the harness was late: look once more.
            end.recv(1)
    except OSError as error:
        return error.errno in _ENDS
    return False
