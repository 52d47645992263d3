"""The timed waits of a C library, told to the kernel in true time: the second half of a skewed clock.

glibc makes an absolute deadline of the (skewed) clock and hands it to futex(2), which compares it with the true clock.
So every `mov eax, 202; syscall` of its text becomes a jump to a thunk, which calls `wait` (`x86_64/waits.S`). The jump
replaces one instruction, so no thread can ever be inside of it. Thunks lie in the unused end of the text's last page;
they stay there, unreached, when the instructions are put back, since threads wait inside of them.

Go and musl ask the kernel for relative waits, and need none of this.
"""

import re
import struct
from dataclasses import dataclass
from typing import Final

from fencepost.harness.runtime.clocks import machine_code as code
from fencepost.harness.runtime.clocks.memory import ClockError, Mapping, Memory, mappings
from fencepost.harness.runtime.clocks.setting import Settings
from fencepost.harness.runtime.clocks.vdso import JUMP_BYTES, jump

_LIBRARY: Final = re.compile(r"/(libc|libpthread)[-.0-9]*\.so[.0-9]*( \(deleted\))?$")
_INTERPRETER: Final = re.compile(r"/ld-linux[^/]*$|/ld-[0-9.]+\.so$")
_ALIGN: Final = 64
_LEAVE_RED_ZONE: Final = b"\x48\x8d\x64\x24\x80"
_RETURN_TO_RED_ZONE: Final = b"\x48\x8d\xa4\x24\x80\x00\x00\x00"
_SLOW: Final = struct.Struct("<qq")


def may_come(pid: int) -> bool:
    """Whether the process uses glibc, or has yet to load it."""
    return any(_LIBRARY.search(m.path) or _INTERPRETER.search(m.path) for m in mappings(pid))


def have_come(pid: int) -> bool:
    """Whether the process has loaded glibc."""
    return bool(_texts(pid))


@dataclass(frozen=True, slots=True)
class TimedWaits:
    """The thunks of one process: where they lie, and the addresses of the instructions that lead to them."""

    memory: Memory
    heads: tuple[int, ...]
    sites: tuple[tuple[int, int], ...]

    @classmethod
    def find(cls, memory: Memory) -> "TimedWaits | None":
        """Those that were laid out before; None when there are none."""
        heads: list[int] = []
        sites: list[tuple[int, int]] = []
        for library in _texts(memory.pid):
            at = memory.read(library.start, library.end - library.start).rfind(code.WAITS_MAGIC)
            if at >= 0:
                head = library.start + at
                heads.append(head)
                sites += _laid_out(memory, head)
        return cls(memory, tuple(heads), tuple(sites)) if heads else None

    @classmethod
    def lay_out(cls, memory: Memory, skewed: int) -> "TimedWaits":
        """Write thunks for every wait of the C library; nothing leads to them yet. Raises ClockError."""
        heads: list[int] = []
        sites: list[tuple[int, int]] = []
        for library in _texts(memory.pid):
            text = memory.read(library.start, library.end - library.start)
            found = [library.start + m.start() for m in re.finditer(re.escape(code.FUTEX_SITE), text)]
            if not found:
                continue
            head = library.start + -(-len(text.rstrip(b"\0")) // _ALIGN) * _ALIGN
            blob, own = _thunks(head, found, skewed)
            if head + len(blob) > library.end:
                raise ClockError(f"{library.path} has no {len(blob)} unused bytes, only {library.end - head}")
            memory.write(head, blob)
            heads.append(head)
            sites += own
        if not heads:
            raise ClockError("no wait was found in its C library")
        return cls(memory, tuple(heads), tuple(sites))

    def set(self, settings: Settings) -> None:
        """How much longer a wait takes in true time, by each clock."""
        for head in self.heads:
            slow = _SLOW.pack(settings.wall.slowness, settings.monotonic.slowness)
            self.memory.write(head + code.WAITS_SLOW, slow)

    def jumps(self) -> list[tuple[int, bytes]]:
        """What leads to the thunks."""
        return [(site, jump(site, thunk)) for site, thunk in self.sites]

    def originals(self) -> list[tuple[int, bytes]]:
        """What stood there before."""
        return [(site, code.FUTEX_SITE[:JUMP_BYTES]) for site, _ in self.sites]

    def are_in_force(self) -> bool:
        """Whether every wait leads to its thunk. Raises Gone."""
        return all(self.memory.read(site, JUMP_BYTES) == patch for site, patch in self.jumps())


def _texts(pid: int) -> list[Mapping]:
    return [m for m in mappings(pid) if m.access == "r-xp" and _LIBRARY.search(m.path)]


def _thunks(head: int, found: list[int], skewed: int) -> tuple[bytes, list[tuple[int, int]]]:
    """The blob for `head`, and each site's thunk."""
    waits = code.waits()
    blob = bytearray(waits.code)
    struct.pack_into("<Q", blob, code.WAITS_SKEWED, skewed)
    struct.pack_into("<Q", blob, code.WAITS_COUNT, len(found))
    sites = []
    for site in found:
        thunk = head + len(blob)
        sites.append((site, thunk))
        call = thunk + len(_LEAVE_RED_ZONE)
        back = call + JUMP_BYTES + len(_RETURN_TO_RED_ZONE)
        blob += _LEAVE_RED_ZONE
        blob += b"\xe8" + struct.pack("<i", head + waits.wait - (call + JUMP_BYTES))
        blob += _RETURN_TO_RED_ZONE
        blob += jump(back, site + len(code.FUTEX_SITE))
        blob += b"\xcc" * (thunk + code.THUNK_BYTES - head - len(blob))
    return bytes(blob), sites


def _laid_out(memory: Memory, head: int) -> list[tuple[int, int]]:
    """The sites of the thunks behind `head`: each ends in a jump behind its site."""
    (count,) = struct.unpack("<Q", memory.read(head + code.WAITS_COUNT, 8))
    first = head + code.waits().thunks
    sites = []
    for number in range(count):
        thunk = first + number * code.THUNK_BYTES
        back = thunk + len(_LEAVE_RED_ZONE) + JUMP_BYTES + len(_RETURN_TO_RED_ZONE)
        (distance,) = struct.unpack("<i", memory.read(back + 1, 4))
        sites.append((back + JUMP_BYTES + distance - len(code.FUTEX_SITE), thunk))
    return sites
