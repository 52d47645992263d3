"""The entries of Kafka's metadata log, from the records of its batches, on a disk or in a leader's answer.

Source: MetadataRecordSerde, ControlRecordType of Kafka 3.6 to 4.3.
"""

import base64
import struct
import uuid
from typing import Any, Final

from fencepost.harness.history import LogEntry
from fencepost.systems.kafka.wire.codec import MalformedMessage, decode, layout_of, read_varint
from fencepost.systems.kafka.wire.messages import NO_UUID
from fencepost.systems.kafka.wire.metadata_records import controls, records
from fencepost.systems.kafka.wire.records import BatchRecord, read_batches

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
                raise MalformedMessage("a batch that is not whole")
            records = read_batches(data[at:end], 0, control=True).records
        except MalformedMessage as error:
            # A write that a kill cut off is at the very end, or only zeros follow it.
            if may_be_torn and (end >= len(data) or end == at):
                return entries, True
            raise MalformedMessage(f"{name}, byte {at}: {error}") from None
        entries += map(entry_of, records)
        at = end
    return entries, False


def entry_of(record: BatchRecord) -> LogEntry:
    """Decode one record; raises `MalformedMessage`."""
    kind, fields = _control(record) if record.control else _metadata(record.value or b"")
    return LogEntry(offset=record.offset, epoch=record.epoch, type=kind, fields=fields)


def _metadata(data: bytes) -> tuple[str, dict[str, Any]]:
    try:
        frame, at = read_varint(data, 0)
        number, at = read_varint(data, at)
        version, at = read_varint(data, at)
    except IndexError:
        raise MalformedMessage(f"a record of {len(data)} bytes") from None
    kind = records().get(number)
    if kind is None:
        return f"record-{number}", {"raw": data.hex()}
    if frame != _FRAME_VERSION or version > newest_version(kind):
        return kind.__name__, {"raw": data.hex()}
    return kind.__name__, _plain(layout_of(kind), decode(kind, version, True, data, at))


def _control(record: BatchRecord) -> tuple[str, dict[str, Any]]:
    key, value = record.key or b"", record.value or b""
    number = _CONTROL_KEY.unpack_from(key)[1] if len(key) >= _CONTROL_KEY.size else -1
    kind = controls().get(number)
    if kind is None:
        return f"control-{number}", {"raw": value.hex()}
    version = struct.unpack_from(">h", value)[0] if len(value) > 1 else newest_version(kind) + 1
    if version > newest_version(kind):
        return kind.__name__, {"raw": value.hex()}
    return kind.__name__, _plain(layout_of(kind), decode(kind, version, True, value))


def newest_version(kind: Any) -> int:
    """The highest version of this record that is described here."""
    newest: int = layout_of(kind).max_version
    return newest


def _plain(layout: Any, body: Any) -> dict[str, Any]:
    """The fields that differ from their defaults, as JSON values; ids as Kafka writes them."""
    values = ((field, getattr(body, field.name)) for field in layout.fields.values())
    return {field.name: _json(field, value) for field, value in values if value != field.default}


def _json(field: Any, value: Any) -> Any:
    if isinstance(value, list):
        if field.is_struct_array():
            return [_plain(field, item) for item in value]
        # In an array only an id can be None: that of zero bytes.
        return [_json(field, NO_UUID if item is None else item) for item in value]
    if isinstance(value, uuid.UUID):
        return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")
    return value.hex() if isinstance(value, bytes) else value
