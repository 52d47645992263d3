"""Every row of ZooKeeper's error table, and every way a connection can end, against servers that answer as told."""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
import uvloop

from fencepost.harness.coordination import Definite, Held, Indefinite, NotSent, ReadMode
from fencepost.systems.zookeeper.wire.errors import SERVER_ERRORS
from fencepost.systems.zookeeper.wire.jute import Op
from tests.systems.contract.patience import PATIENCE_S, until
from tests.systems.zookeeper import zookeeper_scripts as scripts
from tests.systems.zookeeper.zookeeper_scripts import (
    CLOSE,
    RESET,
    SILENCE,
    STAT,
    Answer,
    Request,
    ZooKeeperClient,
    opened,
    scripted,
)

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
HELD = Held(token=9, handle="4")
Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Run:
    """Run a coroutine on each of the two loops that the harness may live on."""

    def on_loop(coroutine: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(asyncio.wait_for(coroutine, 100))

    return on_loop


async def outcome(request: Awaitable[object]) -> tuple[str, str]:
    """(kind, code); a request that hangs is an error of the test."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            return "ok", repr(await request)
    except NotSent as error:
        return "not-sent", error.code
    except Definite as error:
        return "definite", error.code
    except Indefinite as error:
        return "indefinite", error.code


def kind(code: int) -> str:
    return "definite" if SERVER_ERRORS[code].definite else "indefinite"


@pytest.mark.parametrize("code", SERVER_ERRORS)
def test_a_write_that_the_server_refuses_ends_as_its_row_says(run: Run, code: int) -> None:
    async def scenario() -> None:
        async with scripted(lambda request, i: (code, b"")) as server:
            client = await opened(server.port)
            assert await outcome(client.write("k", b"1")) == (kind(code), SERVER_ERRORS[code].code)
            await client.close()

    run(scenario())


#: The codes that may also come after the transaction was applied, or that promise nothing. A second list on purpose:
#: a row that is made definite by mistake loses writes without anybody's noticing.
INDEFINITE = {-1, -2, -3, -4, -5, -7, -118, -122, -127}


def test_exactly_these_codes_are_indefinite_and_all_words_differ() -> None:
    assert {code for code, row in SERVER_ERRORS.items() if not row.definite} == INDEFINITE
    assert len({row.code for row in SERVER_ERRORS.values()}) == len(SERVER_ERRORS)


def test_a_code_that_is_not_in_the_table_is_indefinite(run: Run) -> None:
    async def scenario() -> None:
        async with scripted(lambda request, i: (-999, b"")) as server:
            client = await opened(server.port)
            assert await outcome(client.write("k", b"1")) == ("indefinite", "unknown-code")
            await client.close()

    run(scenario())


def multi(*codes: int) -> Answer:
    """A failed multi: an error result for each operation."""
    results = b"".join(struct.pack(">ibii", -1, 0, code, code) for code in codes)
    return 0, results + struct.pack(">ibi", -1, 1, -1)


Call = Callable[[ZooKeeperClient], Awaitable[object]]

#: What is asked, the answers in order, the outcome.
EXPECTED: list[tuple[str, Call, list[Answer], tuple[str, str]]] = [
    ("cas, other value", lambda c: c.cas("k", b"1", b"2"), [(0, scripts.data(b"9"))], ("definite", "cas-mismatch")),
    ("cas, absent", lambda c: c.cas("k", b"1", b"2"), [(0, scripts.data(b""))], ("definite", "cas-mismatch")),
    ("cas, no znode", lambda c: c.cas("k", b"1", b"2"), [(-101, b"")], ("definite", "no-node")),
    (
        "cas, changed since",
        lambda c: c.cas("k", b"1", b"2"),
        [(0, scripts.data(b"1")), (-103, b"")],
        ("definite", "cas-mismatch"),
    ),
    (
        "cas, lost at the write",
        lambda c: c.cas("k", b"1", b"2"),
        [(0, scripts.data(b"1")), CLOSE],
        ("indefinite", "connection-lost"),
    ),
    ("cas, lost at the read", lambda c: c.cas("k", b"1", b"2"), [CLOSE], ("not-sent", "connection-lost")),
    ("cas, unclear at the read", lambda c: c.cas("k", b"1", b"2"), [(-5, b"")], ("not-sent", "marshalling-error")),
    ("create, there", lambda c: c.create("k", b"1"), [(0, scripts.data(b"9"))], ("definite", "exists")),
    (
        "create, filled since",
        lambda c: c.create("k", b"1"),
        [(0, scripts.data(b"")), (-103, b"")],
        ("definite", "exists"),
    ),
    ("create, made since", lambda c: c.create("k", b"1"), [(-101, b""), (-110, b"")], ("definite", "exists")),
    ("write_if, changed", lambda c: c.write_if("k", b"1", 4, 2), [(-103, b"")], ("definite", "cas-mismatch")),
    ("write_if, made", lambda c: c.write_if("k", b"1", None, None), [(-110, b"")], ("definite", "cas-mismatch")),
    ("add, there", lambda c: c.add("s", 4), [(-110, b"")], ("definite", "exists")),
    ("acquire, held", lambda c: c.acquire("l"), [multi(0, -110)], ("definite", "held")),
    ("acquire, session over", lambda c: c.acquire("l"), [(-112, b"")], ("definite", "session-expired")),
    ("acquire, lost", lambda c: c.acquire("l"), [RESET], ("indefinite", "connection-lost")),
    (
        "acquire, first one held",
        lambda c: c.acquire("l"),
        [multi(-101, -2), (-110, b""), multi(0, -110)],
        ("definite", "held"),
    ),
    ("release, granted anew", lambda c: c.release("l", HELD), [multi(-103, -2)], ("definite", "not-held")),
    ("release, ended", lambda c: c.release("l", HELD), [multi(0, -101)], ("definite", "not-held")),
    (
        "guarded write, granted anew",
        lambda c: c.guarded_write("k", b"1", "l", HELD),
        [multi(-103, -2, -2)],
        ("definite", "fenced"),
    ),
    (
        "guarded write, lock ended",
        lambda c: c.guarded_write("k", b"1", "l", HELD),
        [multi(0, -101, -2)],
        ("definite", "fenced"),
    ),
    (
        "guarded write, no such key",
        lambda c: c.guarded_write("k", b"1", "l", HELD),
        [multi(0, 0, -101)],
        ("definite", "no-node"),
    ),
    (
        "guarded write, unclear",
        lambda c: c.guarded_write("k", b"1", "l", HELD),
        [multi(0, 0, -2)],
        ("indefinite", "runtime-inconsistency"),
    ),
    (
        "sync refused, read answered",
        lambda c: c.read("k", ReadMode.SYNC),
        [(-102, b""), (0, scripts.data(b"9"))],
        ("definite", "no-auth"),
    ),
    (
        "barrier refused, read answered",
        lambda c: c.read("k", ReadMode.BARRIER),
        [(-101, b""), (0, scripts.data(b"9"))],
        ("definite", "no-node"),
    ),
    (
        "barrier unclear, read answered",
        lambda c: c.read("k", ReadMode.BARRIER),
        [(-5, b""), (0, scripts.data(b"9"))],
        ("indefinite", "marshalling-error"),
    ),
]


@pytest.mark.parametrize(("call", "answers", "expected"), [row[1:] for row in EXPECTED], ids=[r[0] for r in EXPECTED])
def test_operations_of_several_requests(run: Run, call: Call, answers: list[Answer], expected: tuple[str, str]) -> None:
    async def scenario() -> None:
        async with scripted(lambda request, i: answers[i]) as server:
            client = await opened(server.port)
            assert await outcome(call(client)) == expected
            assert len(server.requests) == len(answers)
            await client.close()

    run(scenario())


def test_stamps_of_a_read(run: Run) -> None:
    async def scenario() -> None:
        async with scripted(lambda request, i: (0, scripts.data(b"v"))) as server:
            client = await opened(server.port)
            reply = await client.read("k", ReadMode.PLAIN)
            assert (reply.value, reply.position, reply.epoch) == (b"v", scripts.ZXID, 7)
            assert (reply.value_position, reply.version) == ((7 << 32) + 4, 6)
            assert client.session_id == scripts.SESSION
            await client.close()

    run(scenario())


def test_sync_and_read_leave_in_one_piece(run: Run) -> None:
    """The read must be in the server's hands before the sync is answered."""

    async def scenario() -> None:
        def script(request: Request, i: int) -> Answer:
            if i == 0:
                return SILENCE
            first = server.requests[0]
            return scripts.reply(first.xid) + scripts.reply(request.xid, 0, scripts.data(b"v"))

        async with scripted(script) as server:
            client = await opened(server.port)
            assert (await client.read("k", ReadMode.SYNC)).value == b"v"
            assert [request.op for request in server.requests] == [Op.SYNC, Op.GET_DATA]
            await client.close()

    run(scenario())


@pytest.mark.parametrize(
    "answer",
    [struct.pack(">i", 1 << 30), scripts.reply(77, 0, STAT), struct.pack(">iiqi", 16, 1, scripts.ZXID, 0)],
    ids=["huge length", "wrong xid", "no record"],
)
def test_what_is_no_answer_ends_the_connection(run: Run, answer: Answer) -> None:
    async def scenario() -> None:
        async with scripted(lambda request, i: answer) as server:
            client = await opened(server.port)
            assert await outcome(client.write("k", b"1")) == ("indefinite", "connection-lost")
            sent = len(server.requests)
            assert await outcome(client.write("k", b"2")) == ("not-sent", "not-sent")
            assert await outcome(client.acquire("l")) == ("not-sent", "not-sent")
            assert len(server.requests) == sent
            await client.close()

    run(scenario())


def test_a_session_that_is_refused_is_definite(run: Run) -> None:
    async def scenario() -> None:
        async with scripted(lambda request, i: CLOSE, grants=False) as refusing:
            assert await outcome(opened(refusing.port)) == ("definite", "not-connected")

    run(scenario())


def test_a_server_that_closes_instead_of_opening_a_session_serves_nobody(run: Run) -> None:
    """So does one that looks for a leader: a refusal, where a server that is not reached says nothing."""

    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])
        writer.close()

    async def scenario() -> None:
        async with await asyncio.start_server(close, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            assert await outcome(opened(port)) == ("definite", "not-serving")

    run(scenario())


def test_an_idle_session_is_kept_alive_and_silence_never_ends_it(run: Run) -> None:
    async def scenario() -> None:
        async with scripted(lambda request, i: (0, scripts.data(b"v")), timeout_ms=150, answers_pings=False) as server:
            client = await opened(server.port, session_timeout_ms=150)
            # None is answered, and by the last of them two time-outs have passed.
            await until(lambda: len(server.pings) >= 6)
            assert (await client.read("k", ReadMode.PLAIN)).value == b"v"
            await client.close()

    run(scenario())


def test_a_lock_is_bound_to_a_session_that_only_renew_keeps_alive(run: Run) -> None:
    granted = struct.pack(">ibi", Op.SET_DATA, 0, -1) + STAT
    granted += struct.pack(">ibi", Op.CREATE, 0, -1) + struct.pack(">i", 2) + b"/l" + struct.pack(">ibi", -1, 1, -1)

    async def scenario() -> None:
        async with scripted(lambda request, i: (0, granted), timeout_ms=150) as server:
            client = await opened(server.port, session_timeout_ms=150)
            assert await outcome(client.renew()) == ("definite", "lease-expired")
            held = await client.acquire("l")
            assert (held.token, held.handle, held.epoch) == ((7 << 32) + 4, "6", 7)
            assert (await client.renew()).position == scripts.ZXID
            # As long as two time-outs: the one session was kept alive all the while, the other never.
            await until(lambda: server.pings.count(0) >= 6)
            assert server.pings.count(1) == 1
            # The server ends the session: the lease is over, the data session is not, a new lease can be had.
            lease = client._lease
            assert lease is not None
            server.writers[1].close()
            await until(lambda: lease.connection.ended)
            assert await outcome(client.renew()) == ("definite", "lease-expired")
            await client.acquire("l")
            assert len(server.writers) == 3
            await client.close()

    run(scenario())


def test_watch_events_come_in_the_order_of_the_server(run: Run) -> None:
    async def scenario() -> None:
        def script(request: Request, i: int) -> Answer:
            mine = scripts.reply(request.xid, 0, scripts.data(b"v"))
            return scripts.watch(b"/a") + mine + scripts.watch(b"/b", 2) + scripts.watch(b"/c")

        async with scripted(script) as server:
            client = await opened(server.port)
            await client.session.get("/a", watch=True)
            events = [await client.session.watch_events.get() for _ in range(3)]
            assert [(event.path, event.kind) for event in events] == [("/a", 3), ("/b", 2), ("/c", 3)]
            assert [e.received_ns for e in events] == sorted(e.received_ns for e in events)
            await client.close()

    run(scenario())


def test_close_tells_the_server_and_is_idempotent(run: Run) -> None:
    async def scenario() -> None:
        async with scripted(lambda request, i: SILENCE) as server:
            client = await opened(server.port)
            await client.close()
            await client.close()
            # The server reads on until the client has closed.
            await until(server.writers[0].is_closing)
            assert [request.op for request in server.requests] == [Op.CLOSE_SESSION]
            assert await outcome(client.read("k", ReadMode.PLAIN)) == ("not-sent", "not-sent")

    run(scenario())


def test_an_empty_value_is_refused_before_it_is_sent(run: Run) -> None:
    async def scenario() -> None:
        async with scripted(lambda request, i: CLOSE) as server:
            client = await opened(server.port)
            with pytest.raises(ValueError, match="empty"):
                await client.write("k", b"")
            assert server.requests == []
            await client.close()

    run(scenario())
