"""Runs of the log workload, through the real interpreter, against the fake log, in virtual time; and their verdict."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, cast

from fencepost.checkers import coverage, log
from fencepost.checkers.log import zombie_leaders
from fencepost.harness.base.options import plain
from fencepost.harness.contract.system import System
from fencepost.harness.generators import time_limit
from fencepost.harness.history import (
    Event,
    FaultAction,
    FaultEvent,
    FaultOutcome,
    FaultStage,
    History,
    PhaseEvent,
    PhaseName,
)
from fencepost.harness.interpreter.client import Client
from fencepost.harness.interpreter.interpreter import Interpreter
from fencepost.harness.judging.judgement import Judgement, conclude
from fencepost.harness.plugins.workload import clients_of, workload_options
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.verdict import Facts, Thresholds
from fencepost.systems.kafka.kraft import KRAFT
from fencepost.workloads.log import LogOptions, LogWorkload
from tests.fakes.log_broker import NEEDS_ELECTIONS, FakeLog, FakeLogSession
from tests.fakes.profile import FAKE_PROFILE
from tests.fakes.virtual_time import run_virtual, virtual_clock_ns

_MAIN_S: Final = 4.0
_CUT_AT_S: Final = (0.8, 2.4)
_CUT_LASTS_S: Final = 1.2
_CONTROLLERS: Final = ("n1", "n2", "n3")
OPTIONS: Final = {"partitions": 4, "rate": 500.0, "appenders_per_node": 3, "pollers_per_node": 1, "batch": 30}


class _System:
    profile: Final = FAKE_PROFILE


SYSTEM: Final = cast(System, _System())


def options_of(given: Mapping[str, Any]) -> LogOptions:
    return workload_options(LogWorkload(), SYSTEM, {**OPTIONS, **given})


def run_log(bug: str | None, seed: int, *, elections: bool | None = None, **given: Any) -> History:
    """One run; two brokers in turn are cut off from the controllers when `elections` (default: if the bug needs it)."""
    wanted = bug in NEEDS_ELECTIONS if elections is None else elections
    return run_virtual(_Run(bug, seed, wanted, options_of(given)).go())


def judge_log(history: History, **given: Any) -> Judgement:
    workload, options = LogWorkload(), options_of(given)
    facts = Facts(
        system="fake",
        workload="log",
        nodes=(*_CONTROLLERS, "b1", "b2", "b3"),
        electorate=_CONTROLLERS,
        guarantees=KRAFT.promises(),
        read_guarantee=workload.guarantee(SYSTEM, options),
        options=plain(options),
        thresholds=Thresholds(ok_operations_min=40),
    )
    verdicts = [v for check in (log.check, zombie_leaders.check, coverage.check) for v in check(history, facts)]
    return conclude(history, facts, tuple(verdicts))


class _Run:
    def __init__(self, bug: str | None, seed: int, elections: bool, options: LogOptions) -> None:
        self._log = FakeLog(seed=seed, bug=bug, partitions=options.partitions)
        self._seed, self._elections, self._options = seed, elections, options
        self._workload = LogWorkload()

    async def go(self) -> History:
        self._recorder = Recorder(None, clock_ns=virtual_clock_ns)
        events: list[Event] = []
        self._recorder.listeners.append(events.append)
        names = self._log.nodes

        async def open_client(process: int, node: str) -> Client:
            return self._workload.client(FakeLogSession(self._log, node), self._options, self._recorder.now_ns)

        interpreter = Interpreter(
            clients_of(self._workload, self._options, names, open_client, op_timeout_s=3.0, open_timeout_s=0.5),
            recorder=self._recorder,
            seed=self._seed,
        )
        try:
            await self._phases(interpreter)
        finally:
            await interpreter.close()
        return History(events, source=f"fake log {self._log.bug} {self._seed}")

    async def _phases(self, interpreter: Interpreter) -> None:
        count = len(self._log.nodes)
        self._recorder.record(PhaseEvent, phase=PhaseName.MAIN)
        faults = asyncio.ensure_future(self._disturb())
        load = self._workload.generator(self._options, count)
        await interpreter.run(time_limit(round(_MAIN_S * 1e9), load))
        await faults
        self._recorder.record(PhaseEvent, phase=PhaseName.HEAL)
        self._recorder.record(PhaseEvent, phase=PhaseName.SETTLE)
        await asyncio.sleep(1.0)
        self._recorder.record(PhaseEvent, phase=PhaseName.FINAL)
        final = self._workload.final_generator(self._options, count)
        await interpreter.run(time_limit(5_000_000_000, final))

    async def _disturb(self) -> None:
        if not self._elections:
            return
        began_s = asyncio.get_running_loop().time()
        for fault_id, (at_s, node) in enumerate(zip(_CUT_AT_S, self._log.nodes, strict=False)):
            await asyncio.sleep(max(0.0, began_s + at_s - asyncio.get_running_loop().time()))
            self._cut(fault_id, node, FaultAction.INJECT, FaultStage.BEGIN, FaultOutcome.PENDING)
            self._cut(fault_id, node, FaultAction.INJECT, FaultStage.END, FaultOutcome.INSTALLED)
            await self._log.depose(node)
            await asyncio.sleep(_CUT_LASTS_S)
            self._cut(fault_id, node, FaultAction.HEAL, FaultStage.BEGIN, FaultOutcome.PENDING)
            self._cut(fault_id, node, FaultAction.HEAL, FaultStage.END, FaultOutcome.HEALED)

    def _cut(self, fault_id: int, node: str, action: FaultAction, stage: FaultStage, outcome: FaultOutcome) -> None:
        self._recorder.record(
            FaultEvent,
            fault_id=fault_id,
            fault="partition",
            action=action,
            stage=stage,
            outcome=outcome,
            target="broker-metadata",
            nodes=(node,),
            severed=tuple(link for n in _CONTROLLERS for link in (f"{node}>{n}", f"{n}>{node}")),
        )
