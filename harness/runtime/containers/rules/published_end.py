"""The client's end of links whose containers are reached by published ports only: probes through the engine's proxy.

The probe port of every node is published, for datagrams and for connections. A datagram that the node's agent gets
proves client>node open. The other way the agent sends to where a datagram of the client's second socket came from, and
answers one that asks for it: the proxy leads both back to us. It keeps a refusal to itself, though, so whether
client>node is reset or dropped is found by a connection: the proxy accepts it, then ends it at once, or says nothing.

Docker's proxy forgets the way back when a datagram of the same socket is refused, hence the second socket, which is
silent while client>node is blocked. What cannot be found: where node>client drops everything, a reset of client>node
cannot be told from a drop.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from fencepost.harness.runtime.containers.rules.sidecar_agent import GREETING
from fencepost.harness.runtime.links.probe_socket import ASK, Seen
from fencepost.harness.runtime.network import Reach

_LENGTH_MAX: Final = 64
#: To send past what is left of earlier refusals; each attempt clears one.
_SEND_ATTEMPTS: Final = 3

#: What the second socket sends so that an agent learns where it is. Not empty, since proxies pass on no empty one.
WAY_BACK: Final = b"!"

#: Host and port of this machine that lead to a node's probe port.
Endpoint = tuple[str, int]


class PublishedEnd:
    """See `harness.runtime.links.probe.End`."""

    def __init__(
        self, endpoints: Mapping[str, Endpoint], tell: Callable[[Seen], None], is_blocked: Callable[[str], bool]
    ) -> None:
        """`is_blocked` says of a node whether datagrams to it would meet a fault of ours."""
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
        """Now, and again after every error: uvloop calls once, then watches no more (libuv ends a poll by POLLERR)."""
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
        """Have `source` send the probe back by the way that this datagram took."""
        self.greet(source)
        if not self._is_blocked(source):
            _send(self._back[source], ASK + tag)

    async def flush(self) -> None:
        """Nothing to do: they were sent at once."""

    async def drain(self) -> None:
        for opened in self._back.values():
            self._read(opened)
        # What they would find is found after the deadline.
        for task in list(self._connecting):
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)

    def close(self) -> None:
        self._is_closed = True
        for task in self._connecting:
            task.cancel()
        for opened in (*self._there.values(), *self._back.values()):
            # After the loop has ended there is no reader left to remove.
            with contextlib.suppress(RuntimeError):
                asyncio.get_running_loop().remove_reader(opened.fileno())
            opened.close()

    async def greeted(self, name: str) -> bool:
        """Whether a connection to the agent of `name` is answered; False when it is ended instead."""
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
            self._tell(Seen(tag, Reach.RESET))

    def _read(self, opened: socket.socket) -> None:
        while True:
            try:
                tag = opened.recv(_LENGTH_MAX)
            except BlockingIOError:
                return
            except ConnectionRefusedError:
                asyncio.get_running_loop().call_soon(self._watch, opened)
                continue
            self._tell(Seen(tag, Reach.OPEN))


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
            # That of an earlier datagram, where no proxy keeps it to itself; this one was not sent.
            continue
