"""Finds the container engine of this machine, and what it can do.

Docker and Podman have the same interface. What a run can do depends on where the engine is. On this kernel the
namespaces of its containers can be entered and their cgroups read. Elsewhere (a virtual machine, another machine) only
the engine can be asked. Nothing is started to find out.
"""

import contextlib
import os
import platform
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fencepost.harness.base.errors import FencepostError, HarnessError, MachineError

if TYPE_CHECKING:
    from docker import DockerClient

#: Time limit of one request. Stopping a container may keep an engine busy for ten seconds.
TIMEOUT_S: Final = 30.0
#: Every node has a log stream, and all nodes start at once.
_CONNECTIONS_MAX: Final = 64
_DEFAULT_SOCKET: Final = "/var/run/docker.sock"
_DISK_FULL: Final = "no space left on device"


class NoEngine(MachineError):
    """There is no engine in the usual places."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What is known of an engine.

    `same_kernel`: its containers run on this kernel. `may_enter`: their namespaces can be entered from here.
    `reachable`: their addresses can be dialled from here. `address` is where the engine was reached.
    """

    kind: str
    version: str
    api: str
    rootless: bool
    cgroup_version: str
    cgroup_driver: str
    can_pause: bool
    same_kernel: bool
    may_enter: bool
    reachable: bool
    architecture: str
    address: str

    def __str__(self) -> str:
        return f"{self.kind} {self.version} at {self.address}"


def connect(address: str = "", *, timeout_s: float = TIMEOUT_S) -> "DockerClient":
    """Connect to the engine at `address`, else where DOCKER_HOST or the docker context says, else in a usual place.

    Every request ends within `timeout_s`.

    Raises:
        NoEngine: there is no engine in the usual places.
        MachineError: it cannot be used; with the remedy.
    """
    import docker
    import requests

    wanted = {"base_url": address} if address else _named()
    arguments = wanted or {"base_url": _usual()}
    place = str(arguments["base_url"])
    if place.startswith("ssh://"):
        raise MachineError(
            f"{place}: an engine cannot be reached over ssh",
            hint="forward its socket: ssh -L /tmp/engine.sock:/var/run/docker.sock HOST, "
            "then DOCKER_HOST=unix:///tmp/engine.sock",
        )
    _refuse_dead_socket(place)
    client = None
    try:
        client = docker.DockerClient(
            **arguments, version="auto", timeout=max(1, round(timeout_s)), max_pool_size=_CONNECTIONS_MAX
        )
        client.ping()
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        if client is not None:
            client.close()
        raise MachineError(
            f"no container engine answers at {place}: {_reason(error)}",
            hint="is it running? `docker version` asks the same engine; DOCKER_HOST or `docker context` choose another",
        ) from error
    return client


def _named() -> dict[str, Any]:
    """Return the engine that DOCKER_HOST or the current docker context names; empty when neither does."""
    from docker.context import ContextAPI
    from docker.utils import kwargs_from_env

    if os.environ.get("DOCKER_HOST"):
        return dict(kwargs_from_env())
    try:
        context = ContextAPI.get_current_context()
    except Exception as error:  # whatever is wrong with a person's docker configuration
        raise MachineError(
            f"the current docker context cannot be read: {error}", hint="docker context ls; docker context use default"
        ) from error
    if context is None or context.name == "default":
        return {}
    arguments: dict[str, Any] = {"base_url": context.Host}
    if context.TLSConfig:
        arguments["tls"] = context.TLSConfig
    return arguments


def usual_sockets() -> list[str]:
    """Return where engines usually listen: Docker, rootless Docker, Podman, rootless Podman."""
    own = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    return [_DEFAULT_SOCKET, f"{own}/docker.sock", "/run/podman/podman.sock", f"{own}/podman/podman.sock"]


def _usual() -> str:
    """Return the first usual socket with an engine; raise with the reason of the most promising one."""
    refusals: list[MachineError] = []
    for path in usual_sockets():
        try:
            _refuse_dead_socket(f"unix://{path}")
        except NoEngine:
            continue
        except MachineError as error:
            refusals.append(error)
            continue
        return f"unix://{path}"
    if refusals:
        raise refusals[0]
    raise NoEngine(
        f"no container engine was found (looked for {', '.join(usual_sockets())})",
        hint="install and start Docker or Podman, or set DOCKER_HOST; --runtime lab needs none",
    )


def _refuse_dead_socket(address: str) -> None:
    """Raise with the exact reason when a unix socket cannot be used; the SDK's errors hide it."""
    if not address.startswith(("unix://", "http+unix://")):
        return
    path = "/" + address.partition("://")[2].lstrip("/")
    try:
        with socket.socket(socket.AF_UNIX) as tried:
            tried.settimeout(5.0)
            tried.connect(path)
    except FileNotFoundError:
        raise NoEngine(
            f"there is no container engine at {path}", hint="start it, or set DOCKER_HOST to another"
        ) from None
    except PermissionError:
        raise MachineError(
            f"this user may not use the container engine at {path}: permission denied",
            hint="sudo usermod -aG docker $USER, then log in again; or use a rootless engine",
        ) from None
    except OSError as error:
        raise MachineError(
            f"nothing answers at {path}: {error.strerror or error}",
            hint="the engine of this socket is gone; start it again (systemctl start docker)",
        ) from error


def close_stream(stream: Any) -> None:
    """End a stream of the SDK from another thread; its own `close` leaves the connection open."""
    with contextlib.suppress(Exception):  # the engine may be gone, and with it the socket
        stream.close()
    with contextlib.suppress(Exception):
        stream._response.close()


def _reason(error: BaseException) -> str:
    text = str(error)
    return text[:300] if text else type(error).__name__


def facts(client: "DockerClient") -> EngineFacts:
    """Ask the engine, and look at this machine. Raises MachineError when it does not answer."""
    with asking("asking the engine what it can do", MachineError):
        version, info = client.version(), client.info()
    names = [str(part.get("Name", "")) for part in version.get("Components") or []]
    kind = "podman" if any("podman" in name.lower() for name in names) else "docker"
    rootless = any("rootless" in str(option) for option in info.get("SecurityOptions") or [])
    driver = str(info.get("CgroupDriver") or "none")
    address = address_of(client)
    same_kernel = _is_same_kernel(info)
    peer = _peer_pid(address) if same_kernel else 0
    here = same_kernel and not rootless and peer > 0
    return EngineFacts(
        kind=kind,
        version=str(version.get("Version", "unknown")),
        api=str(client.api.api_version),
        rootless=rootless,
        cgroup_version=str(info.get("CgroupVersion") or "1"),
        cgroup_driver=driver,
        can_pause=driver != "none" and not (rootless and str(info.get("CgroupVersion")) != "2"),
        same_kernel=same_kernel,
        may_enter=here and os.geteuid() == 0,
        reachable=here and _is_same_network(peer),
        architecture=str(version.get("Arch") or info.get("Architecture") or "unknown"),
        address=address,
    )


def address_of(client: "DockerClient") -> str:
    """Return where this client reaches its engine, in the form of DOCKER_HOST."""
    base = str(client.api.base_url)
    path = getattr(client.api.get_adapter(base), "socket_path", None)
    return f"unix://{path}" if path else base


def _is_same_kernel(info: dict[str, Any]) -> bool:
    """Compare kernel version and exact memory size: no virtual machine is known that has both the same."""
    if platform.system() != "Linux" or info.get("KernelVersion") != platform.release():
        return False
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemTotal:"):
                return int(line.split()[1]) << 10 == int(info.get("MemTotal") or 0)
    return False


def _peer_pid(address: str) -> int:
    """Return the process that listens on the engine's socket, as this pid namespace numbers it; 0 if it is not seen.

    Zero inside a container that has the engine's socket: the engine's process numbers mean other processes here.
    """
    if not address.startswith("unix://"):
        return 0
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5.0)
        connection.connect(address.removeprefix("unix://"))
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", credentials)[0])
    return 0


def _is_same_network(peer: int) -> bool:
    try:
        return os.readlink(f"/proc/{peer}/ns/net") == os.readlink("/proc/self/ns/net")
    except PermissionError:
        return True  # an ordinary user may not look; engines of this pid namespace rarely live in another network
    except OSError:
        return False


@contextlib.contextmanager
def asking(what: str, kind: type[FencepostError] = HarnessError, hint: str = "fencepost doctor") -> Iterator[None]:
    """Turn exceptions of the SDK into an error of `kind` that says what was being done."""
    import docker.errors
    import requests

    try:
        yield
    except docker.errors.APIError as error:
        text = str(error.explanation or error)
        if _DISK_FULL in text.lower():
            raise MachineError(
                f"{what}: the container engine's disk is full: {text}",
                hint="`docker system df` shows what fills it; fencepost doctor --sweep removes what earlier runs left",
            ) from error
        raise kind(f"{what}: the container engine refused: {text}", hint=hint) from error
    except (docker.errors.DockerException, requests.RequestException, OSError) as error:
        raise kind(f"{what}: the container engine does not answer: {_reason(error)}", hint=hint) from error
