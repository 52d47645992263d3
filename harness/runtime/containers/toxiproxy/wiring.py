"""Which proxies each node's Toxiproxy server has, and which of their directions carry the bytes of which link.

The server of node i listens, in i's own namespace, for each listener of each other node that i dials, and for each
listener of i that the harness dials; `links.redirects` leads the connections there. So the bytes of a link a>b are two
things: what a sends on connections that it dialled to b (`upstream` of a's proxies to b), and what it answers on those
that b dialled (`downstream` of b's proxies to a). etcd's raft streams are dialled by the receiver, so both matter.

A link has a proxy of its own for measuring: its toxics are the link's, and its other end is the server's control
interface, which answers our requests. So a link is measured also while the nodes are paused or dead.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from fencepost.harness.runtime.links.redirects import CONTROL
from fencepost.harness.runtime.network import CLIENT, Link
from fencepost.harness.runtime.node import Member

UPSTREAM: Final = "upstream"
DOWNSTREAM: Final = "downstream"
#: The first port of the proxies that connections are led to.
_LED: Final = 20000


class Wire(NamedTuple):
    """One direction of one proxy of the server of node `server`."""

    server: str
    proxy: str
    stream: str


class ProxySpec(NamedTuple):
    """One proxy to make: where it listens and where it connects to, as "host:port"."""

    name: str
    listen: str
    upstream: str


class Wiring:
    def __init__(self, members: Sequence[Member], listeners: Mapping[str, int], addresses: Mapping[str, str]) -> None:
        """`listeners` are the system's by name: nodes dial all but "client", the harness those that a member names."""
        self.nodes: Final = tuple(member.name for member in members)
        self._addresses, self._listeners = addresses, listeners
        self._peers = [name for name in listeners if name != CLIENT]
        self._dialled = {member.name: [name for name in listeners if name in member.dialled] for member in members}

    def _led(self, node: str) -> Iterator[tuple[str, str, str, int]]:
        """Yield who dials whom at which listener, through the proxy at which port of the node."""
        dials = [(node, other, name) for other in self.nodes if other != node for name in self._peers]
        dials += [(CLIENT, node, name) for name in self._dialled[node]]
        for at, dial in enumerate(dials):
            yield *dial, _LED + at

    def proxies(self, node: str) -> list[ProxySpec]:
        own = self._addresses[node]
        led = [
            ProxySpec(
                _name(source, target, name),
                f"{own if source == CLIENT else '127.0.0.1'}:{at}",
                f"{self._addresses[target]}:{self._listeners[name]}",
            )
            for source, target, name, at in self._led(node)
        ]
        measured = [
            ProxySpec(self.probe(link).proxy, f"{own}:{port}", f"{own}:{CONTROL}")
            for link, port in self.probe_ports(node).items()
        ]
        return led + measured

    def redirects(self, node: str) -> dict[str, Any]:
        """Return the arguments of `links.redirects.redirect`."""
        led = [(source, target, self._listeners[name], at) for source, target, name, at in self._led(node)]
        return {
            "outgoing": [(self._addresses[target], port, at) for source, target, port, at in led if source != CLIENT],
            "incoming": [(port, at) for source, _, port, at in led if source == CLIENT],
            "peers": [self._addresses[name] for name in self.nodes if name != node],
        }

    def probe_ports(self, node: str) -> dict[Link, int]:
        """Return the links that are measured at this node's server, with the port of each."""
        links = [Link(node, other) for other in (*self.nodes, CLIENT) if other != node]
        return {link: CONTROL + 1 + at for at, link in enumerate([*links, Link(CLIENT, node)])}

    def wires(self, link: Link) -> list[Wire]:
        """Return the link's wires, that of measuring included."""
        source, target = link
        if CLIENT in link:
            node, stream = (target, UPSTREAM) if source == CLIENT else (source, DOWNSTREAM)
            return [*(Wire(node, _name(CLIENT, node, name), stream) for name in self._dialled[node]), self.probe(link)]
        there = [Wire(source, _name(source, target, name), UPSTREAM) for name in self._peers]
        return [
            *there,
            *(Wire(target, _name(target, source, name), DOWNSTREAM) for name in self._peers),
            self.probe(link),
        ]

    def probe(self, link: Link) -> Wire:
        """Return the wire that represents the link in a measurement: the way back to us."""
        return Wire(
            link.target if link.source == CLIENT else link.source, f"measure-{link.source}-{link.target}", DOWNSTREAM
        )


def _name(source: str, target: str, listener: str) -> str:
    return f"{source}-{target}-{listener}"
