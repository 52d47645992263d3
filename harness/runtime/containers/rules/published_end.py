"""The client's end of links for containers with published ports only: probes through the engine's proxy.

Every node's probe port is published, for datagrams and for connections. A datagram that reaches the node's agent proves
that client>node is open. In the other direction the agent sends to the source of a datagram from the client's second
socket, and answers a datagram that asks for it: the proxy leads both back to us. But the proxy does not pass on a
refusal, so a connection shows whether client>node is reset or dropped: the proxy accepts it, then either ends it at
once or stays silent.

Docker's proxy forgets the way back when a datagram of the same socket is refused, so a second socket is needed, which
is silent while client>node is blocked. One case cannot be decided: if node>client drops everything, a reset of
client>node looks like a drop.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from fencepost.harness.runtime.containers.rules.sidecar_agent import GREETING
from fencepost.harness.runtime.links.probe_socket import ASK, SeenProbe
from fencepost.harness.runtime.network import Reach

_LENGTH_MAX: Final = 64
#: Attempts to send past errors of earlier refusals; each attempt clears one.
_SEND_ATTEMPTS: Final = 3

#: The datagram by which an agent learns the second socket's address. Not empty, as proxies drop empty datagrams.
WAY_BACK: Final = b"!"

#: Host and port of this machine that lead to a node's probe port.
Endpoint = tuple[str, int]


class PublishedEnd:
    """The client's end of links with published ports; see `harness.runtime.links.probe.End`."""

    def __init__(
        self, endpoints: Mapping[str, Endpoint], tell: Callable[[SeenProbe], None], is_blocked: Callable[[str], bool]
    ) -> None:
        """Make the end; `is_blocked(node)` says whether one of our faults would stop datagrams to the node."""
        self._endpoints = dict(endpoints)
        self._tell = tell
        self._is_blocked = is_blocked
        self._there = {name: _open(endpoint) for name, endpoint in endpoints.items()}
        self._back = {name: _open(endpoint) for name, endpoint in endpoints.items()}
        self._connecting: set[asyncio.Task[None]] = set()
        self._is_closed = False
        for opened in self._back.values():
            self._watch(opened)

    def _watch(self, opened: socket.socket) -> None:
        """Watch the socket, now and again after every error: libuv, and so uvloop, ends a poll by POLLERR."""
        if not self._is_closed:
            loop = asyncio.get_running_loop()
            loop.remove_reader(opened.fileno())
            loop.add_reader(opened.fileno(), self._read, opened)

    def send(self, probes: Iterable[tuple[bytes, str]]) -> None:
        for tag, target in probes:
            _send(self._there[target], tag)
            task = asyncio.get_running_loop().create_task(self._connect(target, tag))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    def greet(self, name: str) -> None:
        """Show the agent of `name` the way back."""
        if not self._is_blocked(name):
            _send(self._back[name], WAY_BACK)

    def ask(self, source: str, tag: bytes) -> None:
        """Ask `source` to send the probe back by the way that this datagram took."""
        self.greet(source)
        if not self._is_blocked(source):
            _send(self._back[source], ASK + tag)

    async def flush(self) -> None:
        """Do nothing: `send` sends at once."""

    async def drain(self) -> None:
        for opened in self._back.values():
            self._read(opened)
        # Their result would come after the deadline.
        for task in list(self._connecting):
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)

    def close(self) -> None:
        self._is_closed = True
        for task in self._connecting:
            task.cancel()
        for opened in (*self._there.values(), *self._back.values()):
            # A loop that has ended has no reader to remove.
            with contextlib.suppress(RuntimeError):
                asyncio.get_running_loop().remove_reader(opened.fileno())
            opened.close()

    async def greeted(self, name: str) -> bool:
        """Say whether the agent of `name` answers a connection; False when the connection ends instead."""
        try:
            reader, writer = await asyncio.open_connection(*self._endpoints[name])
        except OSError:
            return False
        try:
            return await reader.readline() == GREETING
        except OSError:
            return False
        finally:
            writer.close()

    async def _connect(self, target: str, tag: bytes) -> None:
        if not await self.greeted(target):
            self._tell(SeenProbe(tag, Reach.RESET))

    def _read(self, opened: socket.socket) -> None:
        while True:
            try:
                tag = opened.recv(_LENGTH_MAX)
            except BlockingIOError:
                return
            except ConnectionRefusedError:
                asyncio.get_running_loop().call_soon(self._watch, opened)
                continue
            self._tell(SeenProbe(tag, Reach.OPEN))


def _open(endpoint: Endpoint) -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    opened.connect(endpoint)
    return opened


def _send(opened: socket.socket, data: bytes) -> None:
    for _ in range(_SEND_ATTEMPTS):
        try:
            opened.send(data)
            return
        except ConnectionRefusedError:
            # The refusal of an earlier datagram, if no proxy hides it; this datagram was not sent.
            continue
