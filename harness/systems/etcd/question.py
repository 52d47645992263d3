"""Asking one etcd node alone whether it leads, over a connection that is remade when it has gone silent.

Status is answered from the node's own raft state, so a node that is cut off answers too. The reply is not one
instant's: `leader` is read apart from `raftTerm`, and the term is that of the last entry applied. So the epoch is a
lower bound; the exact one stands in the node's log ("became leader at term N").

An observer may reconnect, a client may not. A connection through a link that was dropped recovers only when TCP sends
again, seconds after healing; so after a few unanswered questions the next ones go over a fresh one. The old one stays
open while questions wait on it: a paused node answers them the moment it wakes. A lost connection is replaced by the
next question, and a dial is given up soon: dialling is cheap here and a restarted node must be seen.
"""

import asyncio
from typing import Final

from fencepost.harness.history import Claim
from fencepost.harness.systems.contract.system import Answer
from fencepost.harness.systems.etcd.wire import rpc_pb2 as rpc
from fencepost.harness.systems.etcd.wire.grpc_call import connect, unary
from fencepost.harness.systems.etcd.wire.http2 import Connection

#: Questions in a row without an answer before a fresh connection is tried.
_UNANSWERED_MAX: Final = 3
_DIAL_S: Final = 0.5


class _Line:
    """One connection, with how many wait on it and how many asked since its last answer."""

    def __init__(self, connection: Connection) -> None:
        self.connection: Final = connection
        self.status = unary(connection, "Maintenance/Status", rpc.StatusResponse)
        self.member_list = unary(connection, "Cluster/MemberList", rpc.MemberListResponse)
        self.waiting = 0
        self.unanswered = 0
        self.answered = False


class EtcdQuestion:
    """`harness.systems.contract.system.Question` on etcd."""

    def __init__(self, address: str, port: int) -> None:
        self._address, self._port = address, port
        self._line: _Line | None = None
        self._dialling = asyncio.Lock()
        self._retired: set[_Line] = set()
        self._names: dict[int, str] = {}
        self._closed = False

    async def ask(self) -> Answer:
        if self._closed:
            raise RuntimeError("asked after close")
        line = await self._open_line()
        line.waiting += 1
        line.unanswered += 1
        try:
            status = await line.status(rpc.StatusRequest())
            line.unanswered, line.answered = 0, True
            leader = await self._name(line, status.leader)
        finally:
            line.waiting -= 1
            self._replace_silent(line)
        return Answer(
            claims=Claim.YES if status.leader != 0 and status.leader == status.header.member_id else Claim.NO,
            source="status",
            epoch=status.raftTerm,
            epoch_exact=False,
            leader=leader,
            position=status.header.revision,
            detail="; ".join(status.errors) or None,
        )

    async def _open_line(self) -> _Line:
        """The line in use, or a new one; one dial at a time, made by whoever asks first."""
        async with self._dialling:
            line = self._line
            if line is None or line.connection.shut is not None:
                self._line = None
                connection = await connect(self._address, self._port, _DIAL_S)
                if self._closed:
                    connection.close()
                    raise RuntimeError("closed while it was asked")
                line = self._line = _Line(connection)
            return line

    async def _name(self, line: _Line, member: int) -> str | None:
        """The node's name of a member id; asked once, of this node's own copy, which needs no leader."""
        if member == 0:
            return None
        if member not in self._names:
            listed = await line.member_list(rpc.MemberListRequest(linearizable=False))
            self._names = {m.ID: m.name for m in listed.members if m.name}
        return self._names.get(member, f"{member:x}")

    def _replace_silent(self, line: _Line) -> None:
        """Retire a line that has gone silent; close retired ones that nobody waits on any more."""
        if line is self._line and line.answered and line.unanswered >= _UNANSWERED_MAX + line.waiting:
            self._line = None
            self._retired.add(line)
        if line in self._retired and line.waiting == 0:
            self._retired.discard(line)
            line.connection.close()

    async def close(self) -> None:
        self._closed = True
        for line in [*self._retired, *([self._line] if self._line else [])]:
            line.connection.close()
        self._retired.clear()
        self._line = None
