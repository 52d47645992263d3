"""The lab: a cluster of real servers in network namespaces around a router, without root, Docker or helper binaries.

The harness's own namespace is the router. Node i has 10.77.0.i and a default route through it, so every packet of
every directed link passes one hook, and one nf_tables map `source . target -> verdict` holds the whole cluster's
connectivity: a fault is one transaction of some tens of microseconds, with no state between the old and the new.

The lab routes instead of bridging: rejects then work, and a netlink message switches forwarding per device, so
/proc/sys may be read-only. The price: no broadcast between nodes. There is no uplink; no fault and no server reaches
the outside.

`Lab.open` is called inside (after `harness.runtime.linux.supervisor.enter`).
"""

import asyncio
import contextlib
import os
import socket
import tarfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from fencepost.harness.base.errors import HarnessError, MachineError
from fencepost.harness.runtime.lab.node import LabNode, NamespaceThread
from fencepost.harness.runtime.links import packet_rules as link_rules
from fencepost.harness.runtime.links import probe
from fencepost.harness.runtime.links.rules_in_force import Enforcer, all_links
from fencepost.harness.runtime.linux import namespaces
from fencepost.harness.runtime.linux.netlink import Routing
from fencepost.harness.runtime.network import CLIENT, Effect, Link, Reach
from fencepost.harness.runtime.node import Exit, Member, NodeSpec, Place, members_alike
from fencepost.harness.runtime.shaping.shaped_links import LinkShapes
from fencepost.harness.runtime.shaping.stations import RouterStations

HARNESS_ADDRESS: Final = "10.77.0.254"
_NODES_MAX: Final = 99
#: All router ends of links share one hardware address; node i has a locally administered one that ends in i.
_ROUTER_MAC: Final = bytes.fromhex("0277000000fe")
#: How long to wait until devices carry packets: a work queue of the kernel enables them a moment after they are up.
_CARRIER_TIMEOUT_S: Final = 5.0
#: The time limits of one round of probes in that wait, and of the last round.
_ROUND_S: Final = 0.005
_LAST_ROUND_S: Final = 1.0


class LabNetwork(Enforcer):
    """The links of the lab; see `harness.runtime.network.Network`."""

    def __init__(self, addresses: Mapping[str, str], prober: probe.Prober, stations: RouterStations) -> None:
        super().__init__(addresses)
        self._keys = {name: socket.inet_aton(address) for name, address in addresses.items()}
        self._names = {key: name for name, key in self._keys.items()}
        self._prober = prober
        self._map = link_rules.LinkMap(link_rules.Where.ROUTER, {})
        self.shapes: LinkShapes = LinkShapes(stations)

    async def _set(self, wanted: Mapping[Link, Effect], before: Mapping[Link, Effect] | None) -> None:
        """Make the kernel's map equal `wanted` in one transaction."""
        try:
            self._map.replace({self._keys[link.source] + self._keys[link.target]: wanted[link] for link in wanted})
        except OSError as error:
            raise HarnessError(f"the links could not be changed: {error}") from error

    def read_back(self) -> dict[Link, Effect]:
        """Read the state in force from the kernel."""
        held = self._map.read()
        return {Link(self._names[key[:4]], self._names[key[4:]]): effect for key, effect in held.items()}

    async def probe(self, links: Iterable[Link], timeout_s: float = 0.2) -> dict[Link, Reach]:
        return await self._prober.probe(links, timeout_s)

    def close(self) -> None:
        self.shapes.close()
        self._map.remove()
        self._map.close()


class Lab:
    """The surroundings of a cluster for one run; see `harness.runtime.node.Runtime`. Made by `Lab.open`."""

    def __init__(self, folder: Path, members: Sequence[Member]) -> None:
        folder = folder.resolve()
        self._folder = folder
        self._exits: asyncio.Queue[Exit] = asyncio.Queue()
        #: How to undo each step, recorded as soon as it is made, run in reverse order.
        self._undo = contextlib.ExitStack()
        self._layout = {member.name: _place(folder, member, number) for number, member in enumerate(members, 1)}
        self._nodes: dict[str, LabNode] = {}
        self._network: LabNetwork | None = None
        self._closed = False

    @classmethod
    async def open(cls, folder: Path, cluster: int | Sequence[Member]) -> "Lab":
        """Make these nodes, or this number of nodes (n1, n2, ...); their folders lie below `folder`/nodes.

        Returns once a datagram has passed over every directed link.
        """
        members = members_alike(cluster) if isinstance(cluster, int) else cluster
        if not 1 <= len(members) <= _NODES_MAX:
            raise ValueError(f"a lab has 1 to {_NODES_MAX} nodes, not {len(members)}")
        lab = cls(folder, members)
        try:
            lab._build()
            await lab.await_links(_CARRIER_TIMEOUT_S)
        except OSError as error:
            await lab.close()
            raise MachineError(f"the lab could not be built: {error}", hint="see: fencepost doctor") from error
        except BaseException:
            await lab.close()
            raise
        return lab

    @property
    def nodes(self) -> Mapping[str, LabNode]:
        return self._nodes

    @property
    def layout(self) -> Mapping[str, Place]:
        return self._layout

    @property
    def network(self) -> LabNetwork:
        assert self._network is not None, "made by Lab.open"
        return self._network

    @property
    def streams(self) -> None:
        """Links are enforced by packet rules: there is no proxy to hold up a stream."""

    def _build(self) -> None:
        self._write_hosts()
        # The kernel needs milliseconds for a namespace, so all threads start before the first is needed.
        threads = {name: NamespaceThread(name) for name in self._layout}
        for thread in threads.values():
            self._undo.callback(thread.close)
        with Routing() as router:
            router.set_up(socket.if_nametoindex("lo"))
            _unlimit_refusals()
            for name, place in self._layout.items():
                place.kept.mkdir(parents=True, exist_ok=True)
                place.data.mkdir(exist_ok=True)
                mac = _mac(place.number)
                device = router.add_veth(name, _ROUTER_MAC, "eth0", mac, threads[name].namespace_fd)
                self._undo.callback(_remove_device, device)
                router.add_address(device, HARNESS_ADDRESS)
                router.set_up(device)
                router.forward_from(device)
                router.add_neighbour(device, place.address, mac)
                router.add_route(place.address, device)
                threads[name].call(_configure_inside, place.address)
                self._nodes[name] = LabNode(place, threads[name], self._exits)
        addresses = {name: place.address for name, place in self._layout.items()} | {CLIENT: HARNESS_ADDRESS}
        prober = probe.Prober(addresses)
        self._undo.callback(prober.close)
        for name, thread in threads.items():
            prober.add(name, thread.call(probe.open_socket, addresses[name]))
        prober.add(CLIENT, probe.open_socket(HARNESS_ADDRESS))
        self._network = LabNetwork(addresses, prober, RouterStations(addresses, self._call_in))
        self._undo.callback(self._network.close)

    def _call_in(self, end: str, function: Callable[[], Any]) -> Any:
        """Call `function` in the namespace of that end of links; the client's is this process's own."""
        return function() if end == CLIENT else self._nodes[end].thread.call(function)

    async def await_links(self, timeout_s: float = _CARRIER_TIMEOUT_S) -> None:
        """Probe until every link has been found open."""
        shut: dict[Link, Reach] = dict.fromkeys(all_links(self._nodes), Reach.DROPPED)
        deadline = time.monotonic() + timeout_s
        while shut:
            # Read the clock before the probe, so that the last probe surely begins after the deadline.
            is_last = time.monotonic() > deadline
            reaches = await self.network.probe(shut, timeout_s=_LAST_ROUND_S if is_last else _ROUND_S)
            shut = {link: reach for link, reach in reaches.items() if reach is not Reach.OPEN}
            if shut and is_last:
                raise HarnessError(f"links still shut {timeout_s:g} s after the start: {', '.join(map(str, shut))}")

    def _write_hosts(self) -> None:
        """Let every process inside resolve the nodes' names, by a separate hosts file mounted over /etc/hosts."""
        lines = ["127.0.0.1 localhost", f"{HARNESS_ADDRESS} {CLIENT}"]
        lines += [f"{place.address} {name}" for name, place in self._layout.items()]
        hosts = self._folder / "nodes" / "hosts"
        hosts.parent.mkdir(parents=True, exist_ok=True)
        hosts.write_text("\n".join(lines) + "\n")
        if Path("/etc/hosts").exists():
            namespaces.mount(str(hosts), "/etc/hosts", None, namespaces.MS_BIND)
            self._undo.callback(namespaces.unmount, "/etc/hosts")

    async def realise(self, specs: Iterable[NodeSpec]) -> None:
        by_name = {spec.name: spec for spec in specs}
        if by_name.keys() != self._nodes.keys():
            raise HarnessError(f"specs for {sorted(by_name)}, but the nodes are {sorted(self._nodes)}")
        for name, node in self._nodes.items():
            spec = by_name[name]
            data = str(node.place.data)
            flags = namespaces.MS_NOSUID | namespaces.MS_NODEV
            namespaces.mount("tmpfs", data, "tmpfs", flags, f"size={spec.data_limit_bytes},mode=700")
            self._undo.callback(namespaces.unmount, data)
            node.realise(spec)

    async def next_exit(self) -> Exit:
        return await self._exits.get()

    async def copy_data(self, node_name: str, target: Path) -> None:
        """Write the node's data directory as a tar.gz to `target`: the tmpfs cannot be seen from outside."""
        data = self._layout[node_name].data

        def write() -> None:
            part = target.with_name(target.name + ".part")
            with tarfile.open(part, "w:gz", compresslevel=1) as archive:
                archive.add(data, arcname=node_name)
            os.replace(part, target)

        await asyncio.to_thread(write)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            results = await asyncio.gather(*(node.kill() for node in self._nodes.values()), return_exceptions=True)
            for result in results:
                if isinstance(result, BaseException):
                    raise result
        finally:
            self._undo.close()


def _mac(number: int) -> bytes:
    return bytes([2, 0x77, 0, 0, 0, number])


def _place(folder: Path, member: Member, number: int) -> Place:
    home = folder / "nodes" / member.name
    return Place(
        name=member.name,
        number=number,
        address=f"10.77.0.{number}",
        folder=home,
        data=home / "data",
        kept=home,
        roles=member.roles,
    )


def _configure_inside(address: str) -> None:
    """Set the node's address and its route through the router; runs in the node's namespace."""
    with Routing() as routing:
        routing.set_up(socket.if_nametoindex("lo"))
        device = socket.if_nametoindex("eth0")
        routing.add_address(device, address)
        routing.set_up(device)
        routing.add_neighbour(device, HARNESS_ADDRESS, _ROUTER_MAC)
        routing.add_route(HARNESS_ADDRESS, device)
        routing.add_route(None, device, via=HARNESS_ADDRESS)


def _remove_device(index: int) -> None:
    with Routing() as routing:
        routing.remove(index)


def _unlimit_refusals() -> None:
    """Lift the kernel's limit of one ICMP error a second per address; probes of reset links need more."""
    # Not possible if /proc/sys is read-only: probes of reset links in quick succession then find some "dropped".
    with contextlib.suppress(OSError):
        Path("/proc/sys/net/ipv4/icmp_ratemask").write_text("0")
