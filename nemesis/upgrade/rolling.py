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
from typing import Annotated, Final, Literal

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.faults.fault_options import FaultOptions
from fencepost.harness.faults.kind import (
    NODE_TARGETS,
    Act,
    FaultKind,
    FaultSpec,
    Proof,
    ReleaseChange,
    Resolved,
    Skip,
    View,
    choose_nodes,
)
from fencepost.harness.faults.restarts import until
from fencepost.harness.faults.version_change import changed
from fencepost.harness.history import Effects, Stops
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import NodeState
from fencepost.harness.runtime.provider import Placement
from fencepost.nemesis.upgrade.course import Course, Stuck, all_run
from fencepost.nemesis.upgrade.restart import ReleaseChangeFault, Restart

#: Longest wait for all other nodes to serve, before the next restart.
_OTHERS_S: Final = 10.0
#: Longest wait for a known leader, where the order depends on it.
_LEADER_S: Final = 2.0
#: Longest wait for the cluster's features to be raised.
_FEATURES_S: Final = 20.0
_VOTERS: Final = "voters"
_OTHERS: Final = "others"


class _Roll(Course):
    """One rolling restart, in the order that was drawn."""

    def __init__(self, act: Act) -> None:
        super().__init__(act)
        self.options, self.order = act.options(RollingOptions), act.means(tuple)
        self._done: list[str] = []
        #: The release of each node before this fault changed it.
        self._before: dict[str, ReleaseChangeFault] = {}
        #: Which features were raised in the end.
        self._raised: str | None = None

    async def go(self) -> None:
        left = list(self.order)
        while left and not self.over.is_set():
            name = await self._next(left)
            left.remove(name)
            becomes, was = self._becomes(name), self._runs(name)
            try:
                if not await self._restart(name, becomes, self.over.is_set):
                    return
            finally:
                if becomes is not None and self._runs(name).artifacts is becomes.artifacts:
                    self._before[name] = was
            self._done.append(name)
            if left:
                await until(self.over.is_set, self.options.pause / 1e9)
        if self.options.finish and not left:
            await self._finish()

    async def go_back(self) -> None:
        """Return each changed node to its release, one by one, until one fails or the run is to end."""
        try:
            for name, was in list(self._before.items()):
                if not await self._restart(name, was, self.cluster.hurried):
                    break
                del self._before[name]
        finally:
            if self._before:
                self.failures.append(f"not rolled back: {', '.join(self._before)}")

    async def _finish(self) -> None:
        """Raise the cluster's features, now that every node runs as the new release."""
        system, nodes = self.cluster.system, self.cluster.runtime.nodes.values()
        assert system.raise_features is not None, "refused before the run"
        running = [node.place for node in nodes if node.state is NodeState.RUNNING]
        try:
            async with asyncio.timeout(_FEATURES_S):
                self._raised = await system.raise_features(running, self._other.version)
        except (Definite, Indefinite, TimeoutError) as error:
            raise Stuck(f"the features were not raised: {str(error) or f'no answer in {_FEATURES_S:g} s'}") from None

    @property
    def _other(self) -> Artifacts:
        assert self.options.to
        return self.cluster.others[self.options.to]

    def _becomes(self, name: str) -> ReleaseChangeFault | None:
        """Return how this node runs as the other release; None when it keeps its own. Raises Entangled."""
        if not self.options.to:
            return None
        now = self._runs(name)
        old, new = self.cluster.specs(now.artifacts)[name], self.cluster.specs(self._other)[name]
        return ReleaseChangeFault(changed(now.spec, old, new, image=self._other.paths.get("image", "")), self._other)

    def _runs(self, name: str) -> ReleaseChangeFault:
        return ReleaseChangeFault(self.cluster.runtime.nodes[name].spec, self.cluster.artifacts_of(name))

    async def _next(self, left: list[str]) -> str:
        rule, view = self.options.order, self.cluster.view
        if rule not in ("leader-first", "leader-last"):
            return left[0]
        await until(lambda: self.over.is_set() or view().leader is not None, _LEADER_S)
        leader, first = view().leader, rule == "leader-first"
        return next((name for name in left if (name == leader) is first), left[0])

    async def _restart(self, name: str, becomes: ReleaseChangeFault | None, halted: Callable[[], bool]) -> bool:
        """Restart one node once all others serve; return whether it was, and not halted before. Raises Stuck."""
        await until(lambda: halted() or not self.down(but=name), _OTHERS_S)
        if halted():
            return False
        if trouble := self.down(but=name):
            raise Stuck(f"{name} was not restarted: {trouble}")
        await self.turn(Restart(self.cluster.runtime.nodes[name], self.cluster, self.options.how, becomes))
        return True

    @property
    def summary(self) -> str:
        """ "2 of 3 nodes restarted (n2, n1), then its time was over; now n2 3.5.1, n1 3.5.1, n3 3.4.23"."""
        text = f"{len(self._done)} of {len(self.order)} nodes restarted"
        if self._done:
            text += f" ({', '.join(self._done)})"
        if len(self._done) < len(self.order) and not self.failures:
            text += ", then its time was over"
        parts = [text, *self.failures]
        if self._raised is not None:
            parts.append(f"features raised: {self._raised}")
        if self.options.to:
            parts.append("now " + ", ".join(f"{n} {self.cluster.artifacts_of(n).version}" for n in self.order))
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

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(stops=Stops.POSSIBLE)

    def needed(self, spec: FaultSpec) -> frozenset[str]:
        return frozenset({"raise-features"}) if spec.own(RollingOptions).finish else self.needs

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
        details: dict[str, str | int] = {"order": ",".join(order), "order_by": options.order}
        details |= {"how": options.how, "pause_ms": options.pause // 10**6}
        if options.to:
            details |= {"to": options.to, "back": options.back, "finish": options.finish}
        return Resolved(nodes=chosen, means=order, details=details, in_turn=True)

    async def inject(self, act: Act) -> Proof:
        return await _Roll(act).begin()

    async def heal(self, act: Act) -> Proof:
        roll = act.kept(_Roll)
        return await (roll.heal(back=roll.options.back) if roll else all_run(act))
