"""Pauses: every thread of a node's server is stopped (SIGSTOP, or a container's freezer), proven by looking at them.

The default of seven seconds is longer than ZooKeeper's (syncLimit + 2) ticks at the lab's settings, so that a paused
leader is surely superseded before it wakes.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Final

from harness.fault import Cluster, FaultSpec, Proof, Resolved, Skip, View
from harness.operation import FaultOutcome
from harness.runtime.node import Node, NodeState
from harness.runtime.provider import Setting
from nemesis.targets import NODE_TARGETS, choose_nodes

_PROOF_DEADLINE_S: Final = 2.0


class Pause:
    name: Final = "pause"
    about: Final = "every thread of the server stopped, then resumed"
    targets: Mapping[str, str] = {**NODE_TARGETS, "all": "every node"}
    default_target: Final = "one"
    options: Mapping[str, tuple[str, ...]] = {"for": ()}
    default_duration_ns: Final = 7_000_000_000
    holds: frozenset[str] = frozenset({"process"})

    def refuse(self, spec: FaultSpec, setting: Setting) -> str | None:
        return None

    def unavailable(self, setting: Setting) -> str | None:
        return None

    def resolve(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
        chosen = choose_nodes(spec.target, view, draw)
        return chosen if isinstance(chosen, Skip) else Resolved(nodes=chosen)

    async def inject(self, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof:
        nodes = [cluster.runtime.nodes[name] for name in resolved.nodes]
        if any(node.state is not NodeState.RUNNING for node in nodes):
            return Proof(FaultOutcome.INDETERMINATE, "a node was not running")
        for node in nodes:
            await node.pause()
        return await prove_state(nodes, NodeState.PAUSED, FaultOutcome.INSTALLED)

    async def heal(self, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof:
        nodes = [cluster.runtime.nodes[name] for name in resolved.nodes]
        for node in nodes:
            await node.resume()
        running = [node for node in nodes if node.state is NodeState.RUNNING]
        return await prove_state(running, NodeState.RUNNING, FaultOutcome.HEALED)


async def prove_state(nodes: list[Node], wanted: NodeState, outcome: FaultOutcome) -> Proof:
    """Wait until every node is seen in this state: a thread may still run for a moment after the signal."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PROOF_DEADLINE_S
    while True:
        found = {node.name: await node.evidence() for node in nodes}
        text = "; ".join(f"{name}: {seen.text}" for name, seen in found.items()) or "no node runs"
        if all(seen.state is wanted for seen in found.values()):
            return Proof(outcome, text)
        if loop.time() > deadline:
            return Proof(FaultOutcome.INDETERMINATE, text)
        await asyncio.sleep(0.002)
