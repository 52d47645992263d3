"""Pauses: every thread of a node's server is stopped (SIGSTOP, or a container's freezer). Each thread's state is proof.

The default of seven seconds is longer than ZooKeeper's (syncLimit + 2) ticks at the lab's settings, so a paused leader
is certainly superseded before it wakes.
"""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fencepost.harness.base.options import seconds
from fencepost.harness.faults.fault_options import FaultOptions
from fencepost.harness.faults.kind import (
    CLIENT_WORKER,
    NODE_TARGETS,
    Cluster,
    FaultKind,
    FaultSpec,
    Proof,
    Resolved,
    Skip,
    View,
    choose_nodes,
)
from fencepost.harness.history import Effects, FaultOutcome, Stops
from fencepost.harness.runtime.node import Node, NodeState
from fencepost.harness.runtime.provider import Need

#: Each thread stops, or goes on, when it next gets the processor.
_PROOF_DEADLINE_S: Final = 5.0
#: How long a frozen client must send nothing.
_WATCHED_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Client:
    """The client worker that is frozen instead of servers."""

    worker: int


class Pause(FaultKind):
    name = "pause"
    about = "every thread of the server is stopped, then resumed"
    targets: Mapping[str, str] = {
        **NODE_TARGETS,
        "all": "every node",
        CLIENT_WORKER: "one client of the load, drawn from those with an operation under way, sends nothing",
    }
    options = FaultOptions(for_=seconds(7))
    holds = frozenset({"process"})
    needs = frozenset({Need.FREEZE})

    any_length = True
    of_leadership = True
    for_all = ("pause:leader", "pause:one", "pause:client:for=4s")

    def __init__(self) -> None:
        self._sent: dict[int, Mapping[int, int]] = {}
        #: Clients that sent something while frozen: that doubt stays, however often they are thawed.
        self._leaked: dict[int, Proof] = {}

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(stops=Stops.NO if spec.target == CLIENT_WORKER else Stops.CERTAIN)

    def resolve(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
        if spec.target == CLIENT_WORKER:
            return _choose_client(view, draw)
        chosen = choose_nodes(spec.target, view, draw)
        return chosen if isinstance(chosen, Skip) else Resolved(nodes=chosen)

    async def inject(self, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof:
        if isinstance(resolved.means, _Client):
            return await self._freeze(fault_id, resolved.means.worker, cluster)
        nodes = [cluster.runtime.nodes[name] for name in resolved.nodes]
        if any(node.state is not NodeState.RUNNING for node in nodes):
            return Proof(FaultOutcome.INDETERMINATE, "a node was not running")
        for node in nodes:
            await node.pause()
        return await prove_state(nodes, NodeState.PAUSED, FaultOutcome.INSTALLED)

    async def heal(self, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof:
        if isinstance(resolved.means, _Client):
            return await self._thaw(fault_id, resolved.means.worker, cluster)
        nodes = [cluster.runtime.nodes[name] for name in resolved.nodes]
        for node in nodes:
            await node.resume()
        running = [node for node in nodes if node.state is NodeState.RUNNING]
        return await prove_state(running, NodeState.RUNNING, FaultOutcome.HEALED)

    async def _freeze(self, fault_id: int, worker: int, cluster: Cluster) -> Proof:
        clients = cluster.clients
        assert clients is not None, "there is no client to draw otherwise"
        await clients.freeze(worker, fault_id)
        before = self._sent[fault_id] = dict(clients.sent_bytes(worker))
        await asyncio.sleep(_WATCHED_S)
        sent = _sent_since(before, clients.sent_bytes(worker))
        if sent:
            return Proof(FaultOutcome.INDETERMINATE, f"client {worker} still sent {sent} bytes")
        return Proof(
            FaultOutcome.INSTALLED,
            f"client {worker} sent nothing for {_WATCHED_S * 1e3:.0f} ms on {len(before)} connections, by the kernel's"
            " count",
        )

    async def _thaw(self, fault_id: int, worker: int, cluster: Cluster) -> Proof:
        clients, before = cluster.clients, self._sent.pop(fault_id, None)
        assert clients is not None, "there is no client to draw otherwise"
        held, after = clients.held_back(worker), dict(clients.sent_bytes(worker)) if before is not None else {}
        await clients.thaw(worker, fault_id)
        if before is None:
            return self._leaked.get(fault_id, Proof(FaultOutcome.HEALED, f"client {worker} runs"))
        sent = _sent_since(before, after)
        if sent:
            text = f"client {worker} sent {sent} bytes while it was frozen"
            self._leaked[fault_id] = Proof(FaultOutcome.INDETERMINATE, text)
            return self._leaked[fault_id]
        counts = f"on {len(before)} connections; {held} writes are sent now"
        return Proof(FaultOutcome.HEALED, f"client {worker} sent nothing while it was frozen, {counts}")


def _choose_client(view: View, draw: random.Random) -> Resolved | Skip:
    workers = list(range(view.clients))
    draw.shuffle(workers)
    if not workers:
        return Skip("there is no client")
    busy = [worker for worker in workers if worker in view.busy_clients]
    worker = (busy or workers)[0]
    return Resolved(nodes=(), means=_Client(worker=worker), details={"client_worker": worker})


def _sent_since(before: Mapping[int, int], after: Mapping[int, int]) -> int:
    """Count the bytes sent since, on connections that still exist and on new ones."""
    return sum(sent - before.get(number, 0) for number, sent in after.items())


async def prove_state(nodes: list[Node], wanted: NodeState, outcome: FaultOutcome) -> Proof:
    """Wait until every node is in this state; a thread may still run for a moment after the signal.

    Returns:
        `outcome` with what was seen of each node; INDETERMINATE when a node is not there within 5 s.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PROOF_DEADLINE_S
    while True:
        evidence = {node.name: await node.evidence() for node in nodes}
        text = "; ".join(f"{name}: {seen.text}" for name, seen in evidence.items()) or "no node runs"
        if all(seen.state is wanted for seen in evidence.values()):
            return Proof(outcome, text)
        if loop.time() > deadline:
            return Proof(FaultOutcome.INDETERMINATE, text)
        await asyncio.sleep(0.002)
