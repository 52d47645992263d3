"""The links of a cluster, enforced and probed by an agent in each node's network namespace.

A change of state is first written to all agents, and then all answers are read: a split of the cluster takes as long as
one agent needs, and only a few writes lie between the first node's change and the last one's. This module knows nothing
of containers; `by_sidecar` starts the agents in side-cars.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, Final

from fencepost.harness.base.errors import HarnessError, MachineError
from fencepost.harness.runtime.containers.rules.agent_connection import (
    ANSWER_TIMEOUT_S,
    AgentConnection,
    Answer,
    answers_of,
)
from fencepost.harness.runtime.containers.rules.published_end import WAY_BACK, PublishedEnd
from fencepost.harness.runtime.containers.rules.sidecar_agent import VERSION
from fencepost.harness.runtime.containers.toxiproxy.streams import ToxiproxyStreams
from fencepost.harness.runtime.links.idle_end import IdleEnd
from fencepost.harness.runtime.links.packet_rules import Addresses, State, Where
from fencepost.harness.runtime.links.probe import PORT, Prober
from fencepost.harness.runtime.links.probe_socket import SeenProbe
from fencepost.harness.runtime.links.rules_in_force import Enforcer
from fencepost.harness.runtime.linux.companion import Companion
from fencepost.harness.runtime.network import CLIENT, Effect, Link, PacketShape, Reach
from fencepost.harness.runtime.shaping.shaped_links import LinkShapes
from fencepost.harness.runtime.shaping.stations import METER, SHAPER

#: The time limit from the start of an agent's container to its first answer: its Python must start.
_OPEN_TIMEOUT_S: Final = 20.0


class AgentEnd:
    """A node's end of links, whose probe socket is in its side-car; see `harness.runtime.links.probe.End`."""

    def __init__(
        self, connection: AgentConnection, addresses: Mapping[str, str], port: int, published: PublishedEnd | None
    ) -> None:
        self._connection = connection
        self._addresses = addresses
        self._port = port
        self._published = published
        self._sending: list[asyncio.Future[Answer]] = []
        #: The source of the client's last datagram, as the node sees it.
        self._client: tuple[str, int] | None = None

    def send(self, probes: Iterable[tuple[bytes, str]]) -> None:
        listed = []
        for tag, target in probes:
            if target == CLIENT and self._published is not None:
                self._published.ask(self._connection.node, tag)
                if self._client is not None:
                    listed.append((tag.hex(), *self._client))
            else:
                listed.append((tag.hex(), self._addresses[target], self._port))
        self._sending = [sending for sending in self._sending if not sending.done()]
        self._sending.append(self._connection.request("send", probes=listed))

    async def flush(self) -> None:
        sending, self._sending = self._sending, []
        for request in sending:
            await self._answered(request)

    async def drain(self) -> None:
        await self._answered(self._connection.request("drain"))

    async def _answered(self, request: "asyncio.Future[Answer]") -> None:
        answer = (await answers_of({self._connection.node: request}))[self._connection.node]
        if isinstance(answer, HarnessError):
            raise answer

    @property
    def knows_client(self) -> bool:
        return self._client is not None

    def meet_client(self, source: tuple[str, int]) -> None:
        self._client = source

    def close(self) -> None:
        """Do nothing: the fabric closes the connection."""


class AgentEnds:
    """Passes the results of the side-cars' probe sockets to the prober; learns the client's addresses."""

    def __init__(self, prober: Prober, ends: Mapping[str, str], addresses: Addresses) -> None:
        self._prober = prober
        self._ends_addresses = dict(ends)
        self._addresses = addresses
        self._ends: dict[str, AgentEnd] = {}

    def add(self, connection: AgentConnection, port: int = PORT, published: PublishedEnd | None = None) -> None:
        end = AgentEnd(connection, self._ends_addresses, port, published)
        self._ends[connection.node] = end
        self._prober.add_end(connection.node, end)

    def knows_client(self, node: str) -> bool:
        """Say whether `node` has seen a datagram of the client."""
        return self._ends[node].knows_client

    def tell(self, node: str, seen: SeenProbe) -> None:
        """Receive the result of a probe from the connection of `node`."""
        if seen.source is not None and self._addresses.learn(node, seen.source[0]) and seen.tag == WAY_BACK:
            self._ends[node].meet_client(seen.source)
        self._prober.tell(seen)


class SidecarStations:
    """`harness.runtime.shaping.stations.Stations`: each node's side-car has a queue, the harness only its own end."""

    def __init__(
        self, addresses: Addresses, connections: Mapping[str, AgentConnection], ends: Mapping[str, str]
    ) -> None:
        self._addresses, self._connections = addresses, connections
        self.ends = dict(ends)
        self.fields: Final = tuple(connections)
        self.meters: Final = len(ends)
        self._idle = IdleEnd()
        self._meter: Companion | None = None
        #: The processes of side-cars that have answered, and have not failed since.
        self._ready: set[tuple[str, str]] = set()

    async def prepare(self) -> bool:
        if self._meter is not None and self._meter.has_failed:
            self._meter.close()
            self._meter = None
        if CLIENT in self.ends and self._meter is None:
            self._meter = Companion(METER)
            await self._meter.ask("add", end=CLIENT, address=self.ends[CLIENT])
        orders = {(name, SHAPER): {"do": "open", "where": Where.NODE.name} for name in self.fields}
        orders |= {(name, METER): {"do": "add", "end": name, "address": self.ends[name]} for name in self.fields}
        missing = orders.keys() - self._ready
        await asyncio.gather(*(self._pass_on(*key, ANSWER_TIMEOUT_S, orders[key]) for key in missing))
        self._ready |= missing
        return any(module == SHAPER for _, module in missing)

    def tables(self, links: Mapping[Link, PacketShape]) -> Mapping[str, Mapping[bytes, PacketShape]]:
        return {name: self._addresses.state(links, name) for name in self.fields}

    def links(self, field: str, keys: Iterable[bytes]) -> set[Link]:
        return {*self._addresses.links(dict.fromkeys(keys), field)}

    async def shaper(self, field: str, do: str, **fields: Any) -> Answer:
        return await self._pass_on(field, SHAPER, ANSWER_TIMEOUT_S, {"do": do, **fields})

    async def measure(self, do: str, timeout_s: float, **fields: Any) -> list[Answer]:
        order = {"do": do, **fields}
        asking: list[Awaitable[Answer]] = [self._pass_on(name, METER, timeout_s, order) for name in self.fields]
        if self._meter is not None:
            asking.append(self._meter.ask(do, timeout_s=timeout_s, **fields))
        return await asyncio.gather(*asking)

    async def _pass_on(self, name: str, to: str, timeout_s: float, order: Answer) -> Answer:
        try:
            return await self._connections[name].ask("pass_on", timeout_s, to=to, order=order)
        except HarnessError:
            self._ready.discard((name, to))
            raise

    async def at(self, end: str, do: str, *arguments: Any) -> Any:
        if end == CLIENT:
            return getattr(self._idle, do)(*arguments)
        return (await self._connections[end].ask("idle", call=do, arguments=arguments))["result"]

    def close(self) -> None:
        self._idle.close()
        if self._meter is not None:
            self._meter.close()


class SidecarNetwork(Enforcer):
    """The links of the cluster; see `harness.runtime.network.Network`."""

    def __init__(
        self,
        addresses: Addresses,
        connections: Mapping[str, AgentConnection],
        prober: Prober,
        ends: Mapping[str, str],
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> None:
        """`ends`: the addresses of the ends whose packets can be measured."""
        super().__init__([*connections, CLIENT])
        self._addresses = addresses
        self._answer_timeout_s = answer_timeout_s
        self._connections = dict(connections)
        self._prober = prober
        self.shapes: LinkShapes = LinkShapes(SidecarStations(addresses, connections, ends))
        #: Where every connection goes through a proxy.
        self.streams: ToxiproxyStreams | None = None
        #: The last known content of each node's map in the kernel; None when unknown.
        self._held: dict[str, State | None] = {name: {} for name in connections}

    async def heal_all(self) -> None:
        try:
            await super().heal_all()
        finally:
            if self.streams is not None:
                await self.streams.heal_all()

    async def _set(self, wanted: Mapping[Link, Effect], before: Mapping[Link, Effect] | None) -> None:
        states = {name: self._addresses.state(wanted, name) for name in self._connections}
        changed = {name: state for name, state in states.items() if before is None or state != self._held[name]}
        failed = await self._write(changed)
        if not failed:
            return
        messages = [error.message for error in failed.values()]
        if before is not None:
            left = await self._write(
                {name: self._addresses.state(before, name) for name in changed if name not in failed}
            )
            messages += [f"the links of {name} could not be put back: {error.message}" for name, error in left.items()]
        raise HarnessError("; ".join(messages))

    async def _write(self, states: Mapping[str, State]) -> dict[str, HarnessError]:
        """Set the map of every named node: all requests, then all answers. Return the nodes where it failed."""
        requests = {}
        for name, state in states.items():
            self._held[name] = None
            requests[name] = self._connections[name].request("set", state=_as_json(state))
        failed = {}
        for name, answer in (await answers_of(requests, self._answer_timeout_s)).items():
            if isinstance(answer, HarnessError) and not await self._holds(name, states[name]):
                failed[name] = answer
            else:
                self._held[name] = states[name]
        return failed

    async def _holds(self, name: str, state: State) -> bool:
        """Say whether the kernel holds `state` although the request failed, as when only the answer was late."""
        with contextlib.suppress(HarnessError):
            return await self._read(name) == state
        return False

    async def _read(self, name: str) -> dict[bytes, Effect]:
        answer = await self._connections[name].ask("read", self._answer_timeout_s)
        return {bytes.fromhex(key): Effect(effect) for key, effect in answer["state"].items()}

    async def read_back(self) -> dict[Link, Effect]:
        """Read the state in force from the kernel, namespace by namespace."""
        links: dict[Link, Effect] = {}
        for name in self._connections:
            links |= self._addresses.links(await self._read(name), name)
        return links

    async def probe(self, links: Iterable[Link], timeout_s: float = 0.2) -> dict[Link, Reach]:
        return await self._prober.probe(links, timeout_s)


def _as_json(state: State) -> dict[str, str]:
    return {key.hex(): effect for key, effect in state.items()}


async def open_agents(
    connections: Mapping[str, AgentConnection], addresses: Mapping[str, str], *, port: int = PORT, listen: bool = False
) -> None:
    """Let every agent set its rules and open its probe socket. Raises MachineError when one cannot."""
    answers = await answers_of(
        {
            name: connection.request("open", version=VERSION, address=addresses[name], port=port, listen=listen)
            for name, connection in connections.items()
        },
        _OPEN_TIMEOUT_S,
    )
    for answer in answers.values():
        if isinstance(answer, HarnessError):
            raise MachineError(
                f"side-cars cannot enforce links here: {answer.message}",
                hint="its image may be stale (fencepost images build sidecar), or the engine's kernel lacks nf_tables",
            )
