"""Rows about servers that are paused, killed and started again, and about members. Each leaves the cluster healthy."""

import asyncio
import contextlib
from pathlib import Path
from typing import Final

from fencepost.harness.conformance.rows import SuiteRow, failed, not_applicable, passed
from fencepost.harness.conformance.stage import CallEnd, CallEnding, PendingCall, SuiteServers
from fencepost.harness.conformance.wire import wired
from fencepost.harness.faults.conductor import Conductor
from fencepost.harness.faults.schedule import ScheduledFault, parse_faults
from fencepost.harness.history import FaultOutcome
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.linux import processes
from fencepost.harness.runtime.node import Node
from fencepost.harness.verdict import Standing

_WAIT_S: Final = 2.5
_MEMBERSHIP_S: Final = 120.0
_FAULT: Final = "membership"


async def paused(stage: SuiteServers, usual: int) -> SuiteRow:
    """A request to a server that is stopped and goes on later."""
    name, key, node = "paused", stage.key(), stage.nodes[await stage.target()]
    async with stage.wired(node.name) as (wire, session):
        await PendingCall(stage.probe.holds(session, key)).end(_WAIT_S)
        before = wire.times(key)
        try:
            await stage.stop(node)
            call = PendingCall(stage.probe.change(session, key))
            meanwhile = await call.end(_WAIT_S)
            sent = wire.times(key) - before
        finally:
            await node.resume()
        end = await call.end(_WAIT_S * 4)
        await call.cancel()
    wrong = await stage.healthy()
    if meanwhile.ending is CallEnding.OK:
        return failed(name, "a stopped server acknowledged a change")
    if wire.connections > 1:
        return failed(name, f"the client opened {wire.connections} connections by itself")
    if usual and sent > usual:
        return failed(name, f"the request was sent {sent // usual} times while the server was stopped")
    return await _judged(stage, name, key, end) or _healthy(
        name, wrong, f"{meanwhile.text}; once it went on: {end.text}"
    )


async def minority(stage: SuiteServers) -> SuiteRow:
    """A change while a majority of the voters is stopped."""
    name, key = "minority", stage.key()
    kept = next((g for g in stage.system.promises() if g.name == "no-lost-acknowledged-writes"), None)
    if kept is not None and kept.standing is not Standing.PROMISED:
        return not_applicable(name, f"that acknowledged writes stay is {kept.standing}, so one node may acknowledge")
    majority = len(stage.voters) // 2 + 1
    target = await stage.target()
    stopped = [voter for voter in stage.voters if voter != target][:majority]
    if len(stopped) < majority:
        return not_applicable(name, f"a cluster of {len(stage.voters)} has no majority without {target}")
    async with stage.session(stage.place(target)) as session:
        try:
            await asyncio.gather(*(stage.stop(stage.nodes[voter]) for voter in stopped))
            call = PendingCall(stage.probe.change(session, key))
            meanwhile = await call.end(_WAIT_S * 2)
        finally:
            await asyncio.gather(*(stage.nodes[voter].resume() for voter in stopped))
        end = await call.end(_WAIT_S * 4)
        await call.cancel()
    wrong = await stage.healthy()
    if meanwhile.ending is CallEnding.OK:
        return failed(name, f"{target} acknowledged a change while {', '.join(stopped)} were stopped")
    text = f"{meanwhile.text} while {', '.join(stopped)} were stopped; afterwards {end.text}"
    return await _judged(stage, name, key, end) or _healthy(name, wrong, text)


async def killed(stage: SuiteServers) -> list[SuiteRow]:
    """A server that is killed with a request in flight; then nobody listens there, and no process of it is left."""
    key, node = stage.key(), stage.nodes[await stage.target()]
    async with wired(stage.place(node.name), stage.port) as (wire, place), stage.session(place) as session:
        await PendingCall(stage.probe.holds(session, stage.acknowledged[0])).end(_WAIT_S)
        # Stopped first, so that it cannot answer before it is killed.
        await stage.stop(node)
        call = PendingCall(stage.probe.change(session, key))
        await wire.await_sent(key, _WAIT_S)
        await node.kill()
        end = await call.end(_WAIT_S * 2)
        await call.cancel()
        after = await PendingCall(stage.probe.change(session, key)).end(_WAIT_S)
    rows = [_killed(end, after)]
    try:
        rows += [await _refused(stage, node), _left_process(stage, node)]
    finally:
        await stage.start_again(node)
    wrong = await stage.healthy()
    return rows if wrong is None else [*rows[:-1], failed("left-process", f"not healthy after a restart: {wrong}")]


async def restart(stage: SuiteServers) -> SuiteRow:
    """Kill every server at once and start all again."""
    name, nodes = "restart", list(stage.nodes.values())
    await asyncio.gather(*(node.kill() for node in nodes))
    await stage.start_again(*nodes)
    wrong = await stage.healthy()
    if wrong is not None:
        return failed(name, f"the cluster is not healthy after a restart of every server: {wrong}")
    lost = [key for key in stage.acknowledged if not await stage.holds(key)]
    if lost:
        return failed(
            name, f"{len(lost)} of {len(stage.acknowledged)} acknowledged changes are gone: {', '.join(lost)}"
        )
    return passed(name, f"all {len(stage.acknowledged)} acknowledged changes are there")


async def membership(stage: SuiteServers, conductor: Conductor) -> SuiteRow:
    """Remove a member and add it again, by the fault of that name."""
    system, checked = stage.system, stage.checked
    if system.member_changes is None:
        return not_applicable(_FAULT, "the system has not the part member-changes")
    refusal = system.member_changes.fixed(checked.plan.version, checked.system_options)
    if refusal is not None:
        return not_applicable(_FAULT, refusal.reason)
    faults = registry.faults()
    (spec,) = parse_faults(_FAULT, faults, checked.placement)
    entry = ScheduledFault(spec=spec, inject_ns=0, duration_ns=0, draw_seed=checked.plan.seed, number=0)
    stop = asyncio.Event()
    async with asyncio.timeout(_MEMBERSHIP_S):
        injected = await conductor.inject(entry, stop)
        healed = await conductor.heal(injected.fault_id, stop)
    if injected.proof.outcome is not FaultOutcome.INSTALLED:
        return failed(_FAULT, f"no member was removed: {injected.proof.text}")
    if healed.outcome is not FaultOutcome.HEALED:
        return failed(_FAULT, f"{', '.join(injected.nodes)} did not become a member again: {healed.text}")
    return _healthy(_FAULT, await stage.healthy(), f"{injected.proof.text}; {healed.text}")


async def _judged(stage: SuiteServers, name: str, key: str, end: CallEnd) -> SuiteRow | None:
    """A failure where the client denied a change that a later read shows."""
    if end.ending is CallEnding.OTHER:
        return failed(name, f"the client raised {end.text}; expected Definite or Indefinite")
    if end.denies and await stage.holds(key):
        return failed(name, f"it ended {end.text}, and a later read shows the change")
    if end.ending is CallEnding.OK:
        stage.acknowledged.append(key)
    return None


def _healthy(name: str, wrong: str | None, text: str) -> SuiteRow:
    return passed(name, text) if wrong is None else failed(name, f"the cluster is not healthy afterwards: {wrong}")


def _killed(end: CallEnd, after: CallEnd) -> SuiteRow:
    name = "killed"
    if end.denies or end.ending in (CallEnding.OK, CallEnding.OTHER, CallEnding.WAITING):
        return failed(name, f"expected Indefinite; the request in flight ended: {end.text}")
    if after.ending in (CallEnding.OK, CallEnding.WAITING, CallEnding.OTHER):
        return failed(name, f"the next request on the session ended: {after.text}")
    return passed(name, f"{end.text}; the next request: {after.text}")


async def _refused(stage: SuiteServers, node: Node) -> SuiteRow:
    name = "refused"

    async def opened() -> None:
        async with stage.session(stage.place(node.name)):
            pass

    end = await PendingCall(opened()).end(_WAIT_S * 4)
    if not end.denies:
        return failed(name, f"opening a connection to a dead server: {end.text}; expected Definite")
    return passed(name, end.text)


def _left_process(stage: SuiteServers, node: Node) -> SuiteRow:
    name = "left-process"
    if not stage.checked.provider.in_namespaces:
        return not_applicable(name, "a container ends with all its processes")
    left = _processes_of(node)
    if left:
        return failed(name, f"{node.name} was killed, and this still runs: {'; '.join(left)}")
    return passed(name, f"no process of {node.name} is left")


def _processes_of(node: Node) -> list[str]:
    """The command lines of living processes that were started for this node: children inherit its home."""
    home = f"HOME={node.place.folder}".encode()
    left = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                if home in (process / "environ").read_bytes().split(b"\0"):
                    left.append(processes.in_words((process / "cmdline").read_bytes()))
    return left
