"""Gray nodes: a server that is stopped and continued in turns, so that it is neither up nor down.

It answers late and sends few heartbeats. For the share `share=` of each `period=` it is stopped, as a pause stops it.
The proof is a measurement: the server's processes are looked at many times, at random moments, and must be stopped in
about that share of the looks. The proof states the measured share.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Annotated, Final

from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.base.quantities import Share
from fencepost.harness.faults.fault_options import FaultOptions
from fencepost.harness.faults.kind import NODE_TARGETS, Act, FaultKind, FaultSpec, NotUndone, Proof, Resolved, View
from fencepost.harness.history import Effects, FaultOutcome, Stops
from fencepost.harness.runtime.node import Node, NodeState
from fencepost.harness.runtime.provider import Need
from fencepost.nemesis.process.pause import prove_state

_PERIODS_SAMPLED: Final = 3
_SAMPLING_NS_MIN: Final = 1_000_000_000
_SAMPLING_NS_MAX: Final = 6_000_000_000
_LOOKS: Final = 60
#: Moments to choose from; more than looks, since all moments within one stall of the harness count as one.
_MOMENTS: Final = 90
_LOOKS_MIN: Final = 30
#: How much the measured share may differ: looks are few, and a signal takes a moment to stop every thread.
_TOLERANCE: Final = 0.2


class GrayOptions(FaultOptions, frozen=True, kw_only=True):
    share: Annotated[Share, about("share of the time for which the server is stopped", least=0.05, most=0.95)] = Share(
        0.5
    )
    # A shorter period cannot be kept up, a longer one cannot be proven.
    period: Annotated[
        Duration, about("time from one stop to the next", least=seconds(0.01), most=_SAMPLING_NS_MAX // 2)
    ] = seconds(0.2)


class Gray(FaultKind):
    name = "gray"
    about = "the server is stopped and continued in turns: neither up nor down"
    targets: Mapping[str, str] = {**NODE_TARGETS, "all": "every node"}
    options = GrayOptions(for_=seconds(6))
    holds = frozenset({"process"})
    needs = frozenset({Need.FREEZE})
    draws = True
    for_all = ("gray:leader", "gray:one:share=0.8:period=1s")

    def effects(self, spec: FaultSpec) -> Effects:
        return Effects(stops=Stops.POSSIBLE)

    def aim(self, spec: FaultSpec, nodes: tuple[str, ...], view: View, seed: int) -> Resolved:
        options = spec.own(GrayOptions)
        details = {"share": float(options.share), "period_ms": options.period // 10**6, "looks_seed": seed}
        return Resolved(nodes=nodes, seed=seed, details=details)

    async def inject(self, act: Act) -> Proof:
        options, nodes = act.options(GrayOptions), act.nodes
        share, period_s = float(options.share), options.period / 1e9
        if any(node.state is not NodeState.RUNNING for node in nodes):
            return Proof(FaultOutcome.INDETERMINATE, "a node was not running")
        cycles = [_Cycle(node, share, period_s) for node in nodes]
        for cycle in cycles:
            act.undo(cycle.end)
        sampling_s = min(max(_PERIODS_SAMPLED * period_s, _SAMPLING_NS_MIN / 1e9), _SAMPLING_NS_MAX / 1e9)
        samples = await _sample(nodes, sampling_s, random.Random(act.resolved.seed))
        failed = [cycle.failure for cycle in cycles if cycle.failure]
        if failed:
            return Proof(FaultOutcome.INDETERMINATE, failed[0])
        counts = ", ".join(f"{name} in {stopped} of {looks} looks" for name, (stopped, looks) in samples.items())
        seldom = any(looks < _LOOKS_MIN for _, looks in samples.values())
        off = seldom or any(abs(stopped / looks - share) > _TOLERANCE for stopped, looks in samples.values())
        text = f"stopped: {counts}, over {sampling_s:g} s; planned was {share:.0%}"
        return Proof(FaultOutcome.INDETERMINATE if off else FaultOutcome.INSTALLED, text)

    async def heal(self, act: Act) -> Proof:
        for node in act.nodes:
            await node.resume()
        running = [node for node in act.nodes if node.state is NodeState.RUNNING]
        return await prove_state(running, NodeState.RUNNING, FaultOutcome.HEALED)


class _Cycle:
    """Stops and continues one node in turns, and measures for how long it was stopped."""

    def __init__(self, node: Node, share: float, period_s: float) -> None:
        self.node = node
        self.failure: str | None = None
        self._share, self._period_s = share, period_s
        self._loop = asyncio.get_running_loop()
        self._began_s = self._loop.time()
        self._stopped_s = 0.0
        self._task = asyncio.create_task(self._run())

    async def end(self) -> str:
        """Stop doing it; return the share of the time between a stop that took effect and the next continue."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        share = self._stopped_s / max(self._loop.time() - self._began_s, 1e-9)
        failure, self.failure = self.failure, None
        if failure:
            raise NotUndone(failure)
        return f"{self.node.name} was stopped for {share:.0%} of the time"

    async def _run(self) -> None:
        due_s = self._loop.time()
        try:
            while self.node.state in (NodeState.RUNNING, NodeState.PAUSED):
                await self.node.pause()
                since_s = self._loop.time()
                try:
                    await asyncio.sleep(due_s + self._share * self._period_s - self._loop.time())
                finally:
                    await self.node.resume()
                    self._stopped_s += self._loop.time() - since_s
                # A late cycle is not made up for, so that the share stays the same.
                due_s = max(due_s + self._period_s, self._loop.time())
                await asyncio.sleep(due_s - self._loop.time())
            self.failure = f"{self.node.name} ended meanwhile"
        except Exception as error:
            self.failure = f"{self.node.name}: {type(error).__name__}: {error}"


async def _sample(nodes: list[Node], sampling_s: float, draw: random.Random) -> dict[str, tuple[int, int]]:
    """Look at the nodes at random moments during `sampling_s` seconds, or half as long again on a busy machine.

    A moment that is already over when the last look ends is left out: all moments within one stall of the harness
    would see the same state.

    Returns:
        By node: how many looks found it stopped, and the number of looks.
    """
    loop = asyncio.get_running_loop()
    began_s = looked_at_s = loop.time()
    stopped = dict.fromkeys((node.name for node in nodes), 0)
    slot_s, looks = sampling_s / _LOOKS, 0
    for moment in range(_MOMENTS):
        due_s = began_s + (moment + draw.random()) * slot_s
        if due_s < looked_at_s:
            continue
        await asyncio.sleep(due_s - loop.time())
        looked_at_s = loop.time()
        looks += 1
        for node in nodes:
            stopped[node.name] += (await node.evidence()).state is NodeState.PAUSED
        if looks == _LOOKS:
            break
    return {name: (count, looks) for name, count in stopped.items()}
