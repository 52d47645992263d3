"""Which run owns which containers, volumes and networks, and how those of a dead owner are removed.

Everything that a run makes has two labels: the run, and the process that owns it. The process is identified by its
number, its start time and the machine's boot. The next run, and `fencepost doctor --sweep`, remove what dead owners
left. What a living process owns is never touched, and neither is what belongs to another machine or pid namespace of
the same engine: whether that process lives cannot be known from here.
"""

import contextlib
import hashlib
import os
import platform
import secrets
import shlex
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fencepost.harness.runtime.linux.supervisor import PARENT_VARIABLE

if TYPE_CHECKING:
    from docker import DockerClient

RUN_LABEL: Final = "org.fencepost.run"
OWNER_LABEL: Final = "org.fencepost.owner"
SWEEP_COMMAND: Final = "fencepost doctor --sweep"

#: Time limit of one sweep, however much there is to remove.
_SWEEP_DEADLINE_S: Final = 60.0
#: An engine may still be carrying out a request of a process that has been killed.
_LATE_S: Final = 0.5
_WORKERS: Final = 8
#: Field 22 of /proc/PID/stat, counted from the one after the command: clock ticks from the boot to the start.
_START_TICKS: Final = 19


def new_run_id() -> str:
    """Return a new id such as 20261121t064512-3f9a0c: ids sort by time and never repeat."""
    return f"{time.strftime('%Y%m%dt%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"


def labels(run_id: str) -> dict[str, str]:
    return {RUN_LABEL: run_id, OWNER_LABEL: owner()}


def owner() -> str:
    """Return the label of the process that owns what this one makes: the starter's, if this is a runner."""
    pid = int(os.environ.get(PARENT_VARIABLE, os.getpid()))
    return f"{_machine()}:{pid}:{_start_of(pid)}"


def is_dead(owner_label: str) -> bool | None:
    """Decide whether the owner of this label is gone; None when that cannot be known from here."""
    machine, _, rest = owner_label.partition(":")
    pid, _, start = rest.partition(":")
    if machine != _machine() or not pid.isdigit():
        return None
    return _start_of(int(pid)) != start


def _machine() -> str:
    """Return a hash that identifies this machine and pid namespace, and reveals nothing else."""
    identity = platform.node()
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        with contextlib.suppress(OSError):
            identity = Path(path).read_text(encoding="ascii").strip() or identity
            break
    with contextlib.suppress(OSError):
        identity += os.readlink("/proc/self/ns/pid")
    return hashlib.sha256(f"fencepost {identity}".encode()).hexdigest()[:12]


def _start_of(pid: int) -> str:
    """Return the boot and the start time of the process; "gone" when there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:8]
        return "gone" if fields[0] in "ZX" else f"{boot}.{fields[_START_TICKS]}"
    except OSError:
        pass
    if Path("/proc/self").exists():
        return "gone"
    try:  # no Linux: the number alone has to do
        os.kill(pid, 0)
    except ProcessLookupError:
        return "gone"
    except PermissionError:
        pass
    return "unknown"


def removal(run_id: str) -> str:
    """Return the commands that remove by hand what is left of a run."""
    label = shlex.quote(f"label={RUN_LABEL}={run_id}")
    parts = (("rm -fv", "ps -aq"), ("volume rm -f", "volume ls -q"), ("network rm", "network ls -q"))
    return "; ".join(f"docker {listing} --filter {label} | xargs -r docker {away}" for away, listing in parts)


@dataclass(frozen=True, slots=True)
class Leftover:
    """A container, volume or network of ours, as an engine lists it."""

    kind: str
    id: str
    name: str
    run: str
    owner: str

    @property
    def command(self) -> str:
        return {"container": "docker rm -fv", "volume": "docker volume rm -f", "network": "docker network rm"}[
            self.kind
        ] + f" {self.name}"

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def listed(client: "DockerClient", run: str | None = None) -> list[Leftover]:
    """List everything of ours, or of one run, in the order in which it can be removed; raises the SDK's errors."""
    filters = {"label": RUN_LABEL if run is None else f"{RUN_LABEL}={run}"}
    api = client.api
    rows: list[tuple[str, str, str, dict[str, str]]] = []
    for row in api.containers(all=True, filters=filters):
        rows.append(("container", row["Id"], (row.get("Names") or [row["Id"]])[0].lstrip("/"), row.get("Labels") or {}))
    for row in api.volumes(filters=filters).get("Volumes") or []:
        rows.append(("volume", row["Name"], row["Name"], row.get("Labels") or {}))
    for row in api.networks(filters=filters):
        rows.append(("network", row["Id"], row["Name"], row.get("Labels") or {}))
    leftovers = [
        Leftover(kind, id_, name, row_labels.get(RUN_LABEL, ""), row_labels.get(OWNER_LABEL, ""))
        for kind, id_, name, row_labels in rows
    ]
    # Checked again: with a broken filter we would remove other people's things.
    return [one for one in leftovers if one.run and (run is None or one.run == run)]


def abandoned(leftovers: Iterable[Leftover]) -> list[Leftover]:
    """Return the leftovers whose owner is certainly dead."""
    verdicts: dict[str, bool | None] = {}
    return [one for one in leftovers if verdicts.setdefault(one.owner, is_dead(one.owner)) is True]


def sweep(
    client: "DockerClient", run: str | None = None, *, late: bool = False, deadline_s: float = _SWEEP_DEADLINE_S
) -> list[str]:
    """Remove everything of one run, or of every run of this machine whose owner is dead.

    Args:
        late: look again a moment later, for what a process that is gone had still asked the engine to make.

    Returns:
        What could not be removed, one sentence each, with its command. Raises the SDK's errors when the engine does not
        answer at all.
    """
    deadline = time.monotonic() + deadline_s
    failures: dict[str, str] = {}
    attempted: set[str] = set()
    looks_left = 2 if late else 1
    while True:
        leftovers = listed(client, run)
        doomed = leftovers if run is not None else abandoned(leftovers)
        if not doomed:
            looks_left -= 1
            if not looks_left:
                return []
            time.sleep(_LATE_S)
            continue
        ids = {one.id for one in doomed}
        # Try again as long as something can be removed: Podman removes no side-car before the node that shares it.
        if time.monotonic() > deadline or (failures and ids == attempted):
            return [_failure_text(one, failures.get(one.id, f"still there after {deadline_s:g} s")) for one in doomed]
        failures, attempted = _remove(client, doomed), ids


def _failure_text(one: Leftover, reason: str) -> str:
    return f"{one} of run {one.run} could not be removed ({reason}); remove it with: {one.command}"


def _remove(client: "DockerClient", doomed: list[Leftover]) -> dict[str, str]:
    """Remove each leftover, kind after kind; return the reasons where the engine refused."""
    removers: dict[str, Callable[[Leftover], None]] = {
        "container": lambda one: remove_container(client, one.id),
        "volume": lambda one: client.api.remove_volume(one.id, force=True),
        "network": lambda one: _remove_network(client, one.id),
    }
    failures: dict[str, str] = {}
    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="sweep") as workers:
        for kind, remove in removers.items():
            chosen = [one for one in doomed if one.kind == kind]
            for one, reason in zip(chosen, workers.map(lambda one, do=remove: _try(do, one), chosen), strict=True):
                if reason:
                    failures[one.id] = reason
    return failures


def _try(remove: Callable[[Leftover], None], one: Leftover) -> str:
    """Return why it could not be removed; empty when it is gone."""
    from docker.errors import APIError, NotFound

    try:
        remove(one)
    except NotFound:
        return ""
    except APIError as error:
        text = str(error.explanation or error)
        # Another sweep is removing it; the next look shows the result.
        return "" if "already in progress" in text else text
    return ""


def remove_container(client: "DockerClient", container_id: str) -> None:
    """Remove a container in whatever state, a paused one too. Raises NotFound when it is gone."""
    from docker.errors import APIError, NotFound

    api: Any = client.api
    try:
        api.remove_container(container_id, force=True, v=True)
    except NotFound:
        raise
    except APIError as error:
        if "paused" not in str(error.explanation or error).lower():
            raise
        # An engine that wants a frozen container thawed first; Docker 20.10 and Podman 4.3 do not.
        with contextlib.suppress(APIError):
            api.unpause(container_id)
        api.remove_container(container_id, force=True, v=True)


def _remove_network(client: "DockerClient", network_id: str) -> None:
    """Remove a network; containers of other runs cannot be in it, but an engine may still list removed ones."""
    from docker.errors import APIError, NotFound

    try:
        client.api.remove_network(network_id)
    except NotFound:
        raise
    except APIError as error:
        if "active endpoints" not in str(error.explanation or error):
            raise
        for attached in client.api.inspect_network(network_id).get("Containers") or {}:
            with contextlib.suppress(APIError):
                client.api.disconnect_container_from_network(attached, network_id, force=True)
        client.api.remove_network(network_id)
