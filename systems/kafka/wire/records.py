"""Record batches, version 2: the bytes that produce sends and fetch returns.

Each request writes one batch, uncompressed, without keys and headers. Reading handles everything that a log may hold:
several batches, keys and headers, an incomplete last batch (a fetch ends after a number of bytes, and the next fetch
reads the batch again), control batches (they use offsets but hold no user's record, and are left out unless requested),
and gzip. Other compressions are refused by name, since fencepost never writes them. A wrong checksum or length raises
`MalformedMessage`.

Source: KIP-98; org.apache.kafka.common.record.DefaultRecordBatch and DefaultRecord.
"""

import struct
import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from fencepost.harness.base.crc32c import crc32c
from fencepost.systems.kafka.wire.codec import MalformedMessage, varint


class Producer(NamedTuple):
    """The producer of a batch, for idempotence: its id and epoch, and the sequence number of the first record.

    With a transactional id the batch belongs to the open transaction of that id. A producer that `adds` partitions has
    its batch's partition added to that first, by the request itself (KIP-890, from 4.0 on).
    """

    id: int
    epoch: int
    sequence: int
    transactional_id: str | None = None
    adds: bool = False


class BatchRecord(msgspec.Struct, frozen=True):
    """One record as read. `epoch` is the leader epoch in which its batch was appended, -1 when it has none.

    `producer_id` and `sequence` are -1 when it was appended without idempotence.
    """

    offset: int
    epoch: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = -1
    #: True for a record of a control batch, whose key names its kind.
    control: bool = False


class Batches(NamedTuple):
    """The content of a piece of a log: records in order, and the offset at which to continue."""

    records: tuple[BatchRecord, ...]
    next_offset: int


#: base offset, length of the rest
_PREFIX: Final = struct.Struct(">qi")
#: partition leader epoch, magic, checksum
_START: Final = struct.Struct(">ibI")
#: attributes, last offset delta, base and max timestamp, producer id, epoch, base sequence, number of records
_REST: Final = struct.Struct(">hiqqqhii")
_HEADER_BYTES: Final = _PREFIX.size + _START.size + _REST.size
_MAGIC: Final = 2
_COMPRESSION: Final = 7
_GZIP: Final = 1
_APPEND_TIME: Final = 8
_TRANSACTIONAL: Final = 16
_CONTROL: Final = 32
_COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
#: Compressed bytes never grow beyond this: a batch's own limit is far below it.
_INFLATED_BYTES_MAX: Final = 256 << 20


def write_batch(values: Sequence[bytes], *, timestamp_ms: int, producer: Producer | None = None) -> bytes:
    """Encode one batch of these values with offsets 0, 1, ... as a producer sends them."""
    if not values:
        raise ValueError("a batch holds at least one record")
    records = bytearray()
    for delta, value in enumerate(values):
        # attributes, timestamp delta 0, offset delta, no key, value, no headers
        body = b"\0\0" + _signed(delta) + b"\1" + _signed(len(value)) + value + b"\0"
        records += _signed(len(body)) + body
    by = producer or Producer(-1, -1, -1)
    last = len(values) - 1
    attributes = 0 if by.transactional_id is None else _TRANSACTIONAL
    rest = _REST.pack(attributes, last, timestamp_ms, timestamp_ms, by.id, by.epoch, by.sequence, len(values)) + records
    length = _START.size + len(rest)
    return _PREFIX.pack(0, length) + _START.pack(-1, _MAGIC, crc32c(rest)) + rest


def read_batches(data: bytes, from_offset: int, *, control: bool = False) -> Batches:
    """Read the records from `from_offset` on; a batch that begins earlier arrives whole and is cut here.

    With `control` the records of control batches too.

    Raises:
        Malformed: a checksum, length or count is wrong, or the compression is not known here.
    """
    records: list[BatchRecord] = []
    next_offset, at = from_offset, 0
    while len(data) - at >= _PREFIX.size:
        base_offset, length = _PREFIX.unpack_from(data, at)
        if length < _START.size + _REST.size:
            raise MalformedMessage(f"a batch of {length} bytes")
        end = at + _PREFIX.size + length
        if end > len(data):
            break
        last_offset = _read_batch(data[at:end], base_offset, from_offset, records, control)
        next_offset, at = max(next_offset, last_offset + 1), end
    return Batches(tuple(records), next_offset)


def _read_batch(batch: bytes, base_offset: int, from_offset: int, records: list[BatchRecord], control: bool) -> int:
    """Append the batch's records to `records`; return its last offset."""
    epoch, magic, checksum = _START.unpack_from(batch, _PREFIX.size)
    if magic != _MAGIC:
        raise MalformedMessage(f"a batch of format {magic}")
    at = _PREFIX.size + _START.size
    if crc32c(batch[at:]) != checksum:
        raise MalformedMessage(f"the batch at offset {base_offset} does not match its checksum")
    attributes, last, first_ms, max_ms, producer_id, producer_epoch, sequence, count = _REST.unpack_from(batch, at)
    if attributes & _CONTROL and not control:
        return int(base_offset + last)
    body = _inflated(batch[_HEADER_BYTES:], attributes & _COMPRESSION)
    at = 0
    try:
        for number in range(count):
            record, at = _read_record(body, at)
            offset = base_offset + record.offset
            if offset < from_offset:
                continue
            records.append(
                BatchRecord(
                    offset,
                    epoch,
                    max_ms if attributes & _APPEND_TIME else first_ms + record.timestamp_ms,
                    record.key,
                    record.value,
                    producer_id,
                    producer_epoch,
                    sequence + number if sequence >= 0 else -1,
                    bool(attributes & _CONTROL),
                )
            )
    except IndexError:
        raise MalformedMessage(f"the batch at offset {base_offset} ends inside a record") from None
    if at != len(body):
        raise MalformedMessage(f"the batch at offset {base_offset} is longer than its {count} records")
    return int(base_offset + last)


def _inflated(body: bytes, compression: int) -> bytes:
    if compression == 0:
        return body
    if compression != _GZIP:
        name = _COMPRESSIONS[compression] if compression < len(_COMPRESSIONS) else str(compression)
        raise MalformedMessage(f"a batch compressed by {name}: topics are expected to keep what producers send")
    try:
        return zlib.decompressobj(wbits=31).decompress(body, _INFLATED_BYTES_MAX)
    except zlib.error as error:
        raise MalformedMessage(f"a batch that cannot be decompressed: {error}") from None


class _Raw(NamedTuple):
    """A record with its offset and time relative to the batch's."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def _read_record(body: bytes, at: int) -> tuple[_Raw, int]:
    length, at = _read_signed(body, at)
    end = at + length
    if length < 0 or end > len(body):
        raise MalformedMessage(f"a record of {length} bytes")
    timestamp_ms, at = _read_signed(body, at + 1)  # behind the attributes, which mean nothing
    offset, at = _read_signed(body, at)
    key, at = _read_bytes(body, at)
    value, at = _read_bytes(body, at)
    headers, at = _read_signed(body, at)
    for _ in range(headers):
        _, at = _read_bytes(body, at)
        _, at = _read_bytes(body, at)
    if at != end:
        raise MalformedMessage(f"a record of {length} bytes is {at - end:+d} bytes off")
    return _Raw(offset, timestamp_ms, key, value), end


def _read_bytes(body: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = _read_signed(body, at)
    if length < 0:
        return None, at
    if at + length > len(body):
        raise MalformedMessage(f"{length} bytes announced, {len(body) - at} present")
    return body[at : at + length], at + length


def _read_signed(body: bytes, at: int) -> tuple[int, int]:
    """Read a zigzag varint of at most 64 bits; also return the offset after it."""
    byte = body[at]
    value, at, shift = byte & 127, at + 1, 7
    while byte > 127:
        if shift > 63:
            raise MalformedMessage("a varint of more than ten bytes")
        byte = body[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
    return (value >> 1) ^ -(value & 1), at


def _signed(value: int) -> bytes:
    """Encode a number of 64 bits as a zigzag varint."""
    return varint((value << 1) ^ (value >> 63))
