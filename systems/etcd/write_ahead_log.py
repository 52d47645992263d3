"""etcd's write-ahead log on a member's disk: the entries of raft, and what each of them wrote.

A segment is named by its number and the index of its first entry. It is a series of frames: the length of a record, in
whose uppermost byte stands how many bytes fill it up to a multiple of eight, then the record. It is allocated in
advance, so zeros follow. A record's checksum goes on from that of the record before it, over segments as well. An entry
takes the place of an earlier one with its index, and of all behind that. A snapshot beyond the last entry was sent by
the leader: the log begins again behind it.

The log holds what was asked for, not what came of it: whether a transaction's comparisons held is found by applying the
log to an empty store. Where that cannot tell (the log begins later, a lease, a comparison of revisions, an alarm), the
entry is of type "maybe".

Source: server/storage/wal (encoder.go, decoder.go, wal.go), raftpb and etcdserver/apply.go of etcd 3.4 to 3.6.
"""

import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from struct import Struct
from typing import Final

from google.protobuf.message import DecodeError

from fencepost.harness.base.crc32c import crc32c
from fencepost.harness.history import LogEntry, NodeLog
from fencepost.systems.etcd.metastore import ROOT
from fencepost.systems.etcd.wire import rpc_pb2 as rpc

_SEGMENT: Final = re.compile(r".*/wal/([0-9a-f]{16}-([0-9a-f]{16})\.wal)")
#: Of all segments of a member, without the zeros behind them.
_BYTES_MAX: Final = 512 << 20
#: etcd refuses requests of more than 1.5 MiB, unless it is told otherwise.
_RECORD_BYTES_MAX: Final = 32 << 20
#: The last record may end in zeros, which are cut off with those behind it.
_ZEROS_MAX: Final = 4096
_LENGTH: Final = Struct("<q")
_LENGTH_BITS: Final = 56
_ALIGNED: Final = 8
#: Types of records.
_ENTRY, _STATE, _CRC, _SNAPSHOT = 2, 3, 4, 5
_TYPES: Final = range(1, 6)
#: Types of entries: a request, and two that change members.
_NORMAL: Final = 0
_CHANGES: Final = range(3)
#: No log gets so far; an identifier in place of an index or term does.
_NUMBER_MAX: Final = 1 << 40


class _Broken(ValueError):
    """What stands at this place is no record that etcd wrote there."""


def read_archive(archive: Path, node: str) -> NodeLog | None:
    """The log in a member's kept data (tar.gz); None when it has none. Raises ValueError, OSError or TarError."""
    segments: dict[str, bytes] = {}
    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            match = _SEGMENT.fullmatch(member.name)
            if match and member.isfile() and (file := tar.extractfile(member)) is not None:
                segments[match[1]] = file.read().rstrip(b"\0")
                if sum(map(len, segments.values())) > _BYTES_MAX:
                    raise ValueError(f"its write-ahead log has more than {_BYTES_MAX >> 20} MiB")
    return log_of(segments, node)


def log_of(segments: Mapping[str, bytes], node: str) -> NodeLog | None:
    """The log in these segments of one member, by their names; None without any. Raises nothing for what they hold."""
    names = sorted(segments)
    if not names:
        return None
    log = _Log(start=max(1, int(names[0].partition("-")[2][:16], 16)))
    torn, damaged = 0, ""
    for name in names:
        data = segments[name].rstrip(b"\0")
        at, wrong = _read(data, log)
        if wrong and name == names[-1] and not _any_record(data, at):
            torn = len(data) - at
        elif wrong:
            damaged = f"{name}, byte {at}: {wrong}"
            break
    whole = log.start == 1
    return NodeLog(
        node=node,
        start_offset=0 if whole else log.start,
        entries=tuple(_meanings(log.entries, whole=whole)),
        commit=min(log.commit, log.last),
        torn=torn > 0,
        torn_bytes=torn,
        damaged=damaged,
    )


class _Log:
    """The entries from index `start` on, as the records that were read so far leave them."""

    def __init__(self, start: int) -> None:
        self.start, self.commit = start, 0
        self.entries: list[rpc.RaftEntry] = []
        #: Of the record before; None at the beginning of the first segment.
        self.crc: int | None = None

    @property
    def last(self) -> int:
        return self.start + len(self.entries) - 1

    def add(self, record: rpc.WalRecord) -> None:
        """Take up a record; raises _Broken or DecodeError and changes nothing if it cannot follow what was read."""
        if record.type == _CRC:
            if self.crc not in (None, record.crc):
                raise _Broken("the checksum of what stands before it is another one")
            self.crc = record.crc
            return
        crc = crc32c(record.data, self.crc or 0)
        if record.type not in _TYPES or crc != record.crc:
            raise _Broken("a record whose checksum is wrong")
        if record.type == _ENTRY:
            self._append(rpc.RaftEntry.FromString(record.data))
        elif record.type == _STATE:
            commit = rpc.HardState.FromString(record.data).commit
            if commit > self.last and self.entries:
                raise _Broken("more is committed than there are entries")
            self.commit = max(self.commit, commit)
        elif record.type == _SNAPSHOT:
            index = rpc.WalSnapshot.FromString(record.data).index
            if index >= _NUMBER_MAX:
                raise _Broken(f"a snapshot at {index}")
            if index > self.last:
                self.start, self.entries = index + 1, []
        self.crc = crc

    def _append(self, entry: rpc.RaftEntry) -> None:
        place = entry.index - self.start
        before = self.entries[place - 1].term if 0 < place <= len(self.entries) else 1
        if entry.type not in _CHANGES or not before <= entry.term < _NUMBER_MAX or place > len(self.entries):
            raise _Broken(f"an entry {entry.index} of term {entry.term} behind entry {self.last} of term {before}")
        if place < 0:
            # The log begins within a term that was begun again.
            self.start, place = entry.index, 0
        self.entries[place:] = [entry]


def _read(data: bytes, log: _Log) -> tuple[int, str]:
    """Take up the records of one segment; return where it ends, and what is wrong there ("": nothing)."""
    at = 0
    while at < len(data):
        try:
            record, following = _record(data, at)
            log.add(record)
        except (_Broken, DecodeError) as error:
            return at, str(error) if isinstance(error, _Broken) else "a record that cannot be read"
        at = following
    return at, ""


def _record(data: bytes, at: int) -> tuple[rpc.WalRecord, int]:
    """The record at this offset, and the offset of the next one; what stands behind the data are zeros."""
    (length,) = _LENGTH.unpack(data[at : at + _LENGTH.size].ljust(_LENGTH.size, b"\0"))
    size = length & (1 << _LENGTH_BITS) - 1
    filled = -size % _ALIGNED
    # The sign says that bytes were filled in.
    if not 0 < size <= _RECORD_BYTES_MAX or (length >> _LENGTH_BITS) & 0xFF != (0x80 | filled if filled else 0):
        raise _Broken("the length of a record is wrong")
    start = at + _LENGTH.size
    if start + size > len(data) + _ZEROS_MAX:
        raise _Broken("a record that is not whole")
    record = rpc.WalRecord.FromString(data[start : start + size].ljust(size, b"\0"))
    return record, start + size + filled


def _any_record(data: bytes, at: int) -> bool:
    """Whether two records that belong together follow; then what is wrong at this offset is not a torn write."""
    for start in range(at - at % _ALIGNED, len(data), _ALIGNED):
        try:
            first, following = _record(data, start)
            second, _ = _record(data, following)
        except (_Broken, DecodeError):
            continue
        if second.type in _TYPES and second.data and crc32c(second.data, first.crc) == second.crc:
            return True
    return False


# -- what entries mean --------------------------------------------------------------------------------------------

#: By key its value; None: nobody knows. A key that is absent is not in it.
_Store = dict[bytes, bytes | None]


def _meanings(entries: Iterable[rpc.RaftEntry], *, whole: bool) -> Iterator[LogEntry]:
    """Apply the entries in their order; `whole`: the store was empty before them."""
    store: _Store = {}
    unsure = not whole
    for entry in entries:
        kind, wrote = "members", list[rpc.PutRequest]()
        if entry.type == _NORMAL:
            try:
                request = rpc.InternalRaftRequest.FromString(entry.data)
            except DecodeError:
                # Requests of etcd's second API, by which a member publishes its name.
                request = rpc.InternalRaftRequest()
            # With an alarm writes are refused, until it ends or another member says so.
            unsure = unsure or request.HasField("alarm")
            kind, wrote = _apply(request, store, unsure=unsure)
        fields = {"wrote": [[_name(put.key), _text(put.value).rstrip()] for put in wrote]} if wrote else {}
        yield LogEntry(
            offset=entry.index, epoch=entry.term, type=kind, fields={"content": zlib.crc32(entry.data), **fields}
        )


def _apply(request: rpc.InternalRaftRequest, store: _Store, *, unsure: bool) -> tuple[str, list[rpc.PutRequest]]:
    """Apply one request; return whether it took effect, and the writes that it asked for."""
    if request.HasField("put"):
        sure = not unsure and not request.put.lease
        _put(request.put, store, sure=sure)
        return "write" if sure else "maybe", [request.put]
    if request.HasField("delete_range"):
        _delete(request.delete_range, store)
        return "delete", []
    if not request.HasField("txn"):
        return "other", []
    holds = None if unsure else _all(_holds(compare, store) for compare in request.txn.compare)
    branches = {
        True: [request.txn.success],
        False: [request.txn.failure],
        None: [request.txn.success, request.txn.failure],
    }
    wrote = []
    for operation in (operation for branch in branches[holds] for operation in branch):
        if operation.HasField("request_put"):
            wrote.append(operation.request_put)
            holds = None if operation.request_put.lease else holds
            _put(operation.request_put, store, sure=holds is not None)
        elif operation.HasField("request_delete_range"):
            _delete(operation.request_delete_range, store, sure=holds is not None)
    if holds is False and not wrote:
        return "refused", [o.request_put for o in request.txn.success if o.HasField("request_put")]
    return "maybe" if holds is None else "write", wrote


def _put(put: rpc.PutRequest, store: _Store, *, sure: bool) -> None:
    # A key with a lease goes with it.
    store[put.key] = put.value if sure else None


def _delete(request: rpc.DeleteRangeRequest, store: _Store, *, sure: bool = True) -> None:
    end = request.range_end
    for key in [k for k in store if k == request.key or (end and request.key <= k and (end == b"\0" or k < end))]:
        if sure:
            del store[key]
        else:
            store[key] = None


def _all(answers: Iterable[bool | None]) -> bool | None:
    known = list(answers)
    return False if False in known else None if None in known else True


def _holds(compare: rpc.Compare, store: _Store) -> bool | None:
    """Whether a comparison holds; None where nobody knows, or it is of a kind that is not followed here."""
    there = compare.key in store
    value = store.get(compare.key)
    if there and value is None:
        return None
    match compare.target, compare.result:
        case rpc.Compare.VALUE, rpc.Compare.EQUAL:
            return there and value == compare.value
        case rpc.Compare.CREATE | rpc.Compare.MOD, rpc.Compare.EQUAL if not (
            compare.create_revision or compare.mod_revision
        ):
            return not there
        case rpc.Compare.CREATE, rpc.Compare.GREATER if not compare.create_revision:
            return there
    return None


def _name(key: bytes) -> str:
    """What clients call a key: one of the metadata store is a path below its root."""
    return _text(key.removeprefix(ROOT + b"/"))


def _text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")
