"""Asking an etcd leader to hand over its leadership: Maintenance/MoveLeader, which only the leader accepts."""

import asyncio

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.systems.etcd.wire import rpc_pb2 as rpc
from fencepost.systems.etcd.wire.grpc_call import connect, unary


async def move_leader(address: str, port: int, to: str, timeout_s: float) -> None:
    """Ask the leader at this address to hand over to the member named `to`.

    Raises:
        Definite: it refuses, for instance because it does not lead or `to` is too far behind.
        Indefinite: nobody knows whether the leadership moved.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    connection = await connect(address, port, timeout_s)
    try:
        async with asyncio.timeout_at(deadline):
            # The member's own copy, which needs no leader.
            listed = await unary(connection, "Cluster/MemberList", rpc.MemberListResponse)(
                rpc.MemberListRequest(linearizable=False)
            )
            target = next((member.ID for member in listed.members if member.name == to), None)
            if target is None:
                raise Definite("no-such-member", to)
            await unary(connection, "Maintenance/MoveLeader", rpc.MoveLeaderResponse)(
                rpc.MoveLeaderRequest(targetID=target)
            )
    except TimeoutError:
        raise Indefinite("timeout", f"not answered within {timeout_s:g} s") from None
    finally:
        connection.close()
