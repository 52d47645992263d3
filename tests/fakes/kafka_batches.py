"""Batches as a log holds them: at an offset, and markers that end transactions."""

import struct
from typing import Final

from fencepost.harness.base.crc32c import crc32c
from fencepost.systems.kafka.wire.records import Producer, write_batch

_HEADER_BYTES: Final = 61
_CHECKED_FROM: Final = 21
_TRANSACTIONAL_CONTROL: Final = b"\0\x30"


def logged(offset: int, value: bytes, producer: Producer | None = None) -> bytes:
    return _at(offset, write_batch([value], timestamp_ms=5, producer=producer))


def marker(offset: int, producer_id: int, epoch: int, *, commit: bool) -> bytes:
    """The control record by which a coordinator ends a transaction in a partition."""
    key = struct.pack(">hh", 0, int(commit))
    value = struct.pack(">hi", 0, 0)
    # attributes, time and offset as differences, a key, a value, no headers; lengths are zigzag varints
    body = b"\0\0\0" + bytes([2 * len(key)]) + key + bytes([2 * len(value)]) + value + b"\0"
    batch = write_batch([b""], timestamp_ms=5, producer=Producer(producer_id, epoch, -1))
    rest = (
        _TRANSACTIONAL_CONTROL
        + batch[_CHECKED_FROM + len(_TRANSACTIONAL_CONTROL) : _HEADER_BYTES]
        + bytes([2 * len(body)])
        + body
    )
    return _at(offset, batch[:8] + struct.pack(">iibI", 9 + len(rest), -1, 2, crc32c(rest)) + rest)


def _at(offset: int, batch: bytes) -> bytes:
    return struct.pack(">q", offset) + batch[8:]
