"""The phases of a run, with the faults beside the main one.

They are plan data: warm-up, main (the only one with faults), heal, settle (a condition with a deadline), watch (the
same load after healing, until nothing is left to watch), final (the reads that a verdict rests on).
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from fencepost.harness.faults.conductor import Conductor
from fencepost.harness.faults.schedule import ScheduledFault
from fencepost.harness.generators import Generator, time_limit
from fencepost.harness.history import WATCHED, NoteEvent, PhaseEvent, PhaseName
from fencepost.harness.interpreter.interpreter import Interpreter
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import CheckedPlan
from fencepost.harness.plugins.workload import Workload
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.runner.beside import EarlyEnd, tell
from fencepost.harness.runner.faults import ScheduleFile
from fencepost.harness.runner.observer import Observers
from fencepost.harness.runner.replicas import record_replicas
from fencepost.harness.runner.servers import Servers
from fencepost.harness.runner.watch import CALM_NS, LOOK_S, LoadWatch

_TICK_S: Final = 0.5
#: After a stop by hand everything must end within ten seconds, the verdict included; final reads get this share.
_STOPPED_FINAL_S: Final = 1.5
#: The phases with the load of the main one.
_LOADED: Final = frozenset({PhaseName.MAIN, PhaseName.WATCH})


class RunPhases:
    """The phases of a run, once its servers serve. A stop by hand shortens the rest, but never skips the healing."""

    def __init__(
        self,
        servers: Servers,
        end: EarlyEnd,
        *,
        interpreter: Interpreter,
        observers: Observers,
        conductor: Conductor,
        schedule_file: ScheduleFile,
    ) -> None:
        self._checked: CheckedPlan = servers.checked
        self._recorder: Recorder = servers.recorder
        self._servers, self._end = servers, end
        self._interpreter, self._observers, self._conductor = interpreter, observers, conductor
        self._schedule_file = schedule_file
        self._phase = PhaseName.WARM_UP
        self._phase_ends_ns: int | None = None
        self._watch = LoadWatch(
            observers.answers,
            in_force=lambda: conductor.current is not None,
            healed_ns=lambda: schedule_file.healed_ns,
        )
        #: What the watch left of its longest time; the final reads may take it.
        self._spared_ns = 0

    async def run(self, schedule: Iterable[Iterable[ScheduledFault]]) -> None:
        """Go through all phases in order; raise HarnessError when an observer failed."""
        plan, stop = self._checked.plan, self._end.stop
        await self._load(PhaseName.WARM_UP, length_ns=plan.duration_ns("warm_up"))
        await self._main(schedule)
        self._begin(PhaseName.HEAL, None)
        await self._conductor.heal_all()
        self._begin(PhaseName.SETTLE, plan.duration_ns("settle"))
        await self._servers.settle(self._end)
        if not stop.is_set():
            await self._watched()
        await self._final()

    async def look(self) -> None:
        """Keep up with what is left to watch, until cancelled."""
        while True:
            self._watch.look(self._recorder.now_ns(), loaded=self._phase in _LOADED)
            await asyncio.sleep(LOOK_S)

    async def tell_ticks(self) -> None:
        """Report the progress of the run twice a second, until cancelled."""
        before, before_ns = 0, self._recorder.now_ns()
        while True:
            await asyncio.sleep(_TICK_S)
            now_ns = self._recorder.now_ns()
            done = self._interpreter.completed
            leader, epoch = self._observers.leader()
            tell(
                "tick",
                phase=self._phase.value,
                left_s=None if self._phase_ends_ns is None else max(self._phase_ends_ns - now_ns, 0) / 1e9,
                ops=done,
                ops_per_s=(done - before) / max((now_ns - before_ns) / 1e9, 1e-9),
                fault=self._conductor.current,
                leader=leader,
                epoch=epoch,
            )
            before, before_ns = done, now_ns

    async def _main(self, schedule: Iterable[Iterable[ScheduledFault]]) -> None:
        # Made before the task begins: a run that was stopped in its warm-up is over at once.
        faults_over = asyncio.Event()
        faults = asyncio.create_task(self._conduct_faults(schedule, faults_over))
        try:
            await self._load(PhaseName.MAIN, length_ns=self._checked.plan.duration_ns("time_limit"))
        finally:
            # The load is over; a fault still in force is healed at once.
            if not faults.done():
                faults_over.set()
            await faults

    async def _conduct_faults(self, schedule: Iterable[Iterable[ScheduledFault]], over: asyncio.Event) -> None:
        mirror = asyncio.create_task(_forward(self._end.stop, over))
        try:
            limit_ns = self._checked.plan.duration_ns("time_limit")
            await self._conductor.run_workers(schedule, stop=over, limit_ns=limit_ns)
        finally:
            mirror.cancel()

    async def _watched(self) -> None:
        """Go on with the load until nothing is left to watch; for the whole time if the plan asks for its own."""
        plan, healed_ns = self._checked.plan, self._schedule_file.healed_ns
        began_ns, watch_ns = self._recorder.now_ns(), plan.duration_ns("watch")
        since_ns = watch_ns if healed_ns is None else began_ns - healed_ns
        longest_ns = max(watch_ns - since_ns, min(watch_ns, CALM_NS))
        over = asyncio.Event()
        if watch_ns == self._checked.leadership(self._servers.artifacts.version).watch_ns:
            waiter = asyncio.create_task(self._when_calm(over))
        else:
            waiter = asyncio.create_task(_forward(self._end.stop, over))
        try:
            await self._load(PhaseName.WATCH, length_ns=longest_ns, stop=over)
        finally:
            waiter.cancel()
        ended_ns = self._recorder.now_ns()
        self._spared_ns = max(0, longest_ns - (ended_ns - began_ns))
        since = "its start" if healed_ns is None else "the last healing"
        watched_s = (ended_ns - (healed_ns or 0)) / 1e9
        self._recorder.record(
            NoteEvent, topic=WATCHED, text=f"watched for {watched_s:.1f} s since {since}, {self._watch.in_words}"
        )

    async def _when_calm(self, over: asyncio.Event) -> None:
        """Set `over` once nothing has been left to watch for long enough, or the run was stopped."""
        while not self._watch.over and not self._end.stop.is_set():
            await asyncio.sleep(LOOK_S)
        over.set()

    async def _load(self, phase: PhaseName, *, length_ns: int, stop: asyncio.Event | None = None) -> None:
        if self._end.stop.is_set():
            return
        self._begin(phase, length_ns)
        generator = self._checked.workload.generator(self._checked.options, len(self._servers.client_nodes))
        await self._interpreter.run(time_limit(length_ns, generator), stop=stop or self._end.stop)

    async def _final(self) -> None:
        checked, stopped = self._checked, self._end.stop.is_set()
        length_ns = final_length_ns(checked.plan, checked.workload, spared_ns=self._spared_ns, stopped=stopped)
        self._begin(PhaseName.FINAL, length_ns)
        nodes = len(self._servers.client_nodes)
        generator: Generator = checked.workload.final_generator(checked.options, nodes)
        await self._interpreter.run(time_limit(length_ns, generator))
        await record_replicas(self._servers, stopped=self._end.stop.is_set)

    def _begin(self, phase: PhaseName, length_ns: int | None) -> None:
        self._phase = phase
        self._recorder.record(PhaseEvent, phase=phase)
        self._phase_ends_ns = None if length_ns is None else self._recorder.now_ns() + length_ns
        tell("phase", phase=phase.value, left_s=None if length_ns is None else length_ns / 1e9)


def final_length_ns(plan: Plan, workload: Workload[Any], *, spared_ns: int, stopped: bool) -> int:
    """How long the final phase lasts at most; `spared_ns` is what the watch before it left over."""
    if stopped:
        return round(_STOPPED_FINAL_S * 1e9)
    return plan.duration_ns("final") + workload.final_pause_ns + spared_ns


async def _forward(source: asyncio.Event, target: asyncio.Event) -> None:
    await source.wait()
    target.set()
