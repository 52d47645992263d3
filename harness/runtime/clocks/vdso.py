"""A vDSO image: the positions of its functions, its unused bytes, and whether first instructions can be moved.

Source: the ELF-64 format (elf(5)), vdso(7), and the instruction encodings of the AMD64 manual, volume 3.
"""

import struct
from dataclasses import dataclass
from typing import Final

from fencepost.harness.runtime.clocks.machine_code import HOOKED
from fencepost.harness.runtime.clocks.memory import ClockError

_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_HASH, _DT_STRTAB, _DT_SYMTAB = 4, 5, 6
_NOBITS = 8
_SYMBOL_BYTES: Final = 24
#: Our functions begin at a multiple of this: the start of a cache line.
_ALIGN: Final = 64
JUMP_BYTES: Final = 5


@dataclass(frozen=True, slots=True)
class _Place:
    """The position of a function: its offset from the image's start, and its length."""

    at: int
    size: int


class VdsoImage:
    """One vDSO, made from its bytes; raises ClockError for bytes that are not a vDSO."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        if raw[:5] != b"\x7fELF\x02":
            raise ClockError("its vDSO is not a 64-bit one")
        self._headers_at, self._sections_at = struct.unpack_from("<QQ", raw, 32)
        self._header_bytes, self._headers, self._section_bytes, self._sections = struct.unpack_from("<4H", raw, 54)
        self._symbols = self._read_symbols()

    @property
    def hooked(self) -> tuple[_Place | None, _Place | None, _Place | None]:
        """Return the three functions of HOOKED; the last two may be absent."""
        first, second, third = (next((self._symbols[n] for n in names if n in self._symbols), None) for names in HOOKED)
        if first is None:
            raise ClockError("its vDSO has no clock_gettime")
        return first, second, third

    def room_for(self, size: int) -> int:
        """Return the offset of unused bytes, after everything that the image describes. Raises ClockError if none."""
        at = -(-self._end() // _ALIGN) * _ALIGN
        if at + size > len(self.raw) or any(self.raw[at : at + size]):
            raise ClockError(f"its vDSO has no {size} unused bytes: {len(self.raw) - at} are left")
        return at

    def _end(self) -> int:
        end: int = self._sections_at + self._section_bytes * self._sections
        for _, offset, _, size in self._programs():
            end = max(end, offset + size)
        for number in range(self._sections):
            fields = struct.unpack_from("<IIQQQQIIQQ", self.raw, self._sections_at + number * self._section_bytes)
            if fields[1] != _NOBITS:
                end = max(end, fields[4] + fields[5])
        return end

    def _programs(self) -> list[tuple[int, int, int, int]]:
        """Return kind, offset, address and size in the file of every program header."""
        headers = []
        for number in range(self._headers):
            kind, _, offset, address, _, size, _, _ = struct.unpack_from(
                "<IIQQQQQQ", self.raw, self._headers_at + number * self._header_bytes
            )
            headers.append((kind, offset, address, size))
        return headers

    def _read_symbols(self) -> dict[str, _Place]:
        programs = self._programs()
        base = next((address for kind, offset, address, _ in programs if kind == _PT_LOAD and offset == 0), 0)
        dynamic = next(((offset, size) for kind, offset, _, size in programs if kind == _PT_DYNAMIC), None)
        if dynamic is None:
            raise ClockError("its vDSO has no dynamic section")
        tags: dict[int, int] = {}
        for at in range(dynamic[0], sum(dynamic), 16):
            tag, value = struct.unpack_from("<qQ", self.raw, at)
            tags.setdefault(tag, value - base)
        if _DT_HASH in tags:
            count = struct.unpack_from("<II", self.raw, tags[_DT_HASH])[1]
        else:
            # Without the old hash table nothing counts the symbols, but the names follow them directly.
            count = (tags[_DT_STRTAB] - tags[_DT_SYMTAB]) // _SYMBOL_BYTES
        symbols = {}
        for number in range(count):
            name_at, _, _, section, value, size = struct.unpack_from(
                "<IBBHQQ", self.raw, tags[_DT_SYMTAB] + number * _SYMBOL_BYTES
            )
            start = tags[_DT_STRTAB] + name_at
            name = self.raw[start : self.raw.index(b"\0", start)].decode(errors="replace")
            if section and value:
                symbols[name] = _Place(value - base, size)
        return symbols


def jump(source: int, target: int) -> bytes:
    """Encode `jmp target` for the address `source`."""
    return b"\xe9" + struct.pack("<i", target - (source + JUMP_BYTES))


def moved(code: bytes, source: int, target: int) -> bytes | None:
    """Rewrite the first whole instructions of the function `code` at `source` to do the same at `target`.

    The result has as many instructions as a jump overwrites, and a jump to the rest. It is None if they are not among
    the few forms that compilers put there, or if a later jump might lead back between them.
    """
    out = b""
    at = 0
    while at < JUMP_BYTES:
        parsed = _instruction(code, at)
        if parsed is None:
            return None
        end, relative = parsed
        instruction = bytearray(code[at:end])
        if relative is not None:
            distance = struct.unpack_from("<i", code, relative)[0] + (source + at) - (target + len(out))
            if not -(2**31) <= distance < 2**31:
                return None
            struct.pack_into("<i", instruction, relative - at, distance)
        out += instruction
        at = end
    if _leads_back(code, at):
        return None
    return out + jump(target + len(out), source + at)


#: Opcodes with a ModRM byte, and the number of bytes of immediate operand that follow.
_MODRM: Final = {0x89: 0, 0x8B: 0, 0x8D: 0, 0x85: 0, 0x31: 0, 0x33: 0, 0x63: 0, 0x39: 0, 0x3B: 0, 0x81: 4, 0x83: 1}
_ENDBR64: Final = b"\xf3\x0f\x1e\xfa"


def _instruction(code: bytes, at: int) -> tuple[int, int | None] | None:
    """Find the end of the instruction at `at` and its RIP-relative distance; None for an unknown instruction."""
    if code[at : at + 4] == _ENDBR64:
        return at + 4, None
    rex = code[at] if 0x40 <= code[at] <= 0x4F else 0
    at += bool(rex)
    opcode = code[at]
    at += 1
    if 0x50 <= opcode <= 0x57:  # push
        return at, None
    if 0xB8 <= opcode <= 0xBF and not rex & 8:  # mov r32, imm32
        return at + 4, None
    if opcode not in _MODRM:
        return None
    mode, base = code[at] >> 6, code[at] & 7
    at += 1
    relative = None
    if mode != 3 and base == 4:
        if mode == 0 and code[at] & 7 == 5:
            at += 4
        at += 1
    if mode == 0 and base == 5:
        relative = at
        at += 4
    elif mode == 1:
        at += 1
    elif mode == 2:
        at += 4
    return at + _MODRM[opcode], relative


def _leads_back(code: bytes, end: int) -> bool:
    """Say whether a jump in the function might lead into its first `end` bytes, except to the very first byte.

    Every byte counts as a possible opcode, so the answer may be too cautious, but never too careless.
    """
    for at in range(end, len(code) - 6):
        near = 1 if code[at] in (0xE8, 0xE9) else 2 if code[at] == 0x0F and code[at + 1] & 0xF0 == 0x80 else 0
        if near and 0 < at + near + 4 + struct.unpack_from("<i", code, at + near)[0] < end:
            return True
        short = code[at] == 0xEB or 0x70 <= code[at] <= 0x7F
        if short and 0 < at + 2 + struct.unpack_from("<b", code, at + 1)[0] < end:
            return True
    return False
