"""A star of engine networks around one Toxiproxy container: every connection of the cluster goes through a proxy.

The engine need not grant any privilege: no capability, no access to namespaces. Each node is alone in an internal
network, so only the server in the middle connects them; `toxiproxy.addresses` says who listens where. The engine
promises that no network leads to another; `toxiproxy.isolation` checks that.

The server's control interface listens in the harness's own network only. Where the addresses of containers cannot be
reached from here, it is published on 127.0.0.1.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from docker.errors import APIError, NotFound
from docker.models.containers import Container
from docker.models.networks import Network as EngineNetwork
from docker.types import IPAMConfig, IPAMPool

from fencepost.harness.base.errors import HarnessError, MachineError
from fencepost.harness.runtime.containers.engine.engine import asking
from fencepost.harness.runtime.containers.engine.fabric import INSIDE_DATA, INSIDE_FOLDER, Site
from fencepost.harness.runtime.containers.engine.network import free_subnets, is_overlap, pool
from fencepost.harness.runtime.containers.toxiproxy.addresses import CONTROL_PORT, NODES_MAX, Block, Star
from fencepost.harness.runtime.containers.toxiproxy.control import Control
from fencepost.harness.runtime.containers.toxiproxy.isolation import check_isolation
from fencepost.harness.runtime.containers.toxiproxy.links import ProxiedLinks, ToxiproxyNetwork, ToxiproxyStreams
from fencepost.harness.runtime.network import Reach
from fencepost.harness.runtime.node import Place

#: The time limit from the container's start to the first answer of its control interface.
_READY_TIMEOUT_S: Final = 10.0
#: The time limit of a request to the control interface, which normally takes a millisecond.
_REQUEST_TIMEOUT_S: Final = 5.0
#: How many blocks of addresses the engine may refuse: each refusal means that another run was faster.
_REFUSALS_MAX: Final = 16


class StarFabric:
    """See `harness.runtime.containers.engine.fabric.Fabric`. Made by `StarFabric.open`."""

    def __init__(self, site: Site) -> None:
        self._site = site
        #: How to undo each step, recorded as soon as it is made, run in reverse order.
        self._undo = contextlib.ExitStack()
        self._star: Star | None = None
        self._networks: list[EngineNetwork] = []
        self._layout: dict[str, Place] = {}
        self._control: Control | None = None
        self._links: ProxiedLinks | None = None
        self._witnesses: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, site: Site) -> "StarFabric":
        """Make networks and the server with all its proxies; return once it answers."""
        if not 1 <= site.node_count <= NODES_MAX:
            raise MachineError(
                f"Toxiproxy links connect at most {NODES_MAX} nodes, not {site.node_count}", hint="see --links rules"
            )
        fabric = cls(site)
        building = asyncio.ensure_future(asyncio.to_thread(fabric._build))
        try:
            await asyncio.shield(building)
        except BaseException:
            # A cancelled caller does not end the thread, and everything that the thread still makes must be undone.
            await asyncio.gather(building, return_exceptions=True)
            await fabric.close()
            raise
        # The nodes can start during the check; `await_links` needs its result.
        fabric._witnesses = asyncio.create_task(asyncio.to_thread(fabric._check_isolation))
        return fabric

    @property
    def layout(self) -> Mapping[str, Place]:
        return self._layout

    @property
    def network(self) -> ToxiproxyNetwork:
        assert self._links is not None, "made by StarFabric.open"
        return ToxiproxyNetwork(self._links)

    @property
    def streams(self) -> ToxiproxyStreams:
        assert self._links is not None, "made by StarFabric.open"
        return ToxiproxyStreams(self._links)

    def joining(self, name: str) -> Mapping[str, Any]:
        assert self._star is not None
        number = self._layout[name].number
        network = self._network_name(number)
        place = self._site.client.api.create_endpoint_config(ipv4_address=self._star.node(number), aliases=[name])
        # The hosts file holds the names too: not every image's resolver asks the engine.
        hosts = self._star.hosts(number)
        return {
            "network": network,
            "networking_config": {network: place},
            "hostname": name,
            "extra_hosts": hosts,
        }

    async def attach(self, name: str, container_id: str, pid: int | None) -> None:
        """Do nothing: addresses stay the same over restarts, and the server dials again."""

    async def await_links(self, timeout_s: float) -> None:
        """Probe until every link was open once, and wait for the check that no way around the proxies exists."""
        assert self._links is not None
        shut = dict.fromkeys(self._links.wiring.links, Reach.DROPPED)
        deadline = time.monotonic() + timeout_s
        while shut:
            reaches = await self.network.probe(shut, timeout_s=0.2)
            shut = {link: reach for link, reach in reaches.items() if reach is not Reach.OPEN}
            if shut and time.monotonic() > deadline:
                raise HarnessError(f"links still shut {timeout_s:g} s after the start: {', '.join(map(str, shut))}")
        if self._witnesses is not None:
            await asyncio.shield(self._witnesses)

    async def close(self) -> None:
        if self._witnesses is not None:
            # `await_links` has reported its failure, or it no longer matters.
            await asyncio.gather(self._witnesses, return_exceptions=True)
            self._witnesses = None
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        with asking("removing the star of networks", hint="fencepost doctor --sweep"):
            self._undo.close()

    # Blocking, in a thread

    def _build(self) -> None:
        with asking("making the star of networks around Toxiproxy", MachineError):
            self._build_star()

    def _build_star(self) -> None:
        site = self._site
        image = site.image("toxiproxy")
        self._star = star = self._make_networks()
        own = self._network_name(0)
        # Any free port, on the loopback address only.
        published: dict[str, Any] = (
            {f"{port}/tcp": ("127.0.0.1", None) for port in star.harness_ports} if site.publish else {}
        )
        container = site.client.containers.create(
            image,
            [f"-host={star.server(0)}", f"-port={CONTROL_PORT}"],
            name=f"{site.prefix}-toxiproxy",
            labels=dict(site.labels),
            network=own,
            networking_config={own: site.client.api.create_endpoint_config(ipv4_address=star.server(0))},
            ports=published,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            read_only=True,
            user="65534:65534",
        )
        self._undo.callback(_ignore_missing, lambda: container.remove(force=True, v=True))
        for number, network in enumerate(self._networks[1:], start=1):
            others = [name for k, name in enumerate(site.names, 1) if k != number]
            network.connect(container, ipv4_address=star.server(number), aliases=others)
        container.start()
        endpoints = self._endpoints(container, star)
        self._control = control = Control(*endpoints[CONTROL_PORT], timeout_s=_REQUEST_TIMEOUT_S)
        self._undo.callback(control.close)
        try:
            control.await_ready(_READY_TIMEOUT_S)
            control.populate(star.proxies())
        except HarnessError as error:
            log = container.logs(tail=20).decode(errors="replace").strip()
            raise HarnessError(f"{error.message}; the Toxiproxy server said: {log or 'nothing'}") from None
        probes = {link: endpoints[port] for link, port in star.probe_ports.items()}
        self._links = ProxiedLinks(control, star.wiring, probes)
        self._layout = {place.name: place for place in self._places(star, endpoints)}

    def _make_networks(self) -> Star:
        """Make one network for the harness and one for each node, in a free block of addresses."""
        site, refused = self._site, 0
        for block in free_subnets(site.client):
            star = Star(block=block, members=tuple(site.members), listeners=site.listeners)
            with contextlib.ExitStack() as undo:
                try:
                    for number in range(site.node_count + 1):
                        network = self._make_network(number, star.subnet(number))
                        self._networks.append(network)
                        undo.callback(_ignore_missing, network.remove)
                except APIError as error:
                    self._networks.clear()
                    refused += 1
                    if not is_overlap(str(error)) or refused == _REFUSALS_MAX:
                        raise
                    continue
                self._undo.push(undo.pop_all())
                return star
        raise MachineError(
            f"no subnet of {pool()} is free for the cluster's networks",
            hint="remove networks that nobody uses (docker network ls; fencepost doctor --sweep)",
        )

    def _network_name(self, number: int) -> str:
        return f"{self._site.prefix}-{self._site.names[number - 1] if number else 'harness'}"

    def _make_network(self, number: int, subnet: Block) -> EngineNetwork:
        site = self._site
        # An internal network cannot publish ports; the harness's own network is not internal, and has no node in it.
        internal = number != 0 or not site.publish
        pool = IPAMPool(subnet=str(subnet), gateway=str(subnet[1]))
        return site.client.networks.create(
            self._network_name(number),
            driver="bridge",
            internal=internal,
            labels=dict(site.labels),
            ipam=IPAMConfig(pool_configs=[pool]),
        )

    def _endpoints(self, container: Container, star: Star) -> dict[int, tuple[str, int]]:
        """Return where the harness reaches each port of network 0."""
        if not self._site.publish:
            return {port: (star.server(0), port) for port in star.harness_ports}
        container.reload()
        published = container.attrs["NetworkSettings"]["Ports"]
        endpoints = {}
        for port in star.harness_ports:
            bound = published.get(f"{port}/tcp")
            if not bound:
                raise MachineError(f"the engine did not publish port {port} of Toxiproxy on 127.0.0.1")
            endpoints[port] = (bound[0]["HostIp"] or "127.0.0.1", int(bound[0]["HostPort"]))
        return endpoints

    def _check_isolation(self) -> None:
        """Raise MachineError when a network of a node leads anywhere but to its own proxies."""
        assert self._star is not None, "made by StarFabric.open"
        networks = {number: self._network_name(number) for number in range(1, self._site.node_count + 1)}
        check_isolation(self._site, self._star, networks)

    def _places(self, star: Star, endpoints: Mapping[int, tuple[str, int]]) -> Iterator[Place]:
        for number, member in enumerate(self._site.members, 1):
            name = member.name
            kept = self._site.folder / "nodes" / name
            kept.mkdir(parents=True, exist_ok=True)
            yield Place(
                name=name,
                number=number,
                address=star.node(number),
                folder=INSIDE_FOLDER,
                data=INSIDE_DATA,
                kept=kept,
                host=name,
                port_shift=number,
                roles=member.roles,
                endpoints={
                    self._site.listeners[listener]: endpoints[at] for listener, at in star.dialled(number).items()
                },
            )


def _ignore_missing(remove: Callable[[], object]) -> None:
    with contextlib.suppress(NotFound):
        remove()
