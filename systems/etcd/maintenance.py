"""What an operator asks of a member of etcd while it serves (etcd.io/docs, Maintenance and Runtime reconfiguration)."""

from collections.abc import Mapping
from contextlib import closing
from typing import Final

from fencepost.harness.contract.system import AsksNode
from fencepost.harness.coordination import Definite
from fencepost.harness.runtime.node import Node
from fencepost.systems.etcd.configuration import CLIENT_PORT
from fencepost.systems.etcd.wire import rpc_pb2 as rpc
from fencepost.systems.etcd.wire.grpc_call import connect, unary

_DIAL_S: Final = 2.0
#: So many revisions are kept, so that a watch that was just away can go on.
_KEPT: Final = 50


async def _compact(node: Node) -> str:
    """Forget all but the newest revisions; the answer comes once they are removed from this member's store."""
    with closing(await connect(*node.place.dial(CLIENT_PORT), _DIAL_S)) as connection:
        status = await unary(connection, "Maintenance/Status", rpc.StatusResponse)(rpc.StatusRequest())
        revision = status.header.revision - _KEPT
        if revision < 1:
            raise Definite("nothing-to-compact", f"the store is at revision {status.header.revision}")
        await unary(connection, "KV/Compact", rpc.CompactionResponse)(
            rpc.CompactionRequest(revision=revision, physical=True)
        )
    return f"revisions before {revision} are gone"


async def _defragment(node: Node) -> str:
    """Rewrite this member's database file; it answers nobody meanwhile."""
    with closing(await connect(*node.place.dial(CLIENT_PORT), _DIAL_S)) as connection:
        before = await unary(connection, "Maintenance/Status", rpc.StatusResponse)(rpc.StatusRequest())
        await unary(connection, "Maintenance/Defragment", rpc.DefragmentResponse)(rpc.DefragmentRequest())
        after = await unary(connection, "Maintenance/Status", rpc.StatusResponse)(rpc.StatusRequest())
    return f"{before.dbSize} bytes are {after.dbSize}"


async def _update_member(node: Node) -> str:
    """Set this member's peer URLs to those that it has: a change of the members in the log that changes nothing."""
    with closing(await connect(*node.place.dial(CLIENT_PORT), _DIAL_S)) as connection:
        listed = await unary(connection, "Cluster/MemberList", rpc.MemberListResponse)(
            rpc.MemberListRequest(linearizable=False)
        )
        own = next((member for member in listed.members if listed.header.member_id == member.ID), None)
        if own is None:
            raise Definite("no-such-member", f"{node.name} does not list itself")
        await unary(connection, "Cluster/MemberUpdate", rpc.MemberUpdateResponse)(
            rpc.MemberUpdateRequest(ID=own.ID, peerURLs=own.peerURLs)
        )
    return f"member {own.ID:x} is at {', '.join(own.peerURLs)}"


async def _range_at_old_revision(node: Node) -> str:
    """Read all keys as they were, in a transaction that writes: every member applies it, and may have compacted."""
    with closing(await connect(*node.place.dial(CLIENT_PORT), _DIAL_S)) as connection:
        status = await unary(connection, "Maintenance/Status", rpc.StatusResponse)(rpc.StatusRequest())
        old = max(1, status.header.revision - 2 * _KEPT)
        everything = rpc.RangeRequest(key=b"\0", range_end=b"\0", revision=old, keys_only=True)
        operations = [
            rpc.RequestOp(request_range=everything),
            # Nobody writes this key, so that no revision is made.
            rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=b"fencepost/nothing")),
        ]
        try:
            answer = await unary(connection, "KV/Txn", rpc.TxnResponse)(rpc.TxnRequest(success=operations))
        except Definite as refused:
            if "compacted" not in str(refused):
                raise
            return f"revision {old} is compacted"
    return f"{len(answer.responses[0].response_range.kvs)} keys at revision {old}"


REQUESTS: Final[Mapping[str, AsksNode]] = {
    "compact": _compact,
    "defragment": _defragment,
    "range-at-old-revision": _range_at_old_revision,
    "update-member": _update_member,
}
