"""The data of servers in containers: a volume per node, of limited size if asked for, and copies for users."""

import contextlib
import os
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fencepost.harness.base.errors import MachineError
from fencepost.harness.runtime.containers.engine.engine import EngineFacts, asking
from fencepost.harness.runtime.containers.engine.fabric import INSIDE_DATA
from fencepost.harness.runtime.containers.engine.ownership import SWEEP_COMMAND, remove_container

if TYPE_CHECKING:
    from docker import DockerClient

#: Keeps a tmpfs volume mounted while no server runs.
_HOLD: Final = ("python3", "-c", "import signal; signal.pause()")


def limit(engine: EngineFacts, byte_count: int) -> str:
    """The mount option of a tmpfs of this size.

    Podman 4 takes "size" as a disk quota and refuses it, but passes on the same limit in pages.
    """
    if engine.kind != "podman":
        return f"size={byte_count}"
    page = os.sysconf("SC_PAGE_SIZE") if engine.same_kernel else 4096
    return f"nr_blocks={-(-byte_count // page)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """The volume of one node. With `holder`, an image that has Python, `option` limits its size (see `limit`).

    A limited volume is a tmpfs, which would be lost with the last container that uses it; so one more container
    keeps it mounted.
    """

    client: "DockerClient"
    node_prefix: str
    labels: Mapping[str, str]
    option: str
    holder: str

    @property
    def name(self) -> str:
        return f"{self.node_prefix}-data"

    @property
    def _holder_name(self) -> str:
        return f"{self.node_prefix}-holder"

    def make(self) -> None:
        with asking(f"making the volume {self.name}", MachineError, hint=SWEEP_COMMAND):
            if not self.holder:
                self.client.volumes.create(name=self.name, labels=dict(self.labels))
                return
            options = {"type": "tmpfs", "device": "tmpfs", "o": self.option}
            self.client.volumes.create(name=self.name, driver="local", driver_opts=options, labels=dict(self.labels))
            held = self.client.containers.create(
                self.holder,
                name=self._holder_name,
                labels=dict(self.labels),
                entrypoint=list(_HOLD),
                network_mode="none",
                volumes={self.name: {"bind": str(INSIDE_DATA), "mode": "rw"}},
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
            )
            held.start()

    def renew(self) -> None:
        """Remove the volume and make it again, empty. No container of a server may use it any more."""
        from docker.errors import NotFound

        with asking(f"removing the volume {self.name}", hint=SWEEP_COMMAND):
            with contextlib.suppress(NotFound):
                remove_container(self.client, self._holder_name)
            with contextlib.suppress(NotFound):
                self.client.api.remove_volume(self.name, force=True)
        self.make()


def copy(client: "DockerClient", container_id: str, node_name: str, target: Path) -> None:
    """Write the data of a container that has ended as a tar.gz to `target`, one folder `node_name` in it."""
    part = target.with_name(target.name + ".part")
    with asking(f"copying the data of {node_name}"):
        pieces, _ = client.api.get_archive(container_id, str(INSIDE_DATA))
        reader: Any = PieceReader(pieces)
        with (
            tarfile.open(fileobj=reader, mode="r|") as source,
            tarfile.open(part, "w:gz", compresslevel=1) as archive,
        ):
            for member in source:
                # The engine's archive begins with the folder's own name.
                member.name = "/".join((node_name, *Path(member.name).parts[1:]))
                archive.addfile(member, source.extractfile(member) if member.isreg() else None)
    os.replace(part, target)


class PieceReader:
    """The pieces of an archive as a file that is read once."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        while size < 0 or len(self._rest) < size:
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._rest += piece
        data = self._rest if size < 0 else self._rest[:size]
        self._rest = self._rest[len(data) :]
        return data
