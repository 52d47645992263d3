"""A proxy with a dead server behind it accepts a connection and ends it: no client may take that for a refusal.

Opening may fail then (nothing was asked), but a request that was handed over is never a definite failure.
"""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import pytest

from fencepost.harness.coordination import Definite, Held, Indefinite, KeyValue, Locks, NotSent, ReadMode
from fencepost.systems.etcd.client import EtcdLocks
from fencepost.systems.etcd.options import EtcdOptions
from fencepost.systems.etcd.wire.grpc_call import connect
from fencepost.systems.zookeeper.client import ZooKeeperLocks
from fencepost.systems.zookeeper.leases import SessionLeases
from tests.systems.contract.patience import PATIENCE_S
from tests.systems.etcd import etcd_wire

#: What ends the connection, seen by the client: an orderly end, or a reset.
ENDS = ("end", "reset")

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[object]]


@contextlib.asynccontextmanager
async def acceptor(serve: Serve, how: str) -> AsyncIterator[int]:
    """Accepts, plays `serve`, and ends the connection; gives its port."""

    async def serving(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve(reader, writer)
        if how == "reset":
            # Closed with an answer of zero seconds: what is left is thrown away and the other side is reset.
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(1, 13, linger)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(serving, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


async def nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """As a proxy does that cannot reach its server."""


async def etcd_until_asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Greet as etcd does, then read until a request has come, and say no more."""
    writer.write(etcd_wire.settings())
    await reader.readexactly(len(etcd_wire.PREFACE))
    while True:
        head = await reader.readexactly(9)
        await reader.readexactly(int.from_bytes(head[:3], "big"))
        if head[3] == etcd_wire.DATA:
            return


async def _zookeeper_frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


async def zookeeper_until_asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Grant a session, then read one request."""
    await _zookeeper_frame(reader)
    _zookeeper_answer(writer, struct.pack(">iiqi", 0, 4000, 77, 16) + bytes(17))
    return await _zookeeper_frame(reader)


async def zookeeper_until_written(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer a read as well (value "1"), and end when the write behind it has come."""
    xid = (await zookeeper_until_asked(reader, writer))[:4]
    _zookeeper_answer(writer, xid + struct.pack(">qi", 5, 0) + struct.pack(">i", 1) + b"1" + bytes(68))
    await _zookeeper_frame(reader)


def _zookeeper_answer(writer: asyncio.StreamWriter, body: bytes) -> None:
    writer.write(struct.pack(">i", len(body)) + body)


async def etcd(port: int) -> Locks:
    return EtcdLocks(await connect("127.0.0.1", port, PATIENCE_S), EtcdOptions())


async def zookeeper(port: int) -> Locks:
    leases = SessionLeases("127.0.0.1", port, PATIENCE_S)
    return ZooKeeperLocks(await leases.open(4000), leases)


SYSTEMS: dict[str, tuple[Callable[[int], Awaitable[Locks]], Serve]] = {
    "etcd": (etcd, etcd_until_asked),
    "zookeeper": (zookeeper, zookeeper_until_asked),
}

HELD = Held(token=1, handle="1", epoch=1, position=1)
REQUESTS: dict[str, Callable[[Locks], Coroutine[Any, Any, object]]] = {
    "read": lambda client: client.read("r1", ReadMode.PLAIN),
    "write": lambda client: client.write("r1", b"1"),
    "cas": lambda client: client.cas("r1", b"1", b"2"),
    "create": lambda client: client.create("r1", b"1"),
    "write-if": lambda client: client.write_if("r1", b"1", 1, 1),
    "add": lambda client: client.add("s", 1),
    "members": lambda client: client.members("s", ReadMode.PLAIN),
    "release": lambda client: client.release("l", HELD),
    "guarded-write": lambda client: client.guarded_write("r1", b"1", "l", HELD),
}


#: ZooKeeper's conditional writes begin with a read of their own; when that is lost, no write was handed over.
READ_FIRST = {("zookeeper", "cas"), ("zookeeper", "create")}


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_client_cannot_be_opened_on_a_connection_that_ends_at_once(system: str, how: str) -> None:
    async def scenario() -> None:
        async with acceptor(nothing, how) as port:
            with pytest.raises(Definite) as caught:
                await SYSTEMS[system][0](port)
            assert caught.value.code == "not-connected"

    asyncio.run(asyncio.wait_for(scenario(), 100))


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_request_that_was_handed_over_and_not_answered_is_indefinite(
    system: str, how: str, request_name: str
) -> None:
    opened, served = SYSTEMS[system]

    async def scenario() -> None:
        async with acceptor(served, how) as port:
            client = await opened(port)
            try:
                with pytest.raises(NotSent if (system, request_name) in READ_FIRST else Indefinite):
                    await REQUESTS[request_name](client)
                await _is_of_no_more_use(client)
            finally:
                await client.close()

    asyncio.run(asyncio.wait_for(scenario(), 100))


@pytest.mark.parametrize("how", ENDS)
def test_a_conditional_write_behind_an_answered_read_is_indefinite(how: str) -> None:
    async def scenario() -> None:
        async with acceptor(zookeeper_until_written, how) as port:
            client = await zookeeper(port)
            try:
                with pytest.raises(Indefinite):
                    await client.cas("r1", b"1", b"2")
            finally:
                await client.close()

    asyncio.run(asyncio.wait_for(scenario(), 100))


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("system", SYSTEMS)
def test_requests_under_way_together_all_end_indefinite(system: str, how: str) -> None:
    opened, served = SYSTEMS[system]

    async def scenario() -> None:
        async with acceptor(served, how) as port:
            client = await opened(port)
            try:
                ended = await asyncio.gather(
                    *(client.write("r1", b"%d" % value) for value in range(5)), return_exceptions=True
                )
                assert {type(end) for end in ended} == {Indefinite}
            finally:
                await client.close()

    asyncio.run(asyncio.wait_for(scenario(), 100))


async def _is_of_no_more_use(client: KeyValue) -> None:
    """The next request is certainly not sent, and says so in a way that opens a fresh client."""
    with pytest.raises(NotSent):
        await client.write("r1", b"9")
