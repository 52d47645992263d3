"""Everything that is needed to connect the containers of one cluster."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.harness.runtime.node import Member

if TYPE_CHECKING:
    from docker import DockerClient

    from fencepost.harness.runtime.containers.engine.engine import EngineFacts

#: Where a node finds its configuration and its data, inside its container.
INSIDE_FOLDER = Path("/fencepost")
INSIDE_DATA = Path("/data")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The cluster that is to be connected.

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
