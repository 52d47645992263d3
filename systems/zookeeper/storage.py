"""Key-value storage (`harness.coordination.KeyValue`) on one ZooKeeper session.

A key is the znode `/fencepost/<key>`, which is empty for an absent key (`prepare` creates the znodes, so that a write
needs no read first). The elements of a set are its children. Barrier reads write to `/fencepost-barrier`.

Stamps: `position` is the zxid in the reply's header, the last transaction that the answering server had applied;
`epoch` is its upper half; `value_position` is the mzxid of the znode; `version` is the znode's version.

**Reads.** PLAIN is getData. SYNC is sync and getData in one send. If they were sent apart, the second would leave only
after the answer to the first, and a paused leader that has just woken would often know by then that it leads no more.
BARRIER is a write to `/fencepost-barrier` and getData in one send. A session is first in, first out, so the server
serves the read after it has applied this write, and so everything acknowledged before it. A read is returned only if
the request before it succeeded. The barrier's write is not part of the operation's effect: nobody reads that znode.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Final, TypeVar, assert_never

from fencepost.harness.coordination import Definite, Indefinite, Keys, Members, NotSent, ReadMode, Reply
from fencepost.harness.history import CAS_MISMATCH
from fencepost.systems.zookeeper.leases import SessionLeases
from fencepost.systems.zookeeper.wire import jute as wire
from fencepost.systems.zookeeper.wire.connection import Parse
from fencepost.systems.zookeeper.wire.errors import BAD_VERSION, NO_NODE, NODE_EXISTS, ZooKeeperError
from fencepost.systems.zookeeper.wire.jute import HEADER_BYTES, Op, Stat
from fencepost.systems.zookeeper.wire.session import (
    ANY_VERSION,
    PERSISTENT,
    ZooKeeperSession,
    made,
    raise_outcome,
)

T = TypeVar("T")

ROOT: Final = "/fencepost"
LOCKS: Final = "/fencepost-locks"
BARRIER: Final = "/fencepost-barrier"

_PREPARE_CHUNK: Final = 500

_BARRIER_RECORD: Final = wire.set_record(wire.text(BARRIER), b"", ANY_VERSION)
_SYNC_RECORD: Final = wire.text(ROOT)

#: getData's stat behind the data: mzxid after czxid, version after two times.
_MZXID_AND_VERSION: Final = Struct(">8xq16xi")


class ZooKeeperStorage:
    """Keys on one session. Calls raise by the table of `wire/errors.py`."""

    def __init__(self, session: ZooKeeperSession, leases: SessionLeases) -> None:
        self.session = session
        self._leases = leases
        self._paths: dict[str, bytes] = {}

    @property
    def session_id(self) -> int | None:
        return self.session.connection.session_id

    async def close(self) -> None:
        self.session.close()

    async def prepare(self, needs: Keys) -> None:
        """Create the roots and the keys' empty znodes where they are absent, in few round trips."""
        for path in (ROOT, LOCKS, BARRIER):
            await self.session.make_if_absent(path)
        there = set((await self.session.children(ROOT))[0])
        absent = [key for key in needs.names if key not in there]
        for start in range(0, len(absent), _PREPARE_CHUNK):
            chunk = absent[start : start + _PREPARE_CHUNK]
            await self.session.multi(
                [(Op.CREATE, wire.create_record(self._key(key), b"", PERSISTENT)) for key in chunk]
            )

    async def read(self, key: str, mode: ReadMode) -> Reply:
        return await self._read(Op.GET_DATA, self._key(key), mode, _value_reply)

    async def members(self, name: str, mode: ReadMode) -> Members:
        return await self._read(Op.GET_CHILDREN, self._key(name), mode, _members)

    async def write(self, key: str, value: bytes) -> Reply:
        return await self._set(self._key(key), present(value), ANY_VERSION)

    async def update(self, key: str, value: bytes) -> Reply:
        """`harness.coordination.storage.UpdatesKeys`: setData of any version."""
        return await self._set(self._key(key), present(value), ANY_VERSION, {NO_NODE: "absent"})

    async def cas(self, key: str, old: bytes, new: bytes) -> Reply:
        """Read, then write if the version is unchanged: two requests, of which the first has no effect."""
        path = self._key(key)
        seen = await self._look(path)
        if seen is None:
            raise Definite("no-node", "at the read")
        if seen.value != old:
            raise Definite(CAS_MISMATCH, "at the read")
        return await self._set(path, present(new), seen.version, {BAD_VERSION: CAS_MISMATCH})

    async def create(self, key: str, value: bytes) -> Reply:
        """Fill the empty znode if its version is unchanged, or create it where there is none."""
        path = self._key(key)
        seen = await self._look(path)
        if seen is None:
            return await self._make(path, present(value))
        if seen.value is not None:
            raise Definite("exists", "at the read")
        return await self._set(path, present(value), seen.version, {BAD_VERSION: "exists"})

    async def write_if(self, key: str, value: bytes, value_position: int | None, version: int | None) -> Reply:
        """Write if `version` is unchanged (every write changes it); None means that there was no znode."""
        path = self._key(key)
        if version is None:
            return await self._make(path, present(value), {NODE_EXISTS: CAS_MISMATCH})
        return await self._set(path, present(value), version, {BAD_VERSION: CAS_MISMATCH, NO_NODE: CAS_MISMATCH})

    async def add(self, name: str, element: int) -> Reply:
        return await self._make(wire.text(f"{ROOT}/{name}/{element}"), b"")

    # Requests

    def _key(self, key: str) -> bytes:
        path = self._paths.get(key)
        if path is None:
            path = self._paths[key] = wire.text(f"{ROOT}/{key}")
        return path

    async def _read(self, op: Op, path: bytes, mode: ReadMode, parse: Parse[T]) -> T:
        session, record = self.session, wire.path_and_watch(path, False)
        try:
            match mode:
                case ReadMode.PLAIN:
                    return await session.call(op, record, parse)
                case ReadMode.SYNC:
                    return await session.after(Op.SYNC, _SYNC_RECORD, op, record, parse)
                case ReadMode.BARRIER:
                    return await session.after(Op.SET_DATA, _BARRIER_RECORD, op, record, parse)
                case ReadMode.STRONG | ReadMode.LOCAL | ReadMode.QUORUM | ReadMode.LEADER:
                    raise ValueError(f"ZooKeeper has no {mode.value} read; its modes are plain, sync and barrier")
                case _:
                    assert_never(mode)
        except ZooKeeperError as error:
            raise_outcome(error)

    async def _look(self, path: bytes) -> Reply | None:
        """Do the read before a conditional write; None without a znode. When it is lost, nothing was written."""
        try:
            return await self.session.call(Op.GET_DATA, wire.path_and_watch(path, False), _value_reply)
        except ZooKeeperError as error:
            if error.code == NO_NODE:
                return None
            raise NotSent(error.outcome().code, "at the read") from None
        except Indefinite as error:
            raise NotSent(error.code, "at the read") from None

    async def _set(
        self, path: bytes, value: bytes, version: int | None, expected: Mapping[int, str] | None = None
    ) -> Reply:
        assert version is not None
        return await self.session.ask(Op.SET_DATA, wire.set_record(path, value, version), _set_reply, expected)

    async def _make(self, path: bytes, value: bytes, expected: Mapping[int, str] | None = None) -> Reply:
        record = wire.create_record(path, value, PERSISTENT)
        return await self.session.ask(Op.CREATE_WITH_STAT, record, make_reply, expected)


def present(value: bytes) -> bytes:
    if not value:
        raise ValueError("an empty value stands for an absent key and cannot be written")
    return value


def stamped(zxid: int) -> Reply:
    return Reply(position=zxid, epoch=zxid >> 32)


def written(zxid: int, stat: Stat | None) -> Reply:
    assert stat is not None
    return Reply(position=zxid, value_position=stat.mzxid, epoch=zxid >> 32, version=stat.version)


def _value_reply(body: bytes, zxid: int) -> Reply:
    length = max(wire.INT.unpack_from(body, HEADER_BYTES)[0], 0)
    end = HEADER_BYTES + 4 + length
    mzxid, version = _MZXID_AND_VERSION.unpack_from(body, end)
    return Reply(body[HEADER_BYTES + 4 : end] if length else None, zxid, mzxid, zxid >> 32, version)


def _set_reply(body: bytes, zxid: int) -> Reply:
    mzxid, version = _MZXID_AND_VERSION.unpack_from(body, HEADER_BYTES)
    return Reply(None, zxid, mzxid, zxid >> 32, version)


def make_reply(body: bytes, zxid: int) -> Reply:
    return written(zxid, made(body, zxid)[1])


def _members(body: bytes, zxid: int) -> Members:
    names, _ = wire.read_children(body, HEADER_BYTES)
    return Members(tuple(sorted(int(name) for name in names)), zxid, zxid >> 32)
