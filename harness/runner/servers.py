"""The servers of a run: starts them, waits until all serve, reads their release, watches restarts, keeps their data.

What the servers report of themselves is told to the outer process, which keeps it in `run.json`.
"""

import asyncio
import shutil
import time
from collections.abc import Callable, Set
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import HarnessError, NodeNotReady
from fencepost.harness.contract.releases import ask_version
from fencepost.harness.coordination import Definite, Indefinite, prepare
from fencepost.harness.faults.event_watch import paused
from fencepost.harness.faults.kind import Cluster
from fencepost.harness.history import NodeChange, NodeEvent, NoteEvent
from fencepost.harness.plan.checked_plan import CheckedPlan
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.recorder import Recorder
from fencepost.harness.runner.beside import Background, EarlyEnd, record_exits, tell
from fencepost.harness.runner.readiness import await_healthy, await_ready, refuse_dead
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Exit, Node, NodeState, Runtime, death_of

#: An engine that hangs must not hang the run.
_START_DEADLINE_S: Final = 60.0
_HEALTHY_DEADLINE_S: Final = 30.0
#: Servers that end by themselves after the healing are started again after the first of these times, and so on.
_START_AGAIN_S: Final = (2.0, 3.0, 5.0, 8.0)
_ROOM_BYTES: Final = 1 << 20
#: Lines of the log of a server that ended by itself, for the terminal.
_LOG_LINES: Final = 3


class Servers:
    """The cluster under test. Once the servers serve, `artifacts` has the release that they report."""

    def __init__(
        self, folder: Path, checked: CheckedPlan, artifacts: Artifacts, runtime: Runtime, recorder: Recorder
    ) -> None:
        self.folder, self.checked, self.system = folder, checked, checked.system
        self.artifacts, self.runtime, self.recorder = artifacts, runtime, recorder
        self.client_nodes = checked.workload.nodes(checked.members)
        #: Nodes whose server was started again and does not serve yet, and the node of the latest such start.
        self.unready: set[str] = set()
        self.restarted: str | None = None
        self._serving = False
        #: Nodes that are to stay away, since they are no members.
        self._retired: Set[str] = frozenset()

    @property
    def bound_ns(self) -> int | None:
        """How long a cut-off leader may go on claiming to lead, as this release promises."""
        return self.checked.leadership(self.artifacts.version).bound_ns

    async def start(self, cluster: Cluster, background: Background, hurried: Callable[[], bool]) -> None:
        """Start the servers, wait until they serve and are healthy.

        Raises:
            NodeNotReady, HarnessError: a server or the cluster did not become ready; with the end of its log.
        """
        self._retired = cluster.retired
        joining = [self.runtime.nodes[member.name] for member in self.checked.members if not member.joins_later]
        wait = self.system.before_start
        for node in self.runtime.nodes.values():
            if wait is not None:
                node.before_start.append(lambda restarted: wait(restarted, self.runtime.layout))
            node.on_start.append(lambda started: self._started(started, background))
        background.spawn(record_exits(self.runtime, self.recorder, self._tell_death))
        tell("phase", phase="start", left_s=None)
        await self.runtime.realise(cluster.specs().values())
        # All start at once, each with a time limit. Then every link must be open before the servers are asked anything.
        try:
            async with asyncio.timeout(_START_DEADLINE_S), asyncio.TaskGroup() as group:
                for node in joining:
                    group.create_task(node.start())
        except TimeoutError:
            raise HarnessError(
                f"the nodes were not started within {_START_DEADLINE_S:g} s", hint="is the machine very busy?"
            ) from None
        try:
            await self.runtime.await_links()
            await asyncio.gather(*(await_ready(self.system, node, self.recorder) for node in joining))
        except HarnessError:
            refuse_dead(self.runtime.nodes.values())
            raise
        wrong = await await_healthy(self.system, self.runtime.layout, deadline_s=_HEALTHY_DEADLINE_S)
        if wrong:
            raise NodeNotReady(
                f"the cluster is not healthy after {_HEALTHY_DEADLINE_S:g} s: {wrong}",
                hint=f"the logs are in {self.folder}",
            )
        await self.read_version(hurried)
        await self._read_settings()
        self._serving = True

    async def settle(self, end: EarlyEnd) -> None:
        """Wait until the cluster is healthy again, at most for the settle phase; record a note if it is not.

        Servers that end by themselves are started again meanwhile, as whoever runs them would.
        """
        settle_s = self.checked.plan.duration_ns("settle") / 1e9
        over = asyncio.Event()
        starting = asyncio.create_task(self._start_the_ended(over))
        try:
            wrong = await await_healthy(self.system, self.runtime.layout, deadline_s=settle_s, relevant=end.may_settle)
        finally:
            # A start that has begun is finished: half of one would leave a process that nobody knows.
            over.set()
            await starting
        if wrong:
            self.recorder.record(NoteEvent, topic="not-healthy-after-healing", text=wrong)

    async def _start_the_ended(self, over: asyncio.Event) -> None:
        """Start servers that ended by themselves, later and later, until `over`; not where the disk is full."""
        for pause_s in _START_AGAIN_S:
            if not await paused(pause_s, over):
                return
            for name, node in self.runtime.nodes.items():
                if death_of(node) and name not in self._retired and not _is_full(node.place.data):
                    await node.start()

    async def read_version(self, hurried: Callable[[], bool]) -> None:
        """Tell, for `run.json`, the release that the servers say they are: labels and tags of an image may be wrong.

        Raises HarnessError when they are several releases.
        """
        versions = self.system.versions
        if versions is None:
            return
        reported: dict[str, str] = {}
        for node in self._first_clients():
            name = node.name
            # Others, such as the ZooKeeper below a Kafka, have releases of their own.
            if versions.expected(node, self.artifacts) != self.artifacts.version:
                continue
            version, why = await ask_version(versions, node, log_from=0, hurried=hurried)
            if version is None:
                tell("warning", text=f"{name} reports no release ({why}); recorded is {self.artifacts.version}")
                return
            reported[name] = version
        if len(set(reported.values())) > 1:
            raise HarnessError(
                f"the servers are not one release: {', '.join(f'{n} is {v}' for n, v in reported.items())}"
            )
        for version in set(reported.values()):
            if version != self.artifacts.version:
                text = f"the servers say that they are {version}; their files or image say {self.artifacts.version}"
                tell("warning", text=text)
            self.artifacts = replace(self.artifacts, version=version)
            tell("facts", facts={"system_version": version, "told_versions": reported})

    async def keep_data(self) -> None:
        """Kill the servers, then copy their data; the outer process removes it when it is not needed."""
        nodes = self.runtime.nodes.values()
        await asyncio.gather(*(node.kill() for node in nodes))
        await asyncio.gather(*(self._keep_data_of(node) for node in nodes))

    async def _keep_data_of(self, node: Node) -> None:
        archive = node.place.kept / "data.tar.gz"
        try:
            await self.runtime.copy_data(node.name, archive)
        except OSError as error:
            # The data is only additional evidence: a full disk must not prevent the verdict.
            archive.unlink(missing_ok=True)
            tell("warning", text=f"the data of {node.name} could not be kept: {error.strerror}")

    def _first_clients(self) -> list[Node]:
        """The nodes for clients that were started with the cluster."""
        nodes = (self.runtime.nodes[name] for name in self.client_nodes)
        return [node for node in nodes if node.state is not NodeState.NEW]

    def _started(self, node: Node, background: Background) -> None:
        self.recorder.record(
            NodeEvent, node=node.name, change=NodeChange.STARTED, incarnation=node.incarnation, pid=node.pid
        )
        if self._serving or node.incarnation > 0:
            self.restarted = node.name
            self.unready.add(node.name)
            background.spawn(self._await_ready_again(node))

    def _tell_death(self, death: Exit) -> None:
        """Warn about a server that ended by itself under load; before that, the failing start says more."""
        if self._serving:
            tail = self.runtime.nodes[death.node].log_tail(_LOG_LINES)
            tell("warning", text=f"{death}; the end of its log:\n{tail}")

    async def _await_ready_again(self, node: Node) -> None:
        """Wait for a server that the nemesis restarted; note one that is late. One that died has an event already."""
        incarnation = node.incarnation
        try:
            await await_ready(self.system, node, self.recorder)
            if node.incarnation == incarnation:
                self.unready.discard(node.name)
        except NodeNotReady as error:
            if node.state is NodeState.RUNNING:
                # Only the first line: a history may be passed on, a server's log with its paths should not.
                self.recorder.record(NoteEvent, topic="not-ready-again", text=error.message.splitlines()[0])

    async def _read_settings(self) -> None:
        """What each server says of the settings that it was given, for `run.json`; raises when it says otherwise."""
        settings = self.checked.plan.settings
        if not settings or self.system.settings is None:
            return
        try:
            by_node = [
                await self.system.settings.applied(node, settings)
                for node in self.runtime.nodes.values()
                if node.state is not NodeState.NEW
            ]
        except (OSError, TimeoutError, ValueError, Definite, Indefinite) as error:
            raise HarnessError(
                f"a setting of --set did not take effect: {str(error) or type(error).__name__}",
                hint=f"is it a setting of this release? The logs are in {self.folder}",
            ) from None
        applied = [asdict(setting) for settings_of_node in by_node for setting in settings_of_node]
        tell("facts", facts={"settings": {"asked": settings, "taken": applied}})

    async def prepare(self) -> None:
        """Make what the workload needs, through the first node that accepts it: in some systems only one does.

        Raises HarnessError when no node does in time.
        """
        workload, options = self.checked.workload, self.checked.system_options
        needs = workload.needs(self.checked.options)
        refused: list[str] = []
        try:
            async with asyncio.timeout(needs.within_s):
                for node in self._first_clients():
                    session = await self.system.open_client(
                        node.place, workload.protocol, connect_timeout_s=5.0, options=options
                    )
                    try:
                        await prepare(session, needs)
                        return
                    except (Definite, Indefinite) as error:
                        # Idempotent, so a request in doubt may be repeated on the next node.
                        refused.append(f"{node.name}: {error}")
                    finally:
                        await session.close()
        except TimeoutError:
            raise HarnessError(
                f"what the workload needs was not made within {needs.within_s:g} s",
                hint=f"is the machine very busy? The logs are in {self.folder}",
            ) from None
        raise HarnessError(f"no node takes what the workload needs: {'; '.join(refused)}")


def _is_full(data: Path) -> bool:
    """Whether the node's data has no room left, as far as can be seen from here."""
    try:
        return shutil.disk_usage(data).free < _ROOM_BYTES
    except OSError:
        return False


async def open_servers(
    folder: Path, checked: CheckedPlan, artifacts: Artifacts, stack: AsyncExitStack, on_disk_full: Callable[[], None]
) -> Servers:
    """Make the places of the nodes and begin the history; no server runs yet. The stack undoes both."""
    listeners = checked.system.profile.listeners
    runtime = await checked.provider.open(folder, checked.placement, listeners, artifacts)
    stack.push_async_callback(runtime.close)
    recorder = Recorder(folder / store.HISTORY_LINES, on_disk_full=on_disk_full)
    tell("facts", facts={"zero": {"wall_clock_s": time.time() - recorder.now_ns() / 1e9}})
    recorder.start()
    stack.push_async_callback(recorder.close)
    return Servers(folder, checked, artifacts, runtime, recorder)
