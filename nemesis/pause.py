"""Pauses: every thread of a node's server is stopped (SIGSTOP), proven by the state of each thread.

The default of seven seconds is longer than ZooKeeper's (syncLimit + 2) ticks at the lab's settings, so that a paused
leader is surely superseded before it wakes.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Final

from harness.fault import FaultSpec, Proof, Resolved, Skip, View
from harness.operation import FaultOutcome
from harness.runtime.node import Node, NodeState, Runtime
from nemesis.targets import NODE_TARGETS, choose_nodes

_PROOF_DEADLINE_S: Final = 2.0


class Pause:
    name: Final = "pause"
    about: Final = "every thread of the server stopped, then resumed"
    targets: Mapping[str, str] = {**NODE_TARGETS, "all": "every node"}
    default_target: Final = "one"
    options: Mapping[str, tuple[str, ...]] = {"for": ()}
    default_duration_ns: Final = 7_000_000_000

    def refuse(self, spec: FaultSpec, node_count: int) -> str | None:
        return None

    def resolve(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
        chosen = choose_nodes(spec.target, view, draw)
        return chosen if isinstance(chosen, Skip) else Resolved(nodes=chosen)

    async def inject(self, fault_id: int, resolved: Resolved, runtime: Runtime) -> Proof:
        nodes = [runtime.nodes[name] for name in resolved.nodes]
        if any(node.state is not NodeState.RUNNING for node in nodes):
            return Proof(FaultOutcome.INDETERMINATE, "a node was not running")
        for node in nodes:
            node.pause()
        return await _prove(nodes, stopped=True)

    async def heal(self, fault_id: int, resolved: Resolved, runtime: Runtime) -> Proof:
        nodes = [runtime.nodes[name] for name in resolved.nodes]
        for node in nodes:
            node.resume()
        return await _prove([node for node in nodes if node.state is NodeState.RUNNING], stopped=False)


async def _prove(nodes: list[Node], *, stopped: bool) -> Proof:
    """Wait until every thread is stopped (or none is): one may still run for a moment after the signal."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PROOF_DEADLINE_S
    while True:
        states = [state for node in nodes for state in node.thread_states().values()]
        halted = sum(state in "Tt" for state in states)
        if stopped and states and halted == len(states):
            return Proof(FaultOutcome.INSTALLED, f"{halted} of {len(states)} threads stopped")
        if not stopped and halted == 0:
            return Proof(FaultOutcome.HEALED, f"none of {len(states)} threads stopped")
        if loop.time() > deadline:
            return Proof(FaultOutcome.INDETERMINATE, f"{halted} of {len(states)} threads stopped")
        await asyncio.sleep(0.002)
