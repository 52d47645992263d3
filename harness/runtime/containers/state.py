"""What is known of a container now: what the engine says, and what the kernel shows if it is this machine's kernel.

An engine that says "paused" tells what it did. The proof is the freezer's own state, or, on another kernel, a processor
time that stands still.
"""

import time
from typing import TYPE_CHECKING, Any, Final

from fencepost.harness.runtime.containers.engine.engine import asking
from fencepost.harness.runtime.linux import cgroup as container_cgroup
from fencepost.harness.runtime.node import NodeState, ProcessEvidence

if TYPE_CHECKING:
    from docker import DockerClient

#: The processor time is read twice, this far apart.
_STANDSTILL_S: Final = 0.05


def look(client: "DockerClient", container_id: str, pid: int | None) -> ProcessEvidence:
    """`pid` is the container's first process as this machine numbers it; None where it is on another kernel."""
    state = state_of(client, container_id)
    text = f"the engine says {state.get('Status') or 'gone'}"
    if not state.get("Running") and not state.get("Paused"):
        if pid is not None and container_cgroup.belongs(pid, container_id):
            return ProcessEvidence(NodeState.RUNNING, f"{text}, but process {pid} is there")
        return ProcessEvidence(NodeState.DEAD, f"{text}, status {state.get('ExitCode', 'unknown')}")
    frozen = container_cgroup.is_frozen(pid) if pid is not None else None
    if pid is not None and frozen is not None:
        count = container_cgroup.threads(pid)
        text = f"freezer {'frozen' if frozen else 'thawed'}, {count} threads, {text}"
        return ProcessEvidence(NodeState.PAUSED if frozen else NodeState.RUNNING, text)
    if not state.get("Paused"):
        return ProcessEvidence(NodeState.RUNNING, text)
    used_ns = _used_ns(client, container_id)
    return ProcessEvidence(
        NodeState.RUNNING if used_ns else NodeState.PAUSED,
        f"{text}, {used_ns / 1e6:g} ms of processor time in {_STANDSTILL_S * 1e3:g} ms",
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
    """The processor time that the container takes meanwhile, in nanoseconds, as its engine counts it."""

    def read() -> int:
        with asking(f"asking for the processor time of container {container_id[:12]}"):
            stats: Any = client.api.stats(container_id, stream=False, one_shot=True)
        return int(stats["cpu_stats"]["cpu_usage"]["total_usage"])

    before = read()
    time.sleep(_STANDSTILL_S)
    return read() - before
