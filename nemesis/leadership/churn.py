"""Leader churn: the leadership moves again and again, while no node is cut off, paused or lost.

A system that hands over on request (etcd's MoveLeader) is asked to. Elsewhere the leader is killed and restarted at
once, so that another node is elected while it comes back; `by=restart` does so everywhere. Each move is recorded as a
part of this fault. Its proof is a node that leads in a higher epoch.

`churn:returned` moves it to the node that another fault has just given back, as soon as that node can take it.

A system may add a target whose leaders are others; its `means` say what one round does (`Moves`).
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Final, Literal

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.faults.fault_options import FaultOptions
from fencepost.harness.faults.kind import (
    NODE_TARGETS,
    RETURNED,
    Act,
    Cluster,
    FaultKind,
    FaultSpec,
    Proof,
    Resolved,
    Skip,
    View,
    choose_nodes,
)
from fencepost.harness.faults.restarts import started_again
from fencepost.harness.faults.rounds import PATIENCE_S, FaultRounds, Play
from fencepost.harness.history import Effects, FaultOutcome, Stops
from fencepost.harness.runtime.node import NodeState
from fencepost.harness.runtime.provider import Placement

_ASK_S: Final = 3.0
#: Longest wait for a new leader; below the conductor's limit for one act.
_MOVED_S: Final = 8.0
#: The same after an answer that did not come: a node that has just come back may not take the leadership yet.
_UNANSWERED_S: Final = 1.0
_LOOK_S: Final = 0.01


#: Returns what one round does: one move. Returns a text when no move is possible, which says why.
Moves = Callable[[Act], Play | str]


class ChurnOptions(FaultOptions, frozen=True, kw_only=True):
    by: Annotated[
        Literal["auto", "ask", "restart"],
        about("how the leader changes; auto asks where the system hands over on request"),
    ] = "auto"
    every: Annotated[Duration, about("time from one change of leader to the next")] = seconds(1.5)


class Churn(FaultKind):
    name = "churn"
    about = "the system is made to change its leader again and again, by request or by a restart"
    targets: Mapping[str, str] = {
        "leader": "whoever leads at each move",
        RETURNED: NODE_TARGETS[RETURNED],
    }
    default_target = "leader"
    options = ChurnOptions(for_=seconds(6))
    holds = frozenset({"process"})
    for_all = ("churn:leader",)
    on_return = ("churn:returned:every=300ms:for=2s",)

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(stops=Stops.POSSIBLE)

    def refuse(self, spec: FaultSpec, placement: Placement) -> Refusal | None:
        if spec.target == RETURNED:
            if placement.system is not None and placement.system.move_leadership is None:
                return Refusal(f"{placement.system_name} does not move its leadership on request", "churn:leader")
        elif spec.target != "leader":
            return Refusal("it moves the leadership of whichever node leads", "leave the target out")
        if len(placement.cluster) < 3:
            return Refusal("with fewer than three nodes nobody can take over", "give --nodes 3")
        return None

    def resolve(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
        seed, options = draw.getrandbits(32), spec.own(ChurnOptions)
        if view.leader is None:
            return Skip("no node was known to lead")
        details = {"every_ms": options.every // 10**6, "churn_seed": seed, "by": options.by}
        if spec.target != RETURNED:
            return Resolved(nodes=(view.leader,), seed=seed, means=_leader_moves, details=details)
        chosen = choose_nodes(RETURNED, view, draw)
        if isinstance(chosen, Skip):
            return chosen
        if view.leader in chosen:
            return Skip(f"{view.leader} leads already")
        moves = partial(_leader_moves, to=chosen[0])
        return Resolved(nodes=(view.leader,), seed=seed, means=moves, details={**details, "to": chosen[0]})

    async def inject(self, act: Act) -> Proof:
        moves = act.resolved.means
        assert callable(moves), "made by resolve"
        play = moves(act)
        if isinstance(play, str):
            return Proof(FaultOutcome.INDETERMINATE, play)
        return await FaultRounds(play, "move").begin(act)

    async def heal(self, act: Act) -> Proof:
        return Proof(FaultOutcome.HEALED, "")


def _leader_moves(act: Act, to: str = "") -> Play | str:
    """Ask the system where it hands over on request, else restart the leader."""
    cluster, options = act.cluster, act.options(ChurnOptions)
    asks = cluster.system.move_leadership is not None
    if options.by == "ask" and not asks:
        return f"{cluster.system.profile.name} does not move its leadership on request"
    restarts = not to and (options.by == "restart" or not asks)
    draw = random.Random(act.resolved.seed)

    async def move(number: int, rounds: FaultRounds) -> None:
        began_s = asyncio.get_running_loop().time()
        pair = _next(act, draw.random(), restarts=restarts, to=to)
        if isinstance(pair, Skip):
            await asyncio.sleep(PATIENCE_S)
            return
        leader, successor = pair
        details: dict[str, str | int] = {"move": rounds.count, "by": "restart" if restarts else "ask"}
        await act.part(
            Resolved(nodes=(leader,), details=details if restarts else {**details, "to": successor}),
            inject=lambda _: rounds.proven(
                _restarted(leader, cluster) if restarts else _handed_over(leader, successor, cluster)
            ),
            heal=lambda part: started_again(part.nodes),
        )
        await asyncio.sleep(max(began_s + options.every / 1e9 - asyncio.get_running_loop().time(), 0.0))

    return move


def _next(act: Act, preference: float, *, restarts: bool, to: str) -> tuple[str, str] | Skip:
    """Choose the leader and its successor, `to` if given; both must run, and no other fault may act on them."""
    cluster, view = act.cluster, act.cluster.view()
    if view.leader is None:
        return Skip("no node was known to lead")
    busy = act.disturbed() | view.unready
    running = {name for name, node in cluster.runtime.nodes.items() if node.state is NodeState.RUNNING}
    free = [node for node in view.voters if node in running - busy]
    others = [node for node in free if node != view.leader and to in ("", node)]
    if view.leader not in running - busy or not others:
        return Skip("another fault acts on the leader, or on every node that could take over")
    if restarts and view.leader in view.voters and len(others) <= len(view.voters) // 2:
        return Skip("too few other nodes run to elect a leader")
    return view.leader, others[int(preference * len(others))]


async def _handed_over(leader: str, to: str, cluster: Cluster) -> Proof:
    system = cluster.system
    assert system.move_leadership is not None, "a system that does not move its leadership is restarted"
    before, layout = cluster.view(), cluster.runtime.layout
    asked_ns = cluster.records.now_ns()
    try:
        await system.move_leadership(layout[leader], layout[to], timeout_s=_ASK_S)
    except Definite as error:
        return Proof(FaultOutcome.SKIPPED, f"{leader} will not hand over to {to}: {error}")
    except Indefinite as error:
        text = f"{leader} was asked to hand over to {to} ({error})"
        return await _moved(before, cluster, asked_ns, text, within_s=_ASK_S + _UNANSWERED_S)
    return await _moved(before, cluster, asked_ns, f"{leader} handed over to {to}")


async def _restarted(leader: str, cluster: Cluster) -> Proof:
    before, node = cluster.view(), cluster.runtime.nodes[leader]
    asked_ns = cluster.records.now_ns()
    await node.kill()
    await node.start()
    return await _moved(before, cluster, asked_ns, f"{leader} was killed and started again")


async def _moved(before: View, cluster: Cluster, asked_ns: int, done: str, *, within_s: float = _MOVED_S) -> Proof:
    """Wait until a node leads in a higher epoch; a restarted leader may be elected again."""
    deadline_ns = asked_ns + round(within_s * 1e9)
    while True:
        view, now_ns = cluster.view(), cluster.records.now_ns()
        if view.leader is not None and _later(before, view):
            took_ms = (now_ns - asked_ns) / 1e6
            return Proof(
                FaultOutcome.INSTALLED, f"{done}; {view.leader} led in epoch {view.epoch} after {took_ms:.0f} ms"
            )
        if now_ns > deadline_ns:
            return Proof(FaultOutcome.INDETERMINATE, f"{done}; no higher epoch was seen within {within_s:g} s")
        await asyncio.sleep(_LOOK_S)


def _later(before: View, now: View) -> bool:
    if before.epoch is None or now.epoch is None:
        return now.leader != before.leader
    return now.epoch > before.epoch
