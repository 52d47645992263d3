"""One container of a server: made, filled with its files, started.

testcontainers' `DockerContainer` carries the order of a start (create, fill, start, no wait since readiness is asked
of the server), through its public interface only. What that lacks is done with the docker SDK before: the image must be
there, since testcontainers would pull it, and a new volume is filled. See docs/explanation/decisions.md.

A restart makes a new container on the same volume. So a container has one process in its life, an exit is told apart
by the container's id, files and command may differ between starts, and no line of a log belongs to two starts.
"""

import contextlib
import io
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.exceptions import ContainerStartException

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.containers.engine.engine import address_of
from fencepost.harness.runtime.containers.engine.fabric import INSIDE_DATA, INSIDE_FOLDER
from fencepost.harness.runtime.containers.engine.ownership import remove_container

if TYPE_CHECKING:
    from docker import DockerClient

#: Open files of a server, and processes of its user: plenty, and less than any engine's own limit, which they cannot
#: exceed. Podman takes a million for the one that is not said.
_LIMIT: Final = 16384
_PROCESSES_MAX: Final = 4096
#: Of files and folders inside a container, whoever owns them here and whoever the server is there.
_FOLDER_MODE: Final = 0o777
_FILE_MODE: Final = 0o666
#: Of our images: an etcd takes 0.1 GiB, a ZooKeeper is given 256 MiB of heap.
_MEMORY_OF_OURS: Final = "1g"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMaking:
    """Everything that one container is made from. `joining` comes from the fabric; `data_files` fill a new volume."""

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
class MadeContainers:
    """Filled while a container is made, so that after a failure the caller knows what to remove."""

    container_id: str = ""
    pid: int | None = None
    ended: bool = False


def make_and_start(client: "DockerClient", making: ClusterMaking, made: MadeContainers) -> None:
    """Create, fill and start the container; `made` records how far it came. Raises the errors of the SDK."""
    # testcontainers would pull a missing image.
    client.images.get(making.image)
    if making.data_files is not None:
        _fill_volume(client, making, made)
    _configure_library()
    server = DockerContainer(
        making.image,
        docker_client_kw={
            "environment": _environment(client),
            "version": client.api.api_version,
            "timeout": client.api.timeout,
        },
        env=dict(making.environment),
        name=making.name,
        volumes=[(making.volume, str(INSIDE_DATA), "rw")],
    ).with_kwargs(**_arguments(making))
    try:
        with _staged(making.files) as folder:
            if making.files:
                server.with_copy_into_container(folder, str(INSIDE_FOLDER.parent))
            server.start()
    finally:
        with contextlib.suppress(ContainerStartException):
            made.container_id = server.get_container_id()
        # Its own connection; `stop` would close it too, and remove the container.
        server.get_docker_client().client.close()
    state = client.api.inspect_container(made.container_id)["State"]
    made.pid = int(state.get("Pid") or 0) or None
    made.ended = not state.get("Running")


def _configure_library() -> None:
    """Switch off, by its own settings, what testcontainers does beside making a container."""
    # No Ryuk: everything carries our labels, is removed by us, and nothing is ever pulled for it.
    testcontainers_config.ryuk_disabled = True
    # A prefix that the user set for images of registries does not apply to this image.
    testcontainers_config.hub_image_name_prefix = ""
    # Nothing is pulled, so no registry needs a login. Read first, because setting it prints a warning.
    if testcontainers_config.docker_auth_config:
        testcontainers_config.docker_auth_config = ""


def _environment(client: "DockerClient") -> dict[str, str]:
    """The variables by which `docker.from_env` finds the engine of this client, with its certificates."""
    environment = {"DOCKER_HOST": address_of(client)}
    if client.api.cert:
        certificate = client.api.cert if isinstance(client.api.cert, str) else client.api.cert[0]
        environment["DOCKER_CERT_PATH"] = str(Path(certificate).parent)
        if client.api.verify:
            environment["DOCKER_TLS_VERIFY"] = "1"
    return environment


def _fill_volume(client: "DockerClient", making: ClusterMaking, made: MadeContainers) -> None:
    """Put the files of a new volume there, through a container that never runs.

    testcontainers puts everything at "/", and Podman looks up only that path: what lies below a volume would be hidden.
    """
    assert making.data_files is not None
    filler = client.containers.create(
        making.image,
        entrypoint=list(making.argv),
        name=f"{making.name}-filler",
        labels=dict(making.labels),
        network_mode="none",
        volumes={making.volume: {"bind": str(INSIDE_DATA), "mode": "rw"}},
    )
    made.container_id = filler.id or ""
    if not filler.put_archive(str(INSIDE_DATA), archive(making.data_files)):
        raise HarnessError(f"the engine took no files for {INSIDE_DATA} of {making.name}")
    remove_container(client, made.container_id)
    made.container_id = ""


def _arguments(making: ClusterMaking) -> dict[str, Any]:
    from docker.types import LogConfig, Ulimit

    arguments: dict[str, Any] = {
        # Without a network given, testcontainers would join one that it finds.
        "network": None,
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
        # An image of the user's may have to change owners before it becomes an ordinary user; our images need nothing.
        arguments |= {"cap_drop": ["ALL"], "security_opt": ["no-new-privileges"], "mem_limit": _MEMORY_OF_OURS}
    return arguments


def archive(files: Mapping[str, str | bytes]) -> bytes:
    """A tar of a volume's files, the folders and the volume's own one included: an ordinary user can write there."""
    paths = {checked(relative): as_bytes(content) for relative, content in files.items()}
    folders = {PurePosixPath("."), *(parent for path in paths for parent in path.parents)}
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        for folder in sorted(folders, key=lambda path: len(path.parts)):
            entry = tarfile.TarInfo(str(folder))
            entry.type, entry.mode = tarfile.DIRTYPE, _FOLDER_MODE
            tar.addfile(entry)
        for path, content in paths.items():
            entry = tarfile.TarInfo(str(path))
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))
    return written.getvalue()


@contextlib.contextmanager
def _staged(files: Mapping[str, str]) -> Iterator[Path]:
    """A folder of this machine, named as inside the container, with these files: for a copy of the whole folder."""
    with tempfile.TemporaryDirectory(prefix="fencepost-files-") as parent:
        folder = Path(parent, INSIDE_FOLDER.name)
        folder.mkdir()
        keep_copies(folder, files)
        # They arrive with this user's number, so a server of another number gets its rights from the modes.
        for path in (folder, *folder.rglob("*")):
            path.chmod(_FOLDER_MODE if path.is_dir() else _FILE_MODE)
        yield folder


def checked(relative: str) -> PurePosixPath:
    """A path of a node's spec. Raises HarnessError for one that leaves its folder."""
    path = PurePosixPath(relative)
    if path.is_absolute() or ".." in path.parts:
        raise HarnessError(f"the file {relative!r} of a node's spec lies outside of its folder")
    return path


def keep_copies(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write the same files on this machine, for users to read."""
    for relative, content in files.items():
        path = folder / checked(relative)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(as_bytes(content))


def as_bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode()
