"""UDP probes: one numbered datagram per directed link, and its fate. The servers under test take no part.

Every end of a link has one socket, at its own address and a fixed port, that sends and receives. A datagram that
arrives at the other end proves that the link is open; a refusal that comes back proves a reset. If neither happens
before the deadline, the datagram was dropped. All links are probed at once: a probe of a whole cluster takes well under
a millisecond when all links are open, and one time-out when a link drops packets.
"""

import asyncio
import contextlib
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from fencepost.harness.runtime.links.probe_socket import PORT, ProbeSocket, SeenProbe
from fencepost.harness.runtime.network import Link, Reach

__all__ = ["PORT", "End", "Prober", "SocketEnd", "open_socket"]

#: Probe number, source index, target index. The first byte is zero, so no tag looks like a request for an answer.
_TAG: Final = struct.Struct(">QHH")

#: Receives each probe whose fate is known.
Tell = Callable[[SeenProbe], None]


def open_socket(address: str) -> ProbeSocket:
    """Open the probe socket of one end; call this in the end's network namespace."""
    return ProbeSocket(address)


class End(Protocol):
    """One end of links: it sends probes, and reports the fate of every probe that it sees, its own or others'."""

    def send(self, probes: Iterable[tuple[bytes, str]]) -> None:
        """Send each tag to the end of that name, without waiting."""
        ...

    async def flush(self) -> None:
        """Return when every tag given to `send` has been sent."""
        ...

    async def drain(self) -> None:
        """Report everything that has happened so far; anything not reported when this returns has not happened."""
        ...

    def close(self) -> None: ...


class SocketEnd:
    """An end whose socket is in this process, read by the event loop."""

    def __init__(self, opened: ProbeSocket, addresses: Mapping[str, str], tell: Tell, port: int = PORT) -> None:
        self._socket = opened
        self._port = port
        self._addresses = addresses
        self._tell = tell
        self._is_closed = False
        self._watch()

    def _watch(self) -> None:
        """Watch the socket, now and again after every error: libuv, and so uvloop, ends a poll by POLLERR."""
        if not self._is_closed:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._socket.fileno())
            loop.add_reader(self._socket.fileno(), self._read)

    def send(self, probes: Iterable[tuple[bytes, str]]) -> None:
        for tag, target in probes:
            self._socket.send(tag, (self._addresses[target], self._port))
        if self._socket.has_met_refusals:
            asyncio.get_running_loop().call_soon(self._read)

    async def flush(self) -> None:
        """Do nothing: `send` sends at once."""

    async def drain(self) -> None:
        self._read()

    def _read(self) -> None:
        if self._is_closed:
            return
        for seen in self._socket.receive():
            self._tell(seen)
        if self._socket.took_errors():
            asyncio.get_running_loop().call_soon(self._watch)

    def close(self) -> None:
        self._is_closed = True
        # A loop that has ended has no reader to remove.
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
        self._socket.close()


class Prober:
    """The ends of all links of a cluster. The end of a node that does not exist now is missing: it sends nothing."""

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self._index = {name: number for number, name in enumerate(addresses)}
        self._addresses = dict(addresses)
        self._ends: dict[str, End] = {}
        self._number = 0
        self._waiting: dict[bytes, Callable[[Reach], None]] = {}

    def add(self, name: str, opened: ProbeSocket) -> None:
        """Use this socket for an end in this process, and replace its earlier socket."""
        self.add_end(name, SocketEnd(opened, self._addresses, self.tell))

    def add_end(self, name: str, end: End) -> None:
        earlier = self._ends.pop(name, None)
        if earlier is not None:
            earlier.close()
        self._ends[name] = end

    def close(self) -> None:
        for end in self._ends.values():
            end.close()
        self._ends.clear()

    async def probe(self, links: Iterable[Link], timeout_s: float) -> dict[Link, Reach]:
        """Probe all `links` at once.

        Args:
            links: directed links; each gets one datagram.
            timeout_s: seconds to wait for the fate of the datagrams.

        Returns:
            For each link: OPEN if its datagram arrived, RESET if it was refused, DROPPED if nothing was seen in time.
        """
        distinct = dict.fromkeys(links)
        reaches: dict[Link, Reach] = {}
        all_found = asyncio.Event()
        self._number += 1

        def note(link: Link, reach: Reach) -> None:
            reaches.setdefault(link, reach)
            if len(reaches) == len(distinct):
                all_found.set()

        tags: list[bytes] = []
        by_source: dict[str, list[tuple[bytes, str]]] = {}
        for link in distinct:
            tag = _TAG.pack(self._number, self._index[link.source], self._index[link.target])
            tags.append(tag)
            by_source.setdefault(link.source, []).append((tag, link.target))
            self._waiting[tag] = lambda reach, link=link: note(link, reach)  # type: ignore[misc]  # bound now
        try:
            for source, probes in by_source.items():
                if source in self._ends:
                    self._ends[source].send(probes)
            if distinct:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(timeout_s):
                        await all_found.wait()
            if len(reaches) < len(distinct):
                # A busy harness or agent leaves datagrams unsent or unread; such a stall must not look like a drop.
                await asyncio.gather(*(end.flush() for end in self._ends.values()))
                await asyncio.gather(*(end.drain() for end in self._ends.values()))
        finally:
            for tag in tags:
                self._waiting.pop(tag, None)
        return {link: reaches.get(link, Reach.DROPPED) for link in distinct}

    def tell(self, seen: SeenProbe) -> None:
        """Record the fate of a probe; ignore a probe that nobody waits for any more."""
        waiting = self._waiting.get(seen.tag)
        if waiting is not None:
            waiting(seen.reach)
