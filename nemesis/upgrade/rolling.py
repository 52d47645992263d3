"""Rolling restarts: nodes are ended in their own order and started again, one by one, as an operator would do it.

The next one has its turn only when the one before and all others serve, so at most one node is down at a time. With
`to=VERSION` each starts again as that release: an upgrade, or a downgrade, under load. Its binaries are had before the
cluster starts. Nodes stay what they became; with `back=yes` healing rolls them back one by one.

Each restart is recorded as a part of this fault: its injection is proven by the process being gone, its healing by a
new process that serves and says itself which release it is. Whom the time `for=` does not reach is left as it is, which
is said. Healing leaves every node running.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.faults.fault_options import FaultOptions
from fencepost.harness.faults.kind import Cluster, FaultKind, FaultSpec, Proof, ReleaseChange, Resolved, Skip, View
from fencepost.harness.faults.targets import NODE_TARGETS, choose_nodes
from fencepost.harness.faults.version_change import changed
from fencepost.harness.history import Effects, FaultOutcome, Stops
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Node, NodeSpec, NodeState
from fencepost.harness.runtime.provider import Placement
from fencepost.harness.systems.contract.reported_version import TellsVersion, ask_version

#: After that a server that was asked to end is killed. Kafka's own patience with a controller is longer.
_STOP_S: Final = 15.0
#: Until all other nodes serve, before the next one has its turn.
_OTHERS_S: Final = 10.0
_ASK_S: Final = 2.0
#: An order by leadership waits so long for a leader to be known.
_LEADER_S: Final = 2.0
_LOOK_S: Final = 0.05
_VOTERS: Final = "voters"
_OTHERS: Final = "others"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turns:
    """Whose turn it is when, and how each restart is done; `to` is the release that nodes become (None: their own)."""

    order: tuple[str, ...]
    order_by: str
    how: str
    pause_ns: int
    to: str | None
    back: bool

    @property
    def details(self) -> dict[str, str | int | bool]:
        """As the history has them."""
        found: dict[str, str | int | bool] = {"order": ",".join(self.order), "order_by": self.order_by}
        found |= {"how": self.how, "pause_ms": self.pause_ns // 10**6}
        return found if self.to is None else {**found, "to": self.to, "back": self.back}


@dataclass(frozen=True, slots=True)
class _Release:
    """What a node runs: how it is started, and from what."""

    spec: NodeSpec
    artifacts: Artifacts


@dataclass(slots=True)
class _Roll:
    """One roll: whose turn is still to come, what was done, and why it ended early."""

    fault_id: int
    cluster: Cluster
    turns: _Turns
    over: asyncio.Event = field(default_factory=asyncio.Event)
    begun: "asyncio.Future[Proof]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    task: "asyncio.Task[None] | None" = None
    done: list[str] = field(default_factory=list)
    #: What nodes ran before this roll made another release of them.
    before: dict[str, _Release] = field(default_factory=dict)
    failure: str | None = None

    async def run(self) -> None:
        """Everybody's turn, until the time is over or one failed."""
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
                await _until(self.over.is_set, self.turns.pause_ns / 1e9)

    async def turn_back(self) -> None:
        """Whoever was changed becomes again what it was, one by one, until one fails or the run is to end."""
        for name, was in list(self.before.items()):
            if not await self._turn(name, was, self.cluster.hurried):
                break
            del self.before[name]
        if self.before:
            self.failure = "; ".join(filter(None, [self.failure, f"not rolled back: {', '.join(self.before)}"]))

    def _becomes(self, name: str) -> _Release | None:
        """The other release as this node's; None where it is to stay what it is. Raises Entangled."""
        if self.turns.to is None:
            return None
        now, other = self._runs(name), self.cluster.others[self.turns.to]
        old, new = self.cluster.specs(now.artifacts)[name], self.cluster.specs(other)[name]
        return _Release(changed(now.spec, old, new, image=other.paths.get("image", "")), other)

    def _runs(self, name: str) -> _Release:
        return _Release(self.cluster.runtime.nodes[name].spec, self.cluster.artifacts_of(name))

    async def _next(self, left: list[str]) -> str:
        rule, view = self.turns.order_by, self.cluster.view
        if rule not in ("leader-first", "leader-last"):
            return left[0]
        await _until(lambda: self.over.is_set() or view().leader is not None, _LEADER_S)
        leader, first = view().leader, rule == "leader-first"
        return next((name for name in left if (name == leader) is first), left[0])

    async def _turn(self, name: str, becomes: _Release | None, halted: Callable[[], bool]) -> bool:
        """One node's restart, as a part of this fault; whether it went well. Nobody else is down meanwhile."""
        trouble = await self._others_down(name, halted)
        if halted():
            return False
        if trouble:
            self.failure = f"{name} was left alone: {trouble}"
            return False
        assert self.cluster.parts is not None
        restart = _Restart(self.cluster.runtime.nodes[name], self.cluster, self.turns.how, becomes)

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
        """Who else does not serve although there was time for it; None when all do."""

        def down() -> list[str]:
            unready = self.cluster.view().unready
            nodes = self.cluster.runtime.nodes.items()
            return [n for n, node in nodes if n != name and (n in unready or node.state is not NodeState.RUNNING)]

        await _until(lambda: halted() or not down(), _OTHERS_S)
        found = down()
        return f"{', '.join(found)} did not serve" if found else None

    def _tell(self, proof: Proof) -> None:
        if not self.begun.done():
            self.begun.set_result(proof)

    @property
    def words(self) -> str:
        """ "2 of 3 nodes restarted (n2, n1), then its time was over; now n2 3.5.1, n1 3.5.1, n3 3.4.23"."""
        said = f"{len(self.done)} of {len(self.turns.order)} nodes restarted"
        if self.done:
            said += f" ({', '.join(self.done)})"
        if len(self.done) < len(self.turns.order) and self.failure is None:
            said += ", then its time was over"
        parts = [said, *([self.failure] if self.failure else [])]
        if self.turns.to is not None:
            parts.append("now " + ", ".join(f"{n} {self.cluster.artifacts_of(n).version}" for n in self.turns.order))
        return "; ".join(parts)


class _Restart:
    """The end of one server and the beginning of the next one on its node, each with its proof."""

    def __init__(self, node: Node, cluster: Cluster, how: str, becomes: _Release | None) -> None:
        self._node, self._cluster, self._how, self._becomes = node, cluster, how, becomes
        self._pid, self._incarnation = node.pid, node.incarnation
        was = cluster.artifacts_of(node.name).version
        #: What is recorded; what the server says of itself is added once it did.
        self.details: dict[str, str | int | float | bool] = {"how": how, "from_version": was}
        if becomes is not None:
            self.details["to_version"] = becomes.artifacts.version

    async def end(self) -> Proof:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        if self._how == "kill":
            await self._node.kill()
            how = "killed"
        elif await self._node.stop(_STOP_S):
            how = "ended by SIGTERM"
        else:
            how = "killed, since SIGTERM did not end it"
        seen = await self._node.evidence()
        if seen.state is not NodeState.DEAD:
            return Proof(FaultOutcome.INDETERMINATE, f"not gone: {seen.text}")
        process = "its process" if self._pid is None else f"process {self._pid}"
        return Proof(FaultOutcome.INSTALLED, f"{process} gone, {how} after {loop.time() - began_s:.1f} s")

    async def begin(self) -> Proof:
        """Start it, as what it is to become, and wait until it serves and says what it is."""
        node, cluster = self._node, self._cluster
        if node.state is not NodeState.DEAD and node.incarnation == self._incarnation:
            return Proof(FaultOutcome.INDETERMINATE, f"not restarted: its process is still there, {node.state}")
        if self._becomes is not None:
            node.respec(self._becomes.spec)
            cluster.runs[node.name] = self._becomes.artifacts
        log_from = node.log.stat().st_size if node.log.is_file() else 0
        # Somebody else's healing may have started it meanwhile.
        if node.state in (NodeState.DEAD, NodeState.NEW):
            await node.start()
        started = "restarted" if node.pid is None else f"restarted as process {node.pid}"
        return await self._serves(started, log_from)

    async def _serves(self, started: str, log_from: int) -> Proof:
        node, cluster = self._node, self._cluster
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while not await _is_ready(node, cluster):
            if node.state is NodeState.DEAD:
                return Proof(FaultOutcome.INDETERMINATE, f"{started}, and ended: {_last_line(node)}")
            if cluster.hurried():
                return Proof(FaultOutcome.HEALED, f"{started}; not waited for until it serves, the run being ended")
            if loop.time() - began_s > node.spec.ready_timeout_s:
                late = f"{started}, but does not serve after {node.spec.ready_timeout_s:g} s"
                return Proof(FaultOutcome.INDETERMINATE, late)
            await asyncio.sleep(_LOOK_S)
        serves = f"{started}, serves after {loop.time() - began_s:.1f} s"
        if not isinstance(cluster.system, TellsVersion):
            return Proof(FaultOutcome.HEALED, serves)
        return await self._says(serves, cluster.system, log_from)

    async def _says(self, serves: str, system: TellsVersion, log_from: int) -> Proof:
        """Which release it says that it is, against the one that it was started as."""
        node, cluster = self._node, self._cluster
        wanted = system.version_of(node, cluster.artifacts_of(node.name))
        said, why = await ask_version(system, node, log_from=log_from, hurried=cluster.hurried)
        if said is not None:
            self.details["says_version"] = said
        if said == wanted:
            return Proof(FaultOutcome.HEALED, f"{serves}, says that it is {said}")
        # A person's own build may say what it likes; only of a change of release it is the proof.
        outcome = FaultOutcome.INDETERMINATE if node.name in cluster.runs else FaultOutcome.HEALED
        doubt = f"does not say which release it is ({why})" if said is None else f"says that it is {said}, not {wanted}"
        return Proof(outcome, f"{serves}, {doubt}")


class RollingOptions(FaultOptions, frozen=True, kw_only=True):
    to: Annotated[str | None, about("release or path that each node starts again as, as --version takes it")] = None
    order: Annotated[Literal["drawn", "leader-last", "leader-first", "as-named"], about("whose turn comes when")] = (
        "drawn"
    )
    how: Annotated[Literal["stop", "kill"], about("how a server is ended")] = "stop"
    pause: Annotated[Duration, about("time from a node that serves again to the next one's turn")] = seconds(1)
    back: Annotated[bool, about("whether healing rolls nodes back to what they were")] = False


class Rolling(FaultKind):
    name = "rolling"
    about = "nodes restarted one by one, each once all others serve; with to= into another release"
    targets: Mapping[str, str] = {
        "all": "every node, one after the other",
        _VOTERS: "every node that votes",
        _OTHERS: "every node that does not vote (brokers)",
        **{name: NODE_TARGETS[name] for name in ("one", "minority", "majority", "leader", "follower")},
    }
    default_target = "all"
    options = RollingOptions(for_=seconds(20))
    holds = frozenset({"process"})
    #: In a mixture nothing is built or fetched for it.
    for_all = ("rolling:all:for=12s",)
    #: A node's end, start and readiness, and in a roll back those of all of them. Each wait has a shorter one.
    act_deadline_s = 400.0

    def __init__(self) -> None:
        self._rolls: dict[int, _Roll] = {}

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(stops=Stops.POSSIBLE)

    def refuse(self, spec: FaultSpec, placement: Placement) -> Refusal | None:
        if spec.target == _OTHERS and all(member.votes for member in placement.cluster):
            return Refusal("here every node votes", "leave the target out")
        options = spec.own(RollingOptions)
        if not options.to:
            return Refusal("back=yes goes back from to=VERSION", "give to= as well") if options.back else None
        if placement.image:
            return Refusal("another release needs images of ours, one for each", "leave --image out, or to=")
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
        )
        return Resolved(nodes=chosen, means=turns, details=turns.details, in_turn=True)

    async def inject(self, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof:
        roll = self._rolls[fault_id] = _Roll(fault_id, cluster, resolved.own(_Turns))
        roll.task = asyncio.create_task(roll.run())
        return await asyncio.shield(roll.begun)

    async def heal(self, fault_id: int, resolved: Resolved, cluster: Cluster) -> Proof:
        roll = self._rolls.get(fault_id)
        if roll is None:
            return await _all_run(resolved.nodes, cluster, "never begun, or healed before")
        roll.over.set()
        if roll.task is not None:
            # It ends by itself once the turn that is under way is over, all of whose waits have ends.
            await asyncio.shield(roll.task)
        if resolved.own(_Turns).back:
            await roll.turn_back()
        proof = await _all_run(resolved.nodes, cluster, roll.words)
        if proof.outcome is FaultOutcome.HEALED:
            del self._rolls[fault_id]
        return proof


async def _all_run(names: tuple[str, ...], cluster: Cluster, said: str) -> Proof:
    """Start whoever is down; proven by a look at every process."""
    nodes = [cluster.runtime.nodes[name] for name in names]
    for node in nodes:
        if node.state in (NodeState.DEAD, NodeState.NEW):
            await node.start()
            said += f"; {node.name} was down and was started"
    seen = {node.name: await node.evidence() for node in nodes}
    down = [f"{name}: {found.text}" for name, found in seen.items() if found.state is not NodeState.RUNNING]
    if down:
        return Proof(FaultOutcome.INDETERMINATE, f"{said}; not running: {', '.join(down)}")
    return Proof(FaultOutcome.HEALED, f"{said}; all run")


async def _is_ready(node: Node, cluster: Cluster) -> bool:
    """One short attempt; one that throws is a no."""
    try:
        async with asyncio.timeout(_ASK_S):
            return await cluster.system.ready(node)
    except Exception:
        return False


async def _until(condition: Callable[[], bool], deadline_s: float) -> None:
    """Look until it holds, or the time is over."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + deadline_s
    while not condition() and loop.time() < end_s:
        await asyncio.sleep(min(_LOOK_S, max(end_s - loop.time(), 0.0)))


def _last_line(node: Node) -> str:
    lines = node.log_tail(1).splitlines()
    return lines[-1][:200] if lines else "its log is empty"
