"""What is seen of a container now: the engine's word, and what the kernel shows of it where it is this machine's.

An engine that says "paused" tells what it did. The proof is the freezer's own state, or, on another kernel, a processor
time that stands still.
"""

import time
from typing import TYPE_CHECKING, Any, Final

from fencepost.harness.runtime.containers.engine.engine import asking
from fencepost.harness.runtime.linux import cgroup as container_cgroup
from fencepost.harness.runtime.node import Evidence, NodeState

if TYPE_CHECKING:
    from docker import DockerClient

#: The processor time is read twice, this far apart.
_STANDSTILL_S: Final = 0.05


def look(client: "DockerClient", container_id: str, pid: int | None) -> Evidence:
    """`pid` is the container's first process as this machine numbers it; None where it is on another kernel."""
    said = state_of(client, container_id)
    words = f"the engine says {said.get('Status') or 'gone'}"
    if not said.get("Running") and not said.get("Paused"):
        if pid is not None and container_cgroup.belongs(pid, container_id):
            return Evidence(NodeState.RUNNING, f"{words}, but process {pid} is there")
        return Evidence(NodeState.DEAD, f"{words}, status {said.get('ExitCode', 'unknown')}")
    frozen = container_cgroup.is_frozen(pid) if pid is not None else None
    if pid is not None and frozen is not None:
        count = container_cgroup.threads(pid)
        words = f"freezer {'frozen' if frozen else 'thawed'}, {count} threads, {words}"
        return Evidence(NodeState.PAUSED if frozen else NodeState.RUNNING, words)
    if not said.get("Paused"):
        return Evidence(NodeState.RUNNING, words)
    used_ns = _used_ns(client, container_id)
    return Evidence(
        NodeState.RUNNING if used_ns else NodeState.PAUSED,
        f"{words}, {used_ns / 1e6:g} ms of processor time in {_STANDSTILL_S * 1e3:g} ms",
    )


def state_of(client: "DockerClient", container_id: str) -> dict[str, Any]:
    """The engine's record of its state; empty when the container is gone."""
    from docker.errors import NotFound

    with asking(f"asking for container {container_id[:12]}"):
        try:
            state: dict[str, Any] = client.api.inspect_container(container_id)["State"]
        except NotFound:
            return {}
    return state


def _used_ns(client: "DockerClient", container_id: str) -> int:
    """Processor time that the container takes meanwhile, as its engine counts it."""

    def read() -> int:
        with asking(f"asking for the processor time of container {container_id[:12]}"):
            told: Any = client.api.stats(container_id, stream=False, one_shot=True)
        return int(told["cpu_stats"]["cpu_usage"]["total_usage"])

    before = read()
    time.sleep(_STANDSTILL_S)
    return read() - before
