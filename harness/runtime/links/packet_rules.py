"""The rules that enforce links: one map from (source, target) to a verdict, looked up once for each packet.

The lab has one such map, in the router that every packet passes. A container cluster has one map in each node's network
namespace for the node's share of the links: packets that arrive from other nodes and from the client, and packets to
the client. In both cases a change of state replaces the whole map in one transaction, so no packet sees a state between
the old and the new.
"""

import socket
from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeVar

from fencepost.harness.runtime.links.redirects import spare_proxies
from fencepost.harness.runtime.linux import nftables
from fencepost.harness.runtime.network import CLIENT, Effect, Link

TABLE: Final = "fencepost"
MAP: Final = "links"
VERDICTS: Final = {Effect.DROP: nftables.DROP, Effect.RESET: nftables.goto("rst")}
EFFECTS: Final = {verdict: effect for effect, verdict in VERDICTS.items()}

#: The content of a map: source and target address, four bytes each, and the effect on packets between them.
State = Mapping[bytes, Effect]
V = TypeVar("V")

_HOOKS: Final = {
    "forward": nftables.HOOK_FORWARD,
    "input": nftables.HOOK_INPUT,
    "output": nftables.HOOK_OUTPUT,
}


class Where(Enum):
    """The kind of namespace that holds the rules: which hooks look up the map, and which first let refusals pass.

    The refusal of a datagram is an ICMP error that travels against the refused link: a fault of the reverse link must
    not drop it. In the router it is the router's own answer; in a node it leaves by the output hook and arrives at the
    input hook of another node.
    """

    ROUTER = (("forward", "input", "output"), ("output",))
    NODE = (("input", "output"), ("input", "output"))


def rule_set(where: Where = Where.ROUTER) -> nftables.Batch:
    """Build the commands that make our table with an empty map, and that replace an earlier table of ours."""
    chains, refusals_pass = where.value
    batch = nftables.Batch(TABLE)
    # To delete a missing table is an error, to add an existing one is not: so add, delete, add.
    batch.add_table()
    batch.delete_table()
    batch.add_table()
    batch.add_verdict_map(MAP, 8, 1)
    is_ipv4 = (nftables.load_family(), nftables.equals(b"\x02"))
    is_tcp = (nftables.load_protocol(), nftables.equals(b"\x06"))
    is_icmp_unreachable = (
        nftables.load_protocol(),
        nftables.equals(b"\x01"),
        nftables.load_transport_header(0, 1),
        nftables.equals(b"\x03"),
    )
    accept = nftables.conclude(nftables.ACCEPT)
    batch.add_chain("rst")
    # Let resets through first: the resets that the next rule makes pass our own hooks too, under the same map.
    rst_bit = (nftables.load_transport_header(13, 1), nftables.keep_bits(b"\x04"), nftables.differs(b"\x00"))
    batch.add_rule("rst", *is_tcp, *rst_bit, accept)
    batch.add_rule("rst", *is_tcp, nftables.reject_with_tcp_reset())
    batch.add_rule("rst", nftables.reject_with_port_unreachable())
    for chain in chains:
        batch.add_hook_chain(chain, _HOOKS[chain], -10)
    if where is Where.NODE:
        spare_proxies(batch)
    for chain in refusals_pass:
        batch.add_rule(chain, *is_ipv4, *is_icmp_unreachable, accept)
    both_addresses = (nftables.load_network_header(12, 4, 8), nftables.load_network_header(16, 4, 9))
    for chain in chains:
        batch.add_rule(chain, *is_ipv4, *both_addresses, nftables.look_up_verdict(MAP, 1))
    return batch


def share(state: Mapping[Link, V], node: str) -> dict[Link, V]:
    """Select the links of `state` that belong in the map of one node's namespace.

    Every link belongs in exactly one map: its target's, or its source's if the target is the client.
    """
    return {
        link: effect
        for link, effect in state.items()
        if link.target == node or (link.source == node and link.target == CLIENT)
    }


class Addresses:
    """Translates links to the keys of each node's map, and back.

    A node has one address; the client has one or more in each node's view, because an engine may translate addresses.
    """

    def __init__(self, nodes: Mapping[str, str], client: str) -> None:
        self._nodes = {name: socket.inet_aton(address) for name, address in nodes.items()}
        self._clients = {name: [socket.inet_aton(client)] for name in nodes}

    def learn(self, node: str, source: str) -> bool:
        """Decide whether a packet came from the client, and remember a new address of the client.

        Args:
            node: the node that received the packet.
            source: the packet's source address, as that node saw it.

        Returns:
            False if `source` is the address of a node; else True.
        """
        packed = socket.inet_aton(source)
        if packed in self._nodes.values():
            return False
        if packed not in self._clients[node]:
            self._clients[node].append(packed)
        return True

    def state(self, links: Mapping[Link, V], node: str) -> dict[bytes, V]:
        """Return the map of `node`'s own namespace for this state of all `links`."""
        return {
            source + target: effect
            for link, effect in share(links, node).items()
            for source in self._of(link.source, node)
            for target in self._of(link.target, node)
        }

    def links(self, state: Mapping[bytes, V], node: str) -> dict[Link, V]:
        """Return the links that have an entry in the map of `node`."""
        names = {address: name for name, address in self._nodes.items()}
        names |= dict.fromkeys(self._clients[node], CLIENT)
        return {Link(names[key[:4]], names[key[4:]]): effect for key, effect in state.items()}

    def _of(self, end: str, node: str) -> list[bytes]:
        return self._clients[node] if end == CLIENT else [self._nodes[end]]


class LinkMap:
    """The map of one network namespace: the namespace of the thread that makes this object."""

    def __init__(self, where: Where, state: State) -> None:
        """Set rules and state in one transaction, so that the rules are never in force without the state."""
        self._kernel = nftables.Nftables()
        try:
            batch = rule_set(where)
            batch.add_elements(MAP, _verdicts(state))
            self._kernel.commit(batch)
        except BaseException:
            self._kernel.close()
            raise

    def replace(self, state: State) -> None:
        """Make the kernel's map equal `state` in one transaction.

        Raises:
            OSError: the kernel holds another state afterwards.
        """
        batch = nftables.Batch(TABLE)
        batch.flush_map(MAP)
        batch.add_elements(MAP, _verdicts(state))
        try:
            self._kernel.commit(batch)
        except OSError:
            # A refused batch changed nothing, but after a lost answer only the kernel knows its state.
            self._kernel.drain()
            if self.read() != state:
                raise

    def read(self) -> dict[bytes, Effect]:
        """Read the state in force from the kernel."""
        held = self._kernel.read_map(nftables.Batch(TABLE), MAP)
        return {key: EFFECTS[verdict] for key, verdict in held.items()}

    def remove(self) -> None:
        """Remove the whole table."""
        batch = nftables.Batch(TABLE)
        batch.delete_table()
        self._kernel.commit(batch)

    def close(self) -> None:
        """Close the connection to the namespace. The rules stay in force."""
        self._kernel.close()


def _verdicts(state: State) -> dict[bytes, nftables.PacketVerdict]:
    return {key: VERDICTS[effect] for key, effect in state.items()}
