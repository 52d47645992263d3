"""Faults of every kind, injected and healed in any order, while nodes die, tracers are killed and steps fail.

Played inside the lab, where Hypothesis draws in a thread of its own, and each rule is carried out on the loop. After
every rule what no fault in force holds must be as it was; at the end, when all is healed, everything must be.
"""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, TypeVar

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.faults.kind import FaultSpec
from fencepost.harness.faults.skew_shape import SkewOptions
from fencepost.harness.history import FaultOutcome
from fencepost.harness.runtime.lab.lab import Lab
from fencepost.harness.runtime.node import NodeState
from tests.nemesis.state_machine.leftovers import differences, links, node_state, state_of
from tests.nemesis.state_machine.stage import Acted, Stage

T = TypeVar("T")

#: Short ones, since what counts is how they begin and end. A kind that is not here takes part as it does in `all`.
VARIANTS: Final[dict[str, tuple[str, ...]]] = {
    "churn": ("churn:every=400ms",),
    "clock-skew": (
        "clock-skew:one:offset=2h",
        "clock-skew:one:rate=0.8:clock=monotonic",
        "clock-skew:all:strobe=1h:period=20ms:length=1s",
    ),
    "damage": ("damage:one:kind=flip:files=log", "damage:one:kind=tail:files=log"),
    "disk": ("disk:one:delay=10ms", "disk:one:kind=failing", "disk:one:kind=full"),
    "flapping": ("flapping:one:period=600ms",),
    "gray": ("gray:one:period=60ms",),
    "kill": ("kill:one", "kill:all"),
    "link": (
        "link:one:latency=20ms:jitter=5ms",
        "link:one:loss=30%:links=all",
        "link:one:reset=yes",
        "link:one:rate=64KB/s:direction=out",
    ),
    "lost-write": ("lost-write:one:hold=20ms",),
    "partition": ("partition:one", "partition:one:direction=in:links=all", "partition:minority"),
    "pause": ("pause:one", "pause:all", "pause:client"),
    "power-loss": ("power-loss:one:track=50ms",),
}
#: A real server's data is not to be damaged at random: it may lose what it acknowledged.
_PLAIN_ONLY: Final = ("damage",)
#: By system: after an error of its disk a ZooKeeper may never start again (ZOOKEEPER-4882), whatever is healed.
_NOT_ON: Final = {"zookeeper": ("disk:one:kind=failing",)}
#: Programs without releases have none to go through.
_REAL_ONLY: Final = ("rolling",)
#: Seams at which a step is made to fail, before or after it was done.
SEAMS: Final = ("kill", "start", "pause", "evidence", "apply", "probe", "shape", "measure", "freeze")
#: What strace or the keeper of clocks does.
_BY_TOOLS: Final = ("clock-skew", "disk")
_STEP_S: Final = 60.0
#: What is left behind stays; what is just ending is gone by then, on a busy machine too.
_LEFT_S: Final = 15.0


def specs_of(stage: Stage) -> tuple[dict[str, list[FaultSpec]], dict[str, str]]:
    """Kind to its variants that can be had on this stage; and why the others cannot."""
    chosen: dict[str, list[FaultSpec]] = {}
    left_out: dict[str, str] = {}
    for name, fault in stage.faults.items():
        texts = VARIANTS.get(name) or fault.for_all or (name,)
        texts = tuple(text for text in texts if text not in _NOT_ON.get(stage.system.profile.name, ()))
        found = [stage.parsed(text) for text in texts]
        possible = [spec for spec in found if isinstance(spec, FaultSpec)]
        if name in _PLAIN_ONLY and not stage.is_plain:
            left_out[name] = "on plain servers only"
        elif name == "administer":
            left_out[name] = "its requests are over with their answers: there is nothing to compare"
        elif name in _REAL_ONLY and stage.is_plain:
            left_out[name] = "on real servers only"
        elif possible:
            chosen[name] = possible
        else:
            left_out[name] = str(found[0])
    return chosen, left_out


# -- each by itself ---------------------------------------------------------------------------------------------------


async def each_alone(lab: Lab, args: dict[str, Any]) -> Any:
    """Every variant by itself: what it changes while it is in force, and what is left when it is healed."""
    stage = await Stage.open(lab, args["system"])
    try:
        return await _each_alone(stage, args.get("only"))
    finally:
        await stage.close()


async def _each_alone(stage: Stage, only: list[str] | None) -> Any:
    await _warm_up(stage)
    chosen, left_out = specs_of(stage)
    steps: list[dict[str, Any]] = []
    for spec in [spec for name, specs in chosen.items() if not only or name in only for spec in specs]:
        await stage.healthy()
        await stage.led()
        await stage.written()
        before = await _settled_state(stage)
        acted = await stage.inject(spec, len(steps))
        assert acted is not None, f"{spec.text} was skipped"
        changed = differences(before, state_of(stage))
        await stage.heal(acted)
        await _restart_the_ahead(stage, [acted])
        await stage.healthy()
        left = await _left(stage, before)
        await stage.heal(acted)
        steps.append(
            {
                "fault": spec.text,
                "injected": acted.outcomes[0],
                "healed": acted.outcomes[1],
                "healed_again": acted.outcomes[2],
                "changed": changed,
                "left": left + await _left(stage, before),
            }
        )
    return {"steps": steps, "left_out": left_out}


async def _warm_up(stage: Stage) -> None:
    """What is made once a run, at the first fault that needs it, and kept until its end."""
    await stage.lab.network.shapes.prepare()
    clocks: Any = stage.faults["clock-skew"]
    for node in stage.lab.nodes.values():
        # From its first fault on a node's restarts are noticed.
        clocks._clocks.of(node)
    await stage.written()


async def _settled_state(stage: Stage) -> dict[str, Any]:
    """Two looks that agree: clients and servers begin and end something of their own now and then."""
    state = state_of(stage)
    for _ in range(100):
        await asyncio.sleep(0.05)
        again = state_of(stage)
        if again == state:
            return state
        state = again
    raise AssertionError(f"the machine does not come to rest: {differences(state, state_of(stage))}")


async def _left(stage: Stage, before: dict[str, Any]) -> list[str]:
    """What still differs after a while: a server that was started again takes a moment to be as it was."""
    deadline = asyncio.get_running_loop().time() + _LEFT_S
    while True:
        left = differences(before, state_of(stage))
        if not left or asyncio.get_running_loop().time() > deadline:
            return left
        await asyncio.sleep(0.02)


async def _restart_the_ahead(stage: Stage, acted: list[Acted]) -> None:
    """A monotonic clock is never put back, so it stays what it is ahead until its server is started anew."""
    ahead = {name for one in acted if _skews_monotonic(one) for name in one.resolved.nodes}
    for name in sorted(ahead):
        await stage.starts_anew(name)
    for one in acted:
        if _skews_monotonic(one):
            # Ends the keeper, which has nobody left to keep.
            await stage.heal(one)
            one.outcomes.pop()


def _skews_monotonic(acted: Acted) -> bool:
    return acted.spec.fault == "clock-skew" and acted.spec.own(SkewOptions).clock != "wall"


# -- in any order -----------------------------------------------------------------------------------------------------


class Fuse:
    """Makes one injection's next call at one seam fail, before it does anything or after it did all.

    Faults in force go on in tasks of their own, and come to the same seams.
    """

    def __init__(self, stage: Stage) -> None:
        self._planted: tuple[str, bool] | None = None
        self._of: ContextVar[object] = ContextVar("of", default=None)
        for node in stage.lab.nodes.values():
            for name in ("kill", "start", "pause", "evidence"):
                self._wrap(node, name, name)
        network = stage.lab.network
        self._wrap(network, "apply", "apply")
        self._wrap(network, "probe", "probe")
        self._wrap(network.shapes, "apply", "shape")
        self._wrap(network.shapes, "measure", "measure")
        self._wrap(stage.freezer, "freeze", "freeze")

    def _wrap(self, owner: Any, method: str, seam: str) -> None:
        real: Callable[..., Coroutine[Any, Any, Any]] = getattr(owner, method)

        async def called(*words: Any, **named: Any) -> Any:
            planted, first = self._planted or ("", False)
            if planted != seam or self._of.get() is not self._planted:
                return await real(*words, **named)
            self._planted = None
            if not first:
                await real(*words, **named)
            raise HarnessError(f"{seam} was made to fail, {'before' if first else 'after'} it was done")

        setattr(owner, method, called)

    async def burn(self, seam: str, injection: Coroutine[Any, Any, T], *, before: bool) -> T:
        self._of.set(planted := (seam, before))
        self._planted = planted
        return await injection

    def remove(self) -> bool:
        """Whether it had not gone off."""
        left, self._planted = self._planted is not None, None
        return left


class Faults(RuleBasedStateMachine):
    """One example: what is in force, and what the story was so far."""

    stage: Stage
    loop: asyncio.AbstractEventLoop
    chosen: dict[str, list[FaultSpec]]
    fuse: Fuse
    counts: Counter[str]
    unproven: list[str]

    def __init__(self) -> None:
        super().__init__()
        self.in_force: list[Acted] = []
        self.healed: list[Acted] = []
        self.story: list[str] = []
        self.disturbed = False
        self._seeds = 0
        self.before = self._do(self._begin())

    def _do(self, step: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(step, self.loop).result(_STEP_S)

    async def _begin(self) -> dict[str, Any]:
        await self.stage.healthy()
        await self.stage.led()
        await self.stage.written(1)
        return await _settled_state(self.stage)

    # -- rules --------------------------------------------------------------------------------------------------------

    @rule(data=st.data(), count=st.integers(1, 4))
    def inject(self, data: st.DataObject, count: int) -> None:
        for _ in range(count):
            spec = self._drawn(data)
            if spec is None:
                continue
            alone = not self.in_force and not self.disturbed
            acted = self._do(self.stage.inject(spec, self._seed()))
            self._note(f"{spec.text} injected", acted)
            if acted is not None and alone and acted.outcomes[0][0] is not FaultOutcome.INSTALLED:
                self.unproven.append(f"{spec.text}: {acted.outcomes[0][1]}")
            self.counts[spec.fault] += acted is not None
            self.counts["injected beside others"] += acted is not None and not alone

    @rule(data=st.data(), after_ms=st.sampled_from((0, 1, 3, 10, 30, 80, 200, 400)))
    def inject_and_cancel(self, data: st.DataObject, after_ms: int) -> None:
        spec = self._drawn(data)
        if spec is not None:
            self._note(
                f"{spec.text} cancelled after {after_ms} ms",
                self._do(self.stage.inject(spec, self._seed(), cancel_after_s=after_ms / 1e3)),
            )
            self.counts["cancelled"] += 1

    @rule(data=st.data(), seam=st.sampled_from(SEAMS), before=st.booleans())
    def inject_and_fail(self, data: st.DataObject, seam: str, before: bool) -> None:
        spec = self._drawn(data)
        if spec is None:
            return
        acted = self._do(self.fuse.burn(seam, self.stage.inject(spec, self._seed()), before=before))
        if not self.fuse.remove():
            self.counts["failed half-way"] += 1
            if spec.fault not in ("churn", "flapping", "gray", "stagger"):
                # These go on with their next round.
                assert acted is None or acted.outcomes[0][0] is not FaultOutcome.INSTALLED, (spec.text, seam, acted)
        self._note(f"{spec.text} with {seam} made to fail {'before' if before else 'after'} it was done", acted)

    @precondition(lambda self: self.in_force)
    @rule(data=st.data())
    def heal(self, data: st.DataObject) -> None:
        acted = self.in_force.pop(data.draw(st.integers(0, len(self.in_force) - 1)))
        self._do(self.stage.heal(acted))
        self.healed.append(acted)
        self.story.append(f"{acted.spec.text} healed: {acted.outcomes[-1]}")
        self.counts["healed"] += 1

    @precondition(lambda self: self.healed)
    @rule(data=st.data())
    def heal_again(self, data: st.DataObject) -> None:
        acted = data.draw(st.sampled_from(self.healed))
        self._do(self.stage.heal(acted))
        self.story.append(f"{acted.spec.text} healed again: {acted.outcomes[-1]}")
        self.counts["healed again"] += 1

    @precondition(lambda self: self.in_force)
    @rule(data=st.data(), anew=st.booleans())
    def a_node_dies_or_is_started_anew(self, data: st.DataObject, anew: bool) -> None:
        node = data.draw(st.sampled_from(sorted(self.stage.lab.nodes)))
        self.disturbed = True
        self._do(self.stage.starts_anew(node) if anew else self.stage.dies(node))
        self.story.append(f"{node} {'started anew' if anew else 'died'}")
        self.counts["restarts" if anew else "deaths"] += 1

    @precondition(lambda self: any(acted.spec.fault in _BY_TOOLS for acted in self.in_force))
    @rule(data=st.data())
    def a_tool_dies(self, data: st.DataObject) -> None:
        """strace, or the keeper of clocks."""
        tools = sorted(_tools())
        if tools:
            self.disturbed = True
            os.kill(data.draw(st.sampled_from(tools)), signal.SIGKILL)
            self.story.append("a tool was killed")
            self.counts["tools killed"] += 1

    # -- what holds ---------------------------------------------------------------------------------------------------

    @invariant()
    def links_are_what_faults_make_them(self) -> None:
        found = self._do(_looked(lambda: links(self.stage)))
        assert found["shut, by the kernel"] == found["shut"], self.story
        # A change that was cut short may be known and not made; one that is made is always known.
        assert set(found["handed over by the kernel"]) <= set(found["shaped"]), (found, self.story)

    @invariant()
    def a_node_that_nobody_holds_is_as_it_was(self) -> None:
        if self.disturbed or any(acted.spec.fault == "churn" for acted in self.in_force):
            return
        held = {name for acted in self.in_force for name in acted.resolved.nodes}
        ahead = {name for acted in self.healed if _skews_monotonic(acted) for name in acted.resolved.nodes}
        for name in sorted(self.before.keys() & self.stage.lab.nodes.keys() - held - ahead):
            self._do(self._is_as_it_was(name))

    async def _is_as_it_was(self, name: str) -> None:
        deadline = self.loop.time() + _LEFT_S
        while True:
            left = differences({name: self.before[name]}, {name: node_state(self.stage, self.stage.lab.nodes[name])})
            if not left:
                return
            assert self.loop.time() < deadline, f"{left} after {self.story}"
            await asyncio.sleep(0.02)

    def teardown(self) -> None:
        try:
            self._do(self._end())
        finally:
            self.counts["examples"] += 1

    async def _end(self) -> None:
        """The end of a run: everything is healed. What is left then?"""
        stage, self.fuse_left = self.stage, self.fuse.remove()
        await stage.conductor.heal_all()
        await _restart_the_ahead(stage, [*self.healed, *self.in_force])
        for node in stage.lab.nodes.values():
            if node.state is NodeState.DEAD:
                await node.start()
        unhealed = []
        for acted in (*self.in_force, *self.healed):
            await stage.heal(acted)
            if not acted.healed:
                unhealed.append(f"{acted.spec.text}: {acted.outcomes[-1]}")
        await stage.healthy()
        left = await _left(stage, self.before)
        story = "\n  ".join(self.story)
        assert not left, f"left behind: {left}\nafter\n  {story}"
        assert not unhealed, f"not proven to be healed: {unhealed}\nafter\n  {story}"

    # -- drawing ------------------------------------------------------------------------------------------------------

    def _drawn(self, data: st.DataObject) -> FaultSpec | None:
        """One that the conductor would not keep waiting."""
        kind = data.draw(st.sampled_from(sorted(self.chosen)))
        spec = data.draw(st.sampled_from(self.chosen[kind]))
        obstacle = self._do(_looked(lambda: self.stage.obstacle(spec, self._seeds + 1)))
        return None if obstacle else spec

    def _seed(self) -> int:
        self._seeds += 1
        return self._seeds

    def _note(self, what: str, acted: Acted | None) -> None:
        if acted is not None:
            self.in_force.append(acted)
        self.story.append(
            f"{what}: {acted.outcomes[-1:] if acted else 'skipped'} {acted.resolved.nodes if acted else ''}"
        )


async def _looked(look: Callable[[], T]) -> T:
    return look()


def _tools() -> Iterator[int]:
    """Of this pid namespace: tracers, and the keeper of clocks."""
    namespace = os.stat("/proc/self/ns/pid").st_ino
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            inside = os.stat(f"/proc/{name}/ns/pid").st_ino == namespace
        except OSError:
            continue
        if inside and (words[0] == b"strace" or b"fencepost.harness.runtime.clocks.clock_daemon" in words):
            yield int(name)


async def in_any_order(lab: Lab, args: dict[str, Any]) -> Any:
    """`examples` of `steps` rules each, drawn from `seed`; how often what happened."""
    stage = await Stage.open(lab, args["system"])
    try:
        await _warm_up(stage)
        chosen, left_out = specs_of(stage)

        class Here(Faults):
            pass

        Here.stage, Here.loop, Here.fuse = stage, asyncio.get_running_loop(), Fuse(stage)
        Here.chosen, Here.counts, Here.unproven = chosen, Counter(), []
        # The lab lives on from one example to the next, so an example that failed cannot be made smaller.
        drawing = settings(
            max_examples=args["examples"],
            stateful_step_count=args["steps"],
            database=None,
            deadline=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        )
        await asyncio.to_thread(run_state_machine_as_test, seed(args["seed"])(Here), settings=drawing)
        return {"counts": dict(Here.counts), "unproven": Here.unproven, "left_out": left_out}
    finally:
        await stage.close()
