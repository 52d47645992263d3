"""Disk faults on plain programs that write: what is held back, failed and put back, what is proven, what is left."""

import asyncio
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from fencepost.harness.base.errors import HarnessError, UsageError
from fencepost.harness.contract.system import System
from fencepost.harness.faults.kind import Cluster, FaultKind, Proof, Resolved, View
from fencepost.harness.faults.schedule import parse_faults
from fencepost.harness.history import FaultOutcome
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.disks import availability, data_limit
from fencepost.harness.runtime.disks.strace import tracers_of
from fencepost.harness.runtime.disks.sync_mirror import SyncMirror
from fencepost.harness.runtime.disks.trace_log import read_log
from fencepost.harness.runtime.node import Node, NodeState
from fencepost.harness.runtime.provider import Placement
from fencepost.nemesis.disk import damage
from fencepost.nemesis.disk.power_loss import PowerLoss
from tests.fakes import acting
from tests.fakes.fakes_runtime import FakeRuntime, cluster_of
from tests.fakes.virtual_time import run_virtual
from tests.lab_scenario import ROOT, refuse
from tests.runtime.disks.writers import WriterNode, Writers, tracers

FAULTS = registry.faults()
#: For what comes by itself, on a busy machine too: a defect would keep it away for ever.
PATIENCE_S = 40.0


@pytest.fixture(autouse=True)
def _strace(request: pytest.FixtureRequest) -> None:
    """Most tests need it; those that use `nothing` do not."""
    if "nothing" not in request.fixturenames:
        refuse(availability.why_not(Placement()))


@pytest.fixture
def nothing() -> None:
    """Beside it no strace is asked for."""


def resolved(text: str, runtime: Writers) -> tuple[FaultKind, Resolved]:
    (spec,) = parse_faults(text, FAULTS, Placement())
    fault = registry.faults()[spec.fault]
    found = acting.aimed(fault, spec, View(nodes=tuple(runtime.nodes), leader="n1", epoch=1), random.Random(0))
    return fault, found


async def inject(text: str, runtime: Writers) -> tuple[FaultKind, Resolved, Proof]:
    fault, found = resolved(text, runtime)
    return fault, found, await acting.inject(fault, 7, found, cluster_of(runtime))


@pytest.mark.usefixtures("nothing")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("disk:n1:delay=0ms", "is too small; give at least 1ms, at most 1m"),
        ("disk:n1:delay=1500us", "whole number of milliseconds"),
        ("disk:n1:delay=100", "is not a duration"),
        ("disk:n1:kind=failing:delay=1s", "kind=failing has no option delay; it has: error, calls, files"),
        ("disk:n1:error=EIO", "kind=slow has no option error"),
        ("disk:n1:kind=full:files=*.wal", "kind=full has no option files; it has: none"),
        ("disk:n1:times=0", "times: 0 is too small; give at least 1, at most 1000"),
        ("disk:n1:kind=failing:times=two", "expected a whole number, got 'two'"),
        ("disk:n1:kind=full:times=1", "kind=full has no option times"),
        ("disk:n1:kind=lying", "is not a choice"),
        ("disk:n1:calls=mmap", "is not a choice"),
        ("disk:n9", "unknown target"),
        ("lost-write:n1:hold=5s", "5s is too large; give at most 4s"),
        ("lost-write:n1:hold=5", "is not a duration"),
        ("power-loss:n1:track=10s", "10s is too large; give at most 4s"),
        ("damage:n1:bits=0", "0 is too small; give at least 1, at most 1048576"),
        ("damage:n1:bits=x", "expected a whole number, got 'x'"),
        ("damage:n1:kind=truncate:bytes=9", "kind=truncate has no option bytes; it has: none"),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_run(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_faults(text, FAULTS, Placement())
    assert said in f"{caught.value.message}; {caught.value.hint}"


@pytest.mark.usefixtures("nothing")
@pytest.mark.parametrize("text", ["disk:n1:kind=full", "power-loss", "damage"])
def test_what_only_the_lab_can_do_is_refused_in_containers(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_faults(text, FAULTS, Placement(nodes=1, why_not=registry.runtime("containers").why_not))
    assert "files of a container" in caught.value.message
    assert "--runtime lab" in str(caught.value.hint)


@pytest.mark.usefixtures("nothing")
def test_without_strace_the_reason_and_the_remedy_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("disk", "lost-write", "power-loss"):
        assert "strace is not on the PATH" in str(FAULTS[name].unavailable(Placement()))
        assert "install strace" in str(FAULTS[name].unavailable(Placement()))
    assert FAULTS["damage"].unavailable(Placement()) is None
    assert not availability.check().ok


@pytest.mark.usefixtures("nothing")
def test_nobody_may_trace_where_the_kernel_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    refuse(availability.why_not(Placement()))
    scope = tmp_path / "ptrace_scope"
    scope.write_text("3\n")
    monkeypatch.setattr(availability, "_YAMA", scope)
    assert "ptrace_scope=3" in str(FAULTS["disk"].unavailable(Placement()))


@pytest.mark.parametrize("calls", ["sync", "write", "fdatasync"])
def test_calls_are_slow_until_healed_also_of_a_restarted_server(calls: str, tmp_path: Path) -> None:
    async def play() -> None:
        async with Writers(tmp_path, "sync", "sync") as runtime:
            fault, found, proof = await inject(f"disk:n1:delay=30ms:calls={calls}", runtime)
            assert proof.outcome is FaultOutcome.INSTALLED, proof.text
            assert found.details == {"kind": "slow", "calls": calls, "files": "*", "delay_ms": 30}
            n1, n2 = runtime.writers
            assert all(tracers_of(n1.pid or 0))
            assert not any(tracers_of(n2.pid or 0)), "only the chosen one is traced"
            await n1.kill()
            await n1.start()
            # A restarted server writes for some milliseconds before strace holds it.
            await calls_are_hit(tmp_path / "n1" / "strace-7.log.2", 9)
            healed = await acting.heal(fault, 7, found, cluster_of(runtime))
            assert healed.outcome is FaultOutcome.HEALED, healed.text
            # Single ones may seem shorter: strace looks at the clock once the delay has begun, and may be put off then.
            took = re.fullmatch(r"n1: .* hit, each [0-9.]+ ms or more, median ([0-9.]+)", healed.text)
            assert took is not None, healed.text
            assert float(took[1]) >= 29.5
            assert tracers() == []
            assert not any(tracers_of(n1.pid or 0))
            assert n1.on_start == []
            assert (await acting.heal(fault, 7, found, cluster_of(runtime))).outcome is FaultOutcome.HEALED, (
                "idempotent"
            )
            await n1.writes()

    asyncio.run(play())


async def calls_are_hit(log: Path, count: int = 1) -> None:
    """Wait until the log of a tracer tells of so many calls that were hit."""
    async with asyncio.timeout(PATIENCE_S):
        while read_log(log).count < count:
            await asyncio.sleep(0.01)


def test_a_single_call_can_be_held_back_for_long_and_is_proven_while_it_is(tmp_path: Path) -> None:
    """As a disk that stalls once: longer than a fault is waited for, and no other call is touched."""

    async def play() -> None:
        async with Writers(tmp_path, "sync") as runtime:
            began = time.monotonic()
            fault, found, proof = await inject("disk:n1:delay=6s:calls=fdatasync:times=1", runtime)
            assert proof.outcome is FaultOutcome.INSTALLED, proof.text
            assert "is being held back" in proof.text
            assert found.details["times"] == 1
            (n1,) = runtime.writers
            # It goes on by itself, without being healed, and nobody traces it any more.
            await n1.writes(20)
            assert time.monotonic() - began > 6
            async with asyncio.timeout(PATIENCE_S):
                while any(tracers_of(n1.pid or 0)):
                    await asyncio.sleep(0.02)
            healed = await acting.heal(fault, 7, found, cluster_of(runtime))
            assert healed.outcome is FaultOutcome.HEALED, healed.text
            took = re.fullmatch(r"n1: 1 calls \(1 fdatasync\) hit, each ([0-9.]+) ms or more, median .*", healed.text)
            assert took is not None, healed.text
            # strace looks at the clock once the delay has begun, and may be put off just then.
            assert float(took[1]) >= 3000

    asyncio.run(play())


def test_only_files_that_fit_are_hit_and_new_ones_as_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # For what never comes.
    monkeypatch.setattr("fencepost.nemesis.disk.disk._HIT_S", 0.5)

    async def play() -> None:
        async with Writers(tmp_path, "sync") as runtime:
            (n1,) = runtime.writers
            (n1.data / "other.wal").write_text("")
            fault, found = resolved("disk:n1:delay=20ms:files=*.wal", runtime)
            proof = await acting.inject(fault, 7, found, cluster_of(runtime))
            assert proof.outcome is FaultOutcome.INDETERMINATE
            assert "no call was hit" in proof.text
            os.rename(n1.data / "log", n1.data / "log.wal")
            await calls_are_hit(tmp_path / "n1" / "strace-7.log.2")
            healed = await acting.heal(fault, 7, found, cluster_of(runtime))
            assert "replaced 1 times" in healed.text
            assert not healed.text.startswith("n1: 0 calls")
            assert tracers() == []

    asyncio.run(play())


def test_a_server_that_ends_over_failing_calls_is_started_again_by_healing(tmp_path: Path) -> None:
    async def play() -> None:
        async with Writers(tmp_path, "sync") as runtime:
            (n1,) = runtime.writers
            fault, found, proof = await inject("disk:n1:kind=failing:error=ENOSPC", runtime)
            assert proof.outcome is FaultOutcome.INSTALLED, proof.text
            assert "1 calls (1 fdatasync) hit" in proof.text
            await n1.kill()
            healed = await acting.heal(fault, 7, found, cluster_of(runtime))
            assert healed.outcome is FaultOutcome.HEALED
            assert "was restarted as" in healed.text
            assert n1.state is NodeState.RUNNING
            await n1.writes()
            assert tracers() == []

    asyncio.run(play())


@pytest.mark.usefixtures("nothing")
def test_a_server_that_is_just_ending_over_a_full_disk_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {"n1": 4 << 20}
    monkeypatch.setattr(data_limit, "is_limited", lambda _: True)
    monkeypatch.setattr(data_limit, "byte_counts", lambda _: (1 << 20, limits["n1"]))
    monkeypatch.setattr(data_limit, "fill", lambda _: limits.update(n1=1 << 20))
    monkeypatch.setattr(data_limit, "set_limit", lambda _, limit: limits.update(n1=limit))
    monkeypatch.setattr(data_limit, "refuses_writes", lambda _: limits["n1"] == 1 << 20)

    async def play() -> None:
        runtime = FakeRuntime(1)
        n1 = runtime.nodes["n1"]
        (spec,) = parse_faults("disk:n1:kind=full", FAULTS, Placement(nodes=1))
        fault = registry.faults()["disk"]
        found = acting.aimed(fault, spec, View(nodes=("n1",), leader="n1", epoch=1), random.Random(0))
        assert (await acting.inject(fault, 7, found, cluster_of(runtime))).outcome is FaultOutcome.INSTALLED
        # It met the limit just now, and waits for the processor.
        asyncio.get_running_loop().call_later(1.0, setattr, n1, "state", NodeState.DEAD)
        healed = await acting.heal(fault, 7, found, cluster_of(runtime))
        assert (healed.outcome, n1.state) == (FaultOutcome.HEALED, NodeState.RUNNING)
        assert "n1 had ended and was restarted" in healed.text

    run_virtual(play())


def test_a_server_that_is_killed_while_it_is_held_dies_at_once(tmp_path: Path) -> None:
    async def play() -> None:
        async with Writers(tmp_path, "sync") as runtime:
            (n1,) = runtime.writers
            fault, found = resolved("disk:n1:delay=50s:calls=write", runtime)
            injecting = asyncio.create_task(acting.inject(fault, 7, found, cluster_of(runtime)))
            async with asyncio.timeout(PATIENCE_S):
                while not read_log(tmp_path / "n1" / "strace-7.log.1").unreturned:
                    await asyncio.sleep(0.01)
            await n1.kill()
            await injecting
            await acting.heal(fault, 7, found, cluster_of(runtime))
            assert tracers() == []

    asyncio.run(play())


def test_a_write_that_is_held_when_its_server_is_killed_never_happens(tmp_path: Path) -> None:
    async def play() -> None:
        async with Writers(tmp_path, "sync", "nosync") as runtime:
            fault, found, proof = await inject("lost-write:all:hold=50ms", runtime)
            assert proof.outcome is FaultOutcome.INSTALLED, proof.text
            assert proof.text.count("killed with 1 writes held back, which never happened (1 write of log)") == 2
            assert tracers() == []
            for node in runtime.writers:
                assert node.state is NodeState.DEAD
                assert node.written == node.told[-1] + 1, "what was told is there, and the held line is not"
            healed = await acting.heal(fault, 7, found, cluster_of(runtime))
            assert healed.outcome is FaultOutcome.HEALED
            for node in runtime.writers:
                await node.writes()

    asyncio.run(play())


def test_no_server_is_killed_where_no_write_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # For what never comes.
    monkeypatch.setattr("fencepost.nemesis.disk.lost_write._WRITE_S", 0.5)

    async def play() -> None:
        async with Writers(tmp_path, "sync") as runtime:
            (n1,) = runtime.writers
            fault, found, proof = await inject("lost-write:n1:files=*.wal", runtime)
            assert proof.outcome is FaultOutcome.INDETERMINATE
            assert "no server was killed" in proof.text
            await n1.writes()
            assert n1.incarnation == 0
            await acting.heal(fault, 7, found, cluster_of(runtime))
            assert tracers() == []

    asyncio.run(play())


def test_a_loss_of_power_takes_what_was_never_synced_and_nothing_else(tmp_path: Path) -> None:
    async def play() -> None:
        async with Writers(tmp_path, "sync", "nosync") as runtime:
            synced, unsynced = runtime.writers
            before = unsynced.written
            for node in runtime.writers:
                _write_before_the_kill(node)
            fault, found, proof = await inject("power-loss:all:track=100ms", runtime)
            assert proof.outcome is FaultOutcome.INSTALLED, proof.text
            assert tracers() == []
            assert synced.written >= synced.told[-1] + 1, "what it told was synced before"
            assert len(unsynced.told) - 1 > unsynced.written >= before, "as of when its power was taken over"
            assert f"{unsynced.name}:log" in str(proof.details["lost"]).split(", ")
            assert (synced.data / "log").read_bytes().startswith(b"0000000\n0000001\n")
            healed = await acting.heal(fault, 7, found, cluster_of(runtime))
            assert healed.outcome is FaultOutcome.HEALED
            for node in runtime.writers:
                await node.writes()

    asyncio.run(play())


def test_no_server_loses_power_that_has_just_ended_by_itself(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    with pytest.raises(HarnessError, match=f"process {ended.pid} has ended"):
        SyncMirror(ended.pid, tmp_path)


def _write_before_the_kill(node: WriterNode) -> None:
    """However seldom it has its turn of the processor: its next kill comes once it has written more."""
    kill = node.kill

    async def kill_late() -> None:
        node.kill = kill  # type: ignore[method-assign]
        await node.writes()
        await kill()

    node.kill = kill_late  # type: ignore[method-assign]


def test_nothing_is_put_back_when_syncs_may_have_been_missed(tmp_path: Path) -> None:
    async def play() -> None:
        async with Writers(tmp_path, "sync") as runtime:
            (n1,) = runtime.writers
            fault, found = resolved("power-loss:all:track=1s", runtime)
            injecting = asyncio.create_task(acting.inject(fault, 7, found, cluster_of(runtime)))
            (tracer,) = await _following(fault)
            # Waited for without giving way, so that the injection does not go on before it has ended.
            _kill_and_wait(tracer)
            proof = await injecting
            assert proof.outcome is FaultOutcome.INDETERMINATE
            assert "no server was killed: n1: its tracer had ended" in proof.text
            assert n1.state is NodeState.RUNNING
            await acting.heal(fault, 7, found, cluster_of(runtime))

    asyncio.run(play())


def test_a_tracer_that_ends_at_the_last_moment_is_noticed_too(tmp_path: Path) -> None:
    """After it was looked at for the last time, and before its server was killed."""

    async def play() -> None:
        async with Writers(tmp_path, "sync") as runtime:
            (n1,) = runtime.writers
            fault, found = resolved("power-loss:all:track=1ms", runtime)
            tracer: list[int] = []
            # What it writes then is synced, and told by nobody.
            _write_before_the_kill(n1)
            write_and_die = n1.kill

            async def die_unfollowed() -> None:
                _kill_and_wait(tracer[0])
                await write_and_die()

            n1.kill = die_unfollowed  # type: ignore[method-assign]
            injecting = asyncio.create_task(acting.inject(fault, 7, found, cluster_of(runtime)))
            tracer += await _following(fault)
            proof = await injecting
            assert proof.outcome is FaultOutcome.INDETERMINATE, proof.text
            assert "ended with -9, so syncs may have been missed" in proof.text
            # It may have been killed before it told its last one.
            assert n1.written >= n1.told[-1] + 1, "nothing was put back"
            await acting.heal(fault, 7, found, cluster_of(runtime))

    asyncio.run(play())


async def _following(fault: FaultKind) -> list[int]:
    """The tracers of a loss of power, once each has begun."""
    assert isinstance(fault, PowerLoss)
    async with asyncio.timeout(PATIENCE_S):
        while not (mirrors := _mirrors(fault)) or not all(mirror._ready.is_set() for mirror in mirrors):
            await asyncio.sleep(0.001)
    return [mirror._process.pid for mirror in mirrors]


def _mirrors(fault: FaultKind) -> list[SyncMirror]:
    """Those that it has to close."""
    acts = acting.ACTS.get(fault, {})
    return [cast(Any, step).__self__ for step in acts[7]._left] if acts else []


def _kill_and_wait(child: int) -> None:
    """Until it has ended; it stays to be waited for by who started it."""
    os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)


_CRASHES = """
import asyncio, sys, time
from pathlib import Path
from fencepost.harness.runtime.disks.strace import Tampering, Tracer

async def hold():
    tampering = Tampering(calls=("fdatasync",), action="delay_enter=20000")
    await Tracer(int(sys.argv[1]), tampering, Path(sys.argv[2])).attached()
    print("attached", flush=True)
    await asyncio.sleep(60)

asyncio.run(hold())
"""


def _attach_and_crash(pid: int, log: Path) -> None:
    argv = [sys.executable, "-c", _CRASHES, str(pid), str(log)]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == b"attached\n"
        assert all(tracers_of(pid))
        harness.kill()


def test_a_tracer_ends_with_a_harness_that_is_killed(tmp_path: Path) -> None:
    async def play() -> None:
        async with Writers(tmp_path, "sync") as runtime:
            (n1,) = runtime.writers
            await asyncio.to_thread(_attach_and_crash, n1.pid or 0, tmp_path / "log")
            async with asyncio.timeout(PATIENCE_S):
                while any(tracers_of(n1.pid or 0)):
                    await asyncio.sleep(0.01)
            await n1.writes()

    asyncio.run(play())


class _Ready:
    """A system whose every server serves, once it takes connections."""

    def __init__(self) -> None:
        self.asked = 0

    async def ready(self, node: Node) -> bool:
        self.asked += 1
        if self.asked == 1:
            raise ConnectionRefusedError("not yet")
        return True


def _serving(runtime: Writers) -> Cluster:
    return replace(cluster_of(runtime), system=cast(System, _Ready()))


@pytest.mark.usefixtures("nothing")
@pytest.mark.parametrize("kind", ["flip", "truncate", "tail"])
def test_damage_stays_where_the_server_runs_with_it(kind: str, tmp_path: Path) -> None:
    async def play() -> None:
        async with Writers(tmp_path, "sync") as runtime:
            (n1,) = runtime.writers
            fault, found, proof = await inject(f"damage:n1:kind={kind}", runtime)
            assert proof.outcome is FaultOutcome.INSTALLED, proof.text
            assert "its hash was" in proof.text
            await n1.writes()
            healed = await acting.heal(fault, 7, found, _serving(runtime))
            assert healed.outcome is FaultOutcome.HEALED
            assert "serves on its damaged files, which stay" in healed.text

    asyncio.run(play())


@pytest.mark.usefixtures("nothing")
@pytest.mark.parametrize(
    ("mode", "unready", "said"),
    [
        ("refuse", {"n1"}, "had refused its files and ended; they are as before"),
        ("hang", {"n1"}, "neither served on its files nor wrote any, so it was ended; they are as before"),
        # What it acknowledged since must not be taken from it.
        ("refuse", set(), "served on its damaged files, which stay"),
        ("sync", {"n1"}, "neither serves on its damaged files nor ended"),
    ],
)
def test_damage_that_a_server_refuses_is_undone(
    mode: str, unready: set[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(damage, "_SETTLED_S", 1.0)

    async def play() -> None:
        async with Writers(tmp_path, "sync") as runtime:
            (n1,) = runtime.writers
            await n1.writes()
            await n1.kill()
            before = (n1.data / "log").read_bytes()
            n1.mode = mode
            fault, found, proof = await inject("damage:n1", runtime)
            assert proof.outcome is FaultOutcome.INSTALLED
            if mode == "refuse":
                await n1.kill()
            elif mode == "sync":
                await n1.writes()
            n1.mode = "sync"
            view, begun = View(nodes=("n1",), leader=None, epoch=None, unready=frozenset(unready)), n1.incarnation
            healed = await acting.heal(fault, 7, found, cluster_of(runtime, view=lambda: view))
            assert said in healed.text
            assert (n1.incarnation > begun) is (mode != "sync"), "a server that writes is left alone"
            await n1.writes()
            assert (n1.data / "log").read_bytes().startswith(before) is ("as before" in said)

    asyncio.run(play())


@pytest.mark.usefixtures("nothing")
def test_damage_is_the_seed_s_and_says_where_nothing_can_be_damaged(tmp_path: Path) -> None:
    async def play() -> None:
        async with Writers(tmp_path, "nosync") as runtime:
            _, _, proof = await inject("damage:n1:files=*.snap", runtime)
            assert proof.outcome is FaultOutcome.INDETERMINATE
            assert "no file that fits has any data" in proof.text

    asyncio.run(play())
