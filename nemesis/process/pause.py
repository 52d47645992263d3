"""Pauses: every thread of a node's server is stopped (SIGSTOP, or a container's freezer). Each thread's state is proof.

The default of seven seconds is longer than ZooKeeper's (syncLimit + 2) ticks at the lab's settings, so a paused leader
is certainly superseded before it wakes.
"""

import asyncio
import random
from collections.abc import Mapping
from functools import partial
from typing import Final

from fencepost.harness.base.options import seconds
from fencepost.harness.faults.fault_options import FaultOptions
from fencepost.harness.faults.kind import (
    CLIENT_WORKER,
    NODE_TARGETS,
    Act,
    FaultKind,
    FaultSpec,
    Proof,
    Resolved,
    Skip,
    View,
)
from fencepost.harness.history import Effects, FaultOutcome, Stops
from fencepost.harness.runtime.node import Node, NodeState
from fencepost.harness.runtime.provider import Need

#: Each thread stops, or goes on, when it next gets the processor.
_PROOF_DEADLINE_S: Final = 5.0
#: How long a frozen client must send nothing.
_WATCHED_S: Final = 0.1


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
    on_return = ("pause:returned",)

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(stops=Stops.NO if spec.target == CLIENT_WORKER else Stops.CERTAIN)

    def resolve(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
        return _choose_client(view, draw) if spec.target == CLIENT_WORKER else super().resolve(spec, view, draw)

    async def inject(self, act: Act) -> Proof:
        if isinstance(worker := act.resolved.means, int):
            return await _freeze(worker, act)
        nodes = act.nodes
        if any(node.state is not NodeState.RUNNING for node in nodes):
            return Proof(FaultOutcome.INDETERMINATE, "a node was not running")
        for node in nodes:
            await node.pause()
        return await prove_state(nodes, NodeState.PAUSED, FaultOutcome.INSTALLED)

    async def heal(self, act: Act) -> Proof:
        if isinstance(worker := act.resolved.means, int):
            leaked = act.kept(str)
            return (
                Proof(FaultOutcome.INDETERMINATE, leaked)
                if leaked
                else Proof(FaultOutcome.HEALED, f"client {worker} runs")
            )
        nodes = act.nodes
        for node in nodes:
            await node.resume()
        running = [node for node in nodes if node.state is NodeState.RUNNING]
        return await prove_state(running, NodeState.RUNNING, FaultOutcome.HEALED)


async def _freeze(worker: int, act: Act) -> Proof:
    clients = act.cluster.clients
    assert clients is not None, "there is no client to draw otherwise"
    act.undo(partial(_thaw, worker, act))
    await clients.freeze(worker, act.fault_id)
    before = act.keep(dict(clients.sent_bytes(worker)))
    await asyncio.sleep(_WATCHED_S)
    sent = _sent_since(before, clients.sent_bytes(worker))
    if sent:
        return Proof(FaultOutcome.INDETERMINATE, f"client {worker} still sent {sent} bytes")
    counted = f"on {len(before)} connections, by the kernel's count"
    return Proof(FaultOutcome.INSTALLED, f"client {worker} sent nothing for {_WATCHED_S * 1e3:.0f} ms {counted}")


async def _thaw(worker: int, act: Act) -> str | None:
    clients, before = act.cluster.clients, act.kept(dict)
    assert clients is not None, "there is no client to draw otherwise"
    try:
        held, after = clients.held_back(worker), dict(clients.sent_bytes(worker)) if before is not None else {}
    finally:
        await clients.thaw(worker, act.fault_id)
    if before is None:
        return None
    if sent := _sent_since(before, after):
        # This doubt stays, however often it is healed.
        act.keep(f"client {worker} sent {sent} bytes while it was frozen")
        return None
    counts = f"on {len(before)} connections; {held} writes are sent now"
    return f"client {worker} sent nothing while it was frozen, {counts}"


def _choose_client(view: View, draw: random.Random) -> Resolved | Skip:
    workers = list(range(view.clients))
    draw.shuffle(workers)
    if not workers:
        return Skip("there is no client")
    busy = [worker for worker in workers if worker in view.busy_clients]
    worker = (busy or workers)[0]
    return Resolved(nodes=(), means=worker, details={"client_worker": worker})


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
