"""Staggered stops: several nodes go down one after another, are down together, and come back in another order.

One fault at a time never takes a second replica while the first is still away, so it finds no bug that needs two: a
leader that falls while a follower catches up, a node that comes back to another majority than the one it left. Each
wave takes every chosen node once. The time from one node to the next is drawn for each wave, from below a
heartbeat to as long as one wave still fits into the fault; so is the way in which each node stops, unless `how=`
says it: killed and restarted with its data, or paused.

Each stop is recorded as a fault of its own and a part of this one, with its proof and its healing.
"""

import asyncio
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import about, seconds
from fencepost.harness.faults.fault_options import FaultOptions
from fencepost.harness.faults.kind import NODE_TARGETS, Act, FaultKind, FaultSpec, Proof, Resolved, View
from fencepost.harness.faults.restarts import started_again
from fencepost.harness.faults.rounds import FaultRounds
from fencepost.harness.history import Effects, FaultOutcome, Stops
from fencepost.harness.runtime.node import NodeState
from fencepost.harness.runtime.provider import Need, Placement
from fencepost.nemesis.process.kill import Kill
from fencepost.nemesis.process.pause import Pause, prove_state

#: No store here sends heartbeats more often.
_STEP_NS_MIN: Final = 50_000_000
_WAYS: Final[Mapping[str, FaultKind]] = {"kill": Kill(), "pause": Pause()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One node's part of a wave: when it goes down and comes back, counted from the beginning of the wave."""

    node: str
    way: str
    down_ns: int
    back_ns: int


class StaggerOptions(FaultOptions, frozen=True, kw_only=True):
    how: Annotated[
        Literal["drawn", "kill", "pause"], about("how nodes stop: killed, paused, or drawn for each node")
    ] = "drawn"


class Stagger(FaultKind):
    name = "stagger"
    about = "several nodes go down one after another and come back in another order"
    targets: Mapping[str, str] = {
        **{name: NODE_TARGETS[name] for name in ("minority", "majority")},
        "all": "every node",
    }
    default_target = "majority"
    options = StaggerOptions(for_=seconds(6))
    holds = frozenset({"process"})
    needs = frozenset({Need.FREEZE})
    draws = True
    for_all = ("stagger:majority", "stagger:minority", "stagger:all")

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(stops=Stops.POSSIBLE)

    def refuse(self, spec: FaultSpec, placement: Placement) -> Refusal | None:
        voters = [member for member in placement.cluster if member.votes] or placement.cluster
        one = spec.target not in self.targets or (spec.target == "minority" and len(voters) < 5)
        if one or len(placement.cluster) < 2:
            return Refusal(
                f"{spec.target} is one node, and it takes two to overlap", "name majority or all, or --nodes 5"
            )
        return None

    def aim(self, spec: FaultSpec, nodes: tuple[str, ...], view: View, seed: int) -> Resolved:
        # Down and back again every node has its step, and one stands between two waves.
        step_ns_max = max(_STEP_NS_MIN, spec.duration_ns // (2 * len(nodes)))
        details = {"step_ms_max": step_ns_max // 10**6, "wave_seed": seed}
        return Resolved(nodes=nodes, seed=seed, means=step_ns_max, details=details)

    async def inject(self, act: Act) -> Proof:
        draw, how = random.Random(act.resolved.seed), act.options(StaggerOptions).how
        ways = tuple(_WAYS) if how == "drawn" else (how,)

        async def wave(number: int, rounds: FaultRounds) -> None:
            step_ns, turns = drawn_wave(act.resolved.nodes, ways, act.means(int), draw)
            async with asyncio.TaskGroup() as group:
                for turn in turns:
                    group.create_task(_stopped(turn, number, act, rounds))
            await asyncio.sleep(step_ns / 1e9)

        return await FaultRounds(wave, "stop").begin(act)

    async def heal(self, act: Act) -> Proof:
        nodes = act.nodes
        for node in nodes:
            if node.state is NodeState.PAUSED:
                await node.resume()
        running = await started_again(nodes)
        if running.outcome is FaultOutcome.HEALED:
            running = await prove_state(nodes, NodeState.RUNNING, FaultOutcome.HEALED)
        return running


def drawn_wave(
    nodes: tuple[str, ...], ways: tuple[str, ...], step_ns_max: int, draw: random.Random
) -> tuple[int, list[Turn]]:
    """Draw one wave over two nodes or more; return its step and each node's turn, in the order of going down.

    All nodes are down from the time when the last one goes down until the first one comes back, a step later. They come
    back in another order than they went down in.
    """
    step_ns = round(math.exp(draw.uniform(math.log(_STEP_NS_MIN), math.log(step_ns_max))))
    down = draw.sample(nodes, len(nodes))
    back = draw.sample(nodes, len(nodes))
    if back == down:
        back.reverse()
    turns = []
    for place, node in enumerate(down):
        back_ns = (len(nodes) + back.index(node)) * step_ns
        turns.append(Turn(node=node, way=draw.choice(ways), down_ns=place * step_ns, back_ns=back_ns))
    return step_ns, turns


async def _stopped(turn: Turn, number: int, act: Act, rounds: FaultRounds) -> None:
    """Stop one node at its time and let it run again at its time."""
    kind = _WAYS[turn.way]
    await asyncio.sleep(turn.down_ns / 1e9)
    await act.part(
        Resolved(nodes=(turn.node,), details={"wave": number, "how": turn.way}),
        inject=lambda part: rounds.proven(kind.inject(part)),
        hold_ns=turn.back_ns - turn.down_ns,
        heal=kind.heal,
    )
