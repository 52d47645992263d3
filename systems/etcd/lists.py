"""Transactions on several lists on etcd: a list is a key whose value has its numbers, with spaces between them.

etcd has no append. So a transaction is two requests: one reads all its lists at one revision, the other one compares
that none of them has changed and writes. Where one has changed the transaction is aborted, and is not tried again.
"""

from collections.abc import Sequence
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite, Lists, NotSent
from fencepost.systems.etcd.storage import EtcdSession
from fencepost.systems.etcd.wire import errors
from fencepost.systems.etcd.wire import rpc_pb2 as rpc

_ROOT: Final = b"lists/"


class EtcdLists(EtcdSession):
    """`harness.coordination.ListTransactions` on etcd."""

    async def transact(self, reads: Sequence[str], appends: Sequence[tuple[str, int]]) -> Lists:
        keys = list(dict.fromkeys([*reads, *(key for key, _ in appends)]))
        ranges = [rpc.RequestOp(request_range=rpc.RangeRequest(key=_ROOT + key.encode())) for key in keys]
        try:
            seen = await self._txn(rpc.TxnRequest(success=ranges))
        except NotSent:
            raise
        except (Definite, Indefinite) as error:
            raise Definite(error.code, "at the reads, before anything was written") from None
        pairs = [next(iter(one.response_range.kvs), None) for one in seen.responses]
        revisions = {key: pair.mod_revision if pair else 0 for key, pair in zip(keys, pairs, strict=True)}
        lists = {key: _numbers(pair.value) if pair else () for key, pair in zip(keys, pairs, strict=True)}
        answer = Lists(tuple(lists[key] for key in reads), seen.header.revision, seen.header.raft_term)
        if not appends:
            return answer
        for key, number in appends:
            lists[key] = (*lists[key], number)
        puts = [(_ROOT + key.encode(), " ".join(map(str, lists[key])).encode()) for key in dict(appends)]
        done = await self._txn(
            rpc.TxnRequest(
                compare=[_unchanged(_ROOT + key.encode(), revision) for key, revision in revisions.items()],
                success=[rpc.RequestOp(request_put=rpc.PutRequest(key=key, value=value)) for key, value in puts],
            )
        )
        if not done.succeeded:
            raise Definite(errors.CAS_MISMATCH, "a list has changed since it was read")
        return Lists(answer.lists, done.header.revision, done.header.raft_term)


def _unchanged(key: bytes, revision: int) -> "rpc.Compare":
    return rpc.Compare(result=rpc.Compare.EQUAL, target=rpc.Compare.MOD, key=key, mod_revision=revision)


def _numbers(value: bytes) -> tuple[int, ...]:
    return tuple(map(int, value.split()))
