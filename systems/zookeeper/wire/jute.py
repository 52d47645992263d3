"""ZooKeeper's bytes: requests and replies in jute's encoding, as pure functions.

A frame is a four-byte length and a body. A request body is (xid, operation, record); a reply body is (xid, zxid,
error, record). Numbers are big-endian, a string or buffer is its length and its bytes, a vector its count and items.

Source: zookeeper-jute/src/main/resources/zookeeper.jute and ZooDefs.OpCode of Apache ZooKeeper 3.9.
"""

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

#: The xids of replies that belong to no numbered request.
XID_WATCH: Final = -1
XID_PING: Final = -2

HEADER: Final = Struct(">iqi")
INT: Final = Struct(">i")
_LONG: Final = Struct(">q")
_REQUEST: Final = Struct(">iii")
_STAT: Final = Struct(">qqqqiiiqiiq")
_CONNECT: Final = Struct(">iiqiqi16sb")
_CONNECT_REPLY: Final = Struct(">iiqi16s")
_MULTI_HEADER: Final = Struct(">ibi")
_WATCH: Final = Struct(">iii")

HEADER_BYTES: Final = HEADER.size
#: ACL "world:anyone" may do everything: one entry, permissions 31.
_OPEN_ACL: Final = INT.pack(1) + INT.pack(31) + INT.pack(5) + b"world" + INT.pack(6) + b"anyone"
_MULTI_END: Final = _MULTI_HEADER.pack(-1, 1, -1)
#: In a failed multi every operation gets a code: 0 before the failed one, its own, then this.
RUNTIME_INCONSISTENCY: Final = -2


class Op(IntEnum):
    """Operation codes."""

    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    SYNC = 9
    PING = 11
    GET_CHILDREN = 12
    CHECK = 13
    MULTI = 14
    CREATE_WITH_STAT = 15
    RECONFIG = 16
    CLOSE_SESSION = -11
    ERROR = -1


class Stat(NamedTuple):
    """What ZooKeeper keeps about a znode; the zxids are of the transactions that created and last changed it."""

    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    children: int
    pzxid: int


class Ticket(NamedTuple):
    """What a server needs to resume a session; session 0 and a password of zeros ask for a new one."""

    timeout_ms: int
    session_id: int = 0
    password: bytes = bytes(16)


class Connected(NamedTuple):
    """The server's answer to a connect request; a time-out of 0 means that the session is over."""

    timeout_ms: int
    session_id: int
    password: bytes


class MultiResult(NamedTuple):
    """One operation of a multi: its error code (0: done), and its stat where it has one."""

    error: int
    stat: Stat | None


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return INT.pack(len(raw)) + raw


def frame(xid: int, op: int, record: bytes) -> bytes:
    return _REQUEST.pack(len(record) + 8, xid, op) + record


def connect_frame(ticket: Ticket) -> bytes:
    """Ask for a session: no zxid seen, not read-only."""
    return _CONNECT.pack(_CONNECT.size - 4, 0, 0, ticket.timeout_ms, ticket.session_id, 16, ticket.password, 0)


PING_FRAME: Final = _REQUEST.pack(8, XID_PING, Op.PING)
CLOSE_FRAME: Final = _REQUEST.pack(8, 0, Op.CLOSE_SESSION)


def path_and_watch(path: bytes, watch: bool) -> bytes:
    """Record of getData, exists and getChildren2; `path` is encoded by `text`."""
    return path + (b"\1" if watch else b"\0")


def set_record(path: bytes, data: bytes, version: int) -> bytes:
    return path + INT.pack(len(data)) + data + INT.pack(version)


def create_record(path: bytes, data: bytes, flags: int) -> bytes:
    return path + INT.pack(len(data)) + data + _OPEN_ACL + INT.pack(flags)


def version_record(path: bytes, version: int) -> bytes:
    """Record of delete and check."""
    return path + INT.pack(version)


def multi_record(operations: Sequence[tuple[Op, bytes]]) -> bytes:
    parts = [_MULTI_HEADER.pack(op, 0, -1) + record for op, record in operations]
    return b"".join(parts) + _MULTI_END


def read_connected(body: bytes) -> Connected:
    _, timeout_ms, session_id, _, password = _CONNECT_REPLY.unpack_from(body)
    return Connected(timeout_ms, session_id, password)


def read_stat(body: bytes, offset: int) -> Stat:
    return Stat._make(_STAT.unpack_from(body, offset))


def read_data(body: bytes, offset: int) -> tuple[bytes, Stat]:
    """The reply of getData: data (a length of -1 is null, read as empty) and stat."""
    length = max(INT.unpack_from(body, offset)[0], 0)
    start = offset + 4
    return body[start : start + length], read_stat(body, start + length)


def read_text(body: bytes, offset: int) -> tuple[str, int]:
    """Read a string; returns it and the offset after it."""
    length = max(INT.unpack_from(body, offset)[0], 0)
    end = offset + 4 + length
    return body[offset + 4 : end].decode(), end


def read_children(body: bytes, offset: int) -> tuple[list[str], Stat]:
    """The reply of getChildren2."""
    count = INT.unpack_from(body, offset)[0]
    offset += 4
    names = []
    for _ in range(count):
        name, offset = read_text(body, offset)
        names.append(name)
    return names, read_stat(body, offset)


def read_watch(body: bytes) -> tuple[int, int, str]:
    """A watch event: type, state of the session, path."""
    kind, state, length = _WATCH.unpack_from(body, HEADER_BYTES)
    start = HEADER_BYTES + _WATCH.size
    return kind, state, body[start : start + max(length, 0)].decode()


def read_multi(body: bytes, offset: int) -> list[MultiResult]:
    results: list[MultiResult] = []
    while True:
        op, done, error = _MULTI_HEADER.unpack_from(body, offset)
        offset += _MULTI_HEADER.size
        if done:
            return results
        stat = None
        if op == Op.ERROR:
            error = INT.unpack_from(body, offset)[0]
            offset += 4
        else:
            error = 0
            if op in (Op.CREATE, Op.CREATE_WITH_STAT):
                _, offset = read_text(body, offset)
            if op in (Op.SET_DATA, Op.CREATE_WITH_STAT):
                stat = read_stat(body, offset)
                offset += _STAT.size
        results.append(MultiResult(error, stat))
