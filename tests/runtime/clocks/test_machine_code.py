"""The machine code is what its listing says, and reckons as the Python twin does, to the nanosecond."""

import ctypes
import mmap
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fencepost.harness.runtime.clocks import machine_code as code
from fencepost.harness.runtime.clocks.setting import RATE_ONE, ClockSetting, Settings
from tests.lab_scenario import refuse
from tests.runtime.clocks.programs import compiler

S = 10**9

pytestmark = pytest.mark.skipif(not code.is_known_here(), reason="the machine code is x86-64's")


@pytest.mark.parametrize("name", ["functions", "waits"])
def test_the_hex_is_the_listing_assembled(name: str, tmp_path: Path) -> None:
    made, raw = tmp_path / "made.o", tmp_path / "raw"
    objcopy = shutil.which("objcopy")
    refuse(None if objcopy else "no objcopy (binutils)")
    source = code.FOLDER / f"{name}.S"
    subprocess.run([compiler(), "-c", "-x", "assembler", str(source), "-o", str(made)], check=True)
    subprocess.run([str(objcopy), "-O", "binary", "-j", ".text", str(made), str(raw)], check=True)
    assert bytes.fromhex((code.FOLDER / f"{name}.hex").read_text()) == raw.read_bytes()


class Machine:
    """The functions in memory of this process, where they may be called."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        functions = code.functions()
        self._memory[: len(functions.code)] = functions.code
        self._at = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        kind = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32)
        self._skewed = kind(self._at + functions.skewed)
        self._turn = 0

    def set(self, settings: Settings) -> None:
        self._turn = self._turn + 1 & 0xFF
        at = code.functions().ring + self._turn % code.PLACES * code.PLACE_BYTES
        self._memory[at : at + code.PLACE_BYTES] = settings.pack()
        self._memory[code.TURN : code.TURN + 1] = bytes([self._turn])

    def skewed(self, at_ns: int, family: int) -> int:
        return int(self._skewed(at_ns, family))


MACHINE = Machine() if code.is_known_here() else None
TIMES = st.integers(0, 2**62)
SETTINGS = st.builds(
    ClockSetting,
    base_ns=TIMES,
    offset_ns=st.integers(-(2**60), 2**60),
    extra_rate=st.integers(-RATE_ONE + 1, 100 * RATE_ONE),
    period_ns=st.sampled_from([0, 0, 1, 1000, 10**7, 3600 * S]),
    delta_ns=st.integers(-(2**58), 2**58),
    length_ns=st.sampled_from([0, 1000, 10**10, 10**15]),
)
#: How long after (or before) its base a clock is looked at: a run's length, and both sides of every edge.
SINCE = st.one_of(st.integers(-(10**12), 10**14), st.sampled_from([-1, 0, 1, 999, 1000, 1001, 10**10 - 1, 10**10]))


@given(SETTINGS, SINCE)
@example(ClockSetting(base_ns=S, period_ns=1000, delta_ns=5, length_ns=1000), 999)
@example(ClockSetting(base_ns=S, offset_ns=-2 * S), 0)
def test_code_and_twin_reckon_alike(setting: ClockSetting, since: int) -> None:
    assert MACHINE is not None
    at_ns = max(0, setting.base_ns + since)
    expected = max(0, at_ns + setting.skew_ns(at_ns))
    MACHINE.set(Settings(wall=setting))
    assert MACHINE.skewed(at_ns, 0) == expected
    assert MACHINE.skewed(at_ns, 1) == at_ns
    MACHINE.set(Settings(monotonic=setting))
    assert MACHINE.skewed(at_ns, 1) == expected
    assert MACHINE.skewed(at_ns, 0) == at_ns


@given(SETTINGS, SETTINGS)
def test_settings_come_back_as_they_were_packed(wall: ClockSetting, monotonic: ClockSetting) -> None:
    settings = Settings(wall, monotonic)
    assert Settings.unpack(settings.pack()) == settings
    assert len(settings.pack()) == code.PLACE_BYTES


def test_the_header_is_where_it_is_taken_to_be() -> None:
    functions, waits = code.functions(), code.waits()
    assert functions.ring == code.HOOKS + len(code.HOOKED) * code.HOOK.size + 16
    assert len(functions.code) == functions.real + code.REAL_BYTES
    assert functions.ring + code.PLACES * code.PLACE_BYTES == functions.clock_gettime
    assert waits.thunks == len(waits.code)
    assert struct.unpack_from("<QqqQ", waits.code, code.WAITS_SKEWED) == (0, 0, 0, 0)


#: Since its base, ordinary drifts and strobes.
RUNNING = st.builds(
    ClockSetting,
    base_ns=st.just(10**12),
    offset_ns=st.integers(-(10**12), 10**12),
    extra_rate=st.integers(-RATE_ONE * 99 // 100, 10 * RATE_ONE),
    period_ns=st.sampled_from([0, 10**6, 10**8]),
    delta_ns=st.integers(-(10**10), 10**10),
    length_ns=st.integers(0, 10**10),
)


@given(RUNNING, st.integers(0, 2 * 10**10), st.integers(0, 2 * 10**7), st.integers(0, 2 * 10**7))
def test_a_settled_clock_is_never_behind_what_was_shown(
    setting: ClockSetting, since: int, read_ns: int, put_ns: int
) -> None:
    """However late within the margin it is put in force, and whenever before that somebody looked."""
    margin_ns = 2 * 10**7
    at_ns = setting.base_ns + since
    read_ns, put_ns = sorted((read_ns, put_ns))
    settled = setting.settled(at_ns, margin_ns)
    assert settled.rate == 1.0
    assert not settled.period_ns
    looked, put = at_ns + read_ns, at_ns + put_ns
    assert put + settled.skew_ns(put) >= looked + setting.skew_ns(looked)


def test_a_true_clock_settles_to_true_time() -> None:
    assert ClockSetting().settled(10**12, 10**7).is_true
