"""Locks and elections on one ZooKeeper server.

A lock is `/fencepost-locks/<name>` with the ephemeral child `holder`.

**Locks and leases.** The lock's ephemeral belongs to a second session, which the first `acquire` opens and only `renew`
keeps alive, like a lease. The first session carries the data and outlives a holder that stalls. With one session for
both, ZooKeeper would fence by itself, since a server refuses everything that an expired session sends. A resource that
does not know the lock would not do that; an unfenced `write` under a lock stands for such a resource. When the lock
session has ended, the next `acquire` opens another: a new lease, as on etcd.

**Fencing.** A multi can check only versions, and every new ephemeral has version 0. So the lock's own znode counts the
grants. `acquire` is multi[set lock, create holder], all or nothing; version v of the set belongs to this grant alone,
and its mzxid, which grows with every grant, is the token. `guarded_write` is multi[check lock at v, check that holder
exists, set key]. Version v shows that nobody got the lock since; the holder shows that this grant was not released and
has not expired. Both checks and the write happen at one point of ZooKeeper's order of writes, so a write of a holder
that lost the lock is refused however long it was delayed.

**Elections.** The term is the lock's token. One getChildren2 of the lock shows who leads: its stat has the mzxid, and
its children show whether the holder still exists. A deed is a sequential child of the trail's znode. The number that
ZooKeeper appends to its name is the trail's child version at that transaction, so the names alone give the order.
"""

from collections.abc import Mapping
from typing import Final

from fencepost.harness.coordination import (
    Deeds,
    Definite,
    Held,
    Interface,
    Leading,
    ReadMode,
    Reply,
)
from fencepost.systems.zookeeper.groups import ZooKeeperGroups
from fencepost.systems.zookeeper.metastore import ZooKeeperMetastores
from fencepost.systems.zookeeper.storage import (
    LOCKS,
    ROOT,
    ZooKeeperStorage,
    make_reply,
    present,
    stamped,
    written,
)
from fencepost.systems.zookeeper.watches import WatchedStorage
from fencepost.systems.zookeeper.wire import jute as wire
from fencepost.systems.zookeeper.wire.errors import (
    BAD_VERSION,
    NO_NODE,
    NODE_EXISTS,
    NOT_SENT,
    SESSION_EXPIRED,
    ZooKeeperError,
)
from fencepost.systems.zookeeper.wire.jute import HEADER_BYTES, MultiResult, Op
from fencepost.systems.zookeeper.wire.session import (
    ANY_VERSION,
    EPHEMERAL,
    SEQUENTIAL,
    MultiError,
    ZooKeeperSession,
    raise_outcome,
)

#: Stands between a deed and the number that ZooKeeper gives it.
_NUMBERED: Final = "."
_HOLDER: Final = "holder"


class ZooKeeperLocks(ZooKeeperStorage):
    """`harness.coordination.Locks` and `Elections` by two sessions on one server: one for data, one for locks."""

    _lease: ZooKeeperSession | None = None

    @property
    def session_timeout_ms(self) -> int:
        """The session's time-out, as the server granted it."""
        return self.session.connection.timeout_ms

    async def close(self) -> None:
        await super().close()
        if self._lease is not None:
            self._lease.close()

    # Locks

    async def renew(self) -> Reply:
        """Ping the lock session; that it has expired shows when the server has closed its connection."""
        lease = self._lease
        if lease is None or lease.connection.ended is not None:
            raise Definite("lease-expired", lease.connection.ended or "" if lease else "never granted")
        try:
            return stamped(await lease.connection.ping())
        except ZooKeeperError as error:
            raise_outcome(error, {SESSION_EXPIRED: "lease-expired"})

    async def acquire(self, name: str) -> Held:
        lock, holder = _lock_paths(name)
        grant = [
            (Op.SET_DATA, wire.set_record(lock, b"", ANY_VERSION)),
            (Op.CREATE, wire.create_record(holder, b"", EPHEMERAL)),
        ]
        lease = await self._live_lease()
        expected = {NODE_EXISTS: "held"}
        try:
            zxid, results = await lease.call_multi(grant)
        except ZooKeeperError as error:
            if error.code != NO_NODE:
                raise_outcome(error, expected)
            await lease.make_if_absent(f"{LOCKS}/{name}")
            try:
                zxid, results = await lease.call_multi(grant)
            except ZooKeeperError as again:
                raise_outcome(again, expected)
        stat = results[0].stat
        assert stat is not None
        return Held(token=stat.mzxid, handle=str(stat.version), epoch=zxid >> 32, position=zxid)

    async def _live_lease(self) -> ZooKeeperSession:
        if self.session.connection.ended is not None:
            raise NOT_SENT.outcome(self.session.connection.ended)
        if self._lease is None or self._lease.connection.ended is not None:
            self._lease = await self._leases.open(self.session_timeout_ms)
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
        except ZooKeeperError as error:
            raise_outcome(error, {BAD_VERSION: "not-held", NO_NODE: "not-held"})
        return stamped(zxid)

    async def guarded_write(self, key: str, value: bytes, name: str, held: Held) -> Reply:
        record = wire.set_record(self._key(key), present(value), ANY_VERSION)
        zxid, result = await self._guarded(Op.SET_DATA, record, name, held)
        return written(zxid, result.stat)

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
        except ZooKeeperError as error:
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
            return await self.session.ask(Op.CREATE_WITH_STAT, record, make_reply)
        zxid, _ = await self._guarded(Op.CREATE, record, name, held)
        return Reply(position=zxid, value_position=zxid, epoch=zxid >> 32)

    async def deeds(self, trail: str, mode: ReadMode) -> Deeds:
        return await self._read(Op.GET_CHILDREN, self._key(trail), mode, _deeds)


def _lock_paths(name: str) -> tuple[bytes, bytes]:
    return wire.text(f"{LOCKS}/{name}"), wire.text(f"{LOCKS}/{name}/{_HOLDER}")


# Replies. Each takes (body, zxid of the header).


def _leading(body: bytes, zxid: int) -> Leading:
    names, stat = wire.read_children(body, HEADER_BYTES)
    return Leading(stat.mzxid if _HOLDER in names else None, position=zxid, epoch=zxid >> 32)


def _deeds(body: bytes, zxid: int) -> Deeds:
    names, _ = wire.read_children(body, HEADER_BYTES)
    numbered = sorted((int(number), deed) for deed, _, number in (name.rpartition(_NUMBERED) for name in names))
    return Deeds(tuple(deed for _, deed in numbered), position=zxid, epoch=zxid >> 32)


SESSIONS: Final[Mapping[str, type[ZooKeeperStorage]]] = {
    Interface.STORAGE: ZooKeeperStorage,
    Interface.LISTENERS: WatchedStorage,
    Interface.LOCKS: ZooKeeperLocks,
    Interface.ELECTION: ZooKeeperLocks,
    Interface.LEASES: ZooKeeperGroups,
    Interface.MEMBERSHIP: ZooKeeperGroups,
    Interface.METASTORE: ZooKeeperMetastores,
}
