"""KIP-273 on etcd, recipe `flat-keys/1`: a path is a key, a session is a lease, requests are calls on one channel.

Requests are sent one after the other without waiting, as ZooKeeper's client pipelines them; etcd serves them as it
likes. Nothing ties a child to its parent, and nothing asks whether the lease still lives when no key is bound to it:
that is what flat keys are, and what KIP-273 proposed to build on.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from fencepost.harness.coordination import Definite
from fencepost.harness.coordination.kip_273 import (
    AnswerListener,
    BaseMetastore,
    Create,
    Delete,
    GetData,
    MetastoreChange,
    MetastoreRefusal,
    MetastoreResponse,
    Request,
    SetData,
)
from fencepost.systems.etcd.groups import EtcdGroups
from fencepost.systems.etcd.wire import rpc_pb2 as rpc
from fencepost.systems.etcd.wire.grpc_call import LiveCall, unary
from fencepost.systems.etcd.wire.http2 import Http2Connection

#: Keys are paths below it.
ROOT: Final = b"metastore"


class EtcdMetastore(BaseMetastore):
    """`harness.coordination.kip_273.Metastore` on one connection; `lease` 0: a session without ephemerals.

    It never calls a handler of state changes: nothing tells a client that its lease has ended.
    """

    def __init__(self, connection: Http2Connection, lease: int = 0) -> None:
        super().__init__()
        self._connection = connection
        self._lease = lease
        self._range = unary(connection, "KV/Range", rpc.RangeResponse)
        self._delete = unary(connection, "KV/DeleteRange", rpc.DeleteRangeResponse)
        self._txn = unary(connection, "KV/Txn", rpc.TxnResponse)
        self._watches: dict[str, LiveCall] = {}

    @property
    def session_id(self) -> str:
        return f"{self._lease:x}"

    def unregister_path_change_handler(self, path: str) -> None:
        super().unregister_path_change_handler(path)
        watch = self._watches.pop(path, None)
        if watch is not None:
            watch.close()

    async def handle_requests(
        self, requests: Sequence[Request], listener: AnswerListener | None = None
    ) -> tuple[MetastoreResponse, ...]:
        async def noted(place: int, request: Request) -> MetastoreResponse:
            response = await self._handle(request)
            if listener is not None:
                listener(place, response)
            return response

        return tuple(await asyncio.gather(*(noted(place, request) for place, request in enumerate(requests))))

    async def close(self) -> None:
        for path in list(self._watches):
            self.unregister_path_change_handler(path)

    async def _handle(self, request: Request) -> MetastoreResponse:
        key = ROOT + request.path.encode()
        match request:
            case Create():
                put = rpc.PutRequest(key=key, value=request.data, lease=self._lease if request.ephemeral else 0)
                return await self._put(put, rpc.Compare.EQUAL, MetastoreRefusal.NODE_EXISTS)
            case SetData():
                return await self._put(
                    rpc.PutRequest(key=key, value=request.data), rpc.Compare.GREATER, MetastoreRefusal.NO_NODE
                )
            case Delete():
                answer = await self._delete(rpc.DeleteRangeRequest(key=key))
                return MetastoreResponse(
                    refusal=None if answer.deleted else MetastoreRefusal.NO_NODE, position=answer.header.revision
                )
            case GetData():
                return await self._get(request.path, key)

    async def _put(
        self, put: "rpc.PutRequest", result: "rpc.Compare.CompareResult", otherwise: MetastoreRefusal
    ) -> MetastoreResponse:
        """Write if the key's create revision is 0 (absent), or above it."""
        compare = rpc.Compare(result=result, target=rpc.Compare.CREATE, key=put.key, create_revision=0)
        try:
            answer = await self._txn(rpc.TxnRequest(compare=(compare,), success=(rpc.RequestOp(request_put=put),)))
        except Definite as refused:
            if refused.code == "not-found":
                return MetastoreResponse(refusal=MetastoreRefusal.SESSION_EXPIRED)
            raise
        return MetastoreResponse(refusal=None if answer.succeeded else otherwise, position=answer.header.revision)

    async def _get(self, path: str, key: bytes) -> MetastoreResponse:
        answer = await self._range(rpc.RangeRequest(key=key))
        if path in self._handlers and path not in self._watches:
            create = rpc.WatchCreateRequest(key=key, start_revision=answer.header.revision + 1)
            request = rpc.WatchRequest(create_request=create)
            self._watches[path] = LiveCall(
                self._connection, "Watch/Watch", request, rpc.WatchResponse, lambda news: self._tell(path, news)
            )
        if not answer.kvs:
            return MetastoreResponse(refusal=MetastoreRefusal.NO_NODE, position=answer.header.revision)
        pair = answer.kvs[0]
        return MetastoreResponse(data=pair.value, version=pair.version - 1, position=pair.mod_revision)

    def _tell(self, path: str, answer: "rpc.WatchResponse") -> None:
        handler = self._handlers.get(path)
        if handler is None:
            return
        for event in answer.events:
            handler(MetastoreChange(path, event.kv.mod_revision))


class EtcdMetastores(EtcdGroups):
    """`harness.coordination.kip_273.Metastores` on etcd."""

    async def metastore(self, ttl_ms: int | None) -> EtcdMetastore:
        if ttl_ms is None:
            return EtcdMetastore(self._connection)
        return EtcdMetastore(self._connection, int((await self.grant(ttl_ms)).handle, 16))
