"""The socket of one end of a link: it sends probes, and says of each that it knows of what became of it.

A probe is a datagram that holds nothing but its tag. One that arrives proves the link open. A refusal comes back as an
ICMP error with the datagram inside (IP_RECVERR), so it is known which one was refused. This module is small on purpose:
the agent in a side-car has it too.
"""

import errno
import socket
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from fencepost.harness.runtime.network import Reach

PORT: Final = 10077
#: A datagram that begins so asks for the rest of it to be sent back to where it came from.
ASK: Final = b"?"
#: Longer than any tag.
_LENGTH_MAX: Final = 64
_IP_RECVERR: Final = 11
#: The first member of struct sock_extended_err (linux/errqueue.h).
_ERROR_NUMBER: Final = struct.Struct("=I")
#: Attempts to send past errors that the socket still holds from earlier datagrams; each clears one.
_SEND_ATTEMPTS: Final = 64


class Seen(NamedTuple):
    """What became of a probe; `source` is the address and port that an arrived one came from."""

    tag: bytes
    reach: Reach
    source: tuple[str, int] | None = None


class ProbeSocket:
    """Bound to the end's address; made in the end's network namespace, and of it for ever."""

    def __init__(self, address: str, port: int = PORT) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            self._socket.bind((address, port))
            self._socket.setsockopt(socket.IPPROTO_IP, _IP_RECVERR, 1)
        except OSError:
            self._socket.close()
            raise
        self._refused: list[Seen] = []
        self._took_errors = False

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, tag: bytes, target: tuple[str, int]) -> None:
        """Send one probe. Whatever hinders it is seen later, or nothing is ever seen of it."""
        for _ in range(_SEND_ATTEMPTS):
            try:
                self._socket.sendto(tag, target)
                return
            except PermissionError:
                # The output hook took the packet: dropped, unless an ICMP error says that it was refused.
                return
            except OSError as error:
                # A refusal of an earlier datagram is reported by this call, which then has sent nothing. Without a
                # device (the node is down) there is no way either.
                if error.errno not in (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH):
                    raise
                self._refused += self._read_errors()

    def took_errors(self) -> bool:
        """Whether errors were taken since this was last asked: not every event loop goes on watching after one."""
        took, self._took_errors = self._took_errors, False
        return took

    @property
    def has_met_refusals(self) -> bool:
        """True if `send` met refusals. Call `receive` to get them: they do not make the socket readable."""
        return bool(self._refused)

    def receive(self) -> Iterator[Seen]:
        """Everything that is known by now and was not told before."""
        yield from self._refused
        self._refused.clear()
        yield from self._read_errors()
        while True:
            try:
                data, source = self._socket.recvfrom(_LENGTH_MAX)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH):
                    raise
                yield from self._read_errors()
                continue
            if data.startswith(ASK):
                data = data[len(ASK) :]
                self.send(data, source)
            else:
                yield Seen(data, Reach.OPEN, source)

    def _read_errors(self) -> list[Seen]:
        """Take the ICMP errors; each carries the datagram that met it. Only "port unreachable" is a refusal."""
        seen: list[Seen] = []
        while True:
            try:
                tag, ancillary, _, _ = self._socket.recvmsg(_LENGTH_MAX, 512, socket.MSG_ERRQUEUE)
            except BlockingIOError:
                return seen
            self._took_errors = True
            if any(_ERROR_NUMBER.unpack_from(data)[0] == errno.ECONNREFUSED for _, _, data in ancillary):
                seen.append(Seen(tag, Reach.RESET))

    def close(self) -> None:
        self._socket.close()
