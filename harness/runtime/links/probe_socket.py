"""The socket of one end of a link: it sends probes, and reports the fate of each probe that it sees.

A probe is a datagram that holds only its tag. A probe that arrives proves that the link is open. A refusal comes back
as an ICMP error that contains the datagram (IP_RECVERR) and so identifies it. This module is small on purpose, because
it is also part of the agent in a side-car.
"""

import errno
import socket
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from fencepost.harness.runtime.network import Reach

PORT: Final = 10077
#: A datagram with this first part asks the receiver to send the rest back to its source.
ASK: Final = b"?"
#: Longer than any tag.
_LENGTH_MAX: Final = 64
_IP_RECVERR: Final = 11
#: The first member of struct sock_extended_err (linux/errqueue.h).
_ERROR_NUMBER: Final = struct.Struct("=I")
#: Attempts to send past errors that the socket still holds from earlier datagrams; each clears one.
_SEND_ATTEMPTS: Final = 64


class SeenProbe(NamedTuple):
    """The fate of a probe; for an arrived probe `source` is the address and port that it came from."""

    tag: bytes
    reach: Reach
    source: tuple[str, int] | None = None


class ProbeSocket:
    """A socket bound to the end's address. It is made in the end's network namespace and stays there."""

    def __init__(self, address: str, port: int = PORT) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            self._socket.bind((address, port))
            self._socket.setsockopt(socket.IPPROTO_IP, _IP_RECVERR, 1)
        except OSError:
            self._socket.close()
            raise
        self._refused: list[SeenProbe] = []
        self._took_errors = False

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, tag: bytes, target: tuple[str, int]) -> None:
        """Send one probe. An error shows later through `receive`, or never."""
        for _ in range(_SEND_ATTEMPTS):
            try:
                self._socket.sendto(tag, target)
                return
            except PermissionError:
                # The output hook stopped the packet: it is dropped, unless an ICMP error says that it was refused.
                return
            except OSError as error:
                # This call reports the refusal of an earlier datagram and has then sent nothing. It also fails without
                # a device (the node is down).
                if error.errno not in (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH):
                    raise
                self._refused += self._read_errors()

    def took_errors(self) -> bool:
        """Say whether errors were read since the last call: some event loops stop watching the socket after one."""
        took, self._took_errors = self._took_errors, False
        return took

    @property
    def has_met_refusals(self) -> bool:
        """Say whether `send` met refusals, which do not make the socket readable; `receive` returns them."""
        return bool(self._refused)

    def receive(self) -> Iterator[SeenProbe]:
        """Yield every fate that is known so far and was not yielded before."""
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
                yield SeenProbe(data, Reach.OPEN, source)

    def _read_errors(self) -> list[SeenProbe]:
        """Read the ICMP errors, each of which contains its datagram. Only "port unreachable" is a refusal."""
        seen: list[SeenProbe] = []
        while True:
            try:
                tag, ancillary, _, _ = self._socket.recvmsg(_LENGTH_MAX, 512, socket.MSG_ERRQUEUE)
            except BlockingIOError:
                return seen
            self._took_errors = True
            if any(_ERROR_NUMBER.unpack_from(data)[0] == errno.ECONNREFUSED for _, _, data in ancillary):
                seen.append(SeenProbe(tag, Reach.RESET))

    def close(self) -> None:
        self._socket.close()
