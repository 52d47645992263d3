"""The links of a cluster whose every connection goes through Toxiproxy: cuts, resets, delays, and their proof.

The bytes of a link a>b are two things: what a sends on connections that it dialled to b (`upstream` of the proxies
a>b) and what it answers on those that b dialled (`downstream` of the proxies b>a). etcd's raft streams are dialled by
the receiver, so both matter. A dropped link has the toxic `timeout` 0 on all of them, a reset one `reset_peer` 0.

What differs from packet rules (docs/explanation/links.md has the table):
  - It is not atomic over the cluster: some dozen requests, two at a time.
  - The end of a connection passes a cut, so a peer sees that a cut-off process closed or died.
  - A connection that was black-holed gets its end (EOF) when the link heals; packet rules would let it go on.
  - A reset ends connections when bytes flow; one that was open before ends without a reset (plain EOF).

A probe asks two witnesses: a connection of our own through the link's probe proxy, which has the same toxics, and
the server, for the toxics of the link's real proxies. Where they disagree, the probe's answer is the one that makes a
proof fail. Pure state (`Wiring`, `wanted`) is apart from the server (`harness.runtime.containers.toxiproxy.control`).
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.containers.toxiproxy.control import (
    DOWNSTREAM,
    UPSTREAM,
    Control,
    Held,
    Wire,
    complete,
    refuse,
)
from fencepost.harness.runtime.containers.toxiproxy.measure import experience, reach
from fencepost.harness.runtime.links.rules_in_force import Contributions, all_links
from fencepost.harness.runtime.network import CLIENT, Effect, Experience, Link, Reach, Toxic

#: The toxic that enforces each effect.
CUTS: Final[Mapping[Effect, Toxic]] = {
    Effect.DROP: Toxic(kind="timeout", attributes={"timeout": 0}),
    Effect.RESET: Toxic(kind="reset_peer", attributes={"timeout": 0}),
}
_REACH: Final = {Effect.DROP: Reach.DROPPED, Effect.RESET: Reach.RESET}
_MEASURED_AT_ONCE: Final = 16
#: The name of the toxics of a cut; those of a fault have its id as their name.
_CUT: Final = "cut"

#: All toxics that should be in force on the server.
Toxics = Mapping[Held, Toxic]


def proxy_name(source: str, target: str, listener: str) -> str:
    """Name the proxy through which `source` dials that listener of `target`."""
    return f"{source}-{target}-{listener}"


def probe_name(link: Link) -> str:
    return f"probe-{link.source}-{link.target}"


class Wiring:
    """The directions of proxies that carry the bytes of each link."""

    def __init__(
        self, nodes: Iterable[str], listeners: Iterable[str], dialled: Mapping[str, Iterable[str]] | None = None
    ) -> None:
        """`dialled` holds the listeners of each node that the client dials; by default the listener "client"."""
        self.nodes: Final = tuple(nodes)
        self._peers = tuple(listener for listener in listeners if listener != CLIENT)
        self._dialled = {name: tuple((dialled or {}).get(name, (CLIENT,))) for name in self.nodes}
        self.links: Final = dict.fromkeys(all_links(list(self.nodes)))

    def check(self, links: Iterable[Link]) -> None:
        """Raise HarnessError for a link that does not exist."""
        for link in links:
            if link not in self.links:
                raise HarnessError(f"there is no link {link}", hint=f"ends of links: {', '.join(self.nodes)}, {CLIENT}")

    def wires(self, link: Link) -> tuple[Wire, ...]:
        """Return the link's real wires. The client dials the nodes, so their bytes to it return on its connections."""
        source, target = link
        if source == CLIENT:
            return tuple(Wire(proxy_name(CLIENT, target, name), UPSTREAM) for name in self._dialled[target])
        if target == CLIENT:
            return tuple(Wire(proxy_name(CLIENT, source, name), DOWNSTREAM) for name in self._dialled[source])
        dialled = [Wire(proxy_name(source, target, peer), UPSTREAM) for peer in self._peers]
        return (*dialled, *(Wire(proxy_name(target, source, peer), DOWNSTREAM) for peer in self._peers))

    def probe(self, link: Link) -> Wire:
        """Return the wire that represents the link in a probe: the way back to us."""
        return Wire(probe_name(link), DOWNSTREAM)


def held_on(wire: Wire, owner: str) -> Held:
    """Return the position of one owner's toxic; names are unique in a proxy, so they include the direction."""
    return Held(wire, f"{owner}-{wire.stream}")


class ProxiedLinks:
    """Combines the toxics of all faults, and makes the server hold exactly these."""

    def __init__(self, control: Control, wiring: Wiring, probes: Mapping[Link, tuple[str, int]]) -> None:
        self.control: Final = control
        self.wiring: Final = wiring
        self.probes: Final = probes
        self.cuts = Contributions()
        self.toxics: Mapping[int, Mapping[Link, Toxic]] = {}
        #: The server's last known toxics; None after a failure that left them unknown.
        self._held: dict[Held, Toxic] | None = {}

    async def enforce(self, cuts: Contributions, toxics: Mapping[int, Mapping[Link, Toxic]]) -> None:
        """Make the server hold the sum of these, and read it back; only then it becomes our state."""
        await self.control.run(self._enforce, wanted(self.wiring, cuts, toxics))
        self.cuts, self.toxics = cuts, toxics

    async def heal_all(self) -> None:
        """Remove every toxic, whether remembered or not."""
        await self.control.run(self._heal_all)
        self.cuts, self.toxics = Contributions(), {}

    async def read_back(self) -> dict[Held, Toxic]:
        return await self.control.run(self.control.held)

    def _heal_all(self) -> None:
        self._held = None
        self.control.reset()
        left = self.control.held()
        if left:
            raise HarnessError(f"Toxiproxy keeps toxics after a reset: {_toxics_text(left)}")
        self._held = {}

    def _enforce(self, target: Toxics) -> None:
        if not target:
            self._heal_all()
            return
        held = self.control.held() if self._held is None else self._held
        self._held = None
        removed = [where for where, toxic in held.items() if target.get(where) != toxic]
        added = {where: toxic for where, toxic in target.items() if held.get(where) != toxic}
        # The real links first, so that a probe's result already holds for them.
        self.control.change(
            sorted(removed, key=_is_probe), dict(sorted(added.items(), key=lambda item: _is_probe(item[0])))
        )
        present = self.control.held()
        if present != target:
            missing = {where: toxic for where, toxic in target.items() if present.get(where) != toxic}
            extra = {where: toxic for where, toxic in present.items() if target.get(where) != toxic}
            raise HarnessError(f"Toxiproxy does not hold: {_toxics_text(missing)}; but holds: {_toxics_text(extra)}")
        self._held = present


def wanted(wiring: Wiring, cuts: Contributions, toxics: Mapping[int, Mapping[Link, Toxic]]) -> dict[Held, Toxic]:
    """Return the toxics that the server must hold: a link's cut and faults, on all its wires and its probe's."""
    owned: list[tuple[Link, str, Toxic]] = [(link, _CUT, CUTS[effect]) for link, effect in cuts.merged().items()]
    owned += [(link, f"fault{fault}", toxic) for fault, links in toxics.items() for link, toxic in links.items()]
    return {
        held_on(wire, owner): complete(toxic)
        for link, owner, toxic in owned
        for wire in (*wiring.wires(link), wiring.probe(link))
    }


def reach_of(wiring: Wiring, link: Link, held: Toxics) -> Reach | None:
    """Return the effect of the server's toxics on the link; None when its wires differ, as it is cut in part."""
    cuts = [held.get(held_on(wire, _CUT)) for wire in wiring.wires(link)]
    if all(toxic is None for toxic in cuts):
        return Reach.OPEN
    for effect, toxic in CUTS.items():
        if all(other == complete(toxic) for other in cuts):
            return _REACH[effect]
    return None


def judged(measured: Reach, by_server: Reach | None, expected: Reach) -> Reach:
    """Return a probe's answer: that of both witnesses if they agree, else the unexpected one."""
    if measured is by_server or measured is not expected:
        return measured
    if by_server is not None:
        return by_server
    return Reach.DROPPED if expected is Reach.OPEN else Reach.OPEN


class ToxiproxyNetwork:
    """See `harness.runtime.network.Network`."""

    #: A proxy sees streams, not packets.
    shapes: Final = None

    def __init__(self, links: ProxiedLinks) -> None:
        self._links = links

    @property
    def blocked(self) -> Mapping[Link, Effect]:
        return self._links.cuts.merged()

    async def apply(self, fault_id: int, links: Mapping[Link, Effect]) -> None:
        self._links.wiring.check(links)
        await self._links.enforce(self._links.cuts.with_fault(fault_id, links), self._links.toxics)

    async def withdraw(self, fault_id: int) -> None:
        if fault_id in self._links.cuts.by_fault:
            await self._links.enforce(self._links.cuts.without_fault(fault_id), self._links.toxics)

    async def heal_all(self) -> None:
        await self._links.heal_all()

    async def probe(self, links: Iterable[Link], timeout_s: float = 0.2) -> dict[Link, Reach]:
        distinct = list(dict.fromkeys(links))
        self._links.wiring.check(distinct)
        blocked = self.blocked
        measured, held = await asyncio.gather(
            asyncio.gather(*(reach(*self._links.probes[link], timeout_s) for link in distinct)), self._links.read_back()
        )
        return {
            link: judged(
                by_connection,
                reach_of(self._links.wiring, link, held),
                _REACH[blocked[link]] if link in blocked else Reach.OPEN,
            )
            for link, by_connection in zip(distinct, measured, strict=True)
        }


class ToxiproxyStreams:
    """See `harness.runtime.network.Streams`."""

    def __init__(self, links: ProxiedLinks) -> None:
        self._links = links

    async def apply(self, fault_id: int, links: Mapping[Link, Toxic]) -> None:
        self._links.wiring.check(links)
        for toxic in links.values():
            why = refuse(toxic)
            if why is not None:
                raise HarnessError(why.reason, hint=why.remedy)
        await self._links.enforce(self._links.cuts, {**self._links.toxics, fault_id: dict(links)})

    async def withdraw(self, fault_id: int) -> None:
        if fault_id in self._links.toxics:
            left = {fault: links for fault, links in self._links.toxics.items() if fault != fault_id}
            await self._links.enforce(self._links.cuts, left)

    async def read_back(self) -> Mapping[Link, tuple[Toxic, ...]]:
        """Return the toxics that all wires of a link share, without cuts of the network."""
        held = await self._links.read_back()
        return {link: common for link in self._links.wiring.links if (common := self._common(link, held))}

    def _common(self, link: Link, held: Toxics) -> tuple[Toxic, ...]:
        first, *others = self._links.wiring.wires(link)
        owners = [where.name.removesuffix(f"-{first.stream}") for where in held if where.wire == first]
        return tuple(
            held[held_on(first, owner)]
            for owner in owners
            if owner != _CUT and all(held.get(held_on(wire, owner)) == held[held_on(first, owner)] for wire in others)
        )

    async def measure(self, links: Iterable[Link], timeout_s: float = 5.0) -> Mapping[Link, Experience]:
        distinct = list(dict.fromkeys(links))
        self._links.wiring.check(distinct)
        # One after the other would be slow when nothing answers; hundreds at once would disturb each other.
        slots = asyncio.Semaphore(_MEASURED_AT_ONCE)

        async def one(link: Link) -> Experience:
            async with slots:
                return await experience(*self._links.probes[link], timeout_s)

        return dict(zip(distinct, await asyncio.gather(*(one(link) for link in distinct)), strict=True))


def _is_probe(held: Held) -> bool:
    return held.wire.proxy.startswith("probe-")


def _toxics_text(toxics: Toxics) -> str:
    texts = [f"{held.wire.proxy} {held.wire.stream} {toxic.kind}" for held, toxic in toxics.items()]
    return ", ".join(sorted(texts)) or "nothing"
