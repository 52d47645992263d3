"""The plan of a star of networks around one Toxiproxy server: addresses, ports, proxies.

Node k is alone in network k, at .10, and the server is in every network, at .2. Node i knows node k by the name
"nk", which in network i is the server's address: so its connection to nk meets the proxy "i-k", which listens at
port + k and connects to port + k of node k itself. etcd computes member ids from the text of URLs, so name and port of
a node are the same text everywhere, and only resolve differently. Network 0 is the harness's: it holds the server's own
interface, one proxy for each listener of each node that the harness dials, and one for each link's probe.

A cluster takes one /24 block, in /28 networks: so a star has at most 15 nodes. The ports of listeners that nodes dial
must differ by more than that, since "b" of n1 must not be where "a" of n2 is.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fencepost.harness.runtime.containers.toxiproxy.control import ProxySpec
from fencepost.harness.runtime.containers.toxiproxy.links import Wiring, probe_name, proxy_name
from fencepost.harness.runtime.network import CLIENT, Link
from fencepost.harness.runtime.node import Member

NODES_MAX: Final = 15
CONTROL_PORT: Final = 8474
#: How many ports of network 0 each listener of the system gets, below those for probes.
_DIALLED_PORTS: Final = 20000
_DIALLED_STEP: Final = 20
_PROBE_PORTS: Final = 21000
_SUBNET_SIZE: Final = 16
_SERVER_HOST: Final = 2
_NODE_HOST: Final = 10
_WITNESS_HOST: Final = 12

Block = ipaddress.IPv4Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Star:
    """`listeners` are the system's by name: nodes dial all but "client", the harness those that each member names."""

    block: Block
    members: tuple[Member, ...]
    listeners: Mapping[str, int]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(member.name for member in self.members)

    @property
    def node_count(self) -> int:
        return len(self.members)

    def name(self, number: int) -> str:
        """Return the name of node `number`, from 1 on."""
        return self.names[number - 1]

    @property
    def wiring(self) -> Wiring:
        return Wiring(self.names, self.listeners, {name: self.dialled(k) for k, name in enumerate(self.names, 1)})

    def subnet(self, number: int) -> Block:
        """Return the subnet of node `number`; 0 is the harness's."""
        return Block((int(self.block.network_address) + number * _SUBNET_SIZE, 28))

    def server(self, number: int) -> str:
        """Return the Toxiproxy server's address in that network."""
        return str(self.subnet(number)[_SERVER_HOST])

    def node(self, number: int) -> str:
        return str(self.subnet(number)[_NODE_HOST])

    def witness(self, number: int) -> str:
        """Return the address of the container that checks from within that network that it leads nowhere else."""
        return str(self.subnet(number)[_WITNESS_HOST])

    def hosts(self, number: int) -> dict[str, str]:
        """Return the address that each node's name has in network `number`."""
        return {name: self.node(number) if k == number else self.server(number) for k, name in enumerate(self.names, 1)}

    def dialled(self, number: int) -> dict[str, int]:
        """Return the listeners of node `number` that the harness dials, with their ports in network 0."""
        return {
            name: _DIALLED_PORTS + place * _DIALLED_STEP + number
            for place, name in enumerate(self.listeners)
            if name in self.members[number - 1].dialled
        }

    @property
    def probe_ports(self) -> dict[Link, int]:
        return {link: _PROBE_PORTS + index for index, link in enumerate(self.wiring.links)}

    @property
    def harness_ports(self) -> list[int]:
        """Return every port of network 0 that the harness dials."""
        dialled = (port for k in range(1, self.node_count + 1) for port in self.dialled(k).values())
        return [CONTROL_PORT, *dialled, *self.probe_ports.values()]

    def _listens_at(self, number: int, listener: str) -> int:
        """Return the port at the node itself; if other nodes dial it, no other node has the same port."""
        return self.listeners[listener] + (number if listener != CLIENT else 0)

    def proxies(self) -> list[ProxySpec]:
        numbers = range(1, self.node_count + 1)
        own = self.server(0)
        made = [
            ProxySpec(
                proxy_name(self.name(i), self.name(k), name),
                f"{self.server(i)}:{self._listens_at(k, name)}",
                f"{self.node(k)}:{self._listens_at(k, name)}",
            )
            for i in numbers
            for k in numbers
            if i != k
            for name in self.listeners
            if name != CLIENT
        ]
        made += [
            ProxySpec(
                proxy_name(CLIENT, self.name(k), name), f"{own}:{at}", f"{self.node(k)}:{self._listens_at(k, name)}"
            )
            for k in numbers
            for name, at in self.dialled(k).items()
        ]
        made += [
            ProxySpec(probe_name(link), f"{own}:{at}", f"{own}:{CONTROL_PORT}") for link, at in self.probe_ports.items()
        ]
        return made

    def forbidden(self, number: int) -> list[tuple[str, int]]:
        """Return what network `number` must not reach: the server elsewhere, its control, the nodes themselves."""
        ports = [
            (k, self._listens_at(k, name)) for k in self._others(number) for name in self.listeners if name != CLIENT
        ]
        servers = {self.server(i) for i in self._others(number)}
        elsewhere = [(host, port) for host, port in self._listens() if host in servers]
        return [(self.server(0), CONTROL_PORT), *elsewhere, *((self.node(k), port) for k, port in ports)]

    def allowed(self, number: int) -> tuple[str, int] | None:
        """Return an address that must be reachable from there, so that silence elsewhere proves something."""
        return next(((host, port) for host, port in self._listens() if host == self.server(number)), None)

    def _listens(self) -> list[tuple[str, int]]:
        split = (spec.listen.rpartition(":") for spec in self.proxies())
        return [(host, int(port)) for host, _, port in split]

    def _others(self, number: int) -> list[int]:
        return [k for k in range(1, self.node_count + 1) if k != number]
