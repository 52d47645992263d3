"""Runs of a real workload, through the real interpreter, against the fake cluster, in virtual time.

`run_fake` makes the history; `judge_fake` has the workload's own checkers judge it, with the verdict merged as for a
real run.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, cast

from fencepost.harness.base.options import Options, plain
from fencepost.harness.contract.profile import Profile, SystemOptions
from fencepost.harness.contract.system import System
from fencepost.harness.coordination import Definite, ReadMode
from fencepost.harness.history import (
    BeliefEvent,
    Claim,
    FaultAction,
    FaultEvent,
    FaultOutcome,
    FaultStage,
    History,
    NodeChange,
    NodeEvent,
)
from fencepost.harness.judging.judgement import Judgement, conclude
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.workload import Workload, workload_options
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.verdict import Facts, Guarantee, Thresholds, Verdict
from fencepost.harness.verdict.by_guarantee import COVERAGE
from tests.fakes.catalogue import BUGS, OPTIONS
from tests.fakes.cluster import FakeCluster, FakeNode
from tests.fakes.playing import play
from tests.fakes.profile import NoParts
from tests.fakes.session import FakeSession
from tests.fakes.store import promised

_PROMISED: Final = (
    "linearizable",
    "session-order",
    "serial-reads-settle",
    "no-lost-acknowledged-writes",
    "fenced-lock",
    "lock-mutual-exclusion",
    "superseded-leader-does-not-act",
    "one-put-per-key",
    "update-needs-key",
    "own-put-is-settled",
    "update-loses-none",
)
_POLL_S: Final = 0.05
_MAIN_S: Final = 6.0
_FAULT_AT_S: Final = (1.0, 3.5)
_FAULT_LASTS_S: Final = 1.2


class FakeSystem(NoParts):
    """What workloads ask of a system before a run: all of it is promised."""

    profile: Final = Profile(
        name="fake",
        options=SystemOptions,
        interfaces=frozenset(),
        reads={ReadMode.STRONG: "linearizable", ReadMode.PLAIN: "session-order"},
        register_checkers=("late-effects",),
        listeners={},
    )

    def promises(self, version: str = "") -> tuple[Guarantee, ...]:
        return promised(_PROMISED)


SYSTEM: Final = cast(System, FakeSystem())


def options_of(workload: Workload[Any], bug: str | None, extra: Mapping[str, Any]) -> Options:
    planted = BUGS[bug].options if bug is not None else {}
    options: Options = workload_options(workload, SYSTEM, {**OPTIONS[workload.name], **planted, **extra})
    return options


def run_fake(
    workload: str,
    bug: str | None,
    seed: int,
    *,
    faults: tuple[str, ...] | None = None,
    options: Mapping[str, Any] | None = None,
) -> History:
    """One run; `faults` of "pause" and "kill" (of the leader), by default those that the bug needs."""
    if faults is None:
        faults = BUGS[bug].faults if bug is not None else ()
    return FakeRun(workload, bug, seed, faults, options or {}).go()


def judge_fake(
    history: History,
    workload: str,
    bug: str | None,
    *,
    options: Mapping[str, Any] | None = None,
    failure: str | None = None,
    nemesis: tuple[str, ...] = (),
    scheduled: int | None = None,
) -> Judgement:
    """The judgement of the checkers that a real run of this workload has; the last three as in a run's facts."""
    asking: Workload[Any] = registry.workload(workload)
    merged = options_of(asking, bug, options or {})
    facts = Facts(
        system="fake",
        workload=workload,
        nodes=("n1", "n2", "n3"),
        guarantees=SYSTEM.promises(),
        read_guarantee=asking.guarantee(SYSTEM, merged),
        options=plain(merged),
        # A run is short, and critical sections take their time.
        thresholds=Thresholds(ok_operations_min=40),
        planned_ns=round(_MAIN_S * 1e9),
        failure=failure,
        nemesis=nemesis,
        scheduled=scheduled,
    )
    verdicts: list[Verdict] = []
    for name in (*asking.checkers(SYSTEM, merged), "leadership", COVERAGE):
        verdicts += registry.checker(name)(history, facts)
    return conclude(history, facts, tuple(verdicts))


class FakeRun:
    load_s = _MAIN_S

    def __init__(
        self, workload: str, bug: str | None, seed: int, faults: tuple[str, ...], options: Mapping[str, Any]
    ) -> None:
        self.workload: Workload[Any] = registry.workload(workload)
        self.options = options_of(self.workload, bug, options)
        self.bug, self.seed, self.faults = bug, seed, faults

    def go(self) -> History:
        self.cluster = self.made_cluster()
        return play(
            self.workload,
            self._session,
            nodes=list(self.cluster.nodes),
            seed=self.seed,
            load_s=self.load_s,
            options=self.options,
            begin=self._begin,
            beside=[partial(self._observe, node) for node in self.cluster.nodes.values()],
            disturb=self._disturb,
            final_s=3.0,
            open_s=0.002,
        )

    def made_cluster(self) -> FakeCluster:
        return FakeCluster(seed=self.seed, bug=self.bug)

    def _session(self, name: str) -> FakeSession:
        node = self.cluster.nodes[name]
        if not node.alive:
            raise Definite("refused")
        return FakeSession(self.cluster, node)

    def _begin(self, recorder: Recorder) -> None:
        self.recorder = recorder
        for node in self.cluster.nodes.values():
            self._node(node, NodeChange.STARTED)

    async def _disturb(self, _: object) -> None:
        began_s = self.cluster.now_s()
        for fault_id, at_s in enumerate(_FAULT_AT_S):
            for fault in self.faults:
                await asyncio.sleep(max(0.0, began_s + at_s - self.cluster.now_s()))
                await self._fault(fault_id, fault, self.cluster.nodes[self.cluster.leader])

    async def _fault(self, fault_id: int, fault: str, node: FakeNode) -> None:
        def record(action: FaultAction, stage: FaultStage, outcome: FaultOutcome) -> None:
            self.recorder.record(
                FaultEvent,
                fault_id=fault_id,
                fault=fault,
                action=action,
                stage=stage,
                outcome=outcome,
                target="leader",
                nodes=(node.name,),
            )

        cluster = self.cluster
        record(FaultAction.INJECT, FaultStage.BEGIN, FaultOutcome.PENDING)
        if fault == "pause":
            cluster.pause(node)
        else:
            cluster.kill(node)
            self._node(node, NodeChange.EXITED)
        record(FaultAction.INJECT, FaultStage.END, FaultOutcome.INSTALLED)
        await cluster.elect()
        await asyncio.sleep(_FAULT_LASTS_S)
        record(FaultAction.HEAL, FaultStage.BEGIN, FaultOutcome.PENDING)
        if fault == "pause":
            cluster.resume(node)
        else:
            cluster.restart(node)
            self._node(node, NodeChange.STARTED)
        record(FaultAction.HEAL, FaultStage.END, FaultOutcome.HEALED)

    def _node(self, node: FakeNode, change: NodeChange) -> None:
        self.recorder.record(NodeEvent, node=node.name, change=change, incarnation=node.incarnation)

    async def _observe(self, node: FakeNode, _: object) -> None:
        """Ask one node alone whether it leads; a paused one answers when it wakes, or not before the deadline."""
        while True:
            asked_ns, incarnation = self.recorder.now_ns(), node.incarnation
            answer = await self._ask(node)
            self.recorder.record(
                BeliefEvent,
                subject="leader",
                node=node.name,
                incarnation=incarnation,
                claims=answer[0],
                asked_ns=asked_ns,
                source="fake",
                epoch=answer[1],
            )
            await asyncio.sleep(_POLL_S)

    async def _ask(self, node: FakeNode) -> tuple[Claim, int | None]:
        await asyncio.sleep(0.001)
        try:
            async with asyncio.timeout(0.4):
                await node.running.wait()
        except TimeoutError:
            return Claim.SILENT, None
        if not node.alive:
            return Claim.SILENT, None
        if node.claims_epoch is not None:
            return Claim.YES, node.claims_epoch
        return Claim.NO, self.cluster.epoch
