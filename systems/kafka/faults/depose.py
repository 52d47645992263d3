"""A controller on ZooKeeper that is superseded within its session, and wakes with work to do (KAFKA-6082).

A pause that is longer than the session leaves a controller without one, so nothing that it tries on waking reaches
anybody. Here the controller keeps its session:

1. It is paused.
2. A topic is created in ZooKeeper; this is the first news that the controller gets when it wakes.
3. Its znode /controller is deleted, as administrators do to force an election.
4. When another broker has been elected and `for` has passed, the first one is resumed.

It then starts to lead the new topic. Only the check of /controller_epoch keeps it from changing the metadata.

Pause and election together must take less than two thirds of the session, or the controller's ZooKeeper client gives up
the connection. So `for` is short; a longer session (`-O zk_session=6s`) leaves room on a busy machine.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Final

from fencepost.harness.base.options import seconds
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.faults.fault_options import FaultOptions
from fencepost.harness.faults.kind import Act, FaultKind, FaultSpec, Proof, Resolved, Skip, View
from fencepost.harness.history import Effects, FaultOutcome, Stops
from fencepost.harness.runtime.node import NodeState
from fencepost.harness.runtime.provider import Need
from fencepost.nemesis.process.pause import Pause
from fencepost.systems.kafka.contract.deposing import Administrator, DeposesController

_ELECTION_DEADLINE_S: Final = 3.0


class Depose(FaultKind):
    name = "depose"
    about = "the controller is paused and its znode deleted, until another one is elected"
    targets: Mapping[str, str] = {"controller": "the broker that acts as the controller"}
    default_target = "controller"
    options = FaultOptions(for_=seconds(0.2))
    holds = frozenset({"process"})
    needs = frozenset({Need.FREEZE, "open-administrator"})
    for_all = ("depose:controller",)

    def __init__(self) -> None:
        self._pause = Pause()

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(stops=Stops.CERTAIN)

    def resolve(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
        if view.leader is None:
            return Skip("no broker was known to be the controller")
        return Resolved(nodes=(view.leader,))

    async def inject(self, act: Act) -> Proof:
        system, nodes = act.cluster.system, act.cluster.runtime.nodes.values()
        assert isinstance(system, DeposesController), "refused before the run"
        administrator = await system.open_administrator([n.place for n in nodes if n.state is NodeState.RUNNING])
        try:
            paused = await self._pause.inject(act)
            if paused.outcome is not FaultOutcome.INSTALLED:
                return paused
            return await _supersede(administrator, act, paused.text)
        except (Definite, Indefinite, TimeoutError) as error:
            return Proof(FaultOutcome.INDETERMINATE, f"ZooKeeper did not do it: {str(error) or 'in time'}")
        finally:
            administrator.close()

    async def heal(self, act: Act) -> Proof:
        return await self._pause.heal(act)


async def _supersede(administrator: Administrator, act: Act, paused: str) -> Proof:
    node = act.resolved.nodes[0]
    held = await administrator.controller()
    if held is None or held[0] != node:
        return Proof(FaultOutcome.INDETERMINATE, f"/controller names {held[0] if held else 'nobody'}, not {node}")
    await administrator.make_topic(f"deposed-{act.fault_id}")
    await administrator.depose(held[1])
    async with asyncio.timeout(_ELECTION_DEADLINE_S):
        successor, epoch = await administrator.successor(node)
    return Proof(FaultOutcome.INSTALLED, f"{paused}; /controller deleted; {successor} elected in epoch {epoch}")
