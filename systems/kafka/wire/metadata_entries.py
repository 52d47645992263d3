"""The entries of Kafka's metadata log, from the records of its batches, on a disk or in a leader's answer.

Source: MetadataRecordSerde, ControlRecordType of Kafka 3.6 to 4.3.
"""

import base64
import struct
from typing import Any, Final

import msgspec

from fencepost.harness.history import LogEntry
from fencepost.systems.kafka.wire.decoding import decode, read_varint
from fencepost.systems.kafka.wire.fields import Body, Fixed, Malformed, fields_of
from fencepost.systems.kafka.wire.metadata_records import CONTROLS, RECORDS
from fencepost.systems.kafka.wire.records import Record, read_batches

#: base offset, length of what follows
_PREFIX: Final = struct.Struct(">qi")
#: No real batch is nearly as long; a greater length is an error.
_BATCH_BYTES_MAX: Final = 64 << 20
_CONTROL_KEY: Final = struct.Struct(">hh")
_FRAME_VERSION: Final = 1


def read_entries(data: bytes, name: str, *, may_be_torn: bool) -> tuple[list[LogEntry], bool]:
    """Decode the whole content of the file `name`, and say whether its last batch was incomplete.

    Raises:
        Malformed: a batch is not whole, and not the last one of a file that may be torn.
    """
    entries: list[LogEntry] = []
    at = 0
    while at < len(data):
        end = at
        if len(data) - at >= _PREFIX.size:
            _, length = _PREFIX.unpack_from(data, at)
            end = at + _PREFIX.size + length if 0 < length < _BATCH_BYTES_MAX else at
        try:
            if not at < end <= len(data):
                raise Malformed("a batch that is not whole")
            records = read_batches(data[at:end], 0, control=True).records
        except Malformed as error:
            # A write that a kill cut off is at the very end, or only zeros follow it.
            if may_be_torn and (end >= len(data) or end == at):
                return entries, True
            raise Malformed(f"{name}, byte {at}: {error}") from None
        entries += map(entry_of, records)
        at = end
    return entries, False


def entry_of(record: Record) -> LogEntry:
    """Decode one record; raises `Malformed`."""
    kind, fields = _control(record) if record.control else _metadata(record.value or b"")
    return LogEntry(offset=record.offset, epoch=record.epoch, type=kind, fields=fields)


def _metadata(data: bytes) -> tuple[str, dict[str, Any]]:
    try:
        frame, at = read_varint(data, 0)
        number, at = read_varint(data, at)
        version, at = read_varint(data, at)
    except IndexError:
        raise Malformed(f"a record of {len(data)} bytes") from None
    name, table, newest = RECORDS.get(number, (f"record-{number}", Body, -1))
    if frame != _FRAME_VERSION or version > newest:
        return name, {"raw": data.hex()}
    return name, _plain(decode(table, version, True, data, at))


def _control(record: Record) -> tuple[str, dict[str, Any]]:
    key, value = record.key or b"", record.value or b""
    number = _CONTROL_KEY.unpack_from(key)[1] if len(key) >= _CONTROL_KEY.size else -1
    name, table, newest = CONTROLS.get(number, (f"control-{number}", Body, -1))
    version = struct.unpack_from(">h", value)[0] if len(value) > 1 else newest + 1
    if version > newest:
        return name, {"raw": value.hex()}
    return name, _plain(decode(table, version, True, value))


def _plain(body: Body) -> dict[str, Any]:
    """The fields that differ from their defaults, as JSON values; ids as Kafka writes them."""
    out: dict[str, Any] = {}
    for field in fields_of(type(body)):
        value = getattr(body, field.name)
        if value != field.default:
            out[field.name] = _json(value, field.type)
    return out


def _json(value: Any, kind: Any) -> Any:
    if isinstance(value, tuple):
        return [_json(item, kind[0]) for item in value]
    if isinstance(value, Body):
        return _plain(value)
    if isinstance(value, bytes):
        uuid = isinstance(kind, Fixed)
        return base64.urlsafe_b64encode(value).decode().rstrip("=") if uuid else value.hex()
    return msgspec.to_builtins(value)
