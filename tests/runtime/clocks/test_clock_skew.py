"""The fault on plain processes: what is typed, what clocks show, what is recorded, restarts, and what goes wrong."""

import asyncio
import contextlib
import os
import random
import re
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.faults.kind import Cluster, Proof, Resolved, View
from fencepost.harness.faults.schedule import parse_faults
from fencepost.harness.faults.skew_shape import SkewShape
from fencepost.harness.history import Clock, ClockEvent, FaultOutcome, NoteEvent
from fencepost.harness.runtime.clocks import gate
from fencepost.harness.runtime.clocks import held_threads as tracing
from fencepost.harness.runtime.clocks.process import ClockedProcess, why_not_here
from fencepost.harness.runtime.node import Node
from fencepost.harness.runtime.provider import Placement
from fencepost.nemesis.clock.clock_skew import ClockSkew
from tests.fakes import acting
from tests.fakes.fakes_runtime import cluster_of
from tests.lab_scenario import refuse
from tests.runtime.clocks.local_nodes import LocalNode, LocalRuntime, TimedRecords, daemons
from tests.runtime.clocks.programs import built

S = 10**9
MS = 10**6
INSTALLED, INDETERMINATE, HEALED = FaultOutcome.INSTALLED, FaultOutcome.INDETERMINATE, FaultOutcome.HEALED
FAULTS = {"clock-skew": ClockSkew()}

needs_code = pytest.mark.skipif(why_not_here() is not None, reason=str(why_not_here()))


def resolved(text: str, *, seed: int = 0) -> Resolved:
    (spec,) = parse_faults(f"clock-skew:{text}", FAULTS, Placement(nodes=2))
    found = ClockSkew().resolve(spec, View(nodes=("n1", "n2"), leader="n1", epoch=1), random.Random(seed))
    assert isinstance(found, Resolved)
    return found


# -- what is typed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "details"),
    [
        ("n1:offset=-5s", {"clock": "wall", "offset_ns": -5 * S}),
        ("n1:offset=2d", {"clock": "wall", "offset_ns": 172_800 * S}),
        ("n1:rate=1.5", {"clock": "wall", "rate": 1.5}),
        ("n1:rate=0.25:clock=monotonic", {"clock": "monotonic", "rate": 0.25}),
        (
            "n1:strobe=-2s:period=10ms:length=3s:clock=both",
            {"clock": "both", "strobe_delta_ns": -2 * S, "strobe_period_ns": 10**7, "strobe_length_ns": 3 * S},
        ),
        (
            "n1:strobe=1h:for=20s",
            {"clock": "wall", "strobe_delta_ns": 3600 * S, "strobe_period_ns": 10**8, "strobe_length_ns": 20 * S},
        ),
        ("n1:offset=1s:rate=2", {"clock": "wall", "offset_ns": S, "rate": 2.0}),
        ("n1:offset=1s:clock=monotonic:back=yes", {"clock": "monotonic", "offset_ns": S, "may_step_back": True}),
    ],
)
def test_what_is_typed_is_what_is_recorded(text: str, details: dict[str, Any]) -> None:
    # A monotonic clock cannot go back by more than it shows; two seconds it shows on any machine.
    assert resolved(text).details == details


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("n1:offset=5", "is not a duration", "30s"),
        ("n1:offset=0s", "does nothing", "offset=5s"),
        ("n1:offset=--5s", "is not a duration", "30s"),
        ("n1:offset=4000d", "4000d is too large", "at most 87600h"),
        ("n1:rate=1", "rate of a correct clock", "1.05"),
        ("n1:rate=0", "0 is too small", "at least 0.01, at most 100"),
        ("n1:rate=-1", "-1 is too small", "at least 0.01, at most 100"),
        ("n1:rate=fast", "expected a number, got 'fast'", ""),
        ("n1:period=10ms", "period= needs a strobe", "strobe="),
        ("n1:offset=1s:length=10s", "length= needs a strobe", "strobe="),
        ("n1:strobe=1s:period=1us", "1us is too small", "at least 100us"),
        ("n1:strobe=1s:period=1s:length=500ms", "ends within its first period", "length="),
        ("n1:offset=1s:back=yes", "monotonic clock only", "clock=monotonic"),
        ("n1:offset=1s:clock=cpu", "'cpu' is not a choice", "wall, monotonic, both"),
        ("n1:offset=-3000d:clock=monotonic", "cannot go back by", "clock=wall"),
        ("n1:strobe=-3000d:clock=both", "cannot go back by", "clock=wall"),
        ("n1:amount=1s", "unknown clock-skew option 'amount'", "offset"),
        ("moon:offset=1s", "unknown target 'moon'", "leader"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_hint(text: str, said: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolved(text)
    assert said in caught.value.message
    assert hint in (caught.value.hint or "")


def test_without_figures_an_offset_is_drawn_and_a_monotonic_clock_never_goes_back() -> None:
    drawn = {resolved("n1", seed=seed).details["offset_ns"] for seed in range(40)}
    assert {int(d) > 0 for d in drawn} == {True, False}
    assert max(drawn, key=int) == 86_400 * S
    assert all(int(resolved("n1:clock=both", seed=seed).details["offset_ns"]) > 0 for seed in range(40))
    assert resolved("n1", seed=3) == resolved("n1", seed=3)


# -- what clocks show ---------------------------------------------------------------------------------------------


class Stage:
    """Two nodes that are plain processes, and the fault."""

    def __init__(self, *argv: str) -> None:
        self.runtime = LocalRuntime(*argv)
        self.records = TimedRecords()
        self.fault = ClockSkew()
        self.cluster: Cluster = cluster_of(self.runtime, records=self.records, system="kraft")
        self._count = 0

    @property
    def n1(self) -> LocalNode:
        return self.runtime.nodes["n1"]  # type: ignore[return-value]

    async def inject(self, text: str) -> tuple[int, Resolved, Proof]:
        found, self._count = resolved(text), self._count + 1
        return self._count, found, await acting.inject(self.fault, self._count, found, self.cluster)

    async def heal(self, fault_id: int, found: Resolved) -> Proof:
        return await acting.heal(self.fault, fault_id, found, self.cluster)

    async def skew_s(self, clock: str = "realtime", node: str = "n1") -> float:
        said = await self.runtime.nodes[node].ask()  # type: ignore[attr-defined]
        shown_ns: int = said[clock]
        return round(shown_ns / S, 1)

    @property
    def clock_events(self) -> list[ClockEvent]:
        return [e for e in self.records.events if isinstance(e, ClockEvent)]


@pytest.fixture(scope="module")
def reader() -> Iterator[str]:
    with built() as program:
        yield str(program)


def play(scene: Callable[[Stage], Awaitable[None]], *argv: str) -> Stage:
    """Play a scene on running nodes; afterwards no daemon is left."""

    async def run() -> Stage:
        stage = Stage(*argv)
        await stage.runtime.start()
        try:
            for node in stage.runtime.nodes.values():
                await node.ask()  # type: ignore[attr-defined]
            async with asyncio.timeout(60):
                await scene(stage)
        finally:
            await stage.fault.close()
            await stage.runtime.close()
        return stage

    stage = asyncio.run(run())
    assert not daemons()
    return stage


@needs_code
def test_an_offset_is_shown_recorded_and_taken_back(reader: str) -> None:
    async def scene(stage: Stage) -> None:
        fault_id, found, proof = await stage.inject("n1:offset=-90s")
        assert proof.outcome is INSTALLED, proof.text
        assert "read back from 1 process (armed while it ran, waits translated)" in proof.text
        assert await stage.skew_s() == -90
        assert await stage.skew_s("monotonic") == 0
        assert await stage.skew_s(node="n2") == 0
        healed = await stage.heal(fault_id, found)
        assert healed.outcome is HEALED, healed.text
        assert "kernel's own clock functions" in healed.text
        assert await stage.skew_s() == 0
        assert not stage.n1.wrap_argv
        # Again, for a heal may come twice.
        assert (await stage.heal(fault_id, found)).outcome is HEALED
        assert not daemons()

    events = play(scene, reader, "ask").clock_events
    assert [(e.node, e.clock, e.offset_ns, e.certain) for e in events[:2]] == [
        ("n1", Clock.WALL, -90 * S, True),
        ("n1", Clock.WALL, 0, True),
    ]
    assert events[0].asked_ns <= events[0].since_ns <= events[0].time_ns
    assert events[0].fault_id == 1


@needs_code
@pytest.mark.parametrize("rate", [0.5, 4.0])
def test_a_monotonic_clock_keeps_what_it_gained_and_never_goes_back(reader: str, rate: float) -> None:
    async def scene(stage: Stage) -> None:
        fault_id, found, proof = await stage.inject(f"n1:clock=monotonic:rate={rate}")
        assert proof.outcome is INSTALLED, proof.text
        await asyncio.sleep(0.5)
        event = stage.clock_events[-1]
        said_ns = [event.skew_ns(stage.records.now_ns())]
        before_ns = (await stage.n1.ask())["monotonic"]
        said_ns.append(event.skew_ns(stage.records.now_ns()))
        assert min(said_ns) - MS < before_ns < max(said_ns) + MS
        healed = await stage.heal(fault_id, found)
        if (took := re.search(r"may have gone back: setting it took (\d+) ns", healed.text)) and int(took[1]) > 50 * MS:
            raise _PutOff
        assert healed.outcome is HEALED, healed.text
        left_ns = stage.clock_events[-1].offset_ns
        assert f"{left_ns / 1e9:+.3f} s" in healed.text
        assert stage.clock_events[-1].rate == 1.0
        after_ns = (await stage.n1.ask())["monotonic"]
        assert abs(after_ns - left_ns) < 10_000
        assert after_ns > before_ns if rate > 1 else left_ns < 0
        # On top of what is left, and the wall clock alone gives its functions back only when both are true.
        again, found, proof = await stage.inject("n1:offset=5s")
        assert proof.outcome is INSTALLED, proof.text
        assert await stage.skew_s() == 5
        assert (await stage.heal(again, found)).outcome is HEALED
        assert abs((await stage.n1.ask())["monotonic"] - left_ns) < 10_000
        # A new process has a true clock, and this is recorded.
        await stage.n1.kill()
        await stage.n1.start()
        assert await stage.skew_s("monotonic") == 0
        assert [(e.incarnation, e.offset_ns, e.rate) for e in stage.clock_events[-2:]] == [(1, 0, 1.0)] * 2

    for _ in range(5):
        with contextlib.suppress(_PutOff):
            play(scene, reader, "ask")
            return
    pytest.fail("a clock was not set within 50 ms, five times out of five")


class _PutOff(Exception):
    """This process had to wait for the processor while it set a clock that gains: healing rightly says its doubt."""


@needs_code
def test_one_that_may_step_back_does(reader: str) -> None:
    async def scene(stage: Stage) -> None:
        fault_id, found, _ = await stage.inject("n1:clock=both:offset=60s:back=yes")
        assert (await stage.skew_s(), await stage.skew_s("monotonic")) == (60, 60)
        assert (await stage.heal(fault_id, found)).outcome is HEALED
        assert (await stage.skew_s(), await stage.skew_s("monotonic")) == (0, 0)

    assert len(play(scene, reader, "ask").clock_events) >= 4


@needs_code
def test_a_restarted_server_is_skewed_before_its_first_instruction() -> None:
    """Its first reading of the clock is the first thing that it does."""
    program = "import time; first = time.time_ns()\nimport sys\nprint('ready', flush=True)\nfor line in sys.stdin: "
    program += 'print(\'{"first": %d, "now": %d}\' % (first, time.time_ns()), flush=True)'
    argv = (os.path.realpath("/proc/self/exe"), "-S", "-E", "-c", program)

    async def scene(stage: Stage) -> None:
        fault_id, found, proof = await stage.inject("n1:offset=2h")
        assert proof.outcome is INSTALLED, proof.text
        for incarnation in (1, 2):
            await stage.n1.kill()
            await stage.n1.start()
            said = await stage.n1.ask()
            assert 0 <= said["now"] - said["first"] < 60 * S
            event = stage.clock_events[-1]
            assert (event.incarnation, event.offset_ns, event.certain) == (incarnation, 7200 * S, True)
            assert "before its first instruction" in (event.proof or "")
        healed = await stage.heal(fault_id, found)
        assert healed.outcome is HEALED, healed.text
        await stage.n1.kill()
        await stage.n1.start()
        said = await stage.n1.ask()
        assert said["now"] - said["first"] < 60 * S

    play(scene, *argv)


@needs_code
def test_newcomers_of_a_node_get_its_clock() -> None:
    """A shell that is asked twice: by then each child that lives for long enough is skewed too."""
    program = "echo ready; sleep 300 & while read line; do sleep 301 & cat /proc/$!/stat > /dev/null; echo 1; done"

    async def scene(stage: Stage) -> None:
        fault_id, found, proof = await stage.inject("n1:offset=-2h")
        assert "read back from 3 processes" in proof.text
        await stage.n1.ask()
        clocks = stage.fault._clocks
        kept = clocks.of(stage.n1)
        async with asyncio.timeout(30):
            while len(kept.armed) < 4 or clocks.read_back(kept).coming:
                await asyncio.sleep(0.01)
        reading = clocks.read_back(kept)
        assert reading.processes == 4, reading
        assert (await stage.heal(fault_id, found)).outcome is HEALED

    play(scene, "/bin/sh", "-c", program)


@needs_code
def test_a_process_that_ends_while_it_is_being_armed_is_indeterminate(reader: str) -> None:
    """The clock daemon is stopped, so that the server can end between the request and the arming."""

    async def scene(stage: Stage) -> None:
        _, found, proof = await stage.inject("n2:offset=1s")
        assert proof.outcome is INSTALLED
        (daemon,) = daemons()
        os.kill(daemon, signal.SIGSTOP)
        injecting = asyncio.create_task(stage.inject("n1:offset=1s"))
        await asyncio.sleep(0.05)
        os.kill(stage.n1.pid or 0, signal.SIGKILL)
        while tracing.state(stage.n1.pid or 0) not in ("Z", ""):
            await asyncio.sleep(0.001)
        os.kill(daemon, signal.SIGCONT)
        fault_id, found, proof = await injecting
        assert proof.outcome is INDETERMINATE, proof.text
        assert "no clock was changed" in proof.text
        assert not [e for e in stage.clock_events if e.node == "n1"]
        assert (await stage.heal(fault_id, found)).outcome is HEALED
        assert (await stage.heal(1, resolved("n2:offset=1s"))).outcome is HEALED

    play(scene, reader, "ask")


@needs_code
def test_without_its_daemon_nothing_is_claimed_and_no_server_stays_behind_its_gate(
    reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # For what never comes.
    monkeypatch.setattr("fencepost.harness.runtime.clocks.node_clocks._RESTART_S", 0.5)

    async def scene(stage: Stage) -> None:
        fault_id, found, proof = await stage.inject("n1:offset=5s")
        assert proof.outcome is INSTALLED
        (daemon,) = daemons()
        os.kill(daemon, signal.SIGSTOP)
        await stage.n1.kill()
        await stage.n1.start()
        os.kill(daemon, signal.SIGKILL)
        # Out of its gate, with a true clock, and said to be so.
        assert await stage.skew_s() == 0
        async with asyncio.timeout(30):
            while not [e for e in stage.clock_events if not e.certain]:
                await asyncio.sleep(0.01)
        assert not gate.is_gate(stage.n1.pid or 0)
        (note,) = [e for e in stage.records.events if isinstance(e, NoteEvent)]
        assert note.topic == "clock-not-armed"
        healed = await stage.heal(fault_id, found)
        assert healed.outcome is INDETERMINATE
        assert "n1: meanwhile: " in healed.text
        # A new clock daemon serves the next one.
        again, found, proof = await stage.inject("n1:offset=7s")
        assert proof.outcome is INSTALLED, proof.text
        assert await stage.skew_s() == 7
        assert (await stage.heal(again, found)).outcome is HEALED

    play(scene, reader, "ask")


@needs_code
def test_another_daemon_disarms_what_one_that_was_killed_had_armed(reader: str) -> None:
    async def scene(stage: Stage) -> None:
        fault_id, found, proof = await stage.inject("n1:offset=5s")
        assert proof.outcome is INSTALLED
        (daemon,) = daemons()
        os.kill(daemon, signal.SIGKILL)
        # Its connection is closed by then: what is dying has no name any more, and may still have that open.
        while tracing.state(daemon) not in ("Z", ""):
            await asyncio.sleep(0.01)
        healed = await stage.heal(fault_id, found)
        assert healed.outcome is HEALED, healed.text
        assert _is_original(stage.n1)

    play(scene, reader, "ask")


@needs_code
def test_functions_that_could_not_be_put_back_are_put_back_by_the_next_healing(
    reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: object) -> None: ...

    async def scene(stage: Stage) -> None:
        fault_id, found, proof = await stage.inject("n1:offset=5s")
        assert proof.outcome is INSTALLED
        monkeypatch.setattr("fencepost.harness.runtime.clocks.daemon_client.DaemonClient.release", nothing)
        for _ in range(2):
            healed = await stage.heal(fault_id, found)
            assert healed.outcome is INDETERMINATE
            assert "still has fencepost's clock functions" in healed.text
            assert await stage.skew_s() == 0
        monkeypatch.undo()
        healed = await stage.heal(fault_id, found)
        assert healed.outcome is HEALED, healed.text
        assert _is_original(stage.n1)
        assert not daemons()

    play(scene, reader, "ask")


def _is_original(node: LocalNode) -> bool:
    process = ClockedProcess(node.pid or 0)
    try:
        return process.is_original()
    finally:
        process.close()


@needs_code
def test_one_given_up_while_it_armed_is_healed_where_an_earlier_one_ended_with_its_server(reader: str) -> None:
    """The clock daemon is stopped, so that it arms only after the injection was given up."""

    async def scene(stage: Stage) -> None:
        first, found, _ = await stage.inject("n1:offset=5s")
        await stage.n1.kill()
        assert (await stage.heal(first, found)).outcome is HEALED
        await stage.n1.start()
        await stage.n1.ask()
        other, found_other, _ = await stage.inject("n2:offset=5s")
        (daemon,) = daemons()
        os.kill(daemon, signal.SIGSTOP)
        injecting = asyncio.create_task(stage.inject("n1:offset=5s"))
        await asyncio.sleep(0.05)
        injecting.cancel()
        await asyncio.wait([injecting])
        os.kill(daemon, signal.SIGCONT)
        assert (await stage.heal(other + 1, found)).outcome is HEALED
        # The daemon has heard the request before this one.
        assert (await stage.heal(other, found_other)).outcome is HEALED
        assert _is_original(stage.n1)

    play(scene, reader, "ask")


@needs_code
def test_a_server_that_ends_before_it_was_armed_again_is_recorded(reader: str) -> None:
    async def scene(stage: Stage) -> None:
        fault_id, found, _ = await stage.inject("n1:offset=5s")
        await stage.n1.kill()
        stage.n1.argv = ("/nowhere/at/all",)
        await stage.n1.start()
        async with asyncio.timeout(30):
            while not [e for e in stage.clock_events if not e.certain]:
                await asyncio.sleep(0.01)
        assert "ended" in (stage.clock_events[-1].proof or "")
        healed = await stage.heal(fault_id, found)
        assert healed.outcome is INDETERMINATE
        assert "n1: meanwhile: " in healed.text

    play(scene, reader, "ask")


@needs_code
def test_a_dead_node_is_not_skewed_and_heals(reader: str) -> None:
    async def scene(stage: Stage) -> None:
        await stage.n1.kill()
        fault_id, found, proof = await stage.inject("n1:offset=5s")
        assert proof.outcome is INDETERMINATE
        assert "n1 has no process on this machine" in proof.text
        assert (await stage.heal(fault_id, found)).outcome is HEALED

    play(scene, reader, "ask")


@needs_code
def test_a_setting_that_does_not_stick_is_not_called_installed(reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(stage: Stage) -> None:
        monkeypatch.setattr("fencepost.harness.runtime.clocks.process.ClockedProcess.set", lambda *_: None)
        fault_id, found, proof = await stage.inject("n1:offset=5s")
        assert proof.outcome is INDETERMINATE
        assert "has other settings" in proof.text
        monkeypatch.undo()
        assert not stage.clock_events[-1].certain
        assert (await stage.heal(fault_id, found)).outcome is HEALED

    play(scene, reader, "ask")


@needs_code
def test_waits_that_cannot_follow_leave_the_monotonic_clock_alone(reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wall clock is skewed all the same, since its waits are few."""

    async def scene(stage: Stage) -> None:
        monkeypatch.setattr(
            "fencepost.harness.runtime.clocks.node_clocks.NodeClocks.untranslated", lambda *_: ["process 1: no room"]
        )
        fault_id, found, proof = await stage.inject("n1:offset=5s:clock=monotonic")
        assert proof.outcome is INDETERMINATE
        assert "timed waits do not follow" in proof.text
        assert await stage.skew_s("monotonic") == 0
        assert (await stage.heal(fault_id, found)).outcome is HEALED
        fault_id, found, proof = await stage.inject("n1:offset=5s")
        assert proof.outcome is INSTALLED
        assert (await stage.heal(fault_id, found)).outcome is HEALED

    play(scene, reader, "ask")


@needs_code
def test_a_frozen_container_is_not_armed_and_healed_without_touching_its_functions(
    reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(stage: Stage) -> None:
        fault_id, found, proof = await stage.inject("n1:offset=5s")
        assert proof.outcome is INSTALLED
        monkeypatch.setattr("fencepost.harness.runtime.clocks.node_clocks.is_frozen", lambda pid: pid == stage.n1.pid)
        healed = await stage.heal(fault_id, found)
        assert healed.outcome is INDETERMINATE
        assert "it is frozen: its clocks show true time" in healed.text
        assert await stage.skew_s() == 0
        again, found, proof = await stage.inject("n1:offset=5s")
        assert proof.outcome is INDETERMINATE
        assert "its clocks cannot be changed until it is thawed" in proof.text
        monkeypatch.undo()
        assert (await stage.heal(fault_id, found)).outcome is HEALED
        assert (await stage.heal(again, found)).outcome is HEALED
        assert not daemons()

    play(scene, reader, "ask")


def test_what_is_resolved_holds_the_clock_of_its_nodes_only() -> None:
    found = resolved("leader:offset=1s")
    assert isinstance(found.means, SkewShape)
    assert (found.nodes, found.links) == (("n1",), {})
    assert ClockSkew.holds == {"clock"}


@needs_code
def test_a_server_that_starts_while_its_clock_is_healed_does_not_stay_behind_its_gate(reader: str) -> None:
    async def scene(stage: Stage) -> None:
        fault_id, found, _ = await stage.inject("n1:offset=5s")
        await stage.n1.kill()

        async def heal(_: Node) -> None:
            assert (await stage.heal(fault_id, found)).outcome is HEALED

        stage.n1.on_start.insert(0, heal)
        await stage.n1.start()
        assert not gate.is_gate(stage.n1.pid or 0)
        assert await stage.skew_s() == 0

    play(scene, reader, "ask")


@needs_code
@pytest.mark.parametrize("order", ["inside the gate", "around the gate"])
def test_a_server_under_strace_is_skewed_by_a_stop_and_again_after_a_restart(reader: str, order: str) -> None:
    """As a disk fault runs it: the server is traced already, so ptrace is not to be had."""
    strace = shutil.which("strace")
    refuse(None if strace else "no strace; remedy: install it from the system's packages")
    command = (str(strace), "-f", "-qq", "-e", "trace=none", "-o", "/dev/null")

    def around(argv: tuple[str, ...]) -> tuple[str, ...]:
        return (*command, *argv)

    async def scene(stage: Stage) -> None:
        if order == "inside the gate":
            stage.n1.wrap_argv.append(around)
            await stage.n1.kill()
            await stage.n1.start()
            await stage.n1.ask()
        fault_id, found, proof = await stage.inject("n1:offset=2h")
        assert proof.outcome is INSTALLED, proof.text
        if order == "around the gate":
            stage.n1.wrap_argv.append(around)
        assert await stage.skew_s() == 7200
        await stage.n1.kill()
        await stage.n1.start()
        clocks = stage.fault._clocks
        kept = clocks.of(stage.n1)
        end = time.monotonic() + 40
        while (reading := clocks.read_back(kept)).processes < 2 or reading.wrong or reading.coming:
            assert time.monotonic() < end, (reading, kept.failures)
            await asyncio.sleep(0.01)
        assert await stage.skew_s() == 7200
        healed = await stage.heal(fault_id, found)
        assert healed.outcome is HEALED, healed.text
        assert await stage.skew_s() == 0

    play(scene, reader, "ask")
