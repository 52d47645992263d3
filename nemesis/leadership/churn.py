"""Leader churn: the system is made to move its leadership, again and again, with nobody cut off, paused or lost.

Where the system hands over when asked (etcd's MoveLeader) it is asked; elsewhere the leader is killed and started again
at once, so that another one is elected while it comes back (`by=restart`, which can be asked for everywhere). Each move
is recorded as a part of this fault. Its proof is another node that leads in a higher epoch.

`churn:partitions` does so with the leaders of Kafka's topic partitions (see `partition_moves`).
"""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fencepost.harness.base.durations import parse_duration_ns
from fencepost.harness.base.errors import Refusal, UsageError
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.faults.kind import Cluster, FaultKind, FaultSpec, Proof, Resolved, Skip, View
from fencepost.harness.faults.partition_moves import given_back, moved_off, next_move
from fencepost.harness.faults.rounds import Rounds
from fencepost.harness.history import Effects, FaultOutcome, Stops
from fencepost.harness.runtime.node import NodeState
from fencepost.harness.runtime.provider import Setting
from fencepost.harness.systems.contract.leadership import MovesLeadership

_EVERY: Final = "1500ms"
_PARTITIONS: Final = "partitions"
_BROKER: Final = "broker"
_ASK_S: Final = 3.0
#: Until another one leads; below the conductor's limit for one act.
_MOVED_S: Final = 8.0
_LOOK_S: Final = 0.01
_PATIENCE_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moves:
    """How often leadership is moved, and how (`by`); `seed` draws to whom."""

    every_ns: int
    seed: int
    by: str = ""
    of_partitions: bool = False


class Churn(FaultKind):
    name = "churn"
    about = "leadership moved again and again: by asking the system, else by restarting its leader"
    targets: Mapping[str, str] = {
        "leader": "whoever leads at each move",
        _PARTITIONS: "the leaders of topic partitions: off a broker that is restarted, back by a preferred election",
    }
    default_target = "leader"
    options: Mapping[str, tuple[str, ...]] = {"by": ("auto", "ask", "restart"), "every": (), "for": ()}
    default_duration_ns = 6_000_000_000
    holds = frozenset({"process"})
    for_all = ("churn:leader", "churn:partitions")

    def __init__(self) -> None:
        self._rounds: dict[int, Rounds] = {}

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(stops=Stops.POSSIBLE)

    def refuse(self, spec: FaultSpec, setting: Setting) -> Refusal | None:
        if spec.target == _PARTITIONS:
            if sum(_BROKER in member.roles for member in setting.cluster) < 2:
                return Refusal("topic partitions have leaders where there are two brokers or more")
            if spec.options.get("by", "auto") != "auto":
                return Refusal("leave out by=: partitions move by a restart and back by being asked")
        elif spec.target != "leader":
            return Refusal("it moves the leadership, whoever leads", "leave the target out")
        if len(setting.cluster) < 3:
            return Refusal("with fewer than three nodes nobody can take over")
        try:
            parse_duration_ns(spec.options.get("every", _EVERY), what="every=")
        except UsageError as error:
            return Refusal(error.message, error.hint)
        return None

    def resolve(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
        seed = draw.getrandbits(32)
        every_ns = parse_duration_ns(spec.options.get("every", _EVERY))
        details: dict[str, str | int] = {"every_ms": every_ns // 10**6, "churn_seed": seed}
        if spec.target == _PARTITIONS:
            moves = _Moves(every_ns=every_ns, seed=seed, of_partitions=True)
            return Resolved(nodes=(), means=moves, details={**details, "of": _PARTITIONS})
        if view.leader is None:
            return Skip("no node was known to lead")
        moves = _Moves(every_ns=every_ns, seed=seed, by=spec.options.get("by", "auto"))
        return Resolved(nodes=(view.leader,), means=moves, details={**details, "by": moves.by})

    async def inject(self, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof:
        moves = resolved.own(_Moves)
        if moves.of_partitions:
            return await self._move_partitions(fault_id, moves, cluster)
        by = moves.by
        asks = isinstance(cluster.system, MovesLeadership)
        if by == "ask" and not asks:
            return Proof(
                FaultOutcome.INDETERMINATE, f"{cluster.system.profile.name} moves no leadership when it is asked to"
            )
        restarts = by == "restart" or not asks
        draw = random.Random(moves.seed)
        every_s = moves.every_ns / 1e9

        async def move(number: int, rounds: Rounds) -> None:
            began_s = asyncio.get_running_loop().time()
            preference = draw.random()
            found = _next(cluster, fault_id, preference, restarts=restarts)
            if isinstance(found, Skip):
                await asyncio.sleep(_PATIENCE_S)
                return
            leader, to = found
            assert cluster.parts is not None
            details: dict[str, str | int] = {"move": rounds.count, "by": "restart" if restarts else "ask"}
            part = Resolved(nodes=(leader,), details=details if restarts else {**details, "to": to})
            await cluster.parts.part(
                fault_id,
                part,
                inject=lambda _: rounds.proven(
                    _restarted(leader, cluster) if restarts else _asked(leader, to, cluster)
                ),
                hold_ns=0,
                heal=lambda _: _running(leader, cluster),
            )
            await asyncio.sleep(max(began_s + every_s - asyncio.get_running_loop().time(), 0.0))

        rounds = self._rounds[fault_id] = Rounds(move)
        return await rounds.begin()

    async def _move_partitions(self, fault_id: int, moves: _Moves, cluster: Cluster) -> Proof:
        draw = random.Random(moves.seed)
        every_s = moves.every_ns / 1e9

        async def move(number: int, rounds: Rounds) -> None:
            found = await next_move(cluster, fault_id, draw.random())
            if isinstance(found, Skip):
                await asyncio.sleep(_PATIENCE_S)
                return
            broker, before = found
            assert cluster.parts is not None
            details = {"move": rounds.count, "by": "restart" if broker else "ask", "partitions": len(before)}
            await cluster.parts.part(
                fault_id,
                Resolved(nodes=(broker,) if broker else (), details=details),
                inject=lambda _: rounds.proven(
                    moved_off(broker, before, cluster) if broker else given_back(before, cluster)
                ),
                hold_ns=0,
                heal=lambda _: _running(broker, cluster) if broker else _nothing(),
            )
            await asyncio.sleep(every_s)

        rounds = self._rounds[fault_id] = Rounds(move)
        return await rounds.begin()

    async def heal(self, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof:
        rounds = self._rounds.pop(fault_id, None)
        if rounds is None:
            return Proof(FaultOutcome.HEALED, "never begun, or healed before")
        await rounds.end()
        if rounds.failure is not None:
            return Proof(FaultOutcome.INDETERMINATE, f"{rounds.failure}; {rounds.words('move')}")
        return Proof(FaultOutcome.HEALED, rounds.words("move"))


def _next(cluster: Cluster, fault_id: int, preference: float, *, restarts: bool) -> tuple[str, str] | Skip:
    """Who leads and who is to take over; both must run, and nobody else may be at work on them."""
    view = cluster.view()
    if view.leader is None:
        return Skip("no node was known to lead")
    busy = cluster.disturbed(fault_id) | view.unready
    running = {name for name, node in cluster.runtime.nodes.items() if node.state is NodeState.RUNNING}
    free = [node for node in view.voters if node in running - busy]
    others = [node for node in free if node != view.leader]
    if view.leader not in running - busy or not others:
        return Skip("another fault is at work on the leader, or on all who could take over")
    if restarts and view.leader in view.voters and len(others) <= len(view.voters) // 2:
        return Skip("the others are too few to elect")
    return view.leader, others[int(preference * len(others))]


async def _asked(leader: str, to: str, cluster: Cluster) -> Proof:
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
    """Wait until a node leads in a higher epoch; in a restarted leader's case it may be the same node again."""
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


async def _nothing() -> Proof:
    return Proof(FaultOutcome.HEALED, "nothing to undo")


async def _running(leader: str, cluster: Cluster) -> Proof:
    """After a move nothing is left to undo; a restart that was interrupted is finished."""
    node = cluster.runtime.nodes[leader]
    if node.state is NodeState.DEAD:
        await node.start()
    seen = await node.evidence()
    healed = seen.state is NodeState.RUNNING
    return Proof(FaultOutcome.HEALED if healed else FaultOutcome.INDETERMINATE, f"{leader}: {seen.text}")
