"""What connects the containers of one cluster: their networks, their addresses, and who enforces the links.

A fabric is one of three: packet rules entered from this machine (`rules/from_here.py`), packet rules set by a side-car
that owns each node's network namespace (`rules/by_sidecar.py`), or a proxy in the middle of every connection
(`toxiproxy/star.py`). The provider makes the nodes and asks its fabric for everything about links, so that nodes are
the same under all three.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fencepost.harness.runtime.network import Network, Streams
from fencepost.harness.runtime.node import Member, Place

if TYPE_CHECKING:
    from docker import DockerClient

    from fencepost.harness.runtime.containers.engine.engine import EngineFacts

#: Where a node finds its configuration and its data, inside its container.
INSIDE_FOLDER = Path("/fencepost")
INSIDE_DATA = Path("/data")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Everything that a fabric needs to know of the cluster that it connects.

    `labels` go on every network, container and volume that is made, `prefix` begins every name ("fencepost-<id>").
    `listeners` are the system's: nodes dial all but "client", the harness those that each member names. `image` gives
    the reference of an image of ours ("sidecar", "toxiproxy"), built when it is absent. `publish`: container addresses
    cannot be reached from this machine, so the ports that the harness dials are published on its loopback address.
    """

    client: "DockerClient"
    engine: "EngineFacts"
    prefix: str
    labels: Mapping[str, str]
    folder: Path
    members: Sequence[Member]
    listeners: Mapping[str, int]
    image: Callable[[str], str]
    publish: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Of the nodes, in order; the first is number 1."""
        return tuple(member.name for member in self.members)

    @property
    def node_count(self) -> int:
        return len(self.members)

    def dialled(self, member: Member) -> dict[str, int]:
        """Those of the member's listeners that the harness dials, with their ports."""
        return {name: port for name, port in self.listeners.items() if name in member.dialled}


class Fabric(Protocol):
    """Made by `await <kind>.open(site)`, which returns once networks, side-cars or proxies are there."""

    @property
    def layout(self) -> Mapping[str, Place]: ...
    @property
    def network(self) -> Network: ...
    @property
    def streams(self) -> Streams | None: ...

    def joining(self, name: str) -> Mapping[str, Any]:
        """The arguments of the docker SDK's `containers.create` that put node `name` into its place.

        Such as network, networking_config, network_mode, hostname, ports, extra_hosts.
        """
        ...

    async def attach(self, name: str, container_id: str, pid: int | None) -> None:
        """A process of node `name` was just started: its network namespace may be new, so apply its links again."""
        ...

    async def await_links(self, timeout_s: float) -> None:
        """Probe until every directed link has been found open; raises HarnessError that names the shut ones.

        Called once all nodes' containers run for the first time.
        """
        ...

    async def close(self) -> None:
        """Give back what `open` made (sockets, side-cars, proxies, networks). Idempotent.

        The nodes' containers are removed by then.
        """
        ...
