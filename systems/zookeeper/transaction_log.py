"""ZooKeeper's transaction log on a server's disk: every change, and every refused change.

A file is a header and records of (checksum, length, bytes, "B"). It is allocated in advance, so zeros follow the last
record. A record is a header (session, its request number, zxid, the leader's clock, operation), the change, and from
3.6 on a digest of the tree. A request that fails at the leader gets a zxid too. A single request is logged as an ERROR
with its code; a multi keeps its kind, with a code for each operation. The content of a failed operation is not kept.

In a refused multi the operations before the failed one are logged as they were requested. But a server that applies the
multi renames them to errors in memory; if it has not logged them yet, it logs them with that name and their old
content. So the bytes of refused multis differ between servers, and only their codes are compared.

Source: FileTxnLog, Util, SerializeUtils, PrepRequestProcessor and zookeeper.jute of Apache ZooKeeper 3.5 to 3.9.
"""

import re
import tarfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from struct import Struct
from struct import error as StructError
from typing import Any, Final, NamedTuple

from fencepost.harness.history import LogEntry, NodeLog
from fencepost.systems.zookeeper.storage import ROOT
from fencepost.systems.zookeeper.wire.jute import Op

_LOG: Final = re.compile(r"log\.([0-9a-f]+)")
_SNAPSHOT: Final = re.compile(r"snapshot\.([0-9a-f]+)")
_FOLDER: Final = "version-2"
#: Of all files of a server, without the zeros behind them.
_BYTES_MAX: Final = 512 << 20

_BELOW_ROOT: Final = f"{ROOT}/"
CREATE_SESSION: Final = -10
CREATE_CONTAINER: Final = 19
DELETE_CONTAINER: Final = 20
CREATE_TTL: Final = 21
_SET_ACL: Final = 7
_RECONFIG: Final = 16
CREATES: Final = frozenset({Op.CREATE, Op.CREATE_WITH_STAT, CREATE_CONTAINER, CREATE_TTL})
DELETES: Final = frozenset({Op.DELETE, DELETE_CONTAINER})

#: Magic, version, database id.
_FILE: Final = Struct(">4siq")
_MAGIC: Final = b"ZKLG"
_VERSION: Final = 2
#: Adler-32 of the record, its length.
_PREFIX: Final = Struct(">qi")
_RECORD_END: Final = b"B"
#: Session, request number in it, zxid, milliseconds of the leader's clock, operation.
_HEADER: Final = Struct(">qiqqi")
_INT: Final = Struct(">i")
_LONG: Final = Struct(">q")
_DIGEST_BYTES: Final = 12
#: jute's own limit of a packet is 1 MiB by default, a session's closing may be longer.
_RECORD_BYTES_MAX: Final = 64 << 20


class MalformedLog(ValueError):
    """The bytes are not a transaction log; the message says where. `before`: the transactions up to there."""

    def __init__(self, message: str, before: "Iterable[LoggedTransaction]" = ()) -> None:
        super().__init__(message)
        self.before = list(before)


class ZnodeChange(NamedTuple):
    """One operation. `version` is the znode's version after it (for a CHECK: one more than the version checked)."""

    op: int
    path: str = ""
    data: bytes | None = None
    version: int | None = None
    ephemeral: bool = False
    #: For an ERROR: the code of the refusal; 0 where another operation of the multi was refused.
    error: int | None = None


class LoggedTransaction(NamedTuple):
    """One record. `changes` has one entry, except for a multi; closing a session deletes its paths."""

    session: int
    cxid: int
    zxid: int
    time_ms: int
    op: int
    changes: tuple[ZnodeChange, ...]
    #: Of the header and the change, without the digest: equal on all servers, unless the request was refused.
    checksum: int

    @property
    def errors(self) -> tuple[int, ...]:
        """The code of each operation of a refused request; empty when the request took effect."""
        codes = tuple(change.error or 0 for change in self.changes)
        return codes if any(change.op == Op.ERROR for change in self.changes) else ()


class _Read(NamedTuple):
    """The transactions in the order of the files, up to where they are `damaged`; the length of a torn last write."""

    transactions: list[LoggedTransaction]
    torn_bytes: int
    damaged: str


def read_archive(archive: Path, node: str) -> NodeLog | None:
    """The log in a server's kept data (tar.gz); None when it has none. Raises ValueError, OSError or TarError."""
    return log_of(files_in(archive), node)


def files_in(archive: Path) -> dict[str, bytes]:
    """The files of the log in a server's kept data, and the names of its snapshots."""
    files: dict[str, bytes] = {}
    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            folder, _, name = member.name.rpartition("/")
            if not member.isfile() or folder.rpartition("/")[2] != _FOLDER:
                continue
            if _LOG.fullmatch(name) and (file := tar.extractfile(member)) is not None:
                files[name] = file.read().rstrip(b"\0")
                if sum(map(len, files.values())) > _BYTES_MAX:
                    raise ValueError(f"its transaction log has more than {_BYTES_MAX >> 20} MiB")
            elif _SNAPSHOT.fullmatch(name):
                files[name] = b""
    return files


def entry_of(transaction: LoggedTransaction) -> LogEntry:
    """The transaction as an entry of a key-value store (`harness.history.LogEntry`)."""
    offset, epoch = transaction.zxid, transaction.zxid >> 32
    if transaction.errors:
        return LogEntry(offset=offset, epoch=epoch, type="refused", fields={"errors": list(transaction.errors)})
    fields: dict[str, Any] = {"content": transaction.checksum}
    wrote = [
        [change.path.removeprefix(_BELOW_ROOT), (change.data or b"").decode(errors="backslashreplace").rstrip()]
        for change in transaction.changes
        if change.op in (*CREATES, Op.SET_DATA) and change.path.startswith(_BELOW_ROOT)
    ]
    if wrote:
        return LogEntry(offset=offset, epoch=epoch, type="write", fields={**fields, "wrote": wrote})
    return LogEntry(offset=offset, epoch=epoch, type="other", fields=fields)


def log_of(
    files: Mapping[str, bytes], node: str, entry_of: Callable[[LoggedTransaction], LogEntry] = entry_of
) -> NodeLog | None:
    """The log in these files of one server, by their names; of snapshots the names are enough."""
    if not any(_LOG.fullmatch(name) for name in files):
        return None
    transactions, torn_bytes, damaged = read_files(files)
    held = {transaction.zxid for transaction in transactions}
    snapshots = [int(match.group(1), 16) for name in files if (match := _SNAPSHOT.fullmatch(name))]
    # A server that fell far behind is sent a snapshot and does not log what it missed. Its log is whole when it holds
    # the last transaction of every snapshot; that of the first epoch's beginning holds none.
    unproven = [at + 1 for at in snapshots if at not in held and at > (1 << 32)]
    return NodeLog(
        node=node,
        start_offset=max(unproven, default=0),
        entries=tuple(map(entry_of, transactions)),
        torn=torn_bytes > 0,
        torn_bytes=torn_bytes,
        damaged=damaged,
    )


def read_files(files: Mapping[str, bytes]) -> _Read:
    """Read the log from the files of one server, by their names ("log.100000001"), up to where they are damaged."""
    names = sorted((name for name in files if _LOG.fullmatch(name)), key=lambda name: int(name[4:], 16))
    by_zxid: dict[int, LoggedTransaction] = {}
    torn, damaged = 0, ""
    for name in names:
        try:
            transactions, torn = read_file(files[name], name, may_be_torn=name == names[-1])
        except MalformedLog as error:
            transactions, damaged = error.before, str(error)
        for transaction in transactions:
            if by_zxid.setdefault(transaction.zxid, transaction) != transaction:
                damaged = f"{name}: two transactions have zxid {transaction.zxid:#x}"
        if damaged:
            break
    return _Read(list(by_zxid.values()), torn, damaged)


def read_file(data: bytes, name: str, *, may_be_torn: bool) -> tuple[list[LoggedTransaction], int]:
    """Read the transactions of one file, and the length of a torn write at its end. Raises `MalformedLog`."""
    if not data.strip(b"\0"):
        # The server was killed after it allocated the file and before it wrote anything.
        return [], 0
    if len(data) < _FILE.size or _FILE.unpack_from(data)[:2] != (_MAGIC, _VERSION):
        raise MalformedLog(f"{name}: not a transaction log of version {_VERSION}")
    transactions: list[LoggedTransaction] = []
    at, end = _FILE.size, len(data.rstrip(b"\0"))
    while at < end:
        try:
            record, following = _record(data, at)
        except MalformedLog as error:
            # A write that a kill cut off is the very last one: no record follows it.
            if may_be_torn and not _any_record(data, at + 1, end):
                return transactions, end - at
            raise MalformedLog(f"{name}, byte {at}: {error}", transactions) from None
        try:
            transactions.append(_transaction(record))
        except MalformedLog as error:
            raise MalformedLog(f"{name}, byte {at}: {error}", transactions) from None
        at = following
    return transactions, 0


def _record(data: bytes, at: int) -> tuple[bytes, int]:
    """The bytes of the record at this offset, and the offset of the next one."""
    if at + _PREFIX.size > len(data):
        raise MalformedLog("a record that is not whole")
    checksum, length = _PREFIX.unpack_from(data, at)
    start, end = at + _PREFIX.size, at + _PREFIX.size + length
    if not 0 < length < _RECORD_BYTES_MAX or end >= len(data):
        raise MalformedLog("a record that is not whole")
    record = data[start:end]
    if data[end : end + 1] != _RECORD_END or zlib.adler32(record) != checksum:
        raise MalformedLog("a record whose checksum or end is wrong")
    return record, end + 1


def _any_record(data: bytes, begin: int, end: int) -> bool:
    """Whether any complete record follows; then the error before it is not a torn write."""
    return any(
        data[at : at + 4] == b"\0\0\0\0" and _whole(data, at) for at in range(begin, max(begin, end - _PREFIX.size))
    )


def _whole(data: bytes, at: int) -> bool:
    try:
        _record(data, at)
    except MalformedLog:
        return False
    return True


def _transaction(record: bytes) -> LoggedTransaction:
    try:
        session, cxid, zxid, time_ms, op = _HEADER.unpack_from(record)
        reader = _Reader(record, _HEADER.size)
        changes = tuple(_part(reader) for _ in range(reader.int())) if op == Op.MULTI else (_change(op, reader),)
        rest = len(record) - reader.at
        if rest not in (0, _DIGEST_BYTES):
            raise MalformedLog(f"{rest} bytes behind operation {op}")
    except (IndexError, ValueError, StructError) as error:
        raise MalformedLog(str(error)) from None
    return LoggedTransaction(session, cxid, zxid, time_ms, op, changes, zlib.crc32(record[: reader.at]))


def _part(reader: "_Reader") -> ZnodeChange:
    op, data = reader.int(), reader.buffer() or b""
    if op == Op.ERROR and len(data) > _INT.size:
        return ZnodeChange(op, error=0)
    return _change(op, _Reader(data, 0))


def _change(op: int, reader: "_Reader") -> ZnodeChange:
    if op in CREATES:
        path, data = reader.text(), reader.buffer()
        reader.acl()
        ephemeral = reader.flag() if op in (Op.CREATE, Op.CREATE_WITH_STAT) else False
        reader.int()
        if op == CREATE_TTL:
            reader.skip(_LONG.size)
        return ZnodeChange(op, path, data, 0, ephemeral)
    if op in DELETES:
        return ZnodeChange(op, reader.text())
    if op in (Op.SET_DATA, _RECONFIG):
        return ZnodeChange(op, reader.text(), reader.buffer(), reader.int())
    if op == Op.CHECK:
        return ZnodeChange(op, reader.text(), version=reader.int())
    if op == Op.ERROR:
        return ZnodeChange(op, error=reader.int())
    if op == Op.CLOSE_SESSION:
        # Releases before 3.6 do not log the paths.
        return ZnodeChange(op, "\n".join(reader.texts()) if reader.left > _DIGEST_BYTES else "")
    if op == CREATE_SESSION:
        return ZnodeChange(op, version=reader.int())
    if op == _SET_ACL:
        path = reader.text()
        reader.acl()
        return ZnodeChange(op, path, version=reader.int())
    raise MalformedLog(f"operation {op} is not known")


class _Reader:
    """jute's encoding: a cursor over the bytes of one record. Raises IndexError at their end."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self.at = data, at

    @property
    def left(self) -> int:
        return len(self._data) - self.at

    def skip(self, count: int) -> int:
        """Skip `count` bytes; returns the offset where they begin."""
        start, self.at = self.at, self.at + count
        if count < 0 or self.at > len(self._data):
            raise IndexError("the record ends early")
        return start

    def int(self) -> int:
        return int(_INT.unpack_from(self._data, self.skip(_INT.size))[0])

    def flag(self) -> bool:
        return self._data[self.skip(1)] != 0

    def buffer(self) -> bytes | None:
        length = self.int()
        if length < 0:
            return None
        start = self.skip(length)
        return self._data[start : self.at]

    def text(self) -> str:
        return (self.buffer() or b"").decode()

    def texts(self) -> list[str]:
        return [self.text() for _ in range(self.int())]

    def acl(self) -> None:
        for _ in range(self.int()):
            self.int()
            self.text()
            self.text()
