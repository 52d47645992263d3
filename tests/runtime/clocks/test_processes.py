"""Running processes armed, set and disarmed: every clock, under load, paused, traced by another, and as they die."""

import contextlib
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.harness.runtime.clocks import gate, vdso
from fencepost.harness.runtime.clocks import held_threads as tracing
from fencepost.harness.runtime.clocks import machine_code as code
from fencepost.harness.runtime.clocks.clock_daemon import ClockDaemon
from fencepost.harness.runtime.clocks.memory import ClockError, Gone, mappings
from fencepost.harness.runtime.clocks.messages import Arm, Armed, ClockRelease, How, decode
from fencepost.harness.runtime.clocks.process import ClockedProcess, _words_like, own_image, why_not_here
from fencepost.harness.runtime.clocks.setting import RATE_ONE, ClockSetting, Settings
from tests.runtime.clocks.programs import Asked, built, running

S = 10**9
MS = 10**6
#: Coarse clocks move with the kernel's tick; the others are compared within microseconds.
NEAR_NS = 50_000_000
#: For what comes by itself, on a busy machine too: a defect would keep it away for ever.
PATIENCE_S = 60.0
WALL = ("realtime", "coarse", "tai", "gettimeofday")
MONOTONIC = ("monotonic", "monotonic_coarse", "monotonic_raw", "boottime")

pytestmark = pytest.mark.skipif(why_not_here() is not None, reason=str(why_not_here()))


@pytest.fixture(scope="module")
def reader() -> Iterator[str]:
    with built() as program:
        yield str(program)


@contextlib.contextmanager
def opened(pid: int) -> Iterator[ClockedProcess]:
    process = ClockedProcess(pid)
    try:
        yield process
    finally:
        process.close()


def assert_skew(asked: Asked, *, wall_ns: int = 0, monotonic_ns: int = 0) -> None:
    said = asked.ask()
    for name in WALL:
        assert abs(said[name] - wall_ns) < NEAR_NS, (name, said)
    for name in MONOTONIC:
        assert abs(said[name] - monotonic_ns) < NEAR_NS, (name, said)
    # Whole seconds of two coarse readings: a second may begin between them.
    assert abs(said["time"] - wall_ns // S * S) <= S, said
    assert abs(said["cpu"]) < NEAR_NS, said


@pytest.mark.parametrize("offset_ns", [1_000_000 * 3600, 120 * S, -120 * S, 30 * 86_400 * S])
def test_every_wall_clock_follows_and_no_other(reader: str, offset_ns: int) -> None:
    with running(reader, "ask") as asked, opened(asked.pid) as process:
        assert_skew(asked)
        process.arm(Settings(wall=ClockSetting(offset_ns=offset_ns)))
        assert_skew(asked, wall_ns=offset_ns)
        process.set(Settings())
        assert_skew(asked)
        process.disarm()
        assert_skew(asked)
        assert process.is_original()


def test_the_monotonic_clocks_follow_and_no_wall_clock(reader: str) -> None:
    with running(reader, "ask") as asked, opened(asked.pid) as process:
        process.arm(Settings(monotonic=ClockSetting(offset_ns=50 * S)))
        assert_skew(asked, monotonic_ns=50 * S)
        # Nothing is before zero.
        process.set(Settings(monotonic=ClockSetting(offset_ns=-(10**6) * S)))
        before_ns, skew_ns, after_ns = time.monotonic_ns(), asked.ask()["monotonic"], time.monotonic_ns()
        assert -after_ns <= skew_ns <= -before_ns


def test_a_drift_and_a_strobe_are_what_the_setting_says(reader: str) -> None:
    with running(reader, "ask") as asked, opened(asked.pid) as process:
        base_ns = time.time_ns() - 100 * S
        drifting = ClockSetting(base_ns=base_ns, extra_rate=RATE_ONE // 20)
        process.arm(Settings(wall=drifting))
        before_ns, shown_ns, after_ns = time.time_ns(), asked.ask()["realtime"], time.time_ns()
        assert drifting.skew_ns(before_ns) - MS <= shown_ns <= drifting.skew_ns(after_ns) + MS
        strobing = ClockSetting(base_ns=time.time_ns(), period_ns=5 * MS, delta_ns=3600 * S, length_ns=600 * S)
        process.set(Settings(wall=strobing))
        seen: set[int] = set()

        def both_sides_are_seen() -> bool:
            seen.add(round(asked.ask()["realtime"] / S))
            return len(seen) == 2

        _until(both_sides_are_seen)
        assert seen == {0, 3600}
        assert process.settings().wall == strobing
        # One that ends by itself, within a period that would be put on.
        ending = ClockSetting(base_ns=time.time_ns(), period_ns=600 * S, delta_ns=3600 * S, length_ns=200 * MS)
        process.set(Settings(wall=ending))
        _until(lambda: time.time_ns() > ending.base_ns + ending.length_ns)
        assert {round(asked.ask()["realtime"] / S) for _ in range(20)} == {0}
        assert process.settings().wall == ending


def test_no_reading_is_ever_torn_while_settings_change(reader: str) -> None:
    """Four threads and a signal handler read, while the settings change thousands of times."""
    legal = (-120 * S, 3600 * S)
    draw = random.Random(1)
    with running(reader, "hammer", *map(str, legal)) as asked, opened(asked.pid) as process:
        process.arm(Settings())
        began = time.monotonic()
        changes = readings = 0
        while time.monotonic() < began + 1.0 or changes <= 1000 or readings <= 10_000:
            assert time.monotonic() < began + PATIENCE_S, (changes, readings)
            for _ in range(100):
                offset_ns = draw.choice(legal)
                process.set(Settings(*[ClockSetting(offset_ns=offset_ns if offset_ns > 0 else 0)] * 2))
                process.set(Settings(wall=ClockSetting(offset_ns=offset_ns)))
                changes += 2
            said = asked.ask()
            assert said["wrong"] == 0
            readings += said["readings"]


def test_arming_and_disarming_under_load_harms_no_thread(reader: str) -> None:
    with running(reader, "hammer", str(5 * S), str(7 * S)) as asked, opened(asked.pid) as process:
        for number in range(20):
            process.arm(Settings(wall=ClockSetting(offset_ns=5 * S)))
            if number % 2:
                process.translate_waits()
            process.disarm()
            assert process.is_original()
        readings = 0

        def are_enough() -> bool:
            nonlocal readings
            said = asked.ask()
            assert said["wrong"] == 0
            readings += int(said["readings"])
            return readings > 1000

        _until(are_enough)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(monotonic=ClockSetting(offset_ns=30 * S)),
        Settings(monotonic=ClockSetting(offset_ns=-30 * S)),
        Settings(wall=ClockSetting(offset_ns=120 * S)),
        Settings(wall=ClockSetting(offset_ns=-120 * S)),
    ],
    ids=["monotonic ahead", "monotonic behind", "wall ahead", "wall behind"],
)
def test_timed_waits_keep_their_length(reader: str, settings: Settings) -> None:
    """Without the translation they would not return at all, or at once for ever."""
    with running(reader, "waits") as asked, opened(asked.pid) as process:
        process.arm(Settings())
        process.translate_waits()
        process.set(settings)
        assert_waits(asked, 50 * MS)


def test_untranslated_waits_do_not_which_is_why_they_are(reader: str) -> None:
    with running(reader, "waits") as asked, opened(asked.pid) as process:
        process.arm(Settings(monotonic=ClockSetting(offset_ns=-30 * S)))
        asked.ask()

        def return_at_once() -> bool:
            time.sleep(0.01)
            said = asked.ask()
            return bool(said["monotonic"] > 10 and said["monotonic_least_ns"] < 5 * MS)

        _until(return_at_once)


def test_waits_take_as_long_as_the_clock_is_slow(reader: str) -> None:
    with running(reader, "waits") as asked, opened(asked.pid) as process:
        process.arm(Settings())
        process.translate_waits()
        process.set(Settings(monotonic=ClockSetting(base_ns=time.monotonic_ns(), extra_rate=-RATE_ONE * 3 // 4)))
        # 50 ms of its own are 200 of ours.
        assert_waits(asked, 50 * MS, monotonic_ns=200 * MS)


def assert_waits(asked: Asked, wall_ns: int, *, monotonic_ns: int | None = None) -> None:
    """From now on no wait is shorter than these, and of each clock one is hardly longer.

    A defect makes them all return at once, or much later, or never; a busy machine makes some of them late.
    """
    lengths_ns = {"wall": wall_ns, "monotonic": monotonic_ns or wall_ns}
    in_time: set[str] = set()
    asked.ask()

    def are_seen() -> bool:
        # Only waits that begin and end between two questions are told.
        time.sleep(2.2 * max(lengths_ns.values()) / S)
        said = asked.ask()
        for clock, length_ns in lengths_ns.items():
            if said[clock]:
                # The two clocks that are compared may differ by what is being made good of the machine's own.
                assert said[f"{clock}_least_ns"] > length_ns - MS, said
                in_time.update([clock] if said[f"{clock}_least_ns"] < length_ns * 3 // 2 else [])
        return in_time == set(lengths_ns)

    _until(are_seen)


def test_a_paused_process_is_armed_and_stays_paused(reader: str) -> None:
    with running(reader, "ask") as asked, opened(asked.pid) as process:
        os.kill(asked.pid, signal.SIGSTOP)
        _until(lambda: tracing.state(asked.pid) == "T")
        process.arm(Settings(wall=ClockSetting(offset_ns=S)))
        assert process.is_armed
        _until(lambda: tracing.state(asked.pid) == "T")
        assert tracing.tracer_of(asked.pid) == 0
        os.kill(asked.pid, signal.SIGCONT)
        assert_skew(asked, wall_ns=S)


TRACER = """
import ctypes, sys, time
libc = ctypes.CDLL(None)
libc.ptrace.argtypes = [ctypes.c_long] * 4
assert libc.ptrace(0x4206, int(sys.argv[1]), 0, 0) == 0
print("traced", flush=True)
import os
while True:
    pid, status = os.waitpid(int(sys.argv[1]), 0x40000000)
    if not os.WIFSTOPPED(status):
        break
    # A stop of the whole process is listened to, as strace does; a signal is passed on.
    stop = status >> 16 == 128 and os.WSTOPSIG(status) in (19, 20, 21, 22)
    libc.ptrace(0x4208 if stop else 7, pid, 0, 0 if status >> 16 else os.WSTOPSIG(status))
"""


def test_a_process_that_another_program_traces_is_armed_by_a_stop(reader: str) -> None:
    with (
        running(reader, "ask") as asked,
        opened(asked.pid) as process,
        subprocess.Popen([sys.executable, "-c", TRACER, str(asked.pid)], stdout=subprocess.PIPE) as tracer,
    ):
        try:
            assert tracer.stdout is not None
            tracer.stdout.readline()
            assert isinstance(tracing.hold(asked.pid), tracing._Stopped)
            process.arm(Settings(wall=ClockSetting(offset_ns=S)))
            assert_skew(asked, wall_ns=S)
            process.disarm()
            assert_skew(asked)
        finally:
            tracer.kill()


def test_a_signal_that_comes_while_it_is_held_is_not_lost(reader: str) -> None:
    program = (
        "import signal, sys\ncount = 0\n"
        "def hear(*_):\n    global count\n    count += 1\n"
        # A signal that came before the question is heard when a function begins, at the latest.
        "def tell():\n    print(count, flush=True)\n"
        "signal.signal(signal.SIGUSR1, hear)\nprint('ready', flush=True)\n"
        "for line in sys.stdin: tell()"
    )
    with running(sys.executable, "-c", program) as asked, opened(asked.pid) as process:
        for number in range(1, 31):
            with tracing.hold(asked.pid):
                os.kill(asked.pid, signal.SIGUSR1)
            if number % 3 == 0:
                process.arm(Settings())
                process.disarm()
            assert asked.ask() == number


def test_another_writer_finds_what_the_first_one_did(reader: str) -> None:
    with running(reader, "waits") as asked, opened(asked.pid) as first:
        first.arm(Settings(wall=ClockSetting(offset_ns=S)))
        first.translate_waits()
        with opened(asked.pid) as second:
            assert second.is_armed
            assert second.settings() == first.settings()
            assert second.waits is not None
            assert first.waits is not None
            assert second.waits.sites == first.waits.sites
            assert second.waits.are_in_force()
            second.disarm()
            assert second.is_original()
            assert not second.waits.are_in_force()
        assert not first.is_armed


def test_a_server_whose_gate_is_slow_to_shut_comes_out_all_the_same(
    reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its shell may have to wait for the processor for longer than the clock daemon waits for it."""
    monkeypatch.setattr(tracing, "DEADLINE_S", 0.05)
    shell, option, program, *words = gate.through_gate((reader, "ask"))
    slow = (shell, option, f"read go; {program}", *words)
    ours, theirs = socket.socketpair()
    with ours, theirs, contextlib.closing(Asked(*slow, wait=False)) as asked:
        _until(lambda: gate.is_gate(asked.pid))
        daemon = ClockDaemon(theirs)
        settings = Settings(wall=ClockSetting(offset_ns=S))
        daemon._obey(Arm(id=1, node="n1", pid=asked.pid, settings=settings, through_gate=True))
        assert gate.is_gate(asked.pid)
        monkeypatch.undo()
        asked.tell("go")

        def is_out() -> bool:
            # As it does every few milliseconds.
            daemon._scan(daemon._nodes["n1"], How.NEWCOMER)
            return not gate.is_gate(asked.pid)

        _until(is_out)
        assert_skew(asked, wall_ns=S)
        told = [decode(line) for line in ours.recv(1 << 16).splitlines()]
        assert [(message.pid, message.how) for message in told if isinstance(message, Armed)][-1] == (
            asked.pid,
            How.EXEC,
        )
        daemon._obey(ClockRelease(id=2, node="n1"))
        assert_skew(asked)


def test_a_forked_child_inherits_and_an_executed_program_does_not() -> None:
    program = (
        "import os, sys, time\nprint('ready', flush=True)\nsys.stdin.readline()\n"
        "child = os.fork()\n"
        "if not child:\n    time.sleep(30)\n"
        "print(child, flush=True)\nsys.stdin.readline()\nos.kill(child, 9)\nos.waitpid(child, 0)\n"
        "os.execv(sys.executable, [sys.executable, '-c', \"print(1, flush=True); input()\"])"
    )
    with running(sys.executable, "-c", program) as asked, opened(asked.pid) as process:
        process.arm(Settings(wall=ClockSetting(offset_ns=S)))
        child = int(asked.ask())
        with opened(child) as born:
            assert born.is_armed
            assert born.settings() == process.settings()
        assert asked.ask() == 1
        assert not process.is_same()
        with pytest.raises(Gone):
            process.set(Settings())
        with opened(asked.pid) as executed:
            assert not executed.is_armed
            assert executed.is_original()


def test_one_that_ended_is_gone_at_every_step(reader: str) -> None:
    with running(reader, "ask") as asked:
        process = ClockedProcess(asked.pid)
        other = ClockedProcess(asked.pid)
        process.arm(Settings())
    for step in (
        lambda: process.set(Settings()),
        process.settings,
        process.disarm,
        lambda: other.arm(Settings()),
        process.translate_waits,
    ):
        with pytest.raises(Gone):
            step()
    assert not process.is_same()
    process.close()
    other.close()
    with pytest.raises(Gone):
        ClockedProcess(asked.pid)


def test_one_that_ends_while_it_is_held_is_gone(reader: str) -> None:
    with running(reader, "ask") as asked, opened(asked.pid) as process:

        def hold(pid: int) -> tracing.Hold:
            os.kill(pid, signal.SIGKILL)
            _until(lambda: tracing.state(pid) in ("Z", ""))
            return tracing.hold(pid)

        with pytest.raises(Gone):
            process.arm(Settings(), hold)


def test_a_thread_that_is_always_inside_is_never_cut(reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that a thread is in the middle of stay as they are, and the failure says so."""
    monkeypatch.setattr("fencepost.harness.runtime.clocks.process._TRIES", 4)

    class Inside:
        def __init__(self, pid: int) -> None:
            (entry, _, _) = vdso.VdsoImage(own_image()).hooked
            assert entry is not None
            start = next(m.start for m in mappings(pid) if m.path == "[vdso]")
            self.threads = lambda: iter([tracing.Thread(start + entry.at + 2, 0)])

        def __enter__(self) -> "Inside":
            return self

        def __exit__(self, *_: object) -> None:
            return

    with running(reader, "ask") as asked, opened(asked.pid) as process:
        with pytest.raises(ClockError, match="inside a clock function"):
            process.arm(Settings(wall=ClockSetting(offset_ns=S)), Inside)
        assert process.is_original()
        assert_skew(asked)


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0x7FFF_0000_0FF0, 0x7FFF_0001_0010), max_size=40), st.binary())
def test_an_address_on_a_stack_is_found_wherever_it_is_aligned(words: list[int], rest: bytes) -> None:
    ranges = [(0x7FFF_0000_FFF8, 0x7FFF_0000_FFFC), (0x7FFF_0001_0001, 0x7FFF_0001_0005)]
    stack = struct.pack(f"<{len(words)}Q", *words) + rest[:7]

    def inside(values: Iterable[int]) -> list[int]:
        return sorted(v for v in values if any(start <= v < end for start, end in ranges))

    assert inside(_words_like(stack, ranges)) == inside(words)


def test_where_the_instructions_cannot_be_moved_the_kernel_is_asked(
    reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vdso, "moved", lambda *_: None)
    with running(reader, "ask") as asked, opened(asked.pid) as process:
        process.arm(Settings(wall=ClockSetting(offset_ns=9 * S)))
        assert_skew(asked, wall_ns=9 * S)


@pytest.mark.parametrize("version", ["FPCLOCK1 of another build"])
def test_what_another_version_laid_out_is_left_alone(reader: str, version: str) -> None:
    with running(reader, "ask") as asked, opened(asked.pid) as process:
        process.arm(Settings())
        process.disarm()
        head = process._known_head()
        process._memory.write(head + code.functions().clock_gettime, b"\x90")
        with pytest.raises(ClockError, match="another version"):
            process.arm(Settings())


def test_the_vdso_of_this_kernel_is_understood() -> None:
    image = vdso.VdsoImage(own_image())
    first, second, third = image.hooked
    assert first is not None and first.size > 64
    assert second is not None and third is not None
    at = image.room_for(len(code.functions().code))
    assert at % 64 == 0
    with pytest.raises(ClockError, match="unused bytes"):
        image.room_for(1 << 20)
    with pytest.raises(ClockError, match="not a 64-bit one"):
        vdso.VdsoImage(b"\x7fELF\x01" + bytes(100))


#: push rbp; mov rbp, rsp; then something.
FRAME = bytes.fromhex("55 48 89 e5 53")
RELATIVE = bytes.fromhex("48 8b 05 10 00 00 00 c3")  # mov rax, [rip+16]; ret


def test_moved_instructions_do_the_same_elsewhere() -> None:
    body = bytes(64)
    assert vdso.moved(FRAME + body, 0x1000, 0x2000) == FRAME + vdso.jump(0x2005, 0x1005)
    found = vdso.moved(RELATIVE + body, 0x1000, 0x1800)
    # The same address, seen from 0x800 farther on.
    assert found is not None
    assert found[:7] == bytes.fromhex("48 8b 05") + (16 - 0x800).to_bytes(4, "little", signed=True)
    assert found[7:] == vdso.jump(0x1807, 0x1007)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0f 05 c3 90 90 90", "a system call"),
        ("e8 00 00 00 00 90", "a call"),
        ("55 48 89 e5 53 90 90 eb f8 90 90 90 90 90", "a jump back between them"),
        ("55 48 89 e5 53 90 90 0f 84 f6 ff ff ff 90 90 90 90 90 90", "a long jump back between them"),
    ],
)
def test_instructions_that_are_not_understood_are_not_moved(text: str, why: str) -> None:
    assert vdso.moved(bytes.fromhex(text) + bytes(16), 0x1000, 0x2000) is None, why


def _until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)
