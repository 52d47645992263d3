"""The small files of a formatted data directory, written directly, since Kafka's own tool takes a second for them.

`meta.properties` says whose directory it is. `bootstrap.checkpoint` has the feature levels of a new cluster; without it
a server begins at the lowest levels that it knows, unlike any user's cluster. It has the form of a snapshot of the
metadata log: three record batches, of which the first and the last hold one control record each.

The levels are those that each release's own `StorageTool format` writes. A release without a row here gets no
checkpoint.

Source: org.apache.kafka.metadata.properties.MetaProperties; BootstrapDirectory and BatchFileWriter;
SnapshotHeaderRecord, SnapshotFooterRecord and FeatureLevelRecord of 3.6 to 4.4.
"""

import base64
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fencepost.harness.base.crc32c import crc32c
from fencepost.systems.kafka.names import CLUSTER_ID
from fencepost.systems.kafka.server.versions import numbers
from fencepost.systems.kafka.wire.codec import varint

_SINCE_4_2: Final = {
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
#: Features of a new cluster by minor release.
_LEVELS: Final[Mapping[tuple[int, ...], Mapping[str, int]]] = {
    (3, 6): {"metadata.version": 14},
    (3, 7): {"metadata.version": 19},
    (3, 8): {"metadata.version": 20},
    (3, 9): {"metadata.version": 21},
    (4, 0): {"metadata.version": 25, "group.version": 1, "transaction.version": 2},
    (4, 1): {
        "metadata.version": 27,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "transaction.version": 2,
    },
    (4, 2): {"metadata.version": 29, **_SINCE_4_2},
    (4, 3): {"metadata.version": 30, **_SINCE_4_2},
    (4, 4): {"metadata.version": 33, **_SINCE_4_2, "share.version": 2},
}
#: From 4.4 on the checkpoint is the first snapshot of the metadata log itself.
_FIRST_IN_THE_LOG: Final = (4, 4)
_IN_THE_LOG: Final = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"

#: base offset, length; partition leader epoch, magic, checksum
_PREFIX: Final = struct.Struct(">qi")
_START: Final = struct.Struct(">ibI")
#: attributes, last offset delta, base and max timestamp, producer id, epoch, base sequence, number of records
_REST: Final = struct.Struct(">hiqqqhii")
_MAGIC: Final = 2
_CONTROL: Final = 32
#: Keys of control records (version, type) and their values: version 0; a header also has a time.
_HEADER: Final = (b"\0\0\0\3", bytes(11))
_FOOTER: Final = (b"\0\0\0\4", bytes(3))
#: KRaftVersionRecord, version 0, which says kraft.version 1: the voters are in the log.
_KRAFT_VERSION: Final = (b"\0\0\0\5", struct.pack(">hhb", 0, 1, 0))
_VOTERS: Final = b"\0\0\0\6"
#: Frame version 1, FeatureLevelRecord (12), version 0.
_FEATURE_LEVEL: Final = b"\1\x0c\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """One of a new cluster's voters: its number, the id of its directory, and where its listener is reached."""

    number: int
    directory: bytes
    listener: str
    host: str
    port: int


def meta_properties(number: int, directory: bytes = b"", *, cluster_id: str = CLUSTER_ID) -> str:
    """The file of a KRaft node. Where no directory id is given, a release that has such ids adds one itself."""
    given = f"directory.id={base64.urlsafe_b64encode(directory).decode().rstrip('=')}\n" if directory else ""
    return f"version=1\ncluster.id={cluster_id}\nnode.id={number}\n{given}"


def directory_of(meta: str) -> bytes:
    """The directory id in a file of `meta_properties`."""
    (text,) = [line.removeprefix("directory.id=") for line in meta.splitlines() if line.startswith("directory.id=")]
    return base64.urlsafe_b64decode(text + "==")


def levels(version: str) -> Mapping[str, int]:
    """The levels of the features of a new cluster of this release; none where they are not known."""
    return _LEVELS.get(numbers(version)[:2], {})


def data_files(number: int, version: str, *, votes: bool, cluster_id: str = CLUSTER_ID) -> dict[str, str | bytes]:
    """The files of a formatted directory of this release, by relative path; `votes` says that it is a controller's."""
    files: dict[str, str | bytes] = {"meta.properties": meta_properties(number, cluster_id=cluster_id)}
    minor = numbers(version)[:2]
    if votes and minor in _LEVELS:
        name = _IN_THE_LOG if minor >= _FIRST_IN_THE_LOG else "bootstrap.checkpoint"
        files[name] = checkpoint(_LEVELS[minor])
    return files


def voters_file(version: str, voters: Sequence[Voter]) -> dict[str, str | bytes]:
    """The further file of a controller whose voters are in the log and can change (KIP-853).

    It is the first snapshot of the metadata log.
    """
    minor = numbers(version)[:2]
    levels = _LEVELS.get(minor, {}) if minor >= _FIRST_IN_THE_LOG else {}
    return {_IN_THE_LOG: checkpoint(levels, voters)}


def checkpoint(levels: Mapping[str, int], voters: Sequence[Voter] = ()) -> bytes:
    """A snapshot that holds these feature levels, these voters where there are any, and nothing else."""
    control = [_HEADER, *([_KRAFT_VERSION, (_VOTERS, _voters(voters))] if voters else [])]
    records = [(None, _FEATURE_LEVEL + _compact(name) + struct.pack(">hb", level, 0)) for name, level in levels.items()]
    batches = [_batch(0, control, control=True)]
    if records:
        batches.append(_batch(len(control), records, control=False))
    batches.append(_batch(len(control) + len(records), [_FOOTER], control=True))
    return b"".join(batches)


def _voters(voters: Sequence[Voter]) -> bytes:
    """VotersRecord, version 0: for each its id, directory, endpoints and the range of kraft.version that it knows."""
    parts = [struct.pack(">h", 0), varint(len(voters) + 1)]
    for voter in voters:
        endpoint = _compact(voter.listener) + _compact(voter.host) + struct.pack(">Hb", voter.port, 0)
        known = struct.pack(">hhb", 0, 1, 0)
        parts += [struct.pack(">i", voter.number), voter.directory, varint(2), endpoint, known, b"\0"]
    return b"".join([*parts, b"\0"])


def _batch(offset: int, records: Sequence[tuple[bytes | None, bytes]], *, control: bool) -> bytes:
    body = b"".join(_record(delta, key, value) for delta, (key, value) in enumerate(records))
    attributes = _CONTROL if control else 0
    rest = _REST.pack(attributes, len(records) - 1, 0, 0, -1, -1, -1, len(records)) + body
    return _PREFIX.pack(offset, _START.size + len(rest)) + _START.pack(0, _MAGIC, crc32c(rest)) + rest


def _record(delta: int, key: bytes | None, value: bytes) -> bytes:
    keyed = _signed(-1) if key is None else _signed(len(key)) + key
    content = b"\0" + _signed(0) + _signed(delta) + keyed + _signed(len(value)) + value + b"\0"
    return _signed(len(content)) + content


def _signed(value: int) -> bytes:
    """A zigzag varint."""
    return varint((value << 1) ^ (value >> 63))


def _compact(text: str) -> bytes:
    return varint(len(text) + 1) + text.encode()
