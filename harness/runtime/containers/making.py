"""One container of a server: made, filled with its files, started.

testcontainers' `DockerContainer` carries the order of a start (create, fill, start, no wait since readiness is asked
of the server). Its own client is replaced by `FillingClient`: ours asks the engine that was chosen, pulls nothing,
joins no network by itself, and puts all files in with one request.

A restart makes a new container on the same volume. So a container has one process in its life, an exit is told apart
by the container's id, files and command may differ between starts, and no line of a log belongs to two starts.
"""

import io
import logging
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from testcontainers.core import docker_client as testcontainers_client
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.labels import create_labels

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.containers.engine.fabric import INSIDE_DATA, INSIDE_FOLDER

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

#: Open files of a server, and processes of its user: plenty, and less than any engine's own limit, which they cannot
#: exceed. Podman takes a million for the one that is not said.
_LIMIT: Final = 16384
_PROCESSES_MAX: Final = 4096
#: Of our images: an etcd takes 0.1 GiB, a ZooKeeper is given 256 MiB of heap.
_MEMORY_OF_OURS: Final = "1g"


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """Everything that one container is made from. `joining` is the fabric's; `data_files` fill a new volume."""

    image: str
    of_ours: bool
    name: str
    labels: Mapping[str, str]
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    joining: Mapping[str, Any]
    volume: str
    files: Mapping[str, str]
    data_files: Mapping[str, str | bytes] | None = None


@dataclass(slots=True)
class Made:
    """Filled while a container is made, so that whoever finds a failure half way knows what to remove."""

    container_id: str = ""
    pid: int | None = None
    ended: bool = False


class FillingClient(testcontainers_client.DockerClient):
    """testcontainers' face of an engine that we are connected to already."""

    def __init__(self, client: "DockerClient", making: Making, made: Made) -> None:
        # Not the parent's: it would connect by itself, and change this process's environment.
        self.client = client
        self._making, self._made = making, made

    def create(self, image: str, command: Any = None, **kwargs: Any) -> "Container":  # type: ignore[override]
        kwargs["labels"] = create_labels(image, dict(kwargs["labels"]))
        # An empty mapping of ports cannot be given to a container that shares another's network.
        container = self.client.containers.create(image, command=command, **{k: v for k, v in kwargs.items() if v})
        self._made.container_id = container.id or ""
        making = self._making
        if making.data_files is not None:
            # The folder too: a server that runs as an ordinary user has to be able to write into a new volume.
            _put(container, str(INSIDE_DATA), archive(making.data_files, PurePosixPath("."), mode=0o777))
        if making.files:
            _put(container, "/", archive(making.files, PurePosixPath(str(INSIDE_FOLDER).lstrip("/")), mode=0o755))
        return container


def make_and_start(client: "DockerClient", making: Making, made: Made) -> None:
    """Create, fill and start; `made` says how far it came. Errors are the SDK's."""
    # No Ryuk: everything carries our labels, is removed by us, and nothing is ever pulled for it.
    testcontainers_config.ryuk_disabled = True
    # Its notes tell of images pulled, which is not what happens.
    logging.getLogger("testcontainers.core.container").setLevel(logging.WARNING)
    server = DockerContainer(making.image, docker_client_kw={"version": client.api.api_version}, env=None)
    server.get_docker_client().client.close()
    # A prefix that a person set for images of hubs is not for this one.
    server.image = making.image
    server._docker = FillingClient(client, making, made)
    server.with_name(making.name).with_volume_mapping(making.volume, str(INSIDE_DATA), "rw")
    server.env.update(making.environment)
    arguments = _arguments(making)
    server.ports.update(arguments.pop("ports", None) or {})
    server.with_kwargs(**arguments)
    server.start()
    state = client.api.inspect_container(made.container_id)["State"]
    made.pid = int(state.get("Pid") or 0) or None
    made.ended = not state.get("Running")


def _arguments(making: Making) -> dict[str, Any]:
    from docker.types import LogConfig, Ulimit

    arguments: dict[str, Any] = {
        **making.joining,
        "labels": dict(making.labels),
        "entrypoint": list(making.argv),
        "working_dir": str(INSIDE_FOLDER),
        # An image's own check would run processes beside the server.
        "healthcheck": {"test": ["NONE"]},
        "log_config": LogConfig(type=LogConfig.types.JSON),
        "ulimits": [Ulimit(name=name, soft=_LIMIT, hard=_LIMIT) for name in ("nofile", "nproc")],
        "pids_limit": _PROCESSES_MAX,
    }
    if making.of_ours:
        # A person's image may have to change owners before it becomes an ordinary user; ours need nothing.
        arguments |= {"cap_drop": ["ALL"], "security_opt": ["no-new-privileges"], "mem_limit": _MEMORY_OF_OURS}
    return arguments


def archive(files: Mapping[str, str | bytes], folder: PurePosixPath, *, mode: int) -> bytes:
    """A tar of files below `folder`, the folders themselves included, readable by every user."""
    paths = {folder / checked(relative): as_bytes(content) for relative, content in files.items()}
    parents = {parent for path in paths for parent in path.parents if folder in (parent, *parent.parents)}
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        for parent in sorted({folder, *parents}, key=lambda path: len(path.parts)):
            entry = tarfile.TarInfo(str(parent))
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
        for path, content in paths.items():
            entry = tarfile.TarInfo(str(path))
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    return written.getvalue()


def checked(relative: str) -> PurePosixPath:
    """A path of a node's spec; one that leaves its folder is refused."""
    path = PurePosixPath(relative)
    if path.is_absolute() or ".." in path.parts:
        raise HarnessError(f"the file {relative!r} of a node's spec lies outside of its folder")
    return path


def keep_copies(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """The same files on this machine, for people."""
    for relative, content in files.items():
        path = folder / checked(relative)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(as_bytes(content))


def as_bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode()


def _put(container: "Container", path: str, data: bytes) -> None:
    if not container.put_archive(path, data):
        raise HarnessError(f"the engine took no files for {path} of {container.name}")
