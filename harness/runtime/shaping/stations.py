"""Where the processes are that hold and measure packets: a protocol, and those of the lab.

A *field* is a network namespace with a packet queue. The lab has one, the router that every packet passes and that is
the harness's own namespace. In a container cluster each node's side-car has one, for the node's share of the links.
"""

import functools
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.links.idle_end import IdleEnd
from fencepost.harness.runtime.links.packet_rules import Where
from fencepost.harness.runtime.linux.companion import Companion
from fencepost.harness.runtime.network import CLIENT, Link, PacketShape
from fencepost.harness.runtime.shaping.passage_meter import open_end

SHAPER: Final = "fencepost.harness.runtime.shaping.shaper"
METER: Final = "fencepost.harness.runtime.shaping.passage_meter"

Answer = dict[str, Any]


class Stations(Protocol):
    @property
    def fields(self) -> Iterable[str]: ...
    @property
    def ends(self) -> Mapping[str, str]:
        """Return the address of every end of links that can be measured."""
        ...

    @property
    def meters(self) -> int: ...

    async def prepare(self) -> bool:
        """Start what is missing or has failed; return whether a shaper is new, and so knows no shapes."""
        ...

    def tables(self, links: Mapping[Link, PacketShape]) -> Mapping[str, Mapping[bytes, PacketShape]]:
        """Return each field's share of the shaped links, by source and target address."""
        ...

    def links(self, field: str, keys: Iterable[bytes]) -> set[Link]: ...

    async def shaper(self, field: str, do: str, **fields: Any) -> Answer:
        """Give an order to a field's shaper. Raises HarnessError when it cannot, or is gone."""
        ...

    async def measure(self, do: str, timeout_s: float, **fields: Any) -> list[Answer]:
        """Give the same order to every meter at once."""
        ...

    async def at(self, end: str, do: str, *arguments: Any) -> Any:
        """Call this method of the end's `IdleEnd`."""
        ...

    def close(self) -> None: ...


class RouterStations:
    """Those of the lab. `call` calls a function in the namespace of an end."""

    fields: Final = (CLIENT,)
    meters: Final = 1

    def __init__(self, ends: Mapping[str, str], call: Callable[[str, Callable[[], Any]], Any]) -> None:
        self.ends = dict(ends)
        self._call = call
        self._idle = {name: IdleEnd() for name in ends}
        self._keys = {name: socket.inet_aton(address) for name, address in ends.items()}
        self._names = {key: name for name, key in self._keys.items()}
        self.shaping: Companion | None = None
        self.measuring: Companion | None = None

    async def prepare(self) -> bool:
        if self.measuring is None or self.measuring.has_failed:
            self.measuring = _instead_of(self.measuring, METER)
            for end, address in self.ends.items():
                with self._call(end, functools.partial(open_end, address)) as opened:
                    await self.measuring.ask("add", end=end, fds=[opened.fileno()])
        if self.shaping is not None and not self.shaping.has_failed:
            return False
        self.shaping = _instead_of(self.shaping, SHAPER)
        await self.shaper(CLIENT, "open", where=Where.ROUTER.name)
        return True

    def tables(self, links: Mapping[Link, PacketShape]) -> Mapping[str, Mapping[bytes, PacketShape]]:
        return {CLIENT: {self._keys[link.source] + self._keys[link.target]: shape for link, shape in links.items()}}

    def links(self, field: str, keys: Iterable[bytes]) -> set[Link]:
        return {Link(self._names[key[:4]], self._names[key[4:]]) for key in keys}

    async def shaper(self, field: str, do: str, **fields: Any) -> Answer:
        assert self.shaping is not None, "prepared first"
        try:
            return await self.shaping.ask(do, **fields)
        except HarnessError:
            if self.shaping.has_failed:
                # No packet may wait in a queue that nobody reads; the kernel lets them pass when it is gone.
                self.shaping.close()
            raise

    async def measure(self, do: str, timeout_s: float, **fields: Any) -> list[Answer]:
        assert self.measuring is not None, "prepared first"
        return [await self.measuring.ask(do, timeout_s=timeout_s, **fields)]

    async def at(self, end: str, do: str, *arguments: Any) -> Any:
        return self._call(end, lambda: getattr(self._idle[end], do)(*arguments))

    def close(self) -> None:
        for companion in (self.shaping, self.measuring):
            if companion is not None:
                companion.close()
        for idle in self._idle.values():
            idle.close()
        self.shaping = self.measuring = None


def _instead_of(earlier: Companion | None, module: str) -> Companion:
    if earlier is not None:
        earlier.close()
    return Companion(module)
