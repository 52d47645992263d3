"""Ends one server and starts it again, as an operator would do it, each with its proof.

The end is proven by the process being gone, the start by a new process that serves and reports its release.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from fencepost.harness.contract.releases import Versions, ask_version
from fencepost.harness.faults.kind import Cluster, Proof
from fencepost.harness.faults.restarts import is_ready
from fencepost.harness.history import FaultOutcome
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Node, NodeSpec, NodeState

#: A server that has not ended this long after SIGTERM is killed. Kafka itself waits longer for a controller.
_STOP_S: Final = 15.0
_LOOK_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class ReleaseChangeFault:
    """What a node runs: how it is started, and from what."""

    spec: NodeSpec
    artifacts: Artifacts


class Restart:
    """The end of one server and the start of the next one on its node, each with its proof."""

    def __init__(self, node: Node, cluster: Cluster, how: str, becomes: ReleaseChangeFault | None) -> None:
        self.node, self._cluster, self._how, self._becomes = node, cluster, how, becomes
        self._pid, self._incarnation = node.pid, node.incarnation
        was = cluster.artifacts_of(node.name).version
        #: What is recorded. The release that the server reports is added later.
        self.details: dict[str, str | int | float | bool] = {"how": how, "from_version": was}
        if becomes is not None:
            self.details["to_version"] = becomes.artifacts.version

    async def end(self) -> Proof:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        if self._how == "kill":
            await self.node.kill()
            how = "killed"
        elif await self.node.stop(_STOP_S):
            how = "ended by SIGTERM"
        else:
            how = "killed, since SIGTERM did not end it"
        seen = await self.node.evidence()
        if seen.state is not NodeState.DEAD:
            return Proof(FaultOutcome.INDETERMINATE, f"not gone: {seen.text}")
        process = "its process" if self._pid is None else f"process {self._pid}"
        return Proof(FaultOutcome.INSTALLED, f"{process} gone, {how} after {loop.time() - began_s:.1f} s")

    async def begin(self) -> Proof:
        """Start the node, as its new release if there is one, and wait until it serves and reports its release."""
        node, cluster = self.node, self._cluster
        if node.state not in (NodeState.DEAD, NodeState.NEW) and node.incarnation == self._incarnation:
            return Proof(FaultOutcome.INDETERMINATE, f"not restarted: its process is still there, {node.state}")
        if self._becomes is not None:
            node.respec(self._becomes.spec)
            cluster.runs[node.name] = self._becomes.artifacts
        log_from = node.log.stat().st_size if node.log.is_file() else 0
        # The healing of another fault may have started it meanwhile.
        if node.state in (NodeState.DEAD, NodeState.NEW):
            await node.start()
        started = "started" if self._incarnation < 0 else "restarted"
        started += "" if node.pid is None else f" as process {node.pid}"
        return await self._serves(started, log_from)

    async def _serves(self, started: str, log_from: int) -> Proof:
        node, cluster = self.node, self._cluster
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while not await is_ready(node, cluster):
            if node.state is NodeState.DEAD:
                return Proof(FaultOutcome.INDETERMINATE, f"{started}, and ended: {_last_line(node)}")
            if cluster.hurried():
                return Proof(
                    FaultOutcome.HEALED, f"{started}; not waited for until it serves, since the run is being ended"
                )
            if loop.time() - began_s > node.spec.ready_timeout_s:
                late = f"{started}, but does not serve after {node.spec.ready_timeout_s:g} s"
                return Proof(FaultOutcome.INDETERMINATE, late)
            await asyncio.sleep(_LOOK_S)
        serves = f"{started}, serves after {loop.time() - began_s:.1f} s"
        if cluster.system.versions is None:
            return Proof(FaultOutcome.HEALED, serves)
        return await self._says(serves, cluster.system.versions, log_from)

    async def _says(self, serves: str, versions: Versions, log_from: int) -> Proof:
        """Compare the release that the server reports with the one that it was started as."""
        node, cluster = self.node, self._cluster
        wanted = versions.expected(node, cluster.artifacts_of(node.name))
        version, why = await ask_version(versions, node, log_from=log_from, hurried=cluster.hurried)
        if version is not None:
            self.details["says_version"] = version
        if version == wanted:
            return Proof(FaultOutcome.HEALED, f"{serves}, says that it is {version}")
        # A person's own build may report anything; it is part of the proof only when the release was changed.
        outcome = FaultOutcome.INDETERMINATE if node.name in cluster.runs else FaultOutcome.HEALED
        doubt = (
            f"does not say which release it is ({why})"
            if version is None
            else f"says that it is {version}, not {wanted}"
        )
        return Proof(outcome, f"{serves}, {doubt}")


def _last_line(node: Node) -> str:
    lines = node.log_tail(1).splitlines()
    return lines[-1][:200] if lines else "its log is empty"
