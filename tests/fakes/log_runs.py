"""Runs of the log workload, through the real interpreter, against the fake log, in virtual time; and their verdict."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, cast

from fencepost.harness.base.options import plain
from fencepost.harness.contract.system import System
from fencepost.harness.history import FaultAction, FaultEvent, FaultOutcome, FaultStage, History
from fencepost.harness.judging.judgement import Judgement, conclude
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.workload import workload_options
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.verdict import Facts, Thresholds
from fencepost.systems.kafka.kraft import KRAFT
from fencepost.workloads.log import LogOptions, LogWorkload
from tests.fakes.log_broker import NEEDS_ELECTIONS, FakeLog, FakeLogSession
from tests.fakes.playing import play
from tests.fakes.profile import FAKE_PROFILE

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
    options = options_of(given)
    log = FakeLog(seed=seed, bug=bug, partitions=options.partitions)

    async def disturb(recorder: Recorder) -> None:
        began_s = asyncio.get_running_loop().time()
        for fault_id, (at_s, node) in enumerate(zip(_CUT_AT_S, log.nodes, strict=False)):
            await asyncio.sleep(max(0.0, began_s + at_s - asyncio.get_running_loop().time()))
            _cut(recorder, fault_id, node, FaultAction.INJECT, FaultStage.BEGIN, FaultOutcome.PENDING)
            _cut(recorder, fault_id, node, FaultAction.INJECT, FaultStage.END, FaultOutcome.INSTALLED)
            await log.depose(node)
            await asyncio.sleep(_CUT_LASTS_S)
            _cut(recorder, fault_id, node, FaultAction.HEAL, FaultStage.BEGIN, FaultOutcome.PENDING)
            _cut(recorder, fault_id, node, FaultAction.HEAL, FaultStage.END, FaultOutcome.HEALED)

    return play(
        LogWorkload(),
        lambda node: FakeLogSession(log, node),
        nodes=log.nodes,
        seed=seed,
        load_s=4.0,
        options=options,
        disturb=disturb if wanted else None,
        settle_s=1.0,
        final_s=5.0,
        open_s=0.0,
    )


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
    checkers = map(registry.checker, ("log", "zombie-brokers", "coverage"))
    verdicts = [v for check in checkers for v in check(history, facts)]
    return conclude(history, facts, tuple(verdicts))


def _cut(
    recorder: Recorder, fault_id: int, node: str, action: FaultAction, stage: FaultStage, outcome: FaultOutcome
) -> None:
    recorder.record(
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
