"""Plays the suite on a cluster of its own: starts it, goes through the rows, heals and stops it."""

import asyncio
import signal
import time
import traceback
from collections.abc import Awaitable, Callable, Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from fencepost.harness.base.errors import NodeNotReady, first_failure
from fencepost.harness.conformance import nodes, requests, servers_say
from fencepost.harness.conformance.declared import declarations, options
from fencepost.harness.conformance.probes import probe_of
from fencepost.harness.conformance.rows import ROWS, SuiteRow, failed, not_applicable, passed, played
from fencepost.harness.conformance.stage import SuiteServers
from fencepost.harness.coordination import prepare
from fencepost.harness.faults.conductor import Conductor
from fencepost.harness.history import STOPPED_EARLY
from fencepost.harness.plan.checked_plan import CheckedPlan, Prepared
from fencepost.harness.plugins import registry
from fencepost.harness.runner.beside import Background, EarlyEnd, tell, tell_failure
from fencepost.harness.runner.nemesis_view import cluster_of
from fencepost.harness.runner.observer import Observers
from fencepost.harness.runner.servers import Servers, open_servers

#: A row that takes longer has failed: every wait inside has a deadline of its own.
_ROW_S: Final = 180.0
_PREPARE_S: Final = 30.0

Rows = SuiteRow | list[SuiteRow]


def play(folder: str, wanted: Collection[str]) -> int:
    """Play these rows, or all, on a cluster of the plan in `folder`; returns the exit status of the process."""
    try:
        with asyncio.Runner() as runner:
            runner.run(_play(Path(folder), played(wanted)))
    except Exception as error:
        return tell_failure(error)
    return 0


async def _play(folder: Path, wanted: frozenset[str]) -> None:
    prepared = Prepared.take(folder)
    checked, artifacts = prepared.checked, prepared.artifacts
    end = EarlyEnd()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end.ask, STOPPED_EARLY)
    if "declarations" in wanted:
        await _row("declarations", lambda: _now(declarations(checked)))
    if "options" in wanted:
        await _row("options", lambda: _now(options(checked, artifacts)))
    async with AsyncExitStack() as stack:
        servers = await open_servers(folder, checked, artifacts, stack, on_disk_full=lambda: end.ask("disk-full"))
        background = Background(servers.recorder, end)
        stack.push_async_callback(background.close)
        observers = Observers(checked.system, servers.runtime.nodes, servers.recorder)
        cluster = cluster_of(servers, observers, workers=checked.request.workers, others={}, hurried=end.stop.is_set)

        async def start() -> SuiteRow:
            began = time.monotonic()
            try:
                await servers.start(cluster, background, end.stop.is_set)
            except NodeNotReady as error:
                return failed("start", error.message)
            started = sum(not member.joins_later for member in checked.members)
            return passed("start", f"{started} servers serve after {time.monotonic() - began:.1f} s")

        if not await _row("start", start):
            return
        observers.start()
        stack.push_async_callback(observers.close)
        conductor = Conductor(
            cluster=replace(cluster, artifacts=servers.artifacts),
            faults=registry.faults(),
            schedule_sink=lambda row: None,
        )
        stack.push_async_callback(conductor.heal_all)
        await _on_servers(checked, servers, conductor, end, wanted)


@dataclass(frozen=True, slots=True)
class _Step:
    """One thing that is done to the servers, and the rows that it decides."""

    play: Callable[[], Awaitable[Rows]]
    rows: tuple[str, ...]


async def _on_servers(
    checked: CheckedPlan, servers: Servers, conductor: Conductor, end: EarlyEnd, wanted: frozenset[str]
) -> None:
    probe = probe_of(checked.system)
    if probe is None:
        for name in (row for row in ROWS if row not in _WITHOUT_PROBE):
            _tell(not_applicable(name, "the suite has no requests for the interfaces of this system"))
        return
    stage = SuiteServers(checked, servers, probe)
    on_wire = requests.OnTheWire(stage)
    steps = (
        _Step(lambda: servers_say.version(stage), ("version",)),
        _Step(lambda: servers_say.settings(stage), ("settings",)),
        _Step(lambda: _prepared(stage), ("requests",)),
        # Some have no leader before there is something to lead, such as a stream of NATS.
        _Step(lambda: servers_say.leader(stage), ("leader",)),
        _Step(lambda: requests.wrong_input(stage), ("wrong-input",)),
        _Step(on_wire.rows, requests.ON_THE_WIRE),
        _Step(lambda: nodes.paused(stage, on_wire.usual), ("paused",)),
        _Step(lambda: nodes.minority(stage), ("minority",)),
        _Step(lambda: nodes.killed(stage), ("killed", "refused", "left-process")),
        _Step(lambda: nodes.restart(stage), ("restart",)),
        _Step(lambda: nodes.membership(stage, conductor), ("membership",)),
    )
    for step in steps:
        if end.stop.is_set():
            return
        name = step.rows[0]
        if not wanted.isdisjoint(step.rows) and not await _row(name, step.play) and name == "requests":
            return


_WITHOUT_PROBE: Final = frozenset({"declarations", "options", "start", "nothing-left"})


async def _prepared(stage: SuiteServers) -> SuiteRow:
    """Make the keys of all rows, then play the first requests."""
    async with asyncio.timeout(_PREPARE_S), stage.session(stage.place(stage.serving[0])) as session:
        await prepare(session, stage.probe.needs(stage.prepared))
    return await requests.requests(stage)


async def _now(row: SuiteRow) -> SuiteRow:
    return row


async def _row(name: str, step: Callable[[], Awaitable[Rows]]) -> bool:
    """Play one step, print its rows, and say whether none of them failed."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(_ROW_S):
            rows = await step()
    except TimeoutError as error:
        rows = failed(name, str(error) or f"not over after {_ROW_S:g} s")
    except Exception as error:
        traceback.print_exc()
        rows = failed(name, first_failure(error).message.splitlines()[0])
    seconds = round(time.monotonic() - began, 1)
    made = rows if isinstance(rows, list) else [rows]
    for row in made:
        _tell(msgspec.structs.replace(row, seconds=seconds))
    return all(row.outcome != "failed" for row in made)


def _tell(row: SuiteRow) -> None:
    tell("row", row=msgspec.to_builtins(row))
