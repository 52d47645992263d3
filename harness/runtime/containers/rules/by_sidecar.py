"""What connects the containers of one cluster: a network, and a side-car in each node's place in it.

Each node has a side-car with NET_ADMIN and NET_RAW and no other capability, which sets the packet rules there and
shapes the links. The side-car owns the network namespace and the address, and the node's container joins it. So a
restarted node finds its links as they were, and no packet passes a cut in between. Nothing of this needs root here, or
an engine on this kernel.

With `streams`, a Toxiproxy server joins each namespace too, and the node's connections are led through it.

With `publish`, this machine cannot reach the containers' addresses: the client's ports are published on this machine's
loopback address, and each node learns under which addresses the engine shows the client.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from fencepost.harness.base.errors import FencepostError, MachineError
from fencepost.harness.runtime.containers.engine.engine import asking
from fencepost.harness.runtime.containers.engine.fabric import Site
from fencepost.harness.runtime.containers.engine.network import (
    NODES_MAX,
    EngineNetwork,
    extra_hosts,
    free_ports,
    make_layout,
    make_network,
    remove_network,
)
from fencepost.harness.runtime.containers.rules.agent_connection import AgentConnection
from fencepost.harness.runtime.containers.rules.published_end import PublishedEnd
from fencepost.harness.runtime.containers.rules.sidecar_network import AgentEnds, SidecarNetwork, open_agents
from fencepost.harness.runtime.containers.toxiproxy.server import ToxiproxyServer
from fencepost.harness.runtime.containers.toxiproxy.start import remove_server, start_server
from fencepost.harness.runtime.containers.toxiproxy.streams import ToxiproxyStreams
from fencepost.harness.runtime.containers.toxiproxy.wiring import Wiring
from fencepost.harness.runtime.links.open_links import until_open
from fencepost.harness.runtime.links.packet_rules import Addresses
from fencepost.harness.runtime.links.probe import PORT, Prober, open_socket
from fencepost.harness.runtime.links.redirects import CONTROL
from fencepost.harness.runtime.network import CLIENT, Link
from fencepost.harness.runtime.node import Place

if TYPE_CHECKING:
    from docker.models.containers import Container

#: By default the kernel sends one ICMP error a second to an address, after a burst of six; probes need more.
UNLIMITED_REFUSALS: Final = {"net.ipv4.icmp_ratemask": "0"}
#: A side-car without stdin ends within milliseconds; otherwise it is killed after this time.
_END_TIMEOUT_S: Final = 3.0
#: Limits of learning the client's addresses: each attempt takes one connection and one datagram per node.
_LEARN_TIMEOUT_S: Final = 10.0
_LEARN_ROUND_S: Final = 0.1


class SidecarFabric:
    """Made by `SidecarFabric.open`."""

    def __init__(self, site: Site, network: EngineNetwork, *, streams: bool) -> None:
        self._site = site
        self._engine_network = network
        self._with_streams = streams
        addresses = {name: network.address(number) for number, name in enumerate(site.names, 1)}
        self._wiring = Wiring(site.members, site.listeners, addresses)
        self._ports = self._choose_ports() if site.publish else None
        self._layout = make_layout(site, network, self._ports)
        self._ends_addresses = addresses | {CLIENT: network.gateway}
        self._addresses = Addresses(addresses, network.gateway)
        self._prober = Prober(self._ends_addresses)
        self._ends = AgentEnds(self._prober, self._ends_addresses, self._addresses)
        self._sidecars: dict[str, Container] = {}
        self._connections: dict[str, AgentConnection] = {}
        self._network: SidecarNetwork | None = None
        self._closed = False

    @classmethod
    async def open(cls, site: Site, *, streams: bool = False) -> "SidecarFabric":
        """Make the network and start the side-cars. Raises MachineError when the engine cannot do it.

        Args:
            streams: lead every connection through a proxy, for faults of byte streams.
        """
        if not 1 <= site.node_count <= NODES_MAX:
            raise ValueError(f"a cluster has 1 to {NODES_MAX} nodes, not {site.node_count}")
        image = await asyncio.to_thread(site.image, "sidecar")
        # An internal network publishes no ports.
        network = await asyncio.to_thread(
            make_network, site.client, site.prefix, site.labels, internal=not site.publish
        )
        fabric = cls(site, network, streams=streams)
        try:
            await fabric._start(image)
            if streams:
                await fabric._start_proxies(await asyncio.to_thread(site.image, "toxiproxy"))
        except BaseException:
            await fabric.close()
            raise
        return fabric

    @property
    def layout(self) -> Mapping[str, Place]:
        return self._layout

    @property
    def network(self) -> SidecarNetwork:
        assert self._network is not None, "made by SidecarFabric.open"
        return self._network

    @property
    def streams(self) -> ToxiproxyStreams | None:
        return self.network.streams

    @property
    def sidecars(self) -> Mapping[str, str]:
        """Return the container id of each node's side-car."""
        return {name: container.id or "" for name, container in self._sidecars.items()}

    def joining(self, name: str) -> Mapping[str, Any]:
        """Return the arguments of the docker SDK's `containers.create` that put node `name` into its place."""
        # Name, hosts file, ports and kernel settings belong to the side-car, like the namespace.
        return {"network_mode": f"container:{self._sidecars[name].id}"}

    async def await_links(self, timeout_s: float = 5.0) -> None:
        await until_open(self.network, list(self._layout), timeout_s, str(self._engine_network.subnet))

    async def _start(self, image: str) -> None:
        starting = {name: asyncio.to_thread(self._start_one, name, image) for name in self._layout}
        started = await asyncio.gather(*starting.values(), return_exceptions=True)
        for name, result in zip(starting, started, strict=True):
            if not isinstance(result, BaseException):
                self._connections[name] = await self._connect(name, result)
        for result in started:
            if isinstance(result, BaseException):
                raise result
        addresses = {name: place.address for name, place in self._layout.items()}
        await open_agents(self._connections, addresses, listen=self._site.publish)
        # Where ports are published, this machine's clock and datagrams are another kernel's.
        measured = addresses if self._site.publish else self._ends_addresses
        self._network = SidecarNetwork(self._addresses, self._connections, self._prober, measured)
        published = self._open_client_end()
        for connection in self._connections.values():
            self._ends.add(connection, published=published)
        if published is not None:
            await self._learn_client(published)

    async def _start_proxies(self, image: str) -> None:
        """Start a Toxiproxy server in each node's namespace, and lead the node's connections through it."""
        starting = [
            asyncio.to_thread(start_server, self._site, image, place, self.joining(name), self._wiring.proxies(name))
            for name, place in self._layout.items()
        ]
        started = await asyncio.gather(*starting, return_exceptions=True)
        servers: dict[str, ToxiproxyServer] = {}
        for name, server in zip(self._layout, started, strict=True):
            if isinstance(server, BaseException):
                raise server
            servers[name] = server
            await self._connections[name].ask("redirect", rules=self._wiring.redirects(name))
        probes = {
            link: self._layout[name].dial(port)
            for name in self._layout
            for link, port in self._wiring.probe_ports(name).items()
        }
        self.network.streams = ToxiproxyStreams(self._wiring, servers, probes)

    def _choose_ports(self) -> dict[str, dict[int, int]]:
        """Choose for each node the ports of this machine for the listeners that we dial, for probes and for proxies."""
        inside = {member.name: [*self._site.dialled(member).values(), PORT] for member in self._site.members}
        if self._with_streams:
            for name, ports in inside.items():
                ports += [CONTROL, *self._wiring.probe_ports(name).values()]
        free = free_ports(sum(map(len, inside.values())))
        return {name: {port: free.pop() for port in ports} for name, ports in inside.items()}

    def _start_one(self, name: str, image: str) -> socket.socket:
        """Create, attach and start the side-car of `name`, in a thread; return its stdin and stdout."""
        from docker.types import LogConfig

        client, network = self._site.client, self._engine_network.name
        endpoint = client.api.create_endpoint_config(ipv4_address=self._layout[name].address, aliases=[name])
        loopback = {
            f"{inside}/{protocol}": ("127.0.0.1", outside)
            for inside, outside in (self._ports[name] if self._ports else {}).items()
            for protocol in ("tcp", "udp")
            if protocol == "tcp" or inside == PORT
        }
        with asking(f"starting the side-car of {name}", MachineError):
            container = client.containers.create(
                image,
                name=f"{self._site.prefix}-{name}-links",
                labels=dict(self._site.labels),
                network=network,
                networking_config={network: endpoint},
                hostname=name,
                extra_hosts=extra_hosts(self._layout, self._engine_network.gateway),
                ports=loopback,
                sysctls=UNLIMITED_REFUSALS,
                cap_drop=["ALL"],
                # To set rules and hold packets; to send the second copy of a packet that arrives twice.
                cap_add=["NET_ADMIN", "NET_RAW"],
                security_opt=["no-new-privileges"],
                read_only=True,
                # Its stdin ends with our attachment, so that it does not outlive us. Only we get its output.
                stdin_open=True,
                log_config=LogConfig(type="none"),
            )
            self._sidecars[name] = container
            attached = _attach(container)
            try:
                container.start()
            except BaseException:
                attached.close()
                raise
        return attached

    async def _connect(self, name: str, attached: socket.socket) -> AgentConnection:
        connection = AgentConnection(name, self._ends.tell, framed=True)
        loop = asyncio.get_running_loop()
        if attached.family == socket.AF_UNIX:
            await loop.create_unix_connection(lambda: connection, sock=attached)
        else:
            await loop.create_connection(lambda: connection, sock=attached)
        return connection

    def _open_client_end(self) -> PublishedEnd | None:
        if self._ports is None:
            try:
                self._prober.add(CLIENT, open_socket(self._engine_network.gateway))
            except OSError as error:
                raise MachineError(
                    f"this machine does not have the gateway's address {self._engine_network.gateway}: {error}",
                    hint="this machine cannot reach container addresses, so ports must be published",
                ) from error
            return None
        endpoints = {name: place.endpoints[PORT] for name, place in self._layout.items()}
        network = self.network
        published = PublishedEnd(endpoints, self._prober.tell, lambda name: Link(CLIENT, name) in network.blocked)
        self._prober.add_end(CLIENT, published)
        return published

    async def _learn_client(self, published: PublishedEnd) -> None:
        """Learn the client's addresses in each node's view: a probe shows that of datagrams, a greeting the other."""
        try:
            async with asyncio.timeout(_LEARN_TIMEOUT_S):
                await asyncio.gather(*(self._learn(published, name) for name in self._layout))
        except TimeoutError:
            raise MachineError(
                f"published ports of side-cars do not answer within {_LEARN_TIMEOUT_S:g} s",
                hint="TCP and UDP ports published on 127.0.0.1 must lead into containers",
            ) from None

    async def _learn(self, published: PublishedEnd, name: str) -> None:
        while not await published.greeted(name):
            await asyncio.sleep(_LEARN_ROUND_S)
        for address in (await self._connections[name].ask("clients"))["clients"]:
            self._addresses.learn(name, address)
        while not self._ends.knows_client(name):
            published.greet(name)
            await asyncio.sleep(_LEARN_ROUND_S)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._prober.close()
        if self._network is not None:
            self._network.shapes.close()
        for connection in self._connections.values():
            connection.close()
        if self._with_streams:
            await asyncio.gather(*(asyncio.to_thread(remove_server, self._site, name) for name in self._layout))
        failures = [
            failure
            for failure in await asyncio.gather(
                *(asyncio.to_thread(_remove, container) for container in self._sidecars.values()),
                return_exceptions=True,
            )
            if isinstance(failure, BaseException)
        ]
        with contextlib.suppress(FencepostError) if failures else contextlib.nullcontext():
            await asyncio.to_thread(remove_network, self._site.client, self._engine_network)
        if failures:
            raise failures[0]


def _attach(container: "Container") -> socket.socket:
    """Return stdin and stdout of a container that is not started yet, as a separate socket.

    The SDK's object shares its socket with a connection pool and with its response; our duplicate closes when we close
    it.
    """
    attached: Any = container.attach_socket(params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
    try:
        opened = socket.socket(fileno=os.dup(attached.fileno()))
    finally:
        attached._response.close()
    opened.setblocking(False)
    return opened


def _remove(container: "Container") -> None:
    import requests
    from docker.errors import NotFound

    hint = f"docker rm -f {container.name}"
    with asking(f"removing the side-car {container.name}", hint=hint), contextlib.suppress(NotFound):
        # Its stdin has ended, so it ends too. Podman refuses to remove a container that is just ending.
        with contextlib.suppress(requests.exceptions.RequestException):
            container.wait(timeout=_END_TIMEOUT_S)
        container.remove(force=True, v=True)
