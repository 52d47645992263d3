"""Conducts one run: cluster up, phases, nemesis beside them, everything down again.

The phases are plan data: warm-up, main (the only one with faults), heal, settle (a condition with a deadline), watch
(the same load after healing), final (the reads that a verdict rests on).
"""

import asyncio
import json
import signal
import sys
import time
import traceback
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from fencepost.harness.base.errors import FencepostError, HarnessError, NodeNotReady
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.coordination.client_gate import Freezer
from fencepost.harness.faults.conductor import Conductor
from fencepost.harness.faults.kind import Choice, Cluster, View, parse_choice
from fencepost.harness.faults.schedule import Entry, draw_schedules
from fencepost.harness.generators import Generator, time_limit
from fencepost.harness.history import (
    DISK_FULL,
    HARNESS_ERROR,
    STOPPED_EARLY,
    FaultAction,
    NodeChange,
    NodeEvent,
    NoteEvent,
    PhaseEvent,
    PhaseName,
)
from fencepost.harness.interpreter.client import Client
from fencepost.harness.interpreter.interpreter import Interpreter, new_event_loop
from fencepost.harness.plan import read_plan
from fencepost.harness.plan.checked_plan import CheckedPlan, check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.runner.health import HealthSampler
from fencepost.harness.runner.observer import Observers
from fencepost.harness.runner.readiness import await_healthy, await_ready
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Node, NodeState
from fencepost.harness.runtime.provider import Links
from fencepost.harness.systems.contract.reported_version import TellsVersion, ask_version
from fencepost.harness.systems.contract.server_settings import TakesSettings
from fencepost.nemesis.process.pause import CLIENT_WORKER

_TICK_S = 0.5
#: An engine that hangs must not hang the run.
_START_DEADLINE_S = 60.0
_PREPARE_DEADLINE_S = 20.0
#: After a stop by hand everything, the verdict included, has ten seconds; settling gets this share of them.
_STOPPED_SETTLE_S = 2.5
_STOPPED_FINAL_S = 1.5
#: Under load after settling, however long ago the last fault was healed.
_WATCH_NS_MIN = 2_000_000_000


def run_folder(folder: str) -> int:
    """Carry out the plan in `folder`; progress on stdout; returns the exit status of the process."""
    path = Path(folder)
    loop = new_event_loop()
    try:
        loop.run_until_complete(_conduct(path))
    except FencepostError as error:
        tell("error", message=error.message, hint=error.hint, exit_code=int(error.exit_code))
        return int(error.exit_code)
    except Exception as error:
        traceback.print_exc()
        tell("error", message=f"{type(error).__name__}: {error}", hint=None, exit_code=255)
        return 255
    finally:
        loop.close()
    tell("done")
    return 0


def tell(topic: str, **fields: object) -> None:
    """One line of progress for the outer process; a closed pipe means that nobody listens any more."""
    try:
        sys.stdout.write(json.dumps({"topic": topic, **fields}) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stdout = sys.stderr


async def _conduct(folder: Path) -> None:
    facts = store.read_json(folder / store.RUN)
    artifacts = Artifacts(**facts["artifacts"])
    others = {word: Artifacts(**made) for word, made in facts.get("other_artifacts", {}).items()}
    checked = check_plan(read_plan(folder / store.PLAN, seed=0))
    checked = checked.placed(replace(checked.setting, links=Links(facts["links"])))
    async with AsyncExitStack() as stack:
        run = _Run(folder, checked, artifacts, others, stack)
        await run.set_up()
        await run.go()


class _Run:
    """One run's parts, made in order and undone in reverse by the stack."""

    def __init__(
        self,
        folder: Path,
        checked: CheckedPlan,
        artifacts: Artifacts,
        others: Mapping[str, Artifacts],
        stack: AsyncExitStack,
    ) -> None:
        self.folder, self.checked = folder, checked
        self.plan, self.system, self.workload = checked.plan, checked.system, checked.workload
        self.artifacts, self.others, self.stack = artifacts, others, stack
        self.stop = asyncio.Event()
        self.stopped_at: float | None = None
        self.stopped_by: str | None = None
        self.phase = PhaseName.WARM_UP
        self.phase_ends_ns: int | None = None
        self.healed_ns: int | None = None
        self.background: set[asyncio.Task[Any]] = set()
        self.unready: set[str] = set()
        self.restarted: str | None = None
        self.options, self.members = checked.options, checked.members
        self.client_nodes = checked.workload.nodes(self.members)
        self.bound_ns = self._bound_ns()

    async def set_up(self) -> None:
        """Cluster up and healthy, keys made, observers asking."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop_early, STOPPED_EARLY)
        self.runtime = await self.checked.provider.open(
            self.folder, self.checked.setting, self.system.listeners, self.artifacts
        )
        self.stack.push_async_callback(self.runtime.close)
        self.recorder = Recorder(self.folder / store.HISTORY_LINES, on_disk_full=lambda: self._stop_early(DISK_FULL))
        self._write_zero()
        self.recorder.start()
        self.stack.push_async_callback(self.recorder.close)
        self.stack.push_async_callback(self._cancel_background)
        self.health = HealthSampler(self.recorder, node_cpu={n: node.cpu_ns for n, node in self.runtime.nodes.items()})
        self._spawn(self.health.run())
        self._spawn(self._note_stop())
        for node in self.runtime.nodes.values():
            node.on_start.append(self._started)
        self._spawn(self._watch_exits())
        tell("phase", phase="start", left_s=None)
        options = self.checked.system_options
        cluster = Cluster(
            runtime=self.runtime,
            system=self.system,
            artifacts=self.artifacts,
            options=options,
            settings=self.plan.settings,
            changes_members=self._changes_members(),
            records=self.recorder,
            view=self._view,
            folder=self.folder,
            others=self.others,
            hurried=self.stop.is_set,
        )
        await self.runtime.realise(cluster.specs().values())
        await self._start_all()
        await asyncio.gather(*(await_ready(self.system, node, self.recorder) for node in self.runtime.nodes.values()))
        wrong = await await_healthy(self.system, self.runtime.layout, deadline_s=30.0)
        if wrong:
            raise NodeNotReady(f"the cluster is not healthy after 30 s: {wrong}", hint=f"the logs are in {self.folder}")
        await self._read_version()
        await self._read_settings()
        await self._prepare(options)
        self.observers = Observers(self.system, self.runtime.nodes, self.recorder)
        self.observers.start()
        self.stack.push_async_callback(self.observers.close)
        self._make_interpreter(options)
        self.conductor = Conductor(
            cluster=replace(cluster, artifacts=self.artifacts, clients=self.freezer),
            faults=registry.faults(),
            schedule_sink=self._schedule_sink(),
            keep_quorum=self.plan.quorum == "keep",
        )
        self._spawn(self._tick())

    async def _start_all(self) -> None:
        """All at once, each bounded; then every link must be open before anything is asked of the servers."""
        async with asyncio.timeout(_START_DEADLINE_S), asyncio.TaskGroup() as group:
            for node in self.runtime.nodes.values():
                group.create_task(node.start())
        await self.runtime.await_links()

    def _make_interpreter(self, options: Mapping[str, object]) -> None:
        names = self.client_nodes
        timeout_s = self.plan.duration_ns("op_timeout") / 1e9

        async def open_client(process: int, node: str) -> Client:
            place = self.runtime.layout[node]
            store_client = await self.system.open_client(place, connect_timeout_s=2.0, options=options)
            return self.workload.client(store_client, self.options, self.recorder.now_ns)

        workers = self.workload.workers(self.options, len(self.client_nodes))
        self.freezer = Freezer(workers) if self._freezes_clients() else None
        self.interpreter = Interpreter(
            workers=workers,
            node_of=lambda worker: names[worker % len(names)],
            open_client=open_client,
            recorder=self.recorder,
            seed=self.plan.seed,
            op_timeout_s=lambda worker: self.workload.timeout_s(
                self.options, len(self.client_nodes), worker, timeout_s
            ),
            open_timeout_s=2.5,
            effect_free=self.workload.effect_free,
            freezer=self.freezer,
        )
        self.stack.push_async_callback(self.interpreter.close)

    async def go(self) -> None:
        """The phases, in order. A stop by hand shortens what is left; it skips no healing."""
        plan = self.plan
        await self._load(PhaseName.WARM_UP, length_ns=plan.duration_ns("warm_up"))
        await self._main(self._schedule())
        self._begin(PhaseName.HEAL, None)
        await self.conductor.heal_all()
        self._begin(PhaseName.SETTLE, plan.duration_ns("settle"))
        settle_s = self.plan.duration_ns("settle") / 1e9
        wrong = await await_healthy(self.system, self.runtime.layout, deadline_s=settle_s, relevant=self._may_settle)
        if wrong:
            self.recorder.record(NoteEvent, topic="not-healthy-after-healing", text=wrong)
        if not self.stop.is_set():
            await self._load(PhaseName.WATCH, length_ns=self._left_to_watch_ns())
        await self._final()
        failure = self.observers.failed()
        if failure is not None:
            raise HarnessError(f"an observer failed: {failure!r}")
        await self.interpreter.close()
        await self.observers.close()
        # The history ends here: what tearing down does to the servers is no news of them.
        await self._cancel_background()
        await self.recorder.close()
        tell("recorded")
        await self._keep_data()

    def _freezes_clients(self) -> bool:
        """Only then do the clients' connections go through gates, which cost every packet a call."""
        return any(spec.target == CLIENT_WORKER for worker in self._workers() for choice in worker for spec in choice)

    def _changes_members(self) -> bool:
        """Only then are servers started so that members can be removed and added, as some of them must be."""
        faults = registry.faults()
        kinds = {spec.fault for worker in self._workers() for choice in worker for spec in choice}
        return any(getattr(faults[kind], "changes_members", False) for kind in kinds)

    def _workers(self) -> list[list[Choice]]:
        """What each worker of the nemesis is to do, worked out outside, where the machine could be asked."""
        faults = registry.faults()
        workers = store.read_json(self.folder / store.RUN)["nemesis"]["workers"]
        return [[parse_choice(texts, faults, self.checked.setting) for texts in worker] for worker in workers]

    def _schedule(self) -> list[Entry]:
        plan = self.plan
        if self.checked.given is not None:
            return list(self.checked.given)
        return draw_schedules(
            self._workers(),
            registry.faults(),
            seed=plan.seed,
            time_limit_ns=plan.duration_ns("time_limit"),
            quiet_ns=plan.duration_ns("quiet"),
        )

    async def _main(self, schedule: list[Entry]) -> None:
        # Before the task begins: a run that was stopped in its warm-up is over here at once.
        self.faults_over = asyncio.Event()
        faults = asyncio.create_task(self._conduct_faults(schedule))
        try:
            await self._load(PhaseName.MAIN, length_ns=self.plan.duration_ns("time_limit"))
        finally:
            # The load is over; a fault still in force is healed at once, as after any other end of the main phase.
            if not faults.done():
                self.faults_over.set()
            await faults

    async def _conduct_faults(self, schedule: list[Entry]) -> None:
        mirror = asyncio.create_task(_forward(self.stop, self.faults_over))
        try:
            await self.conductor.run(schedule, stop=self.faults_over)
        finally:
            mirror.cancel()

    def _left_to_watch_ns(self) -> int:
        """Nodes have been watched since the last fault was healed; under load, for a moment in any case."""
        watch_ns = self.plan.duration_ns("watch")
        since_ns = watch_ns if self.healed_ns is None else self.recorder.now_ns() - self.healed_ns
        return max(watch_ns - since_ns, min(watch_ns, _WATCH_NS_MIN))

    async def _load(self, phase: PhaseName, *, length_ns: int) -> None:
        if self.stop.is_set():
            return
        self._begin(phase, length_ns)
        generator = self.workload.generator(self.options, len(self.client_nodes))
        await self.interpreter.run(time_limit(length_ns, generator), stop=self.stop)

    async def _final(self) -> None:
        length_ns = round(_STOPPED_FINAL_S * 1e9) if self.stop.is_set() else self.plan.duration_ns("final")
        self._begin(PhaseName.FINAL, length_ns)
        generator: Generator = self.workload.final_generator(self.options, len(self.client_nodes))
        await self.interpreter.run(time_limit(length_ns, generator))

    def _begin(self, phase: PhaseName, length_ns: int | None) -> None:
        self.phase = phase
        self.recorder.record(PhaseEvent, phase=phase)
        self.phase_ends_ns = None if length_ns is None else self.recorder.now_ns() + length_ns
        tell("phase", phase=phase.value, left_s=None if length_ns is None else length_ns / 1e9)

    def _view(self) -> View:
        leader, epoch = self.observers.leader()
        return View(
            nodes=tuple(self.runtime.nodes),
            leader=leader,
            epoch=epoch,
            members=self.members,
            subject=self.system.subjects[0],
            bound_ns=self.bound_ns,
            unready=frozenset(self.unready),
            restarted=self.restarted,
            clients=len(self.freezer.gates) if self.freezer else 0,
            busy_clients=self._busy_clients(),
        )

    def _busy_clients(self) -> tuple[int, ...]:
        connected = self.freezer.connected if self.freezer else ()
        return tuple(worker for worker in self.interpreter.busy if worker in connected) or connected

    # -- servers --------------------------------------------------------------------------------------------------

    def _started(self, node: Node) -> None:
        self.recorder.record(
            NodeEvent, node=node.name, change=NodeChange.STARTED, incarnation=node.incarnation, pid=node.pid
        )
        if node.incarnation > 0:
            self.restarted = node.name
            self.unready.add(node.name)
            self._spawn(self._await_ready_again(node))

    async def _await_ready_again(self, node: Node) -> None:
        """After a restart by the nemesis: one that is late is noted; one that died has its event."""
        incarnation = node.incarnation
        try:
            await await_ready(self.system, node, self.recorder)
            if node.incarnation == incarnation:
                self.unready.discard(node.name)
        except NodeNotReady as error:
            if node.state is NodeState.RUNNING:
                # The first line alone: a history goes where a server's log, full of paths, should not.
                self.recorder.record(NoteEvent, topic="not-ready-again", text=error.message.splitlines()[0])

    def _may_settle(self) -> bool:
        """Until the settle phase's deadline, or for a short while after a stop by hand."""
        return self.stopped_at is None or asyncio.get_running_loop().time() - self.stopped_at < _STOPPED_SETTLE_S

    async def _read_version(self) -> None:
        """Put the release that the servers say they are into `run.json`: labels and tags of an image may be its base's.

        Raises HarnessError when they are several releases.
        """
        if not isinstance(self.system, TellsVersion):
            return
        said: dict[str, str] = {}
        for name in self.client_nodes:
            node = self.runtime.nodes[name]
            # Others, such as the ZooKeeper below a Kafka, have releases of their own.
            if self.system.version_of(node, self.artifacts) != self.artifacts.version:
                continue
            version, why = await ask_version(self.system, node, log_from=0, hurried=self.stop.is_set)
            if version is None:
                tell("warning", text=f"{name} does not say its release ({why}); recorded is {self.artifacts.version}")
                return
            said[name] = version
        if len(set(said.values())) > 1:
            raise HarnessError(f"the servers are not one release: {', '.join(f'{n} is {v}' for n, v in said.items())}")
        for version in set(said.values()):
            if version != self.artifacts.version:
                text = f"the servers say that they are {version}; their files or image say {self.artifacts.version}"
                tell("warning", text=text)
            self.artifacts = replace(self.artifacts, version=version)
            self.bound_ns = self._bound_ns()
            data = store.read_json(self.folder / store.RUN)
            store.write_json(self.folder / store.RUN, {**data, "system_version": version, "told_versions": said})

    def _bound_ns(self) -> int | None:
        return self.checked.leadership(self.artifacts.version).bound_ns

    async def _read_settings(self) -> None:
        """What each server says of the settings that it was given, for `run.json`; raises when it says otherwise."""
        if not self.plan.settings or not isinstance(self.system, TakesSettings):
            return
        try:
            found = [
                await self.system.taken(node, self.artifacts, self.plan.settings)
                for node in self.runtime.nodes.values()
            ]
        except (OSError, TimeoutError, ValueError, Definite, Indefinite) as error:
            raise HarnessError(
                f"a setting of --set was not taken: {str(error) or type(error).__name__}",
                hint=f"is it a setting of this release? The logs are in {self.folder}",
            ) from None
        data = store.read_json(self.folder / store.RUN)
        data["settings"]["taken"] = [asdict(taken) for of_node in found for taken in of_node]
        store.write_json(self.folder / store.RUN, data)

    async def _prepare(self, options: Mapping[str, object]) -> None:
        """Through the first node that takes it: where nodes do not forward changes, only one of them does."""
        keys = self.workload.keys(self.options)
        refused: list[str] = []
        try:
            async with asyncio.timeout(_PREPARE_DEADLINE_S):
                for name in self.client_nodes:
                    place = self.runtime.layout[name]
                    client = await self.system.open_client(place, connect_timeout_s=5.0, options=options)
                    try:
                        await self.system.prepare(client, keys)
                        return
                    except (Definite, Indefinite) as error:
                        # Idempotent, so what is in doubt may be asked of the next node.
                        refused.append(f"{name}: {error}")
                    finally:
                        await client.close()
        except TimeoutError:
            raise HarnessError(
                f"what the workload needs was not made within {_PREPARE_DEADLINE_S:g} s",
                hint=f"is the machine very busy? The logs are in {self.folder}",
            ) from None
        raise HarnessError(f"no node takes what the workload needs: {'; '.join(refused)}")

    # -- beside the phases ----------------------------------------------------------------------------------------

    async def _watch_exits(self) -> None:
        while True:
            gone = await self.runtime.next_exit()
            self.recorder.record(
                NodeEvent,
                node=gone.node,
                change=NodeChange.EXITED,
                incarnation=gone.incarnation,
                exit_status=gone.exit_status,
                expected=gone.expected,
            )

    async def _tick(self) -> None:
        before, before_ns = 0, self.recorder.now_ns()
        while True:
            await asyncio.sleep(_TICK_S)
            now_ns = self.recorder.now_ns()
            done = self.interpreter.completed
            leader, epoch = self.observers.leader()
            tell(
                "tick",
                phase=self.phase.value,
                left_s=None if self.phase_ends_ns is None else max(self.phase_ends_ns - now_ns, 0) / 1e9,
                ops=done,
                ops_per_s=(done - before) / max((now_ns - before_ns) / 1e9, 1e-9),
                fault=self.conductor.current,
                leader=leader,
                epoch=epoch,
            )
            before, before_ns = done, now_ns

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self.background.add(task)
        task.add_done_callback(self._background_done)

    def _background_done(self, task: "asyncio.Task[Any]") -> None:
        self.background.discard(task)
        if not task.cancelled() and task.exception() is not None:
            # A background task of ours that throws ends the run early, with everything kept and judged.
            error = task.exception()
            traceback.print_exception(error)
            self.recorder.record(NoteEvent, topic=HARNESS_ERROR, text=f"{type(error).__name__}: {error}")
            self._stop_early(HARNESS_ERROR)

    async def _cancel_background(self) -> None:
        tasks = list(self.background)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _note_stop(self) -> None:
        """Record a stop that was asked for, also when it came before there was a recorder; others record themselves."""
        await self.stop.wait()
        if self.stopped_by == STOPPED_EARLY:
            by = f"Ctrl-C, SIGTERM or --deadline {self.plan.deadline}" if self.plan.deadline else "Ctrl-C or SIGTERM"
            self.recorder.record(NoteEvent, topic=STOPPED_EARLY, text=f"asked to stop by {by}")

    def _stop_early(self, topic: str) -> None:
        """No new operations; what is left of the run is cut short, but for the healing."""
        if not self.stop.is_set():
            tell(topic)
            self.stopped_by = topic
            self.stopped_at = asyncio.get_running_loop().time()
            self.stop.set()

    # -- files ----------------------------------------------------------------------------------------------------

    def _write_zero(self) -> None:
        data = store.read_json(self.folder / store.RUN)
        data["zero"] = {"wall_clock_s": time.time() - self.recorder.now_ns() / 1e9}
        store.write_json(self.folder / store.RUN, data)

    def _schedule_sink(self) -> Callable[[dict[str, object]], None]:
        file = (self.folder / store.SCHEDULE).open("a", encoding="utf-8")
        self.stack.callback(file.close)

        def sink(entry: dict[str, object]) -> None:
            if entry["action"] == FaultAction.HEAL:
                self.healed_ns = self.recorder.now_ns()
            file.write(json.dumps(entry) + "\n")
            file.flush()

        return sink

    async def _keep_data(self) -> None:
        """Servers down, then their data out of their places; the outer process drops it when nobody needs it."""
        for node in self.runtime.nodes.values():
            await node.kill()
        for name, node in self.runtime.nodes.items():
            archive = node.place.kept / "data.tar.gz"
            try:
                await self.runtime.copy_data(name, archive)
            except OSError as error:
                # The data is evidence beside the history; a full disk must not cost the verdict.
                archive.unlink(missing_ok=True)
                tell("warning", text=f"the data of {name} could not be kept: {error.strerror}")


async def _forward(source: asyncio.Event, target: asyncio.Event) -> None:
    await source.wait()
    target.set()
