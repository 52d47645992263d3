"""Which directed links a fault acts on, seen from the nodes that it chose."""

from collections.abc import Iterable
from typing import Annotated, Literal

from fencepost.harness.base.options import about
from fencepost.harness.faults.fault_options import FaultOptions
from fencepost.harness.runtime.network import CLIENT, Link


class LinkChoice(FaultOptions, frozen=True, kw_only=True):
    """The options of every fault of links."""

    direction: Annotated[
        Literal["both", "in", "out"], about("what the chosen nodes receive (in), what they send (out), or both")
    ] = "both"
    links: Annotated[
        Literal["node", "client", "all"], about("links of the chosen nodes: to other nodes, to the clients, or all")
    ] = "node"

    def between(self, chosen: Iterable[str], others: Iterable[str]) -> list[Link]:
        """Return the chosen nodes' links to the other nodes, to the clients, or both, as the option `links` says."""
        ends = [*others] if self.links != "client" else []
        ends += [CLIENT] if self.links != "node" else []
        out = {Link(node, end) for node in chosen for end in ends if node != end}
        return sorted({"both": out | reversed_links(out), "out": out, "in": reversed_links(out)}[self.direction])


def reversed_links(links: Iterable[Link]) -> set[Link]:
    """The same links, each in the other direction."""
    return {Link(target, source) for source, target in links}
