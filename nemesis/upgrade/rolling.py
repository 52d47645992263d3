"""Rolling restarts: nodes are ended and started again one by one, as an operator would do it.

A node is restarted only when all other nodes serve, so at most one node is down at a time. With `to=VERSION` each node
starts again as that release: an upgrade, or a downgrade, under load. The binaries of that release are fetched or built
before the cluster starts. Nodes keep the new release; with `back=yes` healing rolls them back one by one. With
`finish=yes` the cluster's features are raised after the last restart, which ends an upgrade of Kafka: no node can go
back then.

Each restart is recorded as a part of this fault. The injection is proven by the process being gone, the healing by a
new process that serves and reports its release. When `for=` ends before the last restart, the remaining nodes are left
as they are, and the proof says so. Healing leaves every node running.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.contract.membership import RaisesFeatures
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.faults.fault_options import FaultOptions
from fencepost.harness.faults.kind import (
    NODE_TARGETS,
    Cluster,
    FaultKind,
    FaultSpec,
    Proof,
    ReleaseChange,
    Resolved,
    Skip,
    View,
    choose_nodes,
)
from fencepost.harness.faults.version_change import changed
from fencepost.harness.history import Effects, FaultOutcome, Stops
from fencepost.harness.runtime.node import NodeState
from fencepost.harness.runtime.provider import Placement
from fencepost.nemesis.upgrade.restart import Release, Restart, until

#: Longest wait for all other nodes to serve, before the next restart.
_OTHERS_S: Final = 10.0
#: Longest wait for a known leader, where the order depends on it.
_LEADER_S: Final = 2.0
#: Longest wait for the cluster's features to be raised.
_FEATURES_S: Final = 20.0
_VOTERS: Final = "voters"
_OTHERS: Final = "others"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turns:
    """The order of the restarts, and how each is done. `to` is the new release; None: nodes keep theirs."""

    order: tuple[str, ...]
    order_by: str
    how: str
    pause_ns: int
    to: str | None
    back: bool
    finish: bool

    @property
    def details(self) -> dict[str, str | int | bool]:
        """The order and manner, as the history records them."""
        details: dict[str, str | int | bool] = {"order": ",".join(self.order), "order_by": self.order_by}
        details |= {"how": self.how, "pause_ms": self.pause_ns // 10**6}
        return details if self.to is None else {**details, "to": self.to, "back": self.back, "finish": self.finish}


@dataclass(slots=True)
class _Roll:
    """One rolling restart: which nodes are done, and why it ended early."""

    fault_id: int
    cluster: Cluster
    turns: _Turns
    over: asyncio.Event = field(default_factory=asyncio.Event)
    begun: "asyncio.Future[Proof]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    task: "asyncio.Task[None] | None" = None
    done: list[str] = field(default_factory=list)
    #: The release of each node before this fault changed it.
    before: dict[str, Release] = field(default_factory=dict)
    failure: str | None = None
    #: Which features were raised in the end.
    raised: str | None = None

    async def run(self) -> None:
        """Restart every node in turn, until the time is over or one restart fails."""
        try:
            await self._take_turns(list(self.turns.order))
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"
        self._tell(Proof(FaultOutcome.INDETERMINATE, self.failure or "its time was over before the first turn"))

    async def _take_turns(self, left: list[str]) -> None:
        while left and not self.over.is_set():
            name = await self._next(left)
            left.remove(name)
            becomes, was = self._becomes(name), self._runs(name)
            went_well = await self._turn(name, becomes, self.over.is_set)
            if becomes is not None and self._runs(name).artifacts is becomes.artifacts:
                self.before[name] = was
            if not went_well:
                return
            self.done.append(name)
            if left:
                await until(self.over.is_set, self.turns.pause_ns / 1e9)
        if self.turns.finish and not left:
            await self._finish()

    async def _finish(self) -> None:
        """Raise the cluster's features, now that every node runs as the new release."""
        system, nodes = self.cluster.system, self.cluster.runtime.nodes.values()
        assert isinstance(system, RaisesFeatures), "refused before the run"
        assert self.turns.to is not None
        version = self.cluster.others[self.turns.to].version
        try:
            async with asyncio.timeout(_FEATURES_S):
                self.raised = await system.raise_features(
                    [node.place for node in nodes if node.state is NodeState.RUNNING], version
                )
        except (Definite, Indefinite, TimeoutError) as error:
            self.failure = f"the features were not raised: {str(error) or f'no answer in {_FEATURES_S:g} s'}"

    async def turn_back(self) -> None:
        """Return each changed node to its release, one by one, until one fails or the run is to end."""
        for name, was in list(self.before.items()):
            if not await self._turn(name, was, self.cluster.hurried):
                break
            del self.before[name]
        if self.before:
            self.failure = "; ".join(filter(None, [self.failure, f"not rolled back: {', '.join(self.before)}"]))

    def _becomes(self, name: str) -> Release | None:
        """Return how this node runs as the other release; None when it keeps its own. Raises Entangled."""
        if self.turns.to is None:
            return None
        now, other = self._runs(name), self.cluster.others[self.turns.to]
        old, new = self.cluster.specs(now.artifacts)[name], self.cluster.specs(other)[name]
        return Release(changed(now.spec, old, new, image=other.paths.get("image", "")), other)

    def _runs(self, name: str) -> Release:
        return Release(self.cluster.runtime.nodes[name].spec, self.cluster.artifacts_of(name))

    async def _next(self, left: list[str]) -> str:
        rule, view = self.turns.order_by, self.cluster.view
        if rule not in ("leader-first", "leader-last"):
            return left[0]
        await until(lambda: self.over.is_set() or view().leader is not None, _LEADER_S)
        leader, first = view().leader, rule == "leader-first"
        return next((name for name in left if (name == leader) is first), left[0])

    async def _turn(self, name: str, becomes: Release | None, halted: Callable[[], bool]) -> bool:
        """Restart one node as a part of this fault; return whether that went well. No other node is down meanwhile."""
        trouble = await self._others_down(name, halted)
        if halted():
            return False
        if trouble:
            self.failure = f"{name} was not restarted: {trouble}"
            return False
        assert self.cluster.parts is not None
        restart = Restart(self.cluster.runtime.nodes[name], self.cluster, self.turns.how, becomes)

        async def inject(_: int) -> Proof:
            proof = await restart.end()
            self._tell(proof)
            return proof

        proof = await self.cluster.parts.part(
            self.fault_id,
            Resolved(nodes=(name,), details=restart.details),
            inject=inject,
            hold_ns=0,
            heal=lambda _: restart.begin(),
        )
        if proof.outcome is not FaultOutcome.INSTALLED:
            self.failure = f"{name}: {proof.text}"
        return proof.outcome is FaultOutcome.INSTALLED

    async def _others_down(self, name: str, halted: Callable[[], bool]) -> str | None:
        """Wait for all other nodes to serve; return which did not, None when all do."""

        def down() -> list[str]:
            unready = self.cluster.view().unready
            nodes = self.cluster.runtime.nodes.items()
            return [n for n, node in nodes if n != name and (n in unready or node.state is not NodeState.RUNNING)]

        await until(lambda: halted() or not down(), _OTHERS_S)
        names = down()
        return f"{', '.join(names)} did not serve" if names else None

    def _tell(self, proof: Proof) -> None:
        if not self.begun.done():
            self.begun.set_result(proof)

    @property
    def summary(self) -> str:
        """ "2 of 3 nodes restarted (n2, n1), then its time was over; now n2 3.5.1, n1 3.5.1, n3 3.4.23"."""
        text = f"{len(self.done)} of {len(self.turns.order)} nodes restarted"
        if self.done:
            text += f" ({', '.join(self.done)})"
        if len(self.done) < len(self.turns.order) and self.failure is None:
            text += ", then its time was over"
        parts = [text, *([self.failure] if self.failure else [])]
        if self.raised is not None:
            parts.append(f"features raised: {self.raised}")
        if self.turns.to is not None:
            parts.append("now " + ", ".join(f"{n} {self.cluster.artifacts_of(n).version}" for n in self.turns.order))
        return "; ".join(parts)


class RollingOptions(FaultOptions, frozen=True, kw_only=True):
    to: Annotated[
        str | None, about("release, or path of a binary, that nodes are restarted as: a value of --version")
    ] = None
    order: Annotated[
        Literal["drawn", "leader-last", "leader-first", "as-named"], about("order in which the nodes are restarted")
    ] = "drawn"
    how: Annotated[Literal["stop", "kill"], about("how a server is ended: stop sends SIGTERM, kill SIGKILL")] = "stop"
    pause: Annotated[Duration, about("time from a node that serves again to the next restart")] = seconds(1)
    back: Annotated[bool, about("whether healing returns the nodes to their first release")] = False
    finish: Annotated[bool, about("whether the cluster's features are raised once every node runs as to=")] = False


class Rolling(FaultKind):
    name = "rolling"
    about = "nodes are restarted one by one, each once the others serve; to= changes the release"
    targets: Mapping[str, str] = {
        "all": "every node, one after the other",
        _VOTERS: "every node that votes",
        _OTHERS: "every node that does not vote",
        **{name: NODE_TARGETS[name] for name in ("one", "minority", "majority", "leader", "follower")},
    }
    default_target = "all"
    options = RollingOptions(for_=seconds(20))
    holds = frozenset({"process"})
    #: In the mixture `all` there is no to=, so nothing has to be built or fetched.
    for_all = ("rolling:all:for=12s",)
    #: Covers the end, start and readiness of a node; rolling back, those of all nodes. Each wait has a shorter limit.
    act_deadline_s = 400.0

    def __init__(self) -> None:
        self._rolls: dict[int, _Roll] = {}

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(stops=Stops.POSSIBLE)

    def refuse(self, spec: FaultSpec, placement: Placement) -> Refusal | None:
        if spec.target == _OTHERS and all(member.votes for member in placement.cluster):
            return Refusal("every node of this cluster votes", "leave the target out")
        options = spec.own(RollingOptions)
        if not options.to:
            for name, given in (("back", options.back), ("finish", options.finish)):
                if given:
                    return Refusal(f"{name}=yes needs to=VERSION", "give to= as well")
            return None
        if options.finish and options.back:
            return Refusal("with finish=yes no node can go back", "leave out back=yes, or finish=yes")
        if options.finish and placement.fixed_features is not None:
            return placement.fixed_features
        if placement.image:
            return Refusal("to= needs one of our images for each release", "leave out --image, or to=")
        return None

    def release_changes(self, spec: FaultSpec) -> tuple[ReleaseChange, ...]:
        options = spec.own(RollingOptions)
        return (ReleaseChange(options.to, options.back),) if options.to else ()

    def resolve(self, spec: FaultSpec, view: View, draw: random.Random) -> Resolved | Skip:
        shuffled = list(view.nodes)
        random.Random(draw.getrandbits(32)).shuffle(shuffled)
        if spec.target == _VOTERS:
            chosen: tuple[str, ...] | Skip = view.voters
        elif spec.target == _OTHERS:
            chosen = tuple(name for name in view.nodes if name not in view.voters)
        else:
            chosen = choose_nodes(spec.target, view, draw)
        if isinstance(chosen, Skip):
            return chosen
        options = spec.own(RollingOptions)
        order = chosen if options.order == "as-named" else tuple(name for name in shuffled if name in chosen)
        turns = _Turns(
            order=order,
            order_by=options.order,
            how=options.how,
            pause_ns=int(options.pause),
            to=options.to or None,
            back=options.back,
            finish=options.finish,
        )
        return Resolved(nodes=chosen, means=turns, details=turns.details, in_turn=True)

    async def inject(self, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof:
        roll = self._rolls[fault_id] = _Roll(fault_id, cluster, resolved.own(_Turns))
        roll.task = asyncio.create_task(roll.run())
        return await asyncio.shield(roll.begun)

    async def heal(self, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof:
        roll = self._rolls.get(fault_id)
        if roll is None:
            return await _all_run(resolved.nodes, cluster, "it never began, or was healed before")
        roll.over.set()
        if roll.task is not None:
            # It ends by itself when the restart under way is over; each of its waits has a time limit.
            await asyncio.shield(roll.task)
        if resolved.own(_Turns).back:
            await roll.turn_back()
        proof = await _all_run(resolved.nodes, cluster, roll.summary)
        if proof.outcome is FaultOutcome.HEALED:
            del self._rolls[fault_id]
        return proof


async def _all_run(names: tuple[str, ...], cluster: Cluster, text: str) -> Proof:
    """Start the nodes that are down; prove by a look at every process that all run."""
    nodes = [cluster.runtime.nodes[name] for name in names]
    for node in nodes:
        if node.state in (NodeState.DEAD, NodeState.NEW):
            await node.start()
            text += f"; {node.name} was down and was started"
    seen = {node.name: await node.evidence() for node in nodes}
    down = [f"{name}: {evidence.text}" for name, evidence in seen.items() if evidence.state is not NodeState.RUNNING]
    if down:
        return Proof(FaultOutcome.INDETERMINATE, f"{text}; not running: {', '.join(down)}")
    return Proof(FaultOutcome.HEALED, f"{text}; all run")
