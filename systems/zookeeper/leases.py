"""Leases on ZooKeeper: a session that belongs to no connection and can be resumed on any server.

A session can be resumed on any server by its number and password (a client does this when it loses its server). The
server asks the leader to confirm the session, and the leader starts its time-out again. So an answered resumption is a
keep-alive that the leader knows of. A ping is not: a follower answers it alone and reports it to the leader with its
next heartbeat, or never when the two are cut off from each other. So here each request resumes the session on the given
server, sends the request, and leaves without ending the session; nothing keeps it alive in between.

Source: ZooKeeperServer.reopenSession, Learner.validateSession, LearnerHandler (REVALIDATE), Learner.ping of 3.9.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from fencepost.harness.coordination import Granted, Reply
from fencepost.harness.coordination.client_gate import create_connection
from fencepost.systems.zookeeper.wire import jute as wire
from fencepost.systems.zookeeper.wire.connection import ZooKeeperConnection, open_connection
from fencepost.systems.zookeeper.wire.errors import (
    CONNECTION_LOST,
    NODE_EXISTS,
    NOT_CONNECTED,
    SESSION_EXPIRED,
    SESSION_OVER,
)
from fencepost.systems.zookeeper.wire.jute import Op, Ticket
from fencepost.systems.zookeeper.wire.session import EPHEMERAL, ZooKeeperSession, made, zxid_of

EXISTS: Final = "exists"
_OVER: Final = {SESSION_EXPIRED: SESSION_OVER.code}


class SessionLeases:
    """The part of `harness.coordination.Leases` that is about leases, on one server."""

    def __init__(self, address: str, port: int, connect_timeout_s: float) -> None:
        self._address, self._port = address, port
        self._connect_timeout_s = connect_timeout_s

    async def grant(self, ttl_ms: int) -> Granted:
        async with self._resumed(Ticket(ttl_ms)) as session:
            return _granted(session.connection.ticket)

    async def keep_alive(self, handle: str) -> Granted:
        async with self._resumed(_ticket(handle)) as session:
            return _granted(session.connection.ticket)

    async def attach(self, path: str, handle: str) -> Reply:
        record = wire.create_record(wire.text(path), b"", EPHEMERAL)
        async with self._resumed(_ticket(handle)) as session:
            return await session.ask(Op.CREATE_WITH_STAT, record, _made_reply, _OVER)

    async def enter(self, path: str, data: bytes, handle: str) -> Reply:
        record = wire.create_record(wire.text(path), data, EPHEMERAL)
        async with self._resumed(_ticket(handle)) as session:
            return await session.ask(Op.CREATE_WITH_STAT, record, _made_reply, {**_OVER, NODE_EXISTS: EXISTS})

    async def revoke(self, handle: str) -> Reply:
        async with self._resumed(_ticket(handle)) as session:
            zxid = await session.ask(Op.CLOSE_SESSION, b"", zxid_of, _OVER)
            return Reply(position=zxid, epoch=zxid >> 32)

    async def open(self, ttl_ms: int) -> ZooKeeperSession:
        """Open a session that nothing keeps alive; its owner closes it."""
        connection = await open_connection(
            self._address,
            self._port,
            session_timeout_ms=ttl_ms,
            connect_timeout_s=self._connect_timeout_s,
            keep_alive=False,
        )
        return ZooKeeperSession(connection)

    @asynccontextmanager
    async def _resumed(self, ticket: Ticket) -> AsyncIterator[ZooKeeperSession]:
        """Resume the session of `ticket` on this server, and leave it at the end, also after a cancellation."""
        connection = ZooKeeperConnection(ticket, False)
        try:
            try:
                async with asyncio.timeout(self._connect_timeout_s):
                    await create_connection(lambda: connection, self._address, self._port)
            except (OSError, TimeoutError) as error:
                row = CONNECTION_LOST if connection.session_requested else NOT_CONNECTED
                raise row.outcome(f"{self._address}:{self._port}: {error!r}") from None
            await connection.begin()
            yield ZooKeeperSession(connection)
        finally:
            connection.leave()


def _granted(ticket: Ticket) -> Granted:
    return Granted(f"{ticket.session_id:x}.{ticket.password.hex()}.{ticket.timeout_ms}", ticket.timeout_ms)


def _ticket(handle: str) -> Ticket:
    session, password, timeout_ms = handle.split(".")
    return Ticket(int(timeout_ms), int(session, 16), bytes.fromhex(password))


def _made_reply(body: bytes, zxid: int) -> Reply:
    _, stat = made(body, zxid)
    return Reply(position=zxid, value_position=stat.czxid, epoch=zxid >> 32)
