"""Running processes armed, set and disarmed: every clock, under load, paused, traced by another, and as they die."""

import contextlib
import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.runtime.clocks import machine_code as code
from harness.runtime.clocks import tracing, vdso
from harness.runtime.clocks.memory import ClockError, Gone, mappings
from harness.runtime.clocks.process import ClockedProcess, _words_like, own_image, why_not_here
from harness.runtime.clocks.setting import RATE_ONE, ClockSetting, Settings
from tests.clocks.programs import Asked, built, running

S = 10**9
#: A coarse clock is this much behind, and reading two clocks takes a moment, more on a busy machine.
NEAR_NS = 50_000_000
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
        assert asked.ask()["monotonic"] == pytest.approx(-time.monotonic_ns(), abs=10 * NEAR_NS)


def test_a_drift_and_a_strobe_are_what_the_setting_says(reader: str) -> None:
    with running(reader, "ask") as asked, opened(asked.pid) as process:
        base_ns = time.time_ns() - 100 * S
        drifting = ClockSetting(base_ns=base_ns, extra_rate=RATE_ONE // 20)
        process.arm(Settings(wall=drifting))
        assert abs(asked.ask()["realtime"] - drifting.skew_ns(time.time_ns())) < NEAR_NS
        strobing = ClockSetting(base_ns=time.time_ns(), period_ns=5_000_000, delta_ns=3600 * S, length_ns=400_000_000)
        process.set(Settings(wall=strobing))
        seen = set()
        while time.time_ns() < strobing.base_ns + strobing.length_ns:
            seen.add(round(asked.ask()["realtime"] / S))
        assert seen == {0, 3600}
        time.sleep(0.01)
        assert {round(asked.ask()["realtime"] / S) for _ in range(20)} == {0}
        assert process.settings().wall == strobing


def test_no_reading_is_ever_torn_while_settings_change(reader: str) -> None:
    """Four threads and a signal handler read, while the settings change thousands of times."""
    legal = (-120 * S, 3600 * S)
    draw = random.Random(1)
    with running(reader, "hammer", *map(str, legal)) as asked, opened(asked.pid) as process:
        process.arm(Settings())
        end = time.monotonic() + 1.0
        changes = 0
        while time.monotonic() < end:
            offset_ns = draw.choice(legal)
            process.set(Settings(*[ClockSetting(offset_ns=offset_ns if offset_ns > 0 else 0)] * 2))
            process.set(Settings(wall=ClockSetting(offset_ns=offset_ns)))
            changes += 2
        said = asked.ask()
    assert said["wrong"] == 0
    assert said["readings"] > 10_000
    assert changes > 1000


def test_arming_and_disarming_under_load_harms_no_thread(reader: str) -> None:
    with running(reader, "hammer", str(5 * S), str(7 * S)) as asked, opened(asked.pid) as process:
        for number in range(20):
            process.arm(Settings(wall=ClockSetting(offset_ns=5 * S)))
            if number % 2:
                process.translate_waits()
            process.disarm()
            assert process.is_original()
        said = asked.ask()
    assert said["wrong"] == 0
    assert said["readings"] > 1000


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
        # The waits of that moment keep their length.
        time.sleep(0.2)
        asked.ask()
        time.sleep(0.6)
        said = asked.ask()
        waits = said["ns"] / 50_000_000
        for clock in ("wall", "monotonic"):
            assert 0.3 * waits <= said[clock] <= waits + 2, said


def test_untranslated_waits_do_not_which_is_why_they_are(reader: str) -> None:
    with running(reader, "waits") as asked, opened(asked.pid) as process:
        process.arm(Settings(monotonic=ClockSetting(offset_ns=-30 * S)))
        time.sleep(0.2)
        asked.ask()
        time.sleep(0.3)
        said = asked.ask()
    assert said["monotonic"] > 10 * said["ns"] / 50_000_000


def test_waits_take_as_long_as_the_clock_is_slow(reader: str) -> None:
    with running(reader, "waits") as asked, opened(asked.pid) as process:
        process.arm(Settings())
        process.translate_waits()
        process.set(Settings(monotonic=ClockSetting(base_ns=time.monotonic_ns(), extra_rate=-RATE_ONE * 3 // 4)))
        time.sleep(0.3)
        asked.ask()
        time.sleep(0.8)
        said = asked.ask()
    # 50 ms of its own are 200 of ours.
    assert 1 <= said["monotonic"] <= said["ns"] / 200_000_000 + 1, said


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
            assert isinstance(tracing.hold(asked.pid), tracing.Stopped)
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
        "signal.signal(signal.SIGUSR1, hear)\nprint('ready', flush=True)\n"
        "for line in sys.stdin: print(count, flush=True)"
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
    monkeypatch.setattr("harness.runtime.clocks.process._TRIES", 4)

    class Inside:
        def __init__(self, pid: int) -> None:
            (entry, _, _) = vdso.Image(own_image()).hooked
            assert entry is not None
            start = next(m.start for m in mappings(pid) if m.path == "[vdso]")
            self.threads = lambda: iter([tracing.Thread(start + entry.at + 2, 0)])

        def __enter__(self) -> "Inside":
            return self

        def __exit__(self, *_: object) -> None:
            return

    with running(reader, "ask") as asked, opened(asked.pid) as process:
        with pytest.raises(ClockError, match="inside of a clock function"):
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
    image = vdso.Image(own_image())
    first, second, third = image.hooked
    assert first is not None and first.size > 64
    assert second is not None and third is not None
    at = image.room_for(len(code.functions().code))
    assert at % 64 == 0
    with pytest.raises(ClockError, match="unused bytes"):
        image.room_for(1 << 20)
    with pytest.raises(ClockError, match="not a 64-bit one"):
        vdso.Image(b"\x7fELF\x01" + bytes(100))


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


def _until(condition: object, deadline_s: float = 5.0) -> None:
    assert callable(condition)
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)
