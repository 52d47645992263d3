"""The machine code that we write into processes, and the offsets of its parts; listings are beside the .hex files."""

import platform
import struct
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from fencepost.harness.runtime.clocks.setting import FAMILY_BYTES

ARCHITECTURE: Final = "x86_64"
ARCHITECTURE_HERE: Final = platform.machine()
FOLDER: Final = Path(__file__).with_name(ARCHITECTURE)

FUNCTIONS_MAGIC: Final = b"FPCLOCK1"
#: The functions in the order of the header's table, each with the names that a vDSO may give it.
HOOKED: Final = (
    ("__vdso_clock_gettime", "clock_gettime"),
    ("__vdso_gettimeofday", "gettimeofday"),
    ("__vdso_time", "time"),
)
HOOKS: Final = 8
HOOK: Final = struct.Struct("<Q8s")
ARMED: Final = 56
TURN: Final = 57
#: The settings' ring.
PLACES: Final = 4
PLACE_BYTES: Final = 2 * FAMILY_BYTES
#: Bytes for the first instructions of the vDSO's own clock_gettime and a jump to its rest.
REAL_BYTES: Final = 48
_PARTS: Final = struct.Struct("<6H")
_PARTS_AT: Final = 60

WAITS_MAGIC: Final = b"FPWAITS1"
WAITS_SKEWED: Final = 8
WAITS_SLOW: Final = 16
WAITS_COUNT: Final = 32
_WAIT_PARTS: Final = struct.Struct("<2H")
_WAIT_PARTS_AT: Final = 40
#: mov eax, 202; syscall
FUTEX_SITE: Final = b"\xb8\xca\x00\x00\x00\x0f\x05"
#: lea rsp, [rsp-128] (past the red zone); call wait; lea rsp, [rsp+128]; jmp behind the site; one byte of filling.
THUNK_BYTES: Final = 24


class Functions(NamedTuple):
    """The clock functions before they are written to any address; positions are offsets from the head."""

    code: bytes
    clock_gettime: int
    gettimeofday: int
    time: int
    skewed: int
    real: int
    ring: int

    @property
    def targets(self) -> tuple[int, int, int]:
        """In the order of HOOKED."""
        return self.clock_gettime, self.gettimeofday, self.time


class Waits(NamedTuple):
    code: bytes
    wait: int
    thunks: int


def is_known_here() -> bool:
    """Say whether there is machine code for this machine's processor."""
    return ARCHITECTURE_HERE == ARCHITECTURE


@cache
def functions() -> Functions:
    code = _read("functions")
    assert code.startswith(FUNCTIONS_MAGIC)
    return Functions(code, *_PARTS.unpack_from(code, _PARTS_AT))


@cache
def waits() -> Waits:
    code = _read("waits")
    assert code.startswith(WAITS_MAGIC)
    return Waits(code, *_WAIT_PARTS.unpack_from(code, _WAIT_PARTS_AT))


def _read(name: str) -> bytes:
    return bytes.fromhex((FOLDER / f"{name}.hex").read_text(encoding="ascii"))
