"""The toxics of all faults on the links of a cluster, and their measurement; see `harness.runtime.network.Streams`."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.containers.toxiproxy.measure import experience
from fencepost.harness.runtime.containers.toxiproxy.server import HeldToxic, ToxiproxyServer, is_same
from fencepost.harness.runtime.containers.toxiproxy.wiring import Wiring
from fencepost.harness.runtime.network import Experience, Link, Toxic

_MEASURED_AT_ONCE: Final = 16


class ToxiproxyStreams:
    def __init__(
        self, wiring: Wiring, servers: Mapping[str, ToxiproxyServer], probes: Mapping[Link, tuple[str, int]]
    ) -> None:
        """`probes`: where the harness dials the proxy by which each link is measured."""
        self._wiring, self._servers, self._probes = wiring, servers, probes
        self._by_fault: dict[int, Mapping[Link, Toxic]] = {}
        self._changing = asyncio.Lock()

    async def apply(self, fault_id: int, links: Mapping[Link, Toxic]) -> None:
        self._check(links)
        async with self._changing:
            await self._enforce({**self._by_fault, fault_id: dict(links)})

    async def withdraw(self, fault_id: int) -> None:
        async with self._changing:
            await self._enforce({fault: links for fault, links in self._by_fault.items() if fault != fault_id})

    async def heal_all(self) -> None:
        async with self._changing:
            await self._enforce({})

    async def _enforce(self, wanted: dict[int, Mapping[Link, Toxic]]) -> None:
        # A caller cancelled meanwhile must find what may be in force by now, to withdraw it.
        self._by_fault = wanted
        on: dict[str, dict[HeldToxic, Toxic]] = {name: {} for name in self._servers}
        for fault, links in wanted.items():
            for link, toxic in links.items():
                for wire in self._wiring.wires(link):
                    on[wire.server][HeldToxic(wire.proxy, wire.stream, f"fault{fault}-{wire.stream}")] = toxic
        holding = [asyncio.to_thread(server.hold, on[name]) for name, server in self._servers.items()]
        # All end before the first failure is raised, so that the state in force is settled then.
        for failure in await asyncio.gather(*holding, return_exceptions=True):
            if isinstance(failure, BaseException):
                raise failure

    async def read_back(self) -> Mapping[Link, tuple[Toxic, ...]]:
        """Return the toxics that all wires of a link share."""
        answers = await asyncio.gather(*(asyncio.to_thread(server.held) for server in self._servers.values()))
        held = dict(zip(self._servers, answers, strict=True))
        return {link: common for link in self._probes if (common := self._common(link, held))}

    def _common(self, link: Link, held: Mapping[str, Mapping[HeldToxic, Toxic]]) -> tuple[Toxic, ...]:
        on_wires = [
            {
                where.name.partition("-")[0]: toxic
                for where, toxic in held[wire.server].items()
                if where[:2] == (wire.proxy, wire.stream)
            }
            for wire in self._wiring.wires(link)
        ]
        first, *others = on_wires
        return tuple(
            toxic
            for fault, toxic in first.items()
            if all(fault in other and is_same(toxic, other[fault]) for other in others)
        )

    async def measure(self, links: Iterable[Link], timeout_s: float = 5.0) -> Mapping[Link, Experience]:
        distinct = list(dict.fromkeys(links))
        self._check(distinct)
        # One after the other would be slow when nothing answers; hundreds at once would disturb each other.
        slots = asyncio.Semaphore(_MEASURED_AT_ONCE)

        async def one(link: Link) -> Experience:
            async with slots:
                return await experience(*self._probes[link], timeout_s)

        return dict(zip(distinct, await asyncio.gather(*(one(link) for link in distinct)), strict=True))

    def _check(self, links: Iterable[Link]) -> None:
        for link in links:
            if link not in self._probes:
                raise HarnessError(f"there is no link {link}", hint=f"nodes: {', '.join(self._wiring.nodes)}")
