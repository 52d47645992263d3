"""CRC-32C (Castagnoli), the checksum of Kafka's record batches and of etcd's write-ahead log.

`google-crc32c` (Apache licence, a wheel of 40 kB) uses the processor's own instruction. Without it we use a table, at
about 50 ns a byte: 5 us for a batch of one short record, a second for 20 MB. The package `crc32c` is as quick, but
LGPL.

Source: RFC 3720, appendix B.4 (vectors); KIP-98 (the batch's checksum).
"""

from collections.abc import Callable
from importlib import import_module
from typing import Final, cast


def _table() -> tuple[int, ...]:
    """Compute the remainder of each byte value; the polynomial is bit-reversed."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


_TABLE: Final = _table()


def by_table(before: int, data: bytes) -> int:
    """Compute the checksum in plain Python: slow and obvious, so it is the tests' oracle."""
    remainder, table = before ^ 0xFFFFFFFF, _TABLE
    for byte in data:
        remainder = (remainder >> 8) ^ table[(remainder ^ byte) & 255]
    return remainder ^ 0xFFFFFFFF


def _quickest() -> Callable[[int, bytes], int]:
    try:
        module = import_module("google_crc32c")
    except ImportError:
        return by_table
    return cast("Callable[[int, bytes], int]", module.extend) if module.implementation == "c" else by_table


_extend: Final = _quickest()


def crc32c(data: bytes, before: int = 0) -> int:
    """Return the checksum of the data; `before`: that of what stands before them."""
    return _extend(before, data)
