"""Asking one etcd node alone whether it leads, over a connection that is replaced when the node falls silent.

A node answers Status from its own raft state, so a node that is cut off answers too. The values of an answer are not
from one instant: `leader` and `raftTerm` are read at two moments, and the term is that of the last applied entry. So
the epoch is a lower bound. The exact epoch stands in the node's log ("became leader at term N").

An observer may reconnect, a client may not. A connection over a link that was cut recovers only when TCP retransmits,
seconds after the heal. So after a few unanswered questions the next ones use a new connection. The old one stays open
while questions wait on it, since a paused node answers them the moment it wakes. The next question replaces a lost
connection. Dialling has a short time limit: it is cheap here, and a restarted node must be seen.
"""

import asyncio
from typing import Final

from fencepost.harness.contract.system import Answer
from fencepost.harness.history import Claim
from fencepost.systems.etcd.wire import rpc_pb2 as rpc
from fencepost.systems.etcd.wire.grpc_call import connect, unary
from fencepost.systems.etcd.wire.http2 import Http2Connection

#: This many unanswered questions in a row lead to a new connection.
_UNANSWERED_MAX: Final = 3
_DIAL_S: Final = 0.5


class _Line:
    """One connection, the number of waiting questions, and the number of questions since the last answer."""

    def __init__(self, connection: Http2Connection) -> None:
        self.connection: Final = connection
        self.status = unary(connection, "Maintenance/Status", rpc.StatusResponse)
        self.member_list = unary(connection, "Cluster/MemberList", rpc.MemberListResponse)
        self.waiting = 0
        self.unanswered = 0
        self.answered = False


class EtcdQuestion:
    """The question to one member (`harness.contract.system.Question`)."""

    def __init__(self, address: str, port: int) -> None:
        self._address, self._port = address, port
        self._line: _Line | None = None
        self._dialling = asyncio.Lock()
        self._retired: set[_Line] = set()
        self._names: dict[int, str] = {}
        self._closed = False

    async def ask(self) -> Answer:
        if self._closed:
            raise RuntimeError("a question after close")
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
        """The connection in use, or a new one; the first question dials, the others wait for it."""
        async with self._dialling:
            line = self._line
            if line is None or line.connection.shut is not None:
                self._line = None
                connection = await connect(self._address, self._port, _DIAL_S)
                if self._closed:
                    connection.close()
                    raise RuntimeError("closed while it connected")
                line = self._line = _Line(connection)
            return line

    async def _name(self, line: _Line, member: int) -> str | None:
        """The name of the member with this id, read once from this node's own copy, which needs no leader."""
        if member == 0:
            return None
        if member not in self._names:
            listed = await line.member_list(rpc.MemberListRequest(linearizable=False))
            self._names = {m.ID: m.name for m in listed.members if m.name}
        return self._names.get(member, f"{member:x}")

    def _replace_silent(self, line: _Line) -> None:
        """Retire a connection that fell silent; close retired ones when no question waits on them."""
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
