"""The phases of migrations, measured: each cluster of the cell goes through all of them once, under a probe."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.runtime.node import Node, NodeState
from fencepost.systems.kafka.contract.migration import MigratesMetadata, Migration, MigrationStage, Phase, ServerTurn
from fencepost.systems.kafka.contract.migration_steps import carry_out, give_next_spec, wait_for_phase
from fencepost.systems.kafka.failover.cell import FailoverCell, FailoverEnding, FailoverSample
from fencepost.systems.kafka.failover.change_probe import EVERY_S, ChangeProbe, longest_gap_s
from fencepost.systems.kafka.failover.cluster import FailoverCluster, open_cluster
from fencepost.systems.kafka.failover.load_time import load_time_s

#: A controller waits long for a quorum that may be gone; then it is killed, as the fault `migrate` does it.
_STOP_S: Final = 15.0
_PHASE_S: Final = 120.0
_ASK_S: Final = 5.0
_LOOK_S: Final = 0.05

_Failed = (Definite, Indefinite, TimeoutError, OSError, ValueError)


async def migrations(cell: FailoverCell, folder: Path, ends: float) -> AsyncIterator[FailoverSample]:
    """Migrate one cluster after the other, and yield a sample for each phase, until `ends` (of `time.monotonic`).

    Raises HarnessError when a cluster does not settle, or a phase does not begin.
    """
    took_s = 0.0
    for number in range(cell.times):
        began = time.monotonic()
        if began + took_s > ends:
            return
        own = folder / f"migration-{number}"
        own.mkdir()
        async with AsyncExitStack() as stack:
            cluster = await open_cluster(cell, own, stack)
            async for sample in _migrate(cluster, f"probe-{number}", stack):
                yield sample
        took_s = time.monotonic() - began


async def _migrate(cluster: FailoverCluster, names: str, stack: AsyncExitStack) -> AsyncIterator[FailoverSample]:
    assert isinstance(cluster.system, MigratesMetadata)
    migration = cluster.system.migration(cluster.layout, cluster.artifacts, cluster.failover.options, {})
    probe = ChangeProbe(lambda: cluster.controllers, names)
    asking = asyncio.create_task(probe.run())
    stack.push_async_callback(_ended, asking)
    for stage in migration.stages(Phase.FINAL, early=False):
        ending = FailoverEnding(stage.reaches[-1])
        await _accepts(probe)
        began = time.monotonic()
        await _go(cluster, migration, stage)
        done = time.monotonic()
        await _accepts(probe)
        yield _sample(cluster, probe, ending, began, done)
        made, probe.made = probe.made, set()
        await cluster.remove(made)
        await cluster.settle()


async def _go(cluster: FailoverCluster, migration: Migration, stage: MigrationStage) -> None:
    async def serve() -> bool:
        await cluster.serves()
        return True

    await carry_out(stage, stage.turns, serve=serve, turn=lambda turn: _turn(cluster, migration, turn))
    for phase in stage.reaches:
        await _reach(migration, phase)
    await cluster.serves()


async def _turn(cluster: FailoverCluster, migration: Migration, turn: ServerTurn) -> None:
    node = cluster.all_nodes[turn.node]
    first = node.state is NodeState.NEW
    cluster.nodes.pop(node.name, None)
    if not first:
        await node.stop(_STOP_S)
    spec = await give_next_spec(node, turn, migration, first=first)
    await node.start()
    deadline = time.monotonic() + spec.ready_timeout_s
    while not await _ready(cluster, node):
        if time.monotonic() > deadline:
            raise HarnessError(f"{node.name} does not serve as {turn.becomes}; its log ends:\n{node.log_tail(8)}")
        await asyncio.sleep(_LOOK_S)
    cluster.nodes[node.name] = node


async def _ready(cluster: FailoverCluster, node: Node) -> bool:
    if node.state is NodeState.DEAD:
        raise HarnessError(f"{node.name} ended; the end of its log:\n{node.log_tail(8)}")
    try:
        async with asyncio.timeout(_ASK_S):
            return await cluster.system.ready(node)
    except _Failed:
        return False


async def _reach(migration: Migration, phase: Phase) -> None:
    lacks = await wait_for_phase(migration, phase, within_s=_PHASE_S, ask_s=_ASK_S)
    if lacks is not None:
        raise HarnessError(f"{phase} was not reached within {_PHASE_S:g} s: {lacks}")


async def _accepts(probe: ChangeProbe) -> None:
    """Wait until a change is accepted after now, so that acceptances frame every interval."""
    now = time.monotonic()
    deadline = now + _PHASE_S
    while not probe.accepted or probe.accepted[-1] < now:
        if time.monotonic() > deadline:
            raise HarnessError(f"no metadata change was accepted for {_PHASE_S:g} s: {dict(probe.refusals)}")
        await asyncio.sleep(EVERY_S)


def _sample(
    cluster: FailoverCluster, probe: ChangeProbe, ending: FailoverEnding, began: float, done: float
) -> FailoverSample:
    missing = []
    load_s = None
    if ending is FailoverEnding.HYBRID:
        load_s = _copy_s(cluster)
        if load_s is None:
            missing.append("no controller's log says how long it copied")
    print(f"{ending}: {dict(probe.refusals)}", file=sys.stderr, flush=True)
    return FailoverSample(
        system=cluster.cell.system,
        partitions=cluster.cell.partitions,
        ending=ending,
        ended="",
        gap_s=longest_gap_s(probe.accepted, began, done),
        phase_s=done - began,
        load_s=load_s,
        missing=tuple(missing),
        refusals=dict(probe.refusals),
    )


def _copy_s(cluster: FailoverCluster) -> float | None:
    logs = (node.log.read_text(errors="replace") for node in cluster.nodes.values())
    return next((s for log in logs if (s := load_time_s(cluster.failover.loading, log)) is not None), None)


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
