"""One ending of the active controller: find it, send the signal, run the probes, restore the cluster."""

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.coordination import Definite
from fencepost.harness.runtime.linux import processes
from fencepost.harness.runtime.node import Node
from fencepost.systems.kafka.failover.cell import FailoverEnding, FailoverSample
from fencepost.systems.kafka.failover.cluster import FailoverCluster
from fencepost.systems.kafka.failover.load_time import load_time_s
from fencepost.systems.kafka.failover.probes import MetadataProbe, ProduceLine, ProduceProbe, gathered

#: A figure that was not seen by then is missing.
RECOVERY_S: Final = 60.0
#: How often a cluster is settled again that did not stay settled.
_SETTLED_AGAIN: Final = 3
#: The lines about a controller's loading may be written after it accepts changes.
_LINES_S: Final = 5.0
_POLL_S: Final = 0.02
#: Columns of /proc/PID/net/dev (proc(5)).
_RECEIVED: Final = 0
_SENT: Final = 8
_SIGNALS: Final = {FailoverEnding.KILL: signal.SIGKILL, FailoverEnding.STOP: signal.SIGTERM}


async def measure(cluster: FailoverCluster, ending: FailoverEnding, names: str) -> FailoverSample:
    """End the active controller of a settled cluster and await recovery; start it again and settle.

    Raises HarnessError when nobody stays active beforehand, or when the cluster does not settle afterwards.
    """
    ended, metadata = await connected(cluster, names)
    node = cluster.nodes[ended]
    produce = ProduceProbe(
        [ProduceLine(address) for name, address in cluster.brokers.items() if name != ended], cluster.partitions
    )
    logs = {name: other.log.stat().st_size for name, other in cluster.nodes.items() if name in cluster.controllers}
    try:
        sample = await _end(cluster, node, ending, metadata, produce, logs)
    finally:
        metadata.close()
        produce.close()
        # Tells the runtime of an end that it did not cause; also ends a node that would not stop.
        await node.kill()
    await node.start()
    await cluster.settle()
    began = time.monotonic()
    await cluster.remove(metadata.made)
    print(f"removed {len(metadata.made)} topics of the probe in {time.monotonic() - began:.1f} s", file=sys.stderr)
    return sample


async def connected(cluster: FailoverCluster, names: str) -> tuple[str, MetadataProbe]:
    """Find the active controller of a settled cluster, and connect a probe to the other nodes.

    Sessions of 2 s are short: when the machine stalls for a moment after the cluster has settled, another controller
    may be elected, or a connection may be late. Then the cluster is settled again, so that one moment does not cost
    all endings of the cell.
    """
    for _ in range(_SETTLED_AGAIN):
        ended = await cluster.active()
        if ended is not None:
            metadata = MetadataProbe({n: a for n, a in cluster.controllers.items() if n != ended}, names)
            try:
                await metadata.open()
            except (Definite, OSError, TimeoutError) as error:
                metadata.close()
                print(f"not connected to every node that may take over: {error!r}", file=sys.stderr, flush=True)
            else:
                return ended, metadata
        await cluster.settle()
    raise HarnessError(f"{cluster.cell.name}: no single active controller although the cluster has settled")


async def _end(
    cluster: FailoverCluster,
    node: Node,
    ending: FailoverEnding,
    metadata: MetadataProbe,
    produce: ProduceProbe,
    logs: dict[str, int],
) -> FailoverSample:
    pid = node.pid
    if pid is None:
        raise HarnessError(f"{node.name} was gone before it could be ended")
    before = {name: _passed(other) for name, other in cluster.nodes.items() if name in cluster.controllers}
    zero = time.monotonic()
    processes.signal_group(pid, _SIGNALS[ending])
    exited: list[float] = []
    missing: list[str] = []
    try:
        async with asyncio.timeout(RECOVERY_S):
            await gathered([metadata.run(), produce.run(), _await_exit(node, exited)])
    except TimeoutError:
        if metadata.accepted_at is None:
            missing.append(f"no metadata change was accepted within {RECOVERY_S:g} s")
        if produce.pending:
            missing.append(f"{len(produce.pending)} partitions acknowledged nothing within {RECOVERY_S:g} s")
        if not exited:
            missing.append(f"the process did not end within {RECOVERY_S:g} s and was then killed")
    successor = metadata.accepted_by
    pushed, fetched = _between(before.get(successor or ""), None if successor is None else cluster.nodes[successor])
    load_s = None if successor is None else await _load_time(cluster, successor, logs[successor])
    if successor is not None and load_s is None:
        missing.append(f"the log of {successor} does not say how long it loaded")
    return FailoverSample(
        system=cluster.cell.system,
        partitions=cluster.cell.partitions,
        ending=ending,
        ended=node.name,
        successor=successor,
        metadata_s=None if metadata.accepted_at is None else metadata.accepted_at - zero,
        produce_s=None if produce.pending or produce.last_at is None else produce.last_at - zero,
        load_s=load_s,
        exit_s=exited[0] - zero if exited else None,
        pushed_bytes=pushed,
        fetched_bytes=fetched,
        missing=tuple(missing),
        refusals=dict(metadata.refusals + produce.refusals),
    )


def _passed(node: Node) -> tuple[int, int] | None:
    """The bytes that a node has sent and received over its links so far; None where its network does not tell."""
    try:
        lines = Path(f"/proc/{node.pid}/net/dev").read_text(encoding="ascii").splitlines()[2:]
    except OSError:
        return None
    counters = [line.partition(":")[2].split() for line in lines if line.partition(":")[0].strip() != "lo"]
    return sum(int(own[_SENT]) for own in counters), sum(int(own[_RECEIVED]) for own in counters)


def _between(before: tuple[int, int] | None, node: Node | None) -> tuple[int | None, int | None]:
    after = None if node is None else _passed(node)
    return (None, None) if before is None or after is None else (after[0] - before[0], after[1] - before[1])


async def _await_exit(node: Node, exited: list[float]) -> None:
    while node.pid is not None:
        await asyncio.sleep(_POLL_S)
    exited.append(time.monotonic())


async def _load_time(cluster: FailoverCluster, successor: str, from_byte: int) -> float | None:
    deadline = time.monotonic() + _LINES_S
    while True:
        with cluster.nodes[successor].log.open("rb") as file:
            file.seek(from_byte)
            load_s = load_time_s(cluster.failover.loading, file.read().decode(errors="replace"))
        if load_s is not None or time.monotonic() > deadline:
            return load_s
        await asyncio.sleep(_POLL_S)
