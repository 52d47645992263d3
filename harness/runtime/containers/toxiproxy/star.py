"""A star of engine networks around one Toxiproxy container: every connection of the cluster goes through a proxy.

No privilege is asked of the engine: no capability, no access to namespaces. Nodes are alone in internal networks, so
only the server in the middle connects them; `harness.runtime.containers.toxiproxy.addresses` says who listens where.

Its control interface listens in the harness's own network only, and is published on 127.0.0.1 where containers'
addresses are not reached from here. That no network leads to another is the engine's promise; it is checked from within
each, by a container that lives for a second, since a bypass would make every fault a fiction.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
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
from fencepost.harness.runtime.containers.toxiproxy.links import ProxiedLinks, ToxiproxyNetwork, ToxiproxyStreams
from fencepost.harness.runtime.network import Reach
from fencepost.harness.runtime.node import Place

#: From the container's start to the first answer of its control interface.
_READY_TIMEOUT_S: Final = 10.0
#: A request to the control interface; it takes a millisecond where nothing is wrong.
_REQUEST_TIMEOUT_S: Final = 5.0
_WITNESS_TIMEOUT_S: Final = 20.0
#: Blocks of addresses that the engine may refuse: each refusal is another run that was faster.
_REFUSALS_MAX: Final = 16
#: Tries addresses given as JSON and prints those that it reached.
_WITNESS: Final = """
import json, selectors, socket, sys, time
waiting, reached = selectors.DefaultSelector(), []
for host, port in json.loads(sys.argv[1]):
    s = socket.socket(); s.setblocking(False)
    if s.connect_ex((host, port)) in (0, 115):
        waiting.register(s, selectors.EVENT_WRITE, (host, port))
end = time.monotonic() + 0.5
while waiting.get_map() and time.monotonic() < end:
    for key, _ in waiting.select(end - time.monotonic()):
        waiting.unregister(key.fileobj)
        if key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
            reached.append(key.data)
print(json.dumps(reached))
"""


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
        """Make networks and the server with all its proxies; returns once it answers."""
        if not 1 <= site.node_count <= NODES_MAX:
            raise MachineError(
                f"Toxiproxy links connect at most {NODES_MAX} nodes, not {site.node_count}", hint="see --links rules"
            )
        fabric = cls(site)
        building = asyncio.ensure_future(asyncio.to_thread(fabric._build))
        try:
            await asyncio.shield(building)
        except BaseException:
            # A cancelled caller does not end the thread; what it still makes must be undone as well.
            await asyncio.gather(building, return_exceptions=True)
            await fabric.close()
            raise
        # In the meantime the nodes can start; `await_links` wants its result.
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
        # Names stand in the hosts file too: not every image's resolver asks the engine.
        hosts = self._star.hosts(number)
        return {
            "network": network,
            "networking_config": {network: place},
            "hostname": name,
            "extra_hosts": hosts,
        }

    async def attach(self, name: str, container_id: str, pid: int | None) -> None:
        """Nothing to do: addresses stay over restarts, and the server dials again."""

    async def await_links(self, timeout_s: float) -> None:
        """Probe until every link has been found open, and want the witnesses' word that there is no way around."""
        assert self._links is not None
        shut = dict.fromkeys(self._links.wiring.links, Reach.DROPPED)
        deadline = time.monotonic() + timeout_s
        while shut:
            found = await self.network.probe(shut, timeout_s=0.2)
            shut = {link: reach for link, reach in found.items() if reach is not Reach.OPEN}
            if shut and time.monotonic() > deadline:
                raise HarnessError(f"links still shut {timeout_s:g} s after the start: {', '.join(map(str, shut))}")
        if self._witnesses is not None:
            await asyncio.shield(self._witnesses)

    async def close(self) -> None:
        if self._witnesses is not None:
            # Its failure has been told by `await_links`, or does not matter any more.
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
            said = container.logs(tail=20).decode(errors="replace").strip()
            raise HarnessError(f"{error.message}; the Toxiproxy server said: {said or 'nothing'}") from None
        probes = {link: endpoints[port] for link, port in star.probe_ports.items()}
        self._links = ProxiedLinks(control, star.wiring, probes)
        self._layout = {place.name: place for place in self._places(star, endpoints)}

    def _make_networks(self) -> Star:
        """One network for the harness and one for each node, in a block of addresses that nobody uses."""
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
        # Ports of an internal network cannot be published; the harness's own has no node in it.
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
        """Where the harness reaches each port of network 0."""
        if not self._site.publish:
            return {port: (star.server(0), port) for port in star.harness_ports}
        container.reload()
        published = container.attrs["NetworkSettings"]["Ports"]
        found = {}
        for port in star.harness_ports:
            bound = published.get(f"{port}/tcp")
            if not bound:
                raise MachineError(f"the engine did not publish port {port} of Toxiproxy on 127.0.0.1")
            found[port] = (bound[0]["HostIp"] or "127.0.0.1", int(bound[0]["HostPort"]))
        return found

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

    # The way around that must not be

    def _check_isolation(self) -> None:
        """Raise MachineError when anything but its own proxies is reached from within a node's network."""
        site, star = self._site, self._star
        assert star is not None
        image = site.image("sidecar")
        numbers = [number for number in range(1, site.node_count + 1) if star.allowed(number) is not None]
        if not numbers:
            return
        with ThreadPoolExecutor(len(numbers), thread_name_prefix="witness") as pool:
            reached = list(pool.map(lambda number: self._reached(image, number), numbers))
        for number, found in zip(numbers, reached, strict=True):
            allowed = star.allowed(number)
            bypass = [f"{host}:{port}" for host, port in found if (host, port) != allowed]
            if bypass:
                raise MachineError(
                    f"the engine does not keep its networks apart: from the network of n{number}, "
                    f"{', '.join(bypass)} answered, past Toxiproxy",
                    hint="faults would not hold there; use --links sidecar or an engine that isolates bridge networks",
                )
            if not found:
                raise HarnessError(f"from the network of n{number} nothing was reached, not even its own proxies")

    def _reached(self, image: str, number: int) -> list[tuple[str, int]]:
        star = self._star
        assert star is not None
        allowed = star.allowed(number)
        addresses = [*star.forbidden(number), *([allowed] if allowed else [])]
        network = self._network_name(number)
        with asking(f"checking that the network of n{number} leads nowhere else"):
            status, said = self._witnessed(image, number, network, addresses)
        if status != 0:
            raise HarnessError(f"the check of network isolation failed in the network of n{number}: {said}")
        return [(host, port) for host, port in json.loads(said)]

    def _witnessed(self, image: str, number: int, network: str, addresses: list[tuple[str, int]]) -> tuple[int, str]:
        """Exit status and words of a container that lives in that network just long enough to try the addresses."""
        site, star = self._site, self._star
        assert star is not None
        witness = site.client.containers.create(
            image,
            ["-c", _WITNESS, json.dumps(addresses)],
            entrypoint=["python3"],
            name=f"{site.prefix}-witness-n{number}",
            labels=dict(site.labels),
            network=network,
            networking_config={network: site.client.api.create_endpoint_config(ipv4_address=star.witness(number))},
            cap_drop=["ALL"],
        )
        try:
            witness.start()
            ended = witness.wait(timeout=_WITNESS_TIMEOUT_S)
            return int(ended["StatusCode"]), witness.logs().decode(errors="replace").strip()
        finally:
            _ignore_missing(lambda: witness.remove(force=True, v=True))


def _ignore_missing(remove: Callable[[], object]) -> None:
    with contextlib.suppress(NotFound):
        remove()
