"""What one member of etcd holds by its own answer: all keys by a serializable read, and its applied index of raft."""

from fencepost.harness.contract.system import ReplicaState
from fencepost.harness.runtime.node import Place
from fencepost.systems.etcd.configuration import CLIENT_PORT
from fencepost.systems.etcd.wire import rpc_pb2 as rpc
from fencepost.systems.etcd.wire.grpc_call import connect, unary

_DIAL_S = 2.0
#: From the first key to the last one.
_FIRST = b"\0"


async def read(place: Place) -> list[ReplicaState]:
    """Read the member's store; raises Definite or Indefinite. The caller bounds the wait."""
    connection = await connect(*place.dial(CLIENT_PORT), _DIAL_S)
    try:
        answer = await unary(connection, "KV/Range", rpc.RangeResponse)(
            rpc.RangeRequest(key=_FIRST, range_end=_FIRST, serializable=True)
        )
        status = await unary(connection, "Maintenance/Status", rpc.StatusResponse)(rpc.StatusRequest())
    finally:
        connection.close()
    entries = {
        kv.key.decode(errors="backslashreplace"): (
            f"{kv.value.decode(errors='backslashreplace')}, version {kv.version} of revision {kv.mod_revision}, "
            f"created at {kv.create_revision}" + (f", on lease {kv.lease:x}" if kv.lease else "")
        )
        for kv in answer.kvs
    }
    return [
        ReplicaState(entries={**entries, "(revision)": str(answer.header.revision)}, position=status.raftAppliedIndex)
    ]
