"""The client protocols (`harness.coordination.Elections`) on one ZooKeeper session.

Layout of znodes: a key is `/fencepost/<key>`, empty when absent (`prepare` makes them, so that a write needs no look
first); a set's elements are its children. `/fencepost-barrier` takes the writes of barrier reads. A lock is
`/fencepost-locks/<name>` with the ephemeral child `holder`.

Stamps: `position` is the reply header's zxid, the last transaction that the answering server had applied; `epoch` its
upper half; `value_position` the mzxid of the znode read or written; `version` the znode's version.

**Reads.** PLAIN is getData. SYNC is sync and getData in one send: apart, the second would leave only after the first
was answered, and a leader that was paused and has just woken would by then often know better. BARRIER is a write of
`/fencepost-barrier` and getData in one send: the session is first in, first out, so the read is served by this server
once it has applied our write, hence everything acknowledged before it. A read is answered only if what stands before
it succeeded. The barrier's write is no part of the operation's effect: nobody reads that znode.

**Locks and leases.** The lock's ephemeral belongs to a second session, opened at the first `acquire` and kept alive by
`renew` alone, as a lease is; the first session carries the data and outlives a holder that stalls. On one session
ZooKeeper would fence by itself, since the server refuses whatever an expired session sends; a resource that knows
nothing of the lock does not, and that is what an unfenced `write` under a lock stands for. When the lock session has
ended, the next `acquire` opens another: a new lease, as it would be on etcd.

**Fencing.** ZooKeeper can check versions in a multi, nothing else, and every fresh ephemeral has version 0. So the
lock's own znode counts the grants: `acquire` is multi[set lock, create holder], all or nothing, and the set's version v
is then this grant's and no other's; its mzxid, which grows with every grant, is the token. `guarded_write` is
multi[check lock at v, check that holder exists, set key]: version v says that nobody was granted the lock since, the
holder that our grant has not ended (released or expired); both are judged with the write at one point of ZooKeeper's
order of writes, so a write by a holder that lost the lock is refused wherever it is delayed on its way.

**Elections.** The term is the lock's token, so who leads is one getChildren2 of the lock: its stat carries the mzxid,
its children say whether the holder is still there. A deed is a sequential child of the trail's znode: the number that
ZooKeeper puts behind its name is the trail's child version at that transaction, so the names alone tell the order.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from struct import Struct
from typing import Final, TypeVar, assert_never

from fencepost.harness.coordination import (
    Deeds,
    Definite,
    Granted,
    Held,
    Indefinite,
    Leading,
    Members,
    NotSent,
    ReadMode,
    Reply,
    WatchMode,
)
from fencepost.harness.systems.zookeeper.leases import SessionLeases
from fencepost.harness.systems.zookeeper.watches import ZooKeeperWatches
from fencepost.harness.systems.zookeeper.wire import jute as wire
from fencepost.harness.systems.zookeeper.wire.connection import Parse
from fencepost.harness.systems.zookeeper.wire.errors import (
    BAD_VERSION,
    NO_NODE,
    NODE_EXISTS,
    NOT_SENT,
    SESSION_EXPIRED,
    ServerError,
    raised,
)
from fencepost.harness.systems.zookeeper.wire.jute import HEADER_BYTES, MultiResult, Op, Stat
from fencepost.harness.systems.zookeeper.wire.session import (
    ANY_VERSION,
    EPHEMERAL,
    PERSISTENT,
    SEQUENTIAL,
    MultiError,
    ZooKeeperSession,
    made,
    raise_outcome,
)

T = TypeVar("T")
#: Opens the session that locks are bound to, on the same server, kept alive by nobody.
OpenLease = Callable[[], Awaitable[ZooKeeperSession]]

ROOT: Final = "/fencepost"
LOCKS: Final = "/fencepost-locks"
BARRIER: Final = "/fencepost-barrier"
#: Stands between a deed and the number that ZooKeeper gives it.
_NUMBERED: Final = "."
_HOLDER: Final = "holder"

_BARRIER_RECORD: Final = wire.set_record(wire.text(BARRIER), b"", ANY_VERSION)
_SYNC_RECORD: Final = wire.text(ROOT)
_PREPARE_CHUNK: Final = 500

#: getData's stat behind the data: mzxid after czxid, version after two times.
_MZXID_AND_VERSION: Final = Struct(">8xq16xi")


class ZooKeeperClient:
    """Two sessions on one server: data, and the lease of its locks. Calls raise by the table of `errors.py`."""

    def __init__(self, session: ZooKeeperSession, open_lease: OpenLease, leases: SessionLeases) -> None:
        self.session = session
        self._open_lease = open_lease
        self._leases = leases
        self._lease: ZooKeeperSession | None = None
        self._paths: dict[str, bytes] = {}

    @property
    def session_id(self) -> int | None:
        return self.session.connection.session_id

    @property
    def session_timeout_ms(self) -> int:
        """As the server granted it."""
        return self.session.connection.timeout_ms

    async def close(self) -> None:
        self.session.close()
        if self._lease is not None:
            self._lease.close()

    # Key-value storage

    async def read(self, key: str, mode: ReadMode) -> Reply:
        return await self._read(Op.GET_DATA, self._key(key), mode, _value_reply)

    async def members(self, name: str, mode: ReadMode) -> Members:
        return await self._read(Op.GET_CHILDREN, self._key(name), mode, _members)

    async def write(self, key: str, value: bytes) -> Reply:
        return await self._set(self._key(key), _present(value), ANY_VERSION)

    async def cas(self, key: str, old: bytes, new: bytes) -> Reply:
        """A plain read, then a write on condition of the version read: two requests, the first without effect."""
        path = self._key(key)
        seen = await self._look(path)
        if seen is None:
            raise Definite("no-node", "at the read")
        if seen.value != old:
            raise Definite("cas-mismatch", "at the read")
        return await self._set(path, _present(new), seen.version, {BAD_VERSION: "cas-mismatch"})

    async def create(self, key: str, value: bytes) -> Reply:
        """Fill the prepared, empty znode on condition of its version, or make it where there is none."""
        path = self._key(key)
        seen = await self._look(path)
        if seen is None:
            return await self._make(path, _present(value))
        if seen.value is not None:
            raise Definite("exists", "at the read")
        return await self._set(path, _present(value), seen.version, {BAD_VERSION: "exists"})

    async def write_if(self, key: str, value: bytes, value_position: int | None, version: int | None) -> Reply:
        """`version` decides alone (it changes with every write); None means that there was no znode."""
        path = self._key(key)
        if version is None:
            return await self._make(path, _present(value), {NODE_EXISTS: "cas-mismatch"})
        return await self._set(path, _present(value), version, {BAD_VERSION: "cas-mismatch", NO_NODE: "cas-mismatch"})

    async def add(self, name: str, element: int) -> Reply:
        return await self._make(wire.text(f"{ROOT}/{name}/{element}"), b"")

    # Locks

    async def renew(self) -> Reply:
        """One ping of the lock session; whether it is over is known when the server closed its connection."""
        lease = self._lease
        if lease is None or lease.connection.ended is not None:
            raise Definite("lease-expired", lease.connection.ended or "" if lease else "never granted")
        try:
            return _stamped(await lease.connection.ping())
        except ServerError as error:
            raise_outcome(error, {SESSION_EXPIRED: "lease-expired"})

    async def acquire(self, name: str) -> Held:
        lock, holder = _lock_paths(name)
        grant = [
            (Op.SET_DATA, wire.set_record(lock, b"", ANY_VERSION)),
            (Op.CREATE, wire.create_record(holder, b"", EPHEMERAL)),
        ]
        lease = await self._live_lease()
        words = {NODE_EXISTS: "held"}
        try:
            zxid, results = await lease.call_multi(grant)
        except ServerError as error:
            if error.code != NO_NODE:
                raise_outcome(error, words)
            await lease.make_if_absent(f"{LOCKS}/{name}")
            try:
                zxid, results = await lease.call_multi(grant)
            except ServerError as again:
                raise_outcome(again, words)
        stat = results[0].stat
        assert stat is not None
        return Held(token=stat.mzxid, handle=str(stat.version), epoch=zxid >> 32, position=zxid)

    async def _live_lease(self) -> ZooKeeperSession:
        if self.session.connection.ended is not None:
            raise raised(NOT_SENT, self.session.connection.ended)
        if self._lease is None or self._lease.connection.ended is not None:
            self._lease = await self._open_lease()
        return self._lease

    async def release(self, name: str, held: Held) -> Reply:
        """Raises `Definite("not-held")` when the grant had ended before."""
        lock, holder = _lock_paths(name)
        operations = [
            (Op.CHECK, wire.version_record(lock, int(held.handle))),
            (Op.DELETE, wire.version_record(holder, ANY_VERSION)),
        ]
        try:
            zxid, _ = await self.session.call_multi(operations)
        except ServerError as error:
            raise_outcome(error, {BAD_VERSION: "not-held", NO_NODE: "not-held"})
        return _stamped(zxid)

    async def guarded_write(self, key: str, value: bytes, name: str, held: Held) -> Reply:
        record = wire.set_record(self._key(key), _present(value), ANY_VERSION)
        zxid, result = await self._guarded(Op.SET_DATA, record, name, held)
        return _written(zxid, result.stat)

    async def _guarded(self, op: Op, record: bytes, name: str, held: Held) -> tuple[int, MultiResult]:
        """One operation in a multi that also checks the grant."""
        lock, holder = _lock_paths(name)
        operations = [
            (Op.CHECK, wire.version_record(lock, int(held.handle))),
            (Op.CHECK, wire.version_record(holder, ANY_VERSION)),
            (op, record),
        ]
        try:
            zxid, results = await self.session.call_multi(operations)
        except MultiError as error:
            fenced = error.at < 2 and error.code in (BAD_VERSION, NO_NODE)
            raise_outcome(error, {error.code: "fenced"} if fenced else {})
        except ServerError as error:
            raise_outcome(error)
        return zxid, results[2]

    # Elections

    async def leader(self, name: str, mode: ReadMode) -> Leading:
        try:
            return await self._read(Op.GET_CHILDREN, wire.text(f"{LOCKS}/{name}"), mode, _leading)
        except Definite as refused:
            if refused.code == "no-node":
                return Leading(None)  # before the first grant
            raise

    async def act(self, trail: str, deed: str, name: str, held: Held, *, guarded: bool) -> Reply:
        record = wire.create_record(wire.text(f"{ROOT}/{trail}/{deed}{_NUMBERED}"), b"", SEQUENTIAL)
        if not guarded:
            return await self.session.ask(Op.CREATE_WITH_STAT, record, _make_reply)
        zxid, _ = await self._guarded(Op.CREATE, record, name, held)
        return Reply(position=zxid, value_position=zxid, epoch=zxid >> 32)

    async def deeds(self, trail: str, mode: ReadMode) -> Deeds:
        return await self._read(Op.GET_CHILDREN, self._key(trail), mode, _deeds)

    # Leases

    async def grant(self, ttl_ms: int) -> Granted:
        return await self._leases.grant(ttl_ms)

    async def keep_alive(self, handle: str) -> Granted:
        return await self._leases.keep_alive(handle)

    async def attach(self, name: str, element: int, handle: str) -> Reply:
        return await self._leases.attach(f"{ROOT}/{name}/{element}", handle)

    async def revoke(self, handle: str) -> Reply:
        return await self._leases.revoke(handle)

    def watching(self, mode: WatchMode, keys: tuple[str, ...], now_ns: Callable[[], int]) -> ZooKeeperWatches:
        """`harness.coordination.Watchable`."""
        return ZooKeeperWatches(self, ROOT, mode, keys, now_ns)

    async def prepare(self, keys: Sequence[str]) -> None:
        """Make the roots and the keys' empty znodes, those that are not there yet, in few round trips."""
        for path in (ROOT, LOCKS, BARRIER):
            await self.session.make_if_absent(path)
        there = set((await self.session.children(ROOT))[0])
        absent = [key for key in keys if key not in there]
        for start in range(0, len(absent), _PREPARE_CHUNK):
            chunk = absent[start : start + _PREPARE_CHUNK]
            await self.session.multi(
                [(Op.CREATE, wire.create_record(self._key(key), b"", PERSISTENT)) for key in chunk]
            )

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
                case ReadMode.STRONG:
                    raise ValueError("ZooKeeper has no strong read; its modes are plain, sync and barrier")
                case _:
                    assert_never(mode)
        except ServerError as error:
            raise_outcome(error)

    async def _look(self, path: bytes) -> Reply | None:
        """The read that a conditional write begins with; None for no znode. When it is lost, nothing was written."""
        try:
            return await self.session.call(Op.GET_DATA, wire.path_and_watch(path, False), _value_reply)
        except ServerError as error:
            if error.code == NO_NODE:
                return None
            raise NotSent(error.outcome().code, "at the read") from None
        except Indefinite as error:
            raise NotSent(error.code, "at the read") from None

    async def _set(
        self, path: bytes, value: bytes, version: int | None, words: Mapping[int, str] | None = None
    ) -> Reply:
        assert version is not None
        return await self.session.ask(Op.SET_DATA, wire.set_record(path, value, version), _set_reply, words)

    async def _make(self, path: bytes, value: bytes, words: Mapping[int, str] | None = None) -> Reply:
        record = wire.create_record(path, value, PERSISTENT)
        return await self.session.ask(Op.CREATE_WITH_STAT, record, _make_reply, words)


def _present(value: bytes) -> bytes:
    if not value:
        raise ValueError("an empty value stands for an absent key and cannot be written")
    return value


def _lock_paths(name: str) -> tuple[bytes, bytes]:
    return wire.text(f"{LOCKS}/{name}"), wire.text(f"{LOCKS}/{name}/{_HOLDER}")


# Replies. Each takes (body, zxid of the header).


def _stamped(zxid: int) -> Reply:
    return Reply(position=zxid, epoch=zxid >> 32)


def _written(zxid: int, stat: Stat | None) -> Reply:
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


def _make_reply(body: bytes, zxid: int) -> Reply:
    return _written(zxid, made(body, zxid)[1])


def _members(body: bytes, zxid: int) -> Members:
    names, _ = wire.read_children(body, HEADER_BYTES)
    return Members(tuple(sorted(int(name) for name in names)), zxid, zxid >> 32)


def _leading(body: bytes, zxid: int) -> Leading:
    names, stat = wire.read_children(body, HEADER_BYTES)
    return Leading(stat.mzxid if _HOLDER in names else None, position=zxid, epoch=zxid >> 32)


def _deeds(body: bytes, zxid: int) -> Deeds:
    names, _ = wire.read_children(body, HEADER_BYTES)
    numbered = sorted((int(number), deed) for deed, _, number in (name.rpartition(_NUMBERED) for name in names))
    return Deeds(tuple(deed for _, deed in numbered), position=zxid, epoch=zxid >> 32)
