"""One process whose clocks can be skewed: arms it, sets it, reads it back and disarms it.

Arming first writes our functions into unused bytes of the vDSO's last page, where no thread can be. Then it holds every
thread and writes a jump to our functions over the first instructions of the three clock functions, unless a thread is
inside those bytes or will return into them from a signal handler. Disarming restores the instructions. Our functions
stay where they are, since a thread may still be inside them, and the next arming uses them again.

To change settings (`set`) no hold is needed: see `x86_64/functions.S`.
"""

import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from fencepost.harness.runtime.clocks import held_threads as tracing
from fencepost.harness.runtime.clocks import machine_code as code
from fencepost.harness.runtime.clocks import vdso
from fencepost.harness.runtime.clocks.memory import ClockError, Memory, Unfinished, mappings
from fencepost.harness.runtime.clocks.setting import Settings
from fencepost.harness.runtime.clocks.waits import TimedWaits

#: How often to try when a thread is inside the bytes, where it stays for nanoseconds at a time; the pause between.
_TRIES: Final = 200
_TRY_AGAIN_S: Final = 0.001
#: How much of each stack is searched for an address to which a signal handler would return.
_STACK_BYTES: Final = 65536

#: How to hold a process while it is written to.
Holding = Callable[[int], tracing.Hold]


class ClockedProcess:
    """The clocks of process `pid` (as /proc numbers it); open until `close`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._memory = Memory(pid)
        try:
            self._find()
        except BaseException:
            self._memory.close()
            raise

    def _find(self) -> None:
        mapping = next((m for m in mappings(self.pid) if m.path == "[vdso]"), None)
        if mapping is None:
            raise Unfinished(f"process {self.pid} has no vDSO")
        self._start, self._end = mapping.start, mapping.end
        self._memory.remember(mapping.start)
        self._raw = self._memory.read(mapping.start, mapping.end - mapping.start)
        at = self._raw.find(code.FUNCTIONS_MAGIC)
        self._head = mapping.start + at if at >= 0 else None
        self.waits = TimedWaits.find(self._memory)

    def close(self) -> None:
        self._memory.close()

    def is_same(self) -> bool:
        """Say whether the program that ran at the opening still runs."""
        return self._memory.is_same()

    # -- settings -----------------------------------------------------------------------------------------------------

    @property
    def is_armed(self) -> bool:
        """Say whether its clock functions jump to ours. Raises Gone."""
        return self._head is not None and self._memory.read(self._head + code.ARMED, 1) == b"\1"

    def set(self, settings: Settings) -> None:
        """Put all settings in force at once. Raises Gone."""
        head = self._known_head()
        turn = self._memory.read(head + code.TURN, 1)[0] + 1 & 0xFF
        self._memory.write(self._place(turn), settings.pack())
        self._memory.write(head + code.TURN, bytes([turn]))
        if self.waits is not None:
            self.waits.set(settings)

    def settings(self) -> Settings:
        """Read back the settings in force. Raises Gone."""
        turn = self._memory.read(self._known_head() + code.TURN, 1)[0]
        return Settings.unpack(self._memory.read(self._place(turn), code.PLACE_BYTES))

    def is_original(self) -> bool:
        """Say whether the vDSO up to its unused end equals that of this process, which is never armed."""
        return not self.is_armed and self._entries() == _own_entries()

    def _place(self, turn: int) -> int:
        return self._known_head() + code.functions().ring + turn % code.PLACES * code.PLACE_BYTES

    def _known_head(self) -> int:
        if self._head is None:
            raise ClockError(f"process {self.pid} is not armed")
        return self._head

    def _entries(self) -> bytes:
        raw = self._memory.read(self._start, self._end - self._start)
        return entries(raw)

    # -- arming -------------------------------------------------------------------------------------------------------

    def arm(self, settings: Settings, holding: Holding = tracing.hold) -> None:
        """Let its clocks follow `settings` from now on. Raises Gone and ClockError, and then nothing is in force."""
        if self.is_armed:
            self.set(settings)
            return
        image = vdso.VdsoImage(self._raw)
        if self._head is None:
            self._head = self._lay_out(image)
        self._check()
        self.set(settings)
        patches = [(entry, vdso.jump(entry, target)) for entry, _, target in self._hooks()]
        inside = [(entry + 1, entry + vdso.JUMP_BYTES) for entry, _ in patches]
        self._patch([*patches, (self._head + code.ARMED, b"\1")], holding, inside)

    def disarm(self, holding: Holding = tracing.hold) -> None:
        """Restore the kernel's clock functions. Raises Gone and ClockError."""
        if self._head is None or not self.is_armed:
            return
        patches = [(entry, original[: vdso.JUMP_BYTES]) for entry, original, _ in self._hooks()]
        if self.waits is not None:
            patches += self.waits.originals()
        self._patch([*patches, (self._head + code.ARMED, b"\0")], holding)

    def translate_waits(self, holding: Holding = tracing.hold) -> None:
        """Translate the C library's timed waits to true time; call it once armed, and once the library is loaded."""
        if self.waits is None:
            self.waits = TimedWaits.lay_out(self._memory, self._known_head() + code.functions().skewed)
        self.waits.set(self.settings())
        if not self.waits.are_in_force():
            self._patch(self.waits.jumps(), holding)

    def find_waits(self) -> None:
        """Search again for waits that another writer has translated by now."""
        self.waits = TimedWaits.find(self._memory)

    def _lay_out(self, image: vdso.VdsoImage) -> int:
        """Write the functions into unused bytes; return their address."""
        functions = code.functions()
        at = self._start + image.room_for(len(functions.code))
        blob = bytearray(functions.code)
        places = image.hooked
        for number, place in enumerate(places):
            if place is not None:
                original = self._raw[place.at : place.at + 8]
                code.HOOK.pack_into(blob, code.HOOKS + number * code.HOOK.size, self._start + place.at, original)
        first = places[0]
        assert first is not None
        body = self._raw[first.at : first.at + first.size]
        prologue = vdso.moved(body, self._start + first.at, at + functions.real)
        if prologue is not None and len(prologue) <= code.REAL_BYTES:
            blob[functions.real : functions.real + len(prologue)] = prologue
        self._memory.write(at, bytes(blob))
        return at

    def _check(self) -> None:
        """Check that the functions found in the process are those of this version."""
        functions, head = code.functions(), self._known_head()
        first = functions.ring + code.PLACES * code.PLACE_BYTES
        if self._memory.read(head + first, functions.real - first) != functions.code[first : functions.real]:
            raise ClockError(f"process {self.pid} was armed by another version")

    def _hooks(self) -> list[tuple[int, bytes, int]]:
        """Return for each existing function its address, its original first bytes, and our jump."""
        head = self._known_head()
        raw = self._memory.read(head + code.HOOKS, len(code.HOOKED) * code.HOOK.size)
        targets = code.functions().targets
        return [
            (entry, original, head + target)
            for (entry, original), target in zip(code.HOOK.iter_unpack(raw), targets, strict=True)
            if entry
        ]

    def _patch(
        self, patches: Sequence[tuple[int, bytes]], holding: Holding, inside: Sequence[tuple[int, int]] = ()
    ) -> None:
        """Write all patches while no thread runs and none is inside these ranges.

        A patch over exactly one instruction has no inside, because a thread never stops within an instruction.
        """
        for number in range(_TRIES):
            with holding(self.pid) as hold:
                # An old value on a stack may look like a return address into the bytes, for as long as it stays there.
                deep = number < _TRIES // 2
                if not inside or not any(self._is_inside(thread, inside, deep=deep) for thread in hold.threads()):
                    for at, data in patches:
                        self._memory.write(at, data)
                    return
            time.sleep(_TRY_AGAIN_S)
        raise ClockError(f"a thread of process {self.pid} was inside a clock function in each of {_TRIES} tries")

    def _is_inside(self, thread: tracing.Thread, ranges: Sequence[tuple[int, int]], *, deep: bool) -> bool:
        if any(start <= thread.pc < end for start, end in ranges):
            return True
        if not deep or not thread.sp:
            return False
        stack = self._memory.read_up_to(thread.sp & ~7, _STACK_BYTES)
        return any(start <= word < end for word in _words_like(stack, ranges) for start, end in ranges)


def _words_like(stack: bytes, ranges: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Yield the few aligned words of a stack whose upper six bytes equal those of an end of a range."""
    for upper in {address >> 16 for bounds in ranges for address in bounds}:
        sought = upper.to_bytes(6, "little")
        at = stack.find(sought)
        while at >= 0:
            if at % 8 == 2:
                yield int.from_bytes(stack[at - 2 : at + 6], "little")
            at = stack.find(sought, at + 1)


def entries(raw: bytes) -> bytes:
    """Return the first bytes of every hooked function of a vDSO."""
    return b"".join(raw[place.at : place.at + 8] for place in vdso.VdsoImage(raw).hooked if place is not None)


def _own_entries() -> bytes:
    return entries(own_image())


def own_image() -> bytes:
    """Return the vDSO of this process."""
    mapping = next((m for m in mappings("self") if m.path == "[vdso]"), None)
    if mapping is None:
        raise ClockError("this kernel gives processes no vDSO")
    with open("/proc/self/mem", "rb", 0) as file:
        file.seek(mapping.start)
        return file.read(mapping.end - mapping.start)


def why_not_here() -> str | None:
    """Return why the vDSO of this kernel, or this processor, cannot be armed; None when it can."""
    if not code.is_known_here():
        return f"there is no machine code for {code.ARCHITECTURE_HERE} yet, only for {code.ARCHITECTURE}"
    try:
        image = vdso.VdsoImage(own_image())
        _ = image.hooked
        image.room_for(len(code.functions().code))
    except (ClockError, OSError, struct.error) as error:
        return f"this kernel's vDSO cannot be armed: {error}"
    return None
