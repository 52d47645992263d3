"""The etcd client: one connection to one node, one request for each call, outcomes by the table of `wire/errors.py`.

Nothing retries, reconnects or queues. A request is sent only while the connection is open (otherwise it was certainly
not sent), and gets one answer or none. There are no time-outs here: the caller cancels a call at its own deadline,
which resets the stream and leaves the outcome unknown.

Stamps: `position` is the header's revision, `value_position` the key's mod_revision, `epoch` the header's raft term as
the answering node knew it (that of the last entry it applied: a lower bound).
"""

from collections.abc import Callable
from typing import Any, Final

from fencepost.harness.coordination import Definite, Members, ReadMode, Reply, WatchMode
from fencepost.systems.etcd.options import EtcdOptions
from fencepost.systems.etcd.watches import EtcdWatches
from fencepost.systems.etcd.wire import errors
from fencepost.systems.etcd.wire import rpc_pb2 as rpc
from fencepost.systems.etcd.wire.grpc_call import unary
from fencepost.systems.etcd.wire.http2 import Http2Connection

#: What is part of a whole lies below its name; "0" is the byte after "/", so [name/, name0) holds all of it.
_SEPARATOR: Final = b"/"
_AFTER_SEPARATOR: Final = b"0"

_EQUAL: Final = rpc.Compare.EQUAL
_GREATER: Final = rpc.Compare.GREATER
_CREATE: Final = rpc.Compare.CREATE
_MOD: Final = rpc.Compare.MOD
_VALUE: Final = rpc.Compare.VALUE


class EtcdSession:
    """The connection, and the requests that several interfaces use."""

    def __init__(self, connection: Http2Connection, options: EtcdOptions) -> None:
        self._connection = connection
        self._options = options
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

    async def _transact(self, compare: "rpc.Compare", success: "rpc.RequestOp", otherwise: str) -> Reply:
        """Compare and, if the comparison holds, write; raises `Definite(otherwise)` if it does not."""
        answer = await self._txn(rpc.TxnRequest(compare=(compare,), success=(success,)))
        if not answer.succeeded:
            raise Definite(otherwise)
        return written(answer.header)


class EtcdStorage(EtcdSession):
    """`harness.coordination.KeyValue` and `Watchable` on etcd."""

    def watching(self, mode: WatchMode, keys: tuple[str, ...], now_ns: Callable[[], int]) -> EtcdWatches:
        """There is one mode, and the watch covers all keys below one prefix."""
        return EtcdWatches(self._connection, now_ns)

    async def read(self, key: str, mode: ReadMode) -> Reply:
        """`STRONG` is etcd's default, a linearizable read. `PLAIN` is serializable: this node's copy, of any age."""
        answer = await self._range(rpc.RangeRequest(key=key.encode(), serializable=serializable(mode)))
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
        return written(answer.header)

    async def cas(self, key: str, old: bytes, new: bytes) -> Reply:
        name = key.encode()
        compare = rpc.Compare(result=_EQUAL, target=_VALUE, key=name, value=old)
        return await self._transact(compare, put_op(name, new), errors.CAS_MISMATCH)

    async def update(self, key: str, value: bytes) -> Reply:
        """`harness.coordination.storage.UpdatesKeys`."""
        name = key.encode()
        present = rpc.Compare(result=_GREATER, target=_CREATE, key=name, create_revision=0)
        return await self._transact(present, put_op(name, value), errors.ABSENT)

    async def create(self, key: str, value: bytes) -> Reply:
        name = key.encode()
        return await self._transact(absent(name), put_op(name, value), errors.EXISTS)

    async def write_if(self, key: str, value: bytes, value_position: int | None, version: int | None) -> Reply:
        """Compare mod_revision, which no two writes share (`version` restarts after a deletion, so it is not used)."""
        name = key.encode()
        compare = rpc.Compare(result=_EQUAL, target=_MOD, key=name, mod_revision=value_position or 0)
        return await self._transact(compare, put_op(name, value), errors.CAS_MISMATCH)

    async def add(self, name: str, element: int) -> Reply:
        key = below(name) + str(element).encode()
        return await self._transact(absent(key), put_op(key, b""), errors.EXISTS)

    async def members(self, name: str, mode: ReadMode) -> Members:
        prefix = below(name)
        answer = await self._range(
            rpc.RangeRequest(
                **below_all(name),
                serializable=serializable(mode),
                keys_only=True,
            )
        )
        elements = sorted(int(pair.key[len(prefix) :]) for pair in answer.kvs)
        return Members(tuple(elements), position=answer.header.revision, epoch=answer.header.raft_term)


def serializable(mode: ReadMode) -> bool:
    match mode:
        case ReadMode.STRONG:
            return False
        case ReadMode.PLAIN:
            return True
        case _:
            raise ValueError(f"etcd has no reads of mode {mode.value!r}; it has strong and plain ones")


def written(header: "rpc.ResponseHeader") -> Reply:
    return Reply(position=header.revision, value_position=header.revision, epoch=header.raft_term)


def below(name: str) -> bytes:
    return name.encode() + _SEPARATOR


def below_all(name: str) -> dict[str, Any]:
    """The range of everything below this name."""
    return {"key": below(name), "range_end": name.encode() + _AFTER_SEPARATOR}


def put_op(key: bytes, value: bytes) -> "rpc.RequestOp":
    return rpc.RequestOp(request_put=rpc.PutRequest(key=key, value=value))


def absent(key: bytes) -> "rpc.Compare":
    return created_at(key, 0)


def created_at(key: bytes, revision: int) -> "rpc.Compare":
    return rpc.Compare(result=_EQUAL, target=_CREATE, key=key, create_revision=revision)
