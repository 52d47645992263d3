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
from fencepost.harness.faults.kind import Act, FaultKind, FaultSpec, Proof, Resolved, Skip, View
from fencepost.harness.faults.leader_moves import LeaderMoves
from fencepost.harness.faults.rounds import Play, Rounds
from fencepost.harness.history import Effects, FaultOutcome, Stops
from fencepost.harness.runtime.provider import Placement


@runtime_checkable
class Moves(Protocol):
    """Changes of leaders, one after another."""

    def play(self, act: Act) -> Play | str:
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

    async def inject(self, act: Act) -> Proof:
        moves = act.resolved.means
        assert isinstance(moves, Moves), "made by resolve"
        play = moves.play(act)
        if isinstance(play, str):
            return Proof(FaultOutcome.INDETERMINATE, play)
        return await Rounds(play, "move").begin(act)

    async def heal(self, act: Act) -> Proof:
        return Proof(FaultOutcome.HEALED, "")
