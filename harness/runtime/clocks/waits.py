"""Translates the timed waits of a C library to true time: the second half of a skewed clock.

glibc computes an absolute deadline from the (skewed) clock and passes it to futex(2), which compares it with the true
clock. So we replace every `mov eax, 202; syscall` in its text by a jump to a thunk, which calls `wait`
(`x86_64/waits.S`). The jump replaces one instruction, so no thread can ever be inside it. The thunks lie in the unused
end of the text's last page. They stay there when the instructions are restored, because threads may wait inside them.

Go and musl use relative waits, which need no translation.
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
    """Say whether the process uses glibc, or may still load it."""
    return any(_LIBRARY.search(m.path) or _INTERPRETER.search(m.path) for m in mappings(pid))


def have_come(pid: int) -> bool:
    """Say whether the process has loaded glibc."""
    return bool(_texts(pid))


@dataclass(frozen=True, slots=True)
class TimedWaits:
    """The thunks of one process: their address, and the addresses of the instructions that jump to them."""

    memory: Memory
    heads: tuple[int, ...]
    sites: tuple[tuple[int, int], ...]

    @classmethod
    def find(cls, memory: Memory) -> "TimedWaits | None":
        """Find thunks that were written before; None when there are none."""
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
        """Write thunks for every wait of the C library; nothing jumps to them yet. Raises ClockError."""
        heads: list[int] = []
        sites: list[tuple[int, int]] = []
        for library in _texts(memory.pid):
            text = memory.read(library.start, library.end - library.start)
            addresses = [library.start + m.start() for m in re.finditer(re.escape(code.FUTEX_SITE), text)]
            if not addresses:
                continue
            head = library.start + -(-len(text.rstrip(b"\0")) // _ALIGN) * _ALIGN
            blob, own = _thunks(head, addresses, skewed)
            if head + len(blob) > library.end:
                raise ClockError(f"{library.path} has no {len(blob)} unused bytes, only {library.end - head}")
            memory.write(head, blob)
            heads.append(head)
            sites += own
        if not heads:
            raise ClockError("its C library contains no wait")
        return cls(memory, tuple(heads), tuple(sites))

    def set(self, settings: Settings) -> None:
        """Write how much longer a wait takes in true time, for each clock."""
        for head in self.heads:
            slow = _SLOW.pack(settings.wall.slowness, settings.monotonic.slowness)
            self.memory.write(head + code.WAITS_SLOW, slow)

    def jumps(self) -> list[tuple[int, bytes]]:
        """Return the jumps to the thunks, by address."""
        return [(site, jump(site, thunk)) for site, thunk in self.sites]

    def originals(self) -> list[tuple[int, bytes]]:
        """Return the original instructions, by address."""
        return [(site, code.FUTEX_SITE[:JUMP_BYTES]) for site, _ in self.sites]

    def are_in_force(self) -> bool:
        """Say whether every wait jumps to its thunk. Raises Gone."""
        return all(self.memory.read(site, JUMP_BYTES) == patch for site, patch in self.jumps())


def _texts(pid: int) -> list[Mapping]:
    return [m for m in mappings(pid) if m.access == "r-xp" and _LIBRARY.search(m.path)]


def _thunks(head: int, addresses: list[int], skewed: int) -> tuple[bytes, list[tuple[int, int]]]:
    """Build the bytes for `head`, and the address of each site's thunk."""
    waits = code.waits()
    blob = bytearray(waits.code)
    struct.pack_into("<Q", blob, code.WAITS_SKEWED, skewed)
    struct.pack_into("<Q", blob, code.WAITS_COUNT, len(addresses))
    sites = []
    for site in addresses:
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
    """Return the sites of the thunks after `head`: each thunk ends in a jump to the instruction after its site."""
    (count,) = struct.unpack("<Q", memory.read(head + code.WAITS_COUNT, 8))
    first = head + code.waits().thunks
    sites = []
    for number in range(count):
        thunk = first + number * code.THUNK_BYTES
        back = thunk + len(_LEAVE_RED_ZONE) + JUMP_BYTES + len(_RETURN_TO_RED_ZONE)
        (distance,) = struct.unpack("<i", memory.read(back + 1, 4))
        sites.append((back + JUMP_BYTES + distance - len(code.FUTEX_SITE), thunk))
    return sites
