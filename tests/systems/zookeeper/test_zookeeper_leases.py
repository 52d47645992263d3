"""Leases on ZooKeeper: a session resumed on whichever server, and every way in which a resumption can end."""

import asyncio
import struct
from collections.abc import Awaitable, Callable

import pytest

from fencepost.harness.coordination import Granted
from fencepost.systems.zookeeper.leases import SessionLeases
from fencepost.systems.zookeeper.wire.errors import SERVER_ERRORS
from fencepost.systems.zookeeper.wire.jute import Op
from tests.systems.contract.patience import PATIENCE_S, refused_port, until
from tests.systems.zookeeper import zookeeper_scripts as scripts
from tests.systems.zookeeper.test_zookeeper_errors import outcome
from tests.systems.zookeeper.zookeeper_scripts import CLOSE, RESET, Answer, scripted

Call = Callable[[SessionLeases], Awaitable[object]]
HANDLE = f"{scripts.SESSION:x}.{(b'p' * 16).hex()}.3000"
MADE = (0, struct.pack(">i", 4) + b"/k/1" + scripts.STAT)
CALLS: dict[str, Call] = {
    "keep": lambda leases: leases.keep_alive(HANDLE),
    "attach": lambda leases: leases.attach("/k/1", HANDLE),
    "revoke": lambda leases: leases.revoke(HANDLE),
}


def leases(port: int) -> SessionLeases:
    return SessionLeases(scripts.ADDRESS, port, PATIENCE_S)


def test_a_lease_is_a_session_that_no_connection_ends() -> None:
    async def scenario() -> None:
        async with scripted(lambda request, i: MADE, timeout_ms=4000) as server:
            granted = await leases(server.port).grant(3000)
            assert granted == Granted(HANDLE.replace("3000", "4000"), 4000)
            kept = await leases(server.port).keep_alive(granted.handle)
            assert kept == granted
            reply = await leases(server.port).attach("/k/1", granted.handle)
            assert (reply.position, reply.value_position, reply.epoch) == (scripts.ZXID, 3, 7)
            assert server.asked == [(3000, 0, bytes(16)), *[(4000, scripts.SESSION, b"p" * 16)] * 2]
            # The ephemeral belongs to the session, and nobody told the server that it is over.
            assert [(r.op, r.record[-4:]) for r in server.requests] == [(Op.CREATE_WITH_STAT, struct.pack(">i", 1))]

    asyncio.run(scenario())


def test_a_revoke_ends_the_session_and_waits_for_the_answer() -> None:
    async def scenario() -> None:
        async with scripted(lambda request, i: (0, b"")) as server:
            reply = await leases(server.port).revoke(HANDLE)
            assert (reply.position, reply.epoch) == (scripts.ZXID, 7)
            assert [r.op for r in server.requests] == [Op.CLOSE_SESSION]

    asyncio.run(scenario())


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_server_that_refuses_to_resume_says_that_the_lease_is_over(call: Call) -> None:
    async def scenario() -> None:
        async with scripted(lambda request, i: (0, b""), grants=False) as server:
            assert await outcome(call(leases(server.port))) == ("definite", "lease-expired")

    asyncio.run(scenario())


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_server_that_is_not_there_was_not_asked(call: Call) -> None:
    async def scenario() -> None:
        with refused_port() as port:
            assert await outcome(call(leases(port))) == ("definite", "not-connected")

    asyncio.run(scenario())


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_resumption_that_the_server_leaves_unanswered_is_in_doubt(call: Call) -> None:
    """The leader may have heard of it: the time-out may count anew."""

    async def scenario() -> None:
        async with scripted(lambda request, i: (0, b""), grants=None) as server:
            asking = asyncio.ensure_future(outcome(call(leases(server.port))))
            await until(lambda: server.asked)
            server.writers[-1].close()
            assert await asking == ("indefinite", "connection-lost")

    asyncio.run(scenario())


def test_who_waits_no_more_leaves_the_connection() -> None:
    async def scenario() -> None:
        async with scripted(lambda request, i: (0, b""), grants=None) as server:
            asking = asyncio.create_task(leases(server.port).keep_alive(HANDLE))
            await until(lambda: server.asked)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await until(server.writers[-1].is_closing)

    asyncio.run(scenario())


@pytest.mark.parametrize("call", [CALLS["attach"], CALLS["revoke"]], ids=["attach", "revoke"])
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((-112, b""), ("definite", "lease-expired")),
        ((-118, b""), ("indefinite", SERVER_ERRORS[-118].code)),
        ((-4, b""), ("indefinite", SERVER_ERRORS[-4].code)),
        (CLOSE, ("indefinite", "connection-lost")),
        (RESET, ("indefinite", "connection-lost")),
    ],
)
def test_what_is_asked_on_a_resumed_session_ends_by_the_table(
    call: Call, answer: Answer, expected: tuple[str, str]
) -> None:
    async def scenario() -> None:
        async with scripted(lambda request, i: answer) as server:
            assert await outcome(call(leases(server.port))) == expected

    asyncio.run(scenario())
