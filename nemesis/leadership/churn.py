"""Leader churn: the leadership moves again and again, while no node is cut off, paused or lost.

A system that hands over on request (etcd's MoveLeader) is asked to. Elsewhere the leader is killed and restarted at
once, so that another node is elected while it comes back; `by=restart` does so everywhere. Each move is recorded as a
part of this fault. Its proof is a node that leads in a higher epoch.

A system may add a target whose leaders are others; its `means` say what one round does (`Moves`).
"""

import random
from collections.abc import Mapping
from typing import Annotated, Literal, Protocol, runtime_checkable

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.faults.fault_options import FaultOptions
from fencepost.harness.faults.kind import Cluster, FaultKind, FaultSpec, Proof, Resolved, Skip, View
from fencepost.harness.faults.leader_moves import LeaderMoves
from fencepost.harness.faults.rounds import Play, Rounds
from fencepost.harness.history import Effects, FaultOutcome, Stops
from fencepost.harness.runtime.provider import Placement


@runtime_checkable
class Moves(Protocol):
    """Changes of leaders, one after another."""

    def play(self, fault_id: int, cluster: Cluster) -> Play | str:
        """Return what one round does, or why there is nothing to do."""
        ...


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
    }
    default_target = "leader"
    options = ChurnOptions(for_=seconds(6))
    holds = frozenset({"process"})
    for_all = ("churn:leader",)

    def __init__(self) -> None:
        self._rounds: dict[int, Rounds] = {}

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(stops=Stops.POSSIBLE)

    def refuse(self, spec: FaultSpec, placement: Placement) -> Refusal | None:
        if spec.target != "leader":
            return Refusal("it moves the leadership of whichever node leads", "leave the target out")
        if len(placement.cluster) < 3:
            return Refusal("with fewer than three nodes nobody can take over")
        return None

    def resolve(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
        seed = draw.getrandbits(32)
        options = spec.own(ChurnOptions)
        every_ns = int(options.every)
        details: dict[str, str | int] = {"every_ms": every_ns // 10**6, "churn_seed": seed}
        if view.leader is None:
            return Skip("no node was known to lead")
        moves = LeaderMoves(every_ns=every_ns, seed=seed, by=options.by)
        return Resolved(nodes=(view.leader,), means=moves, details={**details, "by": moves.by})

    async def inject(self, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof:
        moves = resolved.means
        assert isinstance(moves, Moves), "made by resolve"
        play = moves.play(fault_id, cluster)
        if isinstance(play, str):
            return Proof(FaultOutcome.INDETERMINATE, play)
        rounds = self._rounds[fault_id] = Rounds(play)
        return await rounds.begin()

    async def heal(self, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof:
        rounds = self._rounds.pop(fault_id, None)
        if rounds is None:
            return Proof(FaultOutcome.HEALED, "it never began, or was healed before")
        await rounds.end()
        if rounds.failure is not None:
            return Proof(FaultOutcome.INDETERMINATE, f"{rounds.failure}; {rounds.summary('move')}")
        return Proof(FaultOutcome.HEALED, rounds.summary("move"))
