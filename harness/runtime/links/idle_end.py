"""One end of idle connections of ours, and the end of others: what a side-car does too, with little to import."""

import errno
import socket
import struct
from typing import Final

from fencepost.harness.runtime.linux.netlink import Netlink

_NETLINK_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_DESTROY: Final = 21
#: struct inet_diag_req_v2 before the socket's id, and the id (struct inet_diag_sockid).
_REQUEST: Final = struct.Struct("=BBBxI")
_ID_BYTES: Final = 48
#: The bits of all TCP states except listening, closed, and those of ended connections (net/tcp_states.h).
_CONNECTED: Final = sum(1 << state for state in (1, 2, 3, 4, 5, 8, 9, 11))
_ENDS: Final = {errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE}


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
