"""Moves the leadership of a cluster: asks the system where it hands over on request, else restarts the leader.

One round is one move, recorded as a part of the fault. Its proof is a node that leads in a higher epoch.
"""

import asyncio
import random
from dataclasses import dataclass
from typing import Final

from fencepost.harness.contract.leadership import MovesLeadership
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.faults.kind import Act, Cluster, Proof, Resolved, Skip, View
from fencepost.harness.faults.restarts import started_again
from fencepost.harness.faults.rounds import PATIENCE_S, Play, Rounds
from fencepost.harness.history import FaultOutcome
from fencepost.harness.runtime.node import NodeState

_ASK_S: Final = 3.0
#: Longest wait for a new leader; below the conductor's limit for one act.
_MOVED_S: Final = 8.0
_LOOK_S: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderMoves:
    """Moves of a cluster's leadership; `by` says how, `seed` draws the next leader."""

    every_ns: int
    seed: int
    by: str

    def play(self, act: Act) -> Play | str:
        """Return what one round does: one move. Return a text when no move is possible, which says why."""
        cluster = act.cluster
        asks = isinstance(cluster.system, MovesLeadership)
        if self.by == "ask" and not asks:
            return f"{cluster.system.profile.name} does not move its leadership on request"
        restarts = self.by == "restart" or not asks
        draw = random.Random(self.seed)
        every_s = self.every_ns / 1e9

        async def move(number: int, rounds: Rounds) -> None:
            began_s = asyncio.get_running_loop().time()
            pair = _next(act, draw.random(), restarts=restarts)
            if isinstance(pair, Skip):
                await asyncio.sleep(PATIENCE_S)
                return
            leader, to = pair
            details: dict[str, str | int] = {"move": rounds.count, "by": "restart" if restarts else "ask"}
            await act.part(
                Resolved(nodes=(leader,), details=details if restarts else {**details, "to": to}),
                inject=lambda _: rounds.proven(
                    _restarted(leader, cluster) if restarts else _handed_over(leader, to, cluster)
                ),
                heal=lambda part: started_again(part.nodes),
            )
            await asyncio.sleep(max(began_s + every_s - asyncio.get_running_loop().time(), 0.0))

        return move


def _next(act: Act, preference: float, *, restarts: bool) -> tuple[str, str] | Skip:
    """Choose the leader and its successor; both must run, and no other fault may act on them."""
    cluster, view = act.cluster, act.cluster.view()
    if view.leader is None:
        return Skip("no node was known to lead")
    busy = act.disturbed() | view.unready
    running = {name for name, node in cluster.runtime.nodes.items() if node.state is NodeState.RUNNING}
    free = [node for node in view.voters if node in running - busy]
    others = [node for node in free if node != view.leader]
    if view.leader not in running - busy or not others:
        return Skip("another fault acts on the leader, or on every node that could take over")
    if restarts and view.leader in view.voters and len(others) <= len(view.voters) // 2:
        return Skip("too few other nodes run to elect a leader")
    return view.leader, others[int(preference * len(others))]


async def _handed_over(leader: str, to: str, cluster: Cluster) -> Proof:
    system = cluster.system
    assert isinstance(system, MovesLeadership)
    before, layout = cluster.view(), cluster.runtime.layout
    asked_ns = cluster.records.now_ns()
    try:
        await system.move_leadership(layout[leader], layout[to], timeout_s=_ASK_S)
    except Definite as error:
        return Proof(FaultOutcome.SKIPPED, f"{leader} will not hand over to {to}: {error}")
    except Indefinite as error:
        return await _moved(before, cluster, asked_ns, f"{leader} was asked to hand over to {to} ({error})")
    return await _moved(before, cluster, asked_ns, f"{leader} handed over to {to}")


async def _restarted(leader: str, cluster: Cluster) -> Proof:
    before, node = cluster.view(), cluster.runtime.nodes[leader]
    asked_ns = cluster.records.now_ns()
    await node.kill()
    await node.start()
    return await _moved(before, cluster, asked_ns, f"{leader} was killed and started again")


async def _moved(before: View, cluster: Cluster, asked_ns: int, done: str) -> Proof:
    """Wait until a node leads in a higher epoch; a restarted leader may be elected again."""
    deadline_ns = asked_ns + round(_MOVED_S * 1e9)
    while True:
        view, now_ns = cluster.view(), cluster.records.now_ns()
        if view.leader is not None and _later(before, view):
            took_ms = (now_ns - asked_ns) / 1e6
            return Proof(
                FaultOutcome.INSTALLED, f"{done}; {view.leader} led in epoch {view.epoch} after {took_ms:.0f} ms"
            )
        if now_ns > deadline_ns:
            return Proof(FaultOutcome.INDETERMINATE, f"{done}; no higher epoch was seen within {_MOVED_S:g} s")
        await asyncio.sleep(_LOOK_S)


def _later(before: View, now: View) -> bool:
    if before.epoch is None or now.epoch is None:
        return now.leader != before.leader
    return now.epoch > before.epoch
