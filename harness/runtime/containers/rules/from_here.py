"""Links of containers by packet rules that this machine sets inside each node's network namespace.

This is for root on the engine's own kernel. A thread enters the namespace of the node's process and opens two sockets
there: one to the kernel's rules, and the node's probe socket. Both stay bound to that namespace, so a split of the
whole cluster takes one transaction per node, directly after each other, without a new process or a switch of threads.

A started container has a new namespace without rules. `attach` sets rules and state in it as soon as it knows the
process. Until then packets can pass a cut: for 10 to 30 ms after the start of the server, in which our servers do not
listen yet. `last_attach_s` is an upper bound. The side-car (`by_sidecar`) has no such window.
"""

import asyncio
import concurrent.futures
import contextlib
import os
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fencepost.harness.base.errors import HarnessError, MachineError
from fencepost.harness.runtime.containers.engine.fabric import Site
from fencepost.harness.runtime.containers.engine.network import (
    NODES_MAX,
    EngineNetwork,
    extra_hosts,
    make_layout,
    make_network,
    remove_network,
)
from fencepost.harness.runtime.links.namespaces import NodeSpaces
from fencepost.harness.runtime.links.open_links import until_open
from fencepost.harness.runtime.links.packet_rules import Addresses, LinkMap, State, Where, refuse_unknown
from fencepost.harness.runtime.links.probe import Prober, open_socket
from fencepost.harness.runtime.links.probe_socket import ProbeSocket
from fencepost.harness.runtime.links.rules_in_force import Contributions
from fencepost.harness.runtime.linux import namespaces
from fencepost.harness.runtime.network import CLIENT, Effect, Link, Reach
from fencepost.harness.runtime.node import Place
from fencepost.harness.runtime.shaping.shaped_links import LinkShapes

if TYPE_CHECKING:
    from fencepost.harness.runtime.containers.engine.engine import EngineFacts

#: By default the kernel sends one ICMP error a second to an address, after a burst of six; probes need more.
UNLIMITED_REFUSALS: Final = {"net.ipv4.icmp_ratemask": "0"}
#: Field 22 of /proc/PID/stat, counted from the field after the command: clock ticks from the boot to the start.
_START_TICKS: Final = 19


def refusal(engine: "EngineFacts") -> str | None:
    """Return why this machine cannot enforce the links of this engine's containers; None when it can."""
    if os.geteuid() != 0:
        return "only root may enter the network namespaces of containers"
    if engine.rootless:
        return "the engine is rootless: its containers' namespaces belong to another user namespace"
    if not engine.same_kernel:
        return "the engine's containers run on another kernel than this one"
    if not engine.may_enter:
        return "the engine's containers are processes of another pid namespace, so they cannot be entered from here"
    errors: list[str] = []
    # In a thread, which has its own namespace; the namespace ends with the thread.
    thread = threading.Thread(target=_try_rules, args=(errors,))
    thread.start()
    thread.join()
    return errors[0] if errors else None


def _try_rules(errors: list[str]) -> None:
    try:
        namespaces.unshare(namespaces.NEWNET)
        LinkMap(Where.NODE, {}).close()
    except OSError as error:
        errors.append(f"this kernel refuses packet rules in a network namespace: {error}")


class RulesNetwork:
    """The links of the cluster; see `harness.runtime.network.Network`. A node that is down has a state but no map."""

    def __init__(self, addresses: Addresses, nodes: Iterable[str], prober: Prober, spaces: NodeSpaces) -> None:
        self._addresses = addresses
        self._shapes = LinkShapes(spaces)
        self._nodes = list(nodes)
        self._prober = prober
        self._contributions = Contributions()
        self._maps: dict[str, LinkMap] = {}
        #: The last known content of each node's map in the kernel; None when unknown.
        self._held: dict[str, State | None] = {}

    @property
    def shapes(self) -> LinkShapes:
        return self._shapes

    @property
    def blocked(self) -> Mapping[Link, Effect]:
        return self._contributions.merged()

    async def apply(self, fault_id: int, links: Mapping[Link, Effect]) -> None:
        refuse_unknown(links, [*self._nodes, CLIENT])
        self._enforce(self._contributions.with_fault(fault_id, links))

    async def withdraw(self, fault_id: int) -> None:
        if fault_id in self._contributions.by_fault:
            self._enforce(self._contributions.without_fault(fault_id))

    async def heal_all(self) -> None:
        """Empty every map, even those that seem empty: healing must not depend on our memory."""
        self._contributions = Contributions()
        failed = []
        for name, link_map in self._maps.items():
            self._held[name] = None
            try:
                link_map.replace({})
                self._held[name] = {}
            except OSError as error:
                failed.append(f"{name}: {error}")
        if failed:
            raise HarnessError(f"the links could not be healed: {'; '.join(failed)}")
        await self._shapes.heal_all()

    def state(self, node: str) -> dict[bytes, Effect]:
        """Return the content that the map of `node` must have now."""
        return self._addresses.state(self.blocked, node)

    def take(self, node: str, link_map: LinkMap, held: State) -> None:
        """Use this as the node's map from now on; it holds `held`."""
        self.forget(node)
        wanted = self.state(node)
        if wanted != held:  # it changed while the map was made
            link_map.replace(wanted)
        self._maps[node], self._held[node] = link_map, wanted

    def forget(self, node: str) -> None:
        """Forget the map of a node whose namespace is gone."""
        earlier = self._maps.pop(node, None)
        if earlier is not None:
            earlier.close()
        self._held.pop(node, None)

    def _enforce(self, wanted: Contributions) -> None:
        """Make every affected kernel map equal `wanted`, one after the other; only then `wanted` becomes our state."""
        merged = wanted.merged()
        done: list[str] = []
        name = ""
        try:
            for name, link_map in self._maps.items():
                state = self._addresses.state(merged, name)
                if state != self._held[name]:
                    link_map.replace(state)
                    done.append(name)
        except OSError as error:
            raise HarnessError(f"the links of {name} could not be changed: {error}{self._put_back(done)}") from error
        for name in done:
            self._held[name] = self._addresses.state(merged, name)
        self._contributions = wanted

    def _put_back(self, changed: list[str]) -> str:
        """Undo the changes made so far; return a text on those that could not be undone."""
        left = ""
        for name in changed:
            try:
                self._maps[name].replace(self._held[name] or {})
            except OSError as error:
                self._held[name] = None
                left += f"; those of {name} could not be put back: {error}"
        return left

    def read_back(self) -> dict[Link, Effect]:
        """Read the state in force from the kernel, namespace by namespace."""
        links: dict[Link, Effect] = {}
        for name, link_map in self._maps.items():
            links |= self._addresses.links(link_map.read(), name)
        return links

    async def probe(self, links: Iterable[Link], timeout_s: float = 0.2) -> dict[Link, Reach]:
        return await self._prober.probe(links, timeout_s)

    def close(self) -> None:
        self._shapes.close()
        for name in list(self._maps):
            self.forget(name)


class RulesFabric:
    """A fabric of rules set from here; see `containers.engine.fabric.Fabric`. Made by `RulesFabric.open`."""

    def __init__(self, site: Site, network: EngineNetwork) -> None:
        self._site = site
        self._engine_network = network
        self._layout = make_layout(site, network)
        addresses = {name: place.address for name, place in self._layout.items()}
        self._prober = Prober(addresses | {CLIENT: network.gateway})
        #: Its one thread stays in the namespace that it entered last, so it does nothing else.
        self._entering = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="links")
        known = Addresses(addresses, network.gateway)
        self._spaces = NodeSpaces(known, addresses, network.gateway, self._entering)
        self._network = RulesNetwork(known, self._layout, self._prober, self._spaces)
        self._last_attach_s = 0.0
        #: Nodes whose server was started at least once.
        self._begun: set[str] = set()
        self._client_is_open = False
        self._closed = False

    @classmethod
    async def open(cls, site: Site) -> "RulesFabric":
        """Make the network. Raises MachineError when the machine cannot do it."""
        if site.publish:
            raise MachineError(
                "this machine cannot reach container addresses, so it cannot set the rules of their links",
                hint="use --links sidecar or --links toxiproxy",
            )
        if not 1 <= site.node_count <= NODES_MAX:
            raise ValueError(f"a cluster has 1 to {NODES_MAX} nodes, not {site.node_count}")
        network = await asyncio.to_thread(make_network, site.client, site.prefix, site.labels, internal=True)
        fabric = cls(site, network)
        try:
            # Podman makes the bridge, and with it our address, only when the first container starts: see `attach`.
            if site.engine.kind != "podman":
                fabric._open_client_end()
        except BaseException:
            await fabric.close()
            raise
        return fabric

    @property
    def layout(self) -> Mapping[str, Place]:
        return self._layout

    @property
    def network(self) -> RulesNetwork:
        return self._network

    @property
    def streams(self) -> None:
        """Links are enforced by packet rules: there is no proxy to hold up a stream."""

    @property
    def last_attach_s(self) -> float:
        """Return the time from the start of the last attached process until its links stood; the clock ticks in 10 ms.

        The engine prepares the process for most of that time, and executes the server itself later.
        """
        return self._last_attach_s

    def joining(self, name: str) -> Mapping[str, Any]:
        network, api = self._engine_network.name, self._site.client.api
        endpoint = api.create_endpoint_config(ipv4_address=self._layout[name].address, aliases=[name])
        return {
            "network": network,
            "networking_config": {network: endpoint},
            "hostname": name,
            "extra_hosts": extra_hosts(self._layout, self._engine_network.gateway),
            "sysctls": UNLIMITED_REFUSALS,
        }

    async def attach(self, name: str, container_id: str, pid: int | None) -> None:
        if pid is None:
            raise HarnessError(
                f"the engine does not name the process of container {container_id[:12]}, so its links cannot be set",
                hint="use --links sidecar",
            )
        self._begun.add(name)
        state = self._network.state(name)
        entering = asyncio.get_running_loop().run_in_executor(
            self._entering, _enter, pid, self._layout[name].address, state
        )
        try:
            entered = await asyncio.shield(entering)
        except asyncio.CancelledError:
            # The thread cannot be stopped, and nobody will use what it still opens, so close that.
            entering.add_done_callback(_let_go)
            raise
        except (FileNotFoundError, ProcessLookupError):
            # The process ended at once. Its exit is reported elsewhere; the next start attaches again.
            self._network.forget(name)
            await self._network.shapes.forget(name)
            self._spaces.forget(name)
            return
        except OSError as error:
            raise HarnessError(f"the network namespace of {name} could not be entered: {error}") from error
        link_map, probes, namespace_fd, self._last_attach_s = entered
        self._spaces.take(name, namespace_fd)
        self._open_client_end()
        self._network.take(name, link_map, state)
        self._prober.add(name, probes)
        await self._network.shapes.renew(name)

    def _open_client_end(self) -> None:
        """Open the client's probe socket. Idempotent; raises MachineError without the gateway's address."""
        if self._client_is_open:
            return
        gateway = self._engine_network.gateway
        try:
            self._prober.add(CLIENT, open_socket(gateway))
        except OSError as error:
            raise MachineError(
                f"this machine does not have the gateway's address {gateway}: {error}",
                hint="this machine cannot reach container addresses: use --links sidecar or --links toxiproxy",
            ) from error
        self._client_is_open = True

    async def await_links(self, timeout_s: float = 5.0) -> None:
        # A node that joins later has no namespace yet.
        begun = [name for name in self._layout if name in self._begun]
        await until_open(self._network, begun, timeout_s, str(self._engine_network.subnet))

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._prober.close()
        self._network.close()
        self._entering.shutdown()
        self._spaces.close()
        await asyncio.to_thread(remove_network, self._site.client, self._engine_network)


class _Entered(NamedTuple):
    """A node's map, its probe socket, its namespace, and the age of its process when the map stood."""

    link_map: LinkMap
    probes: ProbeSocket
    namespace_fd: int
    age_s: float


def _enter(pid: int, address: str, state: State) -> _Entered:
    """Enter the namespace of a process and set its rules; runs in the entering thread."""
    fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    with contextlib.ExitStack() as undo:
        undo.callback(os.close, fd)
        namespaces.setns(fd, namespaces.NEWNET)
        # Only this node has this address, so binding it fails in a wrong namespace, before any rule is set there. The
        # kernel may have given the process number to another process.
        probes = open_socket(address)
        undo.callback(probes.close)
        link_map = LinkMap(Where.NODE, state)
        undo.pop_all()
    return _Entered(link_map, probes, fd, _age_s(pid))


def _age_s(pid: int) -> float:
    """Return the time since the process started; 0 when it has ended."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        started_s = int(fields[_START_TICKS]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started_s)
    return 0.0


def _let_go(entering: "asyncio.Future[_Entered]") -> None:
    if not entering.cancelled() and entering.exception() is None:
        entered = entering.result()
        entered.link_map.close()
        entered.probes.close()
        os.close(entered.namespace_fd)
