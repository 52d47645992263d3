"""Moves the leadership of topic partitions: off a broker that is killed, and back by a preferred election (KIP-460).

When every partition is led by its preferred broker, the broker that leads most partitions is killed until others lead
them, and then restarted. When some partitions are led by other brokers, the cluster is asked to elect the preferred
ones. Higher leader epochs prove either move.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.faults.kind import Act, Cluster, FaultSpec, Proof, Resolved, Skip, View
from fencepost.harness.faults.restarts import started_again
from fencepost.harness.faults.rounds import PATIENCE_S, FaultRounds, Play
from fencepost.harness.history import FaultOutcome
from fencepost.harness.runtime.node import NodeState
from fencepost.harness.runtime.provider import Placement
from fencepost.nemesis.leadership.churn import ChurnOptions
from fencepost.systems.kafka.contract.partition_leaders import LeadsPartitions, PartitionReign

_BROKER: Final = "broker"
_ASK_S: Final = 2.0
#: Longest wait for new leaders; below the conductor's limit for one act.
_MOVED_S: Final = 8.0
_LOOK_S: Final = 0.1
_SHOWN: Final = 3

#: Whether a partition has moved as intended, by its reign before and its reign now.
_Moved = Callable[[PartitionReign, PartitionReign], bool]


def _moves(act: Act) -> Play:
    """Return what one round does: one move."""
    draw, cluster = random.Random(act.resolved.seed), act.cluster

    async def move(number: int, rounds: FaultRounds) -> None:
        step = await _next(act, draw.random())
        if isinstance(step, Skip):
            await asyncio.sleep(PATIENCE_S)
            return
        broker, before = step
        details = {"move": rounds.count, "by": "restart" if broker else "ask", "partitions": len(before)}
        await act.part(
            Resolved(nodes=(broker,) if broker else (), details=details),
            inject=lambda _: rounds.proven(
                _moved_off(broker, before, cluster) if broker else _given_back(before, cluster)
            ),
            heal=lambda part: started_again(part.nodes) if broker else _nothing(),
        )
        await asyncio.sleep(act.options(ChurnOptions).every / 1e9)

    return move


class _Partitions:
    """The target `churn:partitions`."""

    about = "the leaders of topic partitions: a broker is restarted, a preferred election moves them back"

    def refuse(self, spec: FaultSpec, placement: Placement) -> Refusal | None:
        if sum(_BROKER in member.roles for member in placement.cluster) < 2:
            return Refusal(
                "leaders of topic partitions can move only where there are two brokers or more", "give -O brokers=2"
            )
        if spec.own(ChurnOptions).by != "auto":
            return Refusal(
                "by= is not possible here: partitions move by a restart, and back on request", "leave out by="
            )
        if len(placement.cluster) < 3:
            return Refusal("with fewer than three nodes nobody can take over", "give --nodes 3")
        return None

    def resolve(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
        every_ns, seed = int(spec.own(ChurnOptions).every), draw.getrandbits(32)
        details: dict[str, str | int] = {"every_ms": every_ns // 10**6, "churn_seed": seed, "of": "partitions"}
        return Resolved(nodes=(), seed=seed, means=_moves, details=details)


PARTITIONS: Final = _Partitions()


async def _next(act: Act, preference: float) -> tuple[str | None, dict[str, PartitionReign]] | Skip:
    """Choose the broker to kill and its partitions; or None and the partitions to give back."""
    cluster, system = act.cluster, act.cluster.system
    assert isinstance(system, LeadsPartitions), "refused before the run"
    try:
        reigns = await system.partition_reigns(cluster.runtime.layout, timeout_s=_ASK_S)
    except (Definite, Indefinite) as error:
        return Skip(f"no broker says who leads which partition: {error}")
    away = {name: reign for name, reign in reigns.items() if reign.preferred and reign.leader != reign.preferred}
    if away:
        ready = {name: reign for name, reign in away.items() if reign.in_sync}
        return (None, ready) if len(ready) == len(away) else Skip("a preferred leader is not in sync yet")
    busy = act.disturbed() | cluster.view().unready
    led = Counter(reign.leader for reign in reigns.values() if reign.leader)
    free = [name for name in led if name not in busy and cluster.runtime.nodes[name].state is NodeState.RUNNING]
    if len(free) < 2:
        return Skip("fewer than two brokers lead partitions and are free")
    most = max(led[name] for name in free)
    fullest = sorted(name for name in free if led[name] == most)
    broker = fullest[int(preference * len(fullest))]
    return broker, {name: reign for name, reign in reigns.items() if reign.leader == broker}


async def _moved_off(broker: str, before: Mapping[str, PartitionReign], cluster: Cluster) -> Proof:
    await cluster.runtime.nodes[broker].kill()
    return await _until(before, cluster, f"{broker} was killed", lambda old, new: new.leader not in (None, old.leader))


async def _given_back(before: Mapping[str, PartitionReign], cluster: Cluster) -> Proof:
    system = cluster.system
    assert isinstance(system, LeadsPartitions), "refused before the run"
    done = "a preferred election was requested"
    try:
        await system.elect_preferred(cluster.runtime.layout, timeout_s=_ASK_S)
    except Definite as error:
        return Proof(FaultOutcome.SKIPPED, f"every broker refused a preferred election: {error}")
    except Indefinite as error:
        done = f"{done} ({error})"
    return await _until(before, cluster, done, lambda old, new: new.leader == old.preferred)


async def _until(before: Mapping[str, PartitionReign], cluster: Cluster, done: str, moved: _Moved) -> Proof:
    """Wait until every partition has moved. Some are enough for a proof, which states how many."""
    system, loop = cluster.system, asyncio.get_running_loop()
    assert isinstance(system, LeadsPartitions), "refused before the run"
    began_s = loop.time()
    there: list[str] = []
    now: Mapping[str, PartitionReign] = {}
    while loop.time() - began_s < _MOVED_S:
        try:
            now = await system.partition_reigns(cluster.runtime.layout, timeout_s=_ASK_S)
        except (Definite, Indefinite):
            now = {}
        there = [n for n, old in before.items() if n in now and now[n].epoch > old.epoch and moved(old, now[n])]
        if len(there) == len(before):
            break
        await asyncio.sleep(_LOOK_S)
    took_ms = (loop.time() - began_s) * 1e3
    shown = ", ".join(
        f"{name} to {now[name].leader} in leader epoch {now[name].epoch}" for name in there[:_SHOWN] if name in now
    )
    summary = f"{done}; {len(there)} of {len(before)} topic partitions moved within {took_ms:.0f} ms"
    if not there:
        return Proof(FaultOutcome.INDETERMINATE, summary)
    return Proof(FaultOutcome.INSTALLED, f"{summary}, such as {shown}")


async def _nothing() -> Proof:
    return Proof(FaultOutcome.HEALED, "nothing to undo")
