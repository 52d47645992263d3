"""Runs of the watch workload, through the real interpreter, against the fake store, in virtual time; and judged."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, cast

from msgspec.structs import replace

from fencepost.checkers import coverage, watches
from fencepost.harness.base.options import plain
from fencepost.harness.contract.system import System, WatchKinds
from fencepost.harness.coordination import WatchMode
from fencepost.harness.generators import time_limit
from fencepost.harness.history import Event, History, PhaseEvent, PhaseName
from fencepost.harness.interpreter.client import Client
from fencepost.harness.interpreter.interpreter import Interpreter
from fencepost.harness.judging.judgement import Judgement, conclude
from fencepost.harness.plugins.workload import clients_of, workload_options
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.verdict import Facts, Guarantee, Standing, Thresholds
from fencepost.systems.consul.system import CONSUL
from fencepost.systems.etcd.system import ETCD
from fencepost.systems.zookeeper.system import ZOOKEEPER
from fencepost.workloads.watch import WatchOptions, WatchWorkload
from tests.fakes.profile import FAKE_PROFILE, NoParts
from tests.fakes.virtual_time import run_virtual, virtual_clock_ns
from tests.fakes.watch_store import BUGS, FakeWatchSession, FakeWatchStore

_MAIN_S: Final = 4.0
_OPTIONS: Final = {"rate": 300.0, "wait": "20ms", "keys": 4}
_PROMISES: Final[dict[str, tuple[Guarantee, ...]]] = {
    # The newest release: earlier ones promise less of bookmarks.
    "history": ETCD.promises("main"),
    "session": ZOOKEEPER.promises(),
    # All of them decide here, also the one that users only rely on.
    "merged": tuple(replace(g, standing=Standing.PROMISED) for g in CONSUL.promises()),
}
_MODES: Final[dict[str, tuple[WatchMode, ...]]] = {
    "history": (WatchMode.PERSISTENT,),
    "session": (WatchMode.PERSISTENT, WatchMode.ONE_SHOT),
    "merged": (WatchMode.MERGED,),
}


class FakeSystem(NoParts):
    profile: Final = FAKE_PROFILE

    def __init__(self, flavour: str) -> None:
        self.watches: Final = WatchKinds(modes=_MODES[flavour], resumes=flavour == "history", keys_together=True)


def options_of(flavour: str, given: Mapping[str, Any]) -> WatchOptions:
    often = {"again_every": "700ms"} if flavour == "history" else {}
    return workload_options(WatchWorkload(), cast(System, FakeSystem(flavour)), {**_OPTIONS, **often, **given})


def run_watch(bug: str | None, seed: int, *, flavour: str = "history", **given: Any) -> History:
    """One run, in which each node in turn loses its connections for a while."""
    if bug is not None:
        _, flavour, needed, _ = BUGS[bug]
        given = {**needed, **given}
    return run_virtual(_Run(bug, seed, flavour, options_of(flavour, given)).go())


def judge_watch(history: History, *, flavour: str = "history", **given: Any) -> Judgement:
    options = options_of(flavour, given)
    facts = Facts(
        system="fake",
        workload="watch",
        nodes=("n1", "n2", "n3"),
        guarantees=_PROMISES[flavour],
        read_guarantee="watch-reliable",
        options=plain(options),
        thresholds=Thresholds(ok_operations_min=40),
    )
    verdicts = [v for check in (watches.check, coverage.check) for v in check(history, facts)]
    return conclude(history, facts, tuple(verdicts))


class _Run:
    def __init__(self, bug: str | None, seed: int, flavour: str, options: WatchOptions) -> None:
        self._store = FakeWatchStore(seed=seed, bug=bug, flavour=flavour)
        self._seed, self._options = seed, options
        self._workload = WatchWorkload()

    async def go(self) -> History:
        self._recorder = Recorder(None, clock_ns=virtual_clock_ns)
        events: list[Event] = []
        self._recorder.listeners.append(events.append)
        names = tuple(self._store.nodes)

        async def open_client(process: int, node: str) -> Client:
            session = FakeWatchSession(self._store, node)
            return self._workload.client(session, self._options, self._recorder.now_ns)

        interpreter = Interpreter(
            clients_of(self._workload, self._options, names, open_client, op_timeout_s=3.0, open_timeout_s=0.5),
            recorder=self._recorder,
            seed=self._seed,
        )
        self._store.start()
        try:
            await self._phases(interpreter, len(names))
        finally:
            await interpreter.close()
            self._store.stop()
        return History(events, source=f"fake watches {self._store.bug} {self._seed}")

    async def _phases(self, interpreter: Interpreter, count: int) -> None:
        for phase, length_s in ((PhaseName.WARM_UP, 0.5), (PhaseName.MAIN, _MAIN_S)):
            self._recorder.record(PhaseEvent, phase=phase)
            faults = asyncio.ensure_future(self._disturb(phase))
            load = self._workload.generator(self._options, count)
            await interpreter.run(time_limit(round(length_s * 1e9), load))
            await faults
        self._recorder.record(PhaseEvent, phase=PhaseName.HEAL)
        self._recorder.record(PhaseEvent, phase=PhaseName.SETTLE)
        await asyncio.sleep(0.5)
        self._recorder.record(PhaseEvent, phase=PhaseName.FINAL)
        final = self._workload.final_generator(self._options, count)
        await interpreter.run(time_limit(10_000_000_000, final))

    async def _disturb(self, phase: PhaseName) -> None:
        if phase is not PhaseName.MAIN:
            return
        for name in (*self._store.nodes, "n1"):
            await asyncio.sleep(0.6)
            await self._store.cut(name, 0.3)
