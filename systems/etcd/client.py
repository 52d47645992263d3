"""The etcd client: one connection to one node, one request for each call, outcomes by the table of `wire/errors.py`.

Nothing retries, reconnects or queues. A request is sent only while the connection is open (otherwise it was certainly
not sent), and gets one answer or none. There are no time-outs here: the caller cancels a call at its own deadline,
which resets the stream and leaves the outcome unknown.

Stamps: `position` is the header's revision, `value_position` the key's mod_revision, `epoch` the header's raft term as
the answering node knew it (that of the last entry it applied: a lower bound).
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

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
from fencepost.systems.etcd.groups import EtcdGroups
from fencepost.systems.etcd.lists import EtcdLists
from fencepost.systems.etcd.metastore import EtcdMetastore
from fencepost.systems.etcd.watches import EtcdWatches
from fencepost.systems.etcd.wire import errors
from fencepost.systems.etcd.wire import rpc_pb2 as rpc
from fencepost.systems.etcd.wire.grpc_call import unary
from fencepost.systems.etcd.wire.http2 import Connection

#: Elements of a set live below its name; "0" is the byte after "/", so [name/, name0) holds them all.
_SEPARATOR: Final = b"/"
_AFTER_SEPARATOR: Final = b"0"

_EQUAL: Final = rpc.Compare.EQUAL
_GREATER: Final = rpc.Compare.GREATER
_CREATE: Final = rpc.Compare.CREATE
_MOD: Final = rpc.Compare.MOD
_VALUE: Final = rpc.Compare.VALUE


class EtcdClient(EtcdGroups, EtcdLists):
    """`harness.coordination.Elections` on etcd, with groups and transactions on lists."""

    def __init__(self, connection: Connection, *, lock_ttl_s: int) -> None:
        EtcdGroups.__init__(self, connection)
        EtcdLists.__init__(self, connection)
        self._connection = connection
        self._lock_ttl_s = lock_ttl_s
        self._lease: int | None = None
        self._range = unary(connection, "KV/Range", rpc.RangeResponse)
        self._put = unary(connection, "KV/Put", rpc.PutResponse)
        self._txn = unary(connection, "KV/Txn", rpc.TxnResponse)
        self._grant = unary(connection, "Lease/LeaseGrant", rpc.LeaseGrantResponse)
        self._revoke = unary(connection, "Lease/LeaseRevoke", rpc.LeaseRevokeResponse)
        self._keep_alive = unary(connection, "Lease/LeaseKeepAlive", rpc.LeaseKeepAliveResponse)

    @property
    def session_id(self) -> int | None:
        """etcd has no sessions: a lease is not bound to a connection."""
        return None

    async def close(self) -> None:
        self._connection.close()

    def watching(self, mode: WatchMode, keys: tuple[str, ...], now_ns: Callable[[], int]) -> EtcdWatches:
        """See `harness.coordination.Watchable`. There is one mode, and the watch covers all keys below one prefix."""
        return EtcdWatches(self._connection, now_ns)

    async def _transact(self, compare: "rpc.Compare", success: "rpc.RequestOp", otherwise: str) -> Reply:
        """Compare and, if the comparison holds, write; raises `Definite(otherwise)` if it does not."""
        answer = await self._txn(rpc.TxnRequest(compare=(compare,), success=(success,)))
        if not answer.succeeded:
            raise Definite(otherwise)
        return _written(answer.header)

    # Key-value storage.

    async def read(self, key: str, mode: ReadMode) -> Reply:
        """`STRONG` is etcd's default, a linearizable read. `PLAIN` is serializable: this node's copy, of any age."""
        answer = await self._range(rpc.RangeRequest(key=key.encode(), serializable=_serializable(mode)))
        header = answer.header
        if not answer.kvs:
            return Reply(position=header.revision, epoch=header.raft_term)
        pair = answer.kvs[0]
        return Reply(
            value=pair.value,
            position=header.revision,
            value_position=pair.mod_revision,
            epoch=header.raft_term,
            version=pair.version,
        )

    async def write(self, key: str, value: bytes) -> Reply:
        answer = await self._put(rpc.PutRequest(key=key.encode(), value=value))
        return _written(answer.header)

    async def cas(self, key: str, old: bytes, new: bytes) -> Reply:
        name = key.encode()
        compare = rpc.Compare(result=_EQUAL, target=_VALUE, key=name, value=old)
        return await self._transact(compare, _put(name, new), errors.CAS_MISMATCH)

    async def update(self, key: str, value: bytes) -> Reply:
        """`harness.coordination.storage.UpdatesKeys`."""
        name = key.encode()
        present = rpc.Compare(result=_GREATER, target=_CREATE, key=name, create_revision=0)
        return await self._transact(present, _put(name, value), errors.ABSENT)

    async def create(self, key: str, value: bytes) -> Reply:
        name = key.encode()
        return await self._transact(_absent(name), _put(name, value), errors.EXISTS)

    async def write_if(self, key: str, value: bytes, value_position: int | None, version: int | None) -> Reply:
        """Compare mod_revision, which no two writes share (`version` restarts after a deletion, so it is not used)."""
        name = key.encode()
        compare = rpc.Compare(result=_EQUAL, target=_MOD, key=name, mod_revision=value_position or 0)
        return await self._transact(compare, _put(name, value), errors.CAS_MISMATCH)

    async def add(self, name: str, element: int) -> Reply:
        key = name.encode() + _SEPARATOR + str(element).encode()
        return await self._transact(_absent(key), _put(key, b""), errors.EXISTS)

    async def members(self, name: str, mode: ReadMode) -> Members:
        prefix = name.encode() + _SEPARATOR
        answer = await self._range(
            rpc.RangeRequest(
                key=prefix,
                range_end=name.encode() + _AFTER_SEPARATOR,
                serializable=_serializable(mode),
                keys_only=True,
            )
        )
        elements = sorted(int(pair.key[len(prefix) :]) for pair in answer.kvs)
        return Members(tuple(elements), position=answer.header.revision, epoch=answer.header.raft_term)

    # Leases. They belong to no connection, so whoever knows the number may ask any member.

    async def grant(self, ttl_ms: int) -> Granted:
        """Request whole seconds, as etcd counts them; the answer says what was granted."""
        answer = await self._grant(rpc.LeaseGrantRequest(TTL=-(-ttl_ms // 1000)))
        return Granted(f"{answer.ID:x}", answer.TTL * 1000, answer.header.revision, answer.header.raft_term)

    async def keep_alive(self, handle: str) -> Granted:
        answer = await self._keep_alive(rpc.LeaseKeepAliveRequest(ID=int(handle, 16)))
        if answer.TTL <= 0:
            raise Definite(errors.LEASE_EXPIRED, "the server knows no such lease")
        return Granted(handle, answer.TTL * 1000, answer.header.revision, answer.header.raft_term)

    async def attach(self, name: str, element: int, handle: str) -> Reply:
        key = _below(name) + str(element).encode()
        put = self._put(rpc.PutRequest(key=key, value=handle.encode(), lease=int(handle, 16)))
        return _written((await _unless_expired(put)).header)

    async def revoke(self, handle: str) -> Reply:
        answer = await _unless_expired(self._revoke(rpc.LeaseRevokeRequest(ID=int(handle, 16))))
        return _written(answer.header)

    async def metastore(self, ttl_ms: int | None) -> EtcdMetastore:
        """`harness.coordination.kip_273.Metastores`."""
        if ttl_ms is None:
            return EtcdMetastore(self._connection)
        granted = await self.grant(ttl_ms)
        return EtcdMetastore(self._connection, int(granted.handle, 16))

    # Leader election, by a lock bound to a lease.

    async def acquire(self, name: str) -> Held:
        """Create the lock's key under this client's lease; the token is the key's create revision.

        A separate request before the first lock grants the lease. If the outcome of that request is unknown, the lease
        holds nothing, so the failure is definite. From the transaction on, the table decides.
        """
        lease = self._lease if self._lease is not None else await self._new_lease()
        key = _lock_key(name)
        put = rpc.RequestOp(request_put=rpc.PutRequest(key=key, value=b"%x" % lease, lease=lease))
        try:
            reply = await self._transact(_absent(key), put, errors.HELD)
        except Definite as refused:
            if refused.code == "not-found":
                self._lease = None
                raise Definite(errors.LEASE_EXPIRED, str(refused)) from None
            raise
        assert reply.position is not None
        return Held(token=reply.position, handle=f"{lease:x}", epoch=reply.epoch, position=reply.position)

    async def _new_lease(self) -> int:
        try:
            answer = await self._grant(rpc.LeaseGrantRequest(TTL=self._lock_ttl_s))
        except (Definite, Indefinite) as error:
            if isinstance(error, NotSent):
                raise
            raise Definite(errors.LEASE_NOT_GRANTED, str(error)) from None
        lease = int(answer.ID)
        self._lease = lease
        return lease

    async def renew(self) -> Reply:
        """Keep the lease alive for another time to live, with one request."""
        if self._lease is None:
            raise Definite(errors.LEASE_EXPIRED, "this client holds no lease")
        answer = await self._keep_alive(rpc.LeaseKeepAliveRequest(ID=self._lease))
        if answer.TTL <= 0:
            self._lease = None
            raise Definite(errors.LEASE_EXPIRED, "the server knows no such lease")
        return Reply(position=answer.header.revision, epoch=answer.header.raft_term)

    async def release(self, name: str, held: Held) -> Reply:
        key = _lock_key(name)
        delete = rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key))
        return await self._transact(_created_at(key, held.token), delete, errors.NOT_HELD)

    async def guarded_write(self, key: str, value: bytes, name: str, held: Held) -> Reply:
        compare = _created_at(_lock_key(name), held.token)
        return await self._transact(compare, _put(key.encode(), value), errors.FENCED)

    async def leader(self, name: str, mode: ReadMode) -> Leading:
        answer = await self._range(
            rpc.RangeRequest(key=_lock_key(name), serializable=_serializable(mode), keys_only=True)
        )
        token = answer.kvs[0].create_revision if answer.kvs else None
        return Leading(token, position=answer.header.revision, epoch=answer.header.raft_term)

    async def act(self, trail: str, deed: str, name: str, held: Held, *, guarded: bool) -> Reply:
        """Write one key for each deed, so that nothing is overwritten; its create revision orders the deeds."""
        key = _below(trail) + deed.encode()
        if guarded:
            return await self._transact(_created_at(_lock_key(name), held.token), _put(key, b""), errors.FENCED)
        return await self._transact(_absent(key), _put(key, b""), errors.EXISTS)

    async def deeds(self, trail: str, mode: ReadMode) -> Deeds:
        prefix = _below(trail)
        answer = await self._range(
            rpc.RangeRequest(
                key=prefix,
                range_end=trail.encode() + _AFTER_SEPARATOR,
                serializable=_serializable(mode),
                keys_only=True,
            )
        )
        ordered = sorted(answer.kvs, key=lambda pair: pair.create_revision)
        deeds = tuple(pair.key[len(prefix) :].decode() for pair in ordered)
        return Deeds(deeds, position=answer.header.revision, epoch=answer.header.raft_term)


async def _unless_expired(request: Awaitable[Any]) -> Any:
    """Await the answer; "not found" means that the lease which the request names does not exist."""
    try:
        return await request
    except Definite as refused:
        if refused.code == "not-found":
            raise Definite(errors.LEASE_EXPIRED, str(refused)) from None
        raise


def _serializable(mode: ReadMode) -> bool:
    match mode:
        case ReadMode.STRONG:
            return False
        case ReadMode.PLAIN:
            return True
        case _:
            raise ValueError(f"etcd has no reads of mode {mode.value!r}; it has strong and plain ones")


def _written(header: "rpc.ResponseHeader") -> Reply:
    return Reply(position=header.revision, value_position=header.revision, epoch=header.raft_term)


def _lock_key(name: str) -> bytes:
    return b"lock/" + name.encode()


def _below(name: str) -> bytes:
    return name.encode() + _SEPARATOR


def _put(key: bytes, value: bytes) -> "rpc.RequestOp":
    return rpc.RequestOp(request_put=rpc.PutRequest(key=key, value=value))


def _absent(key: bytes) -> "rpc.Compare":
    return _created_at(key, 0)


def _created_at(key: bytes, revision: int) -> "rpc.Compare":
    return rpc.Compare(result=_EQUAL, target=_CREATE, key=key, create_revision=revision)
