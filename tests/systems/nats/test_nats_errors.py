"""Every row of NATS' error table, and every way in which a request ends without an answer."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any

import pytest

from fencepost.harness.coordination import Definite, Indefinite, NotSent
from fencepost.harness.coordination.session import Row
from fencepost.systems.nats.client import NatsStorage
from fencepost.systems.nats.wire import errors
from tests.systems.nats.jetstream_script import Stream, connected, refusal, serving, speaking


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 100))


async def raised(request: Awaitable[object]) -> tuple[str, str]:
    try:
        return "ok", repr(await request)
    except Definite as error:
        return "definite", error.code
    except Indefinite as error:
        return "indefinite", error.code


ANSWERS = [
    *((row, refusal(400, number, "as the test says")) for number, row in errors.ERRORS.items()),
    *((row, (f"NATS/1.0 {number} Words\r\n\r\n".encode(), b"")) for number, row in errors.STATUSES.items()),
]


@pytest.mark.parametrize(("row", "answer"), ANSWERS, ids=[row.code for row, _ in ANSWERS])
def test_every_refusal_and_status_has_the_outcome_of_its_row(row: Row, answer: tuple[bytes, bytes]) -> None:
    async def scenario() -> None:
        stream = Stream()
        stream.instead = lambda subject: answer
        async with serving(stream.answer) as port:
            client = NatsStorage(await connected(port), 3)
            assert await raised(client.write("a", b"1")) == ("definite" if row.definite else "indefinite", row.code)
            await client.close()

    run(scenario())


@pytest.mark.parametrize(
    ("number", "text", "outcome"),
    [
        (10071, "wrong last sequence: 2", ("definite", errors.CAS_MISMATCH)),
        (10071, "wrong last sequence: 0", ("indefinite", errors.WRONG_LAST_SEQUENCE)),
        (10164, "wrong last sequence", ("indefinite", "wrong-last-sequence-in-flight")),
    ],
)
def test_only_a_later_message_proves_that_no_leader_stores_a_write(
    number: int, text: str, outcome: tuple[str, str]
) -> None:
    async def scenario() -> None:
        stream = Stream()
        async with serving(stream.answer) as port:
            client = NatsStorage(await connected(port), 3)
            await client.write("a", b"1")
            stream.instead = lambda subject: refusal(400, number, text) if subject == "key.a" else None
            assert await raised(client.cas("a", b"1", b"2")) == outcome
            await client.close()

    run(scenario())


def test_what_nobody_foresaw_is_unknown() -> None:
    async def scenario() -> None:
        stream = Stream()
        async with serving(stream.answer) as port:
            client = NatsStorage(await connected(port), 3)
            stream.instead = lambda subject: refusal(500, 19999, "new")
            assert await raised(client.write("a", b"1")) == ("indefinite", "jetstream-19999")
            stream.instead = lambda subject: (b"NATS/1.0 599 New\r\n\r\n", b"")
            assert await raised(client.write("a", b"1")) == ("indefinite", "status-599")
            stream.instead = lambda subject: (b"", b"[1]")
            assert await raised(client.write("a", b"1")) == ("indefinite", errors.MALFORMED)
            await client.close()

    run(scenario())


def test_a_request_under_way_is_unknown_when_the_server_ends_the_connection() -> None:
    async def scenario() -> None:
        async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b'INFO {"server_id":"A","client_id":1}\r\n')
            while line := await reader.readline():
                if line.startswith(b"PING"):
                    writer.write(b"PONG\r\n")
                elif line.startswith(b"PUB"):
                    writer.write(b"-ERR 'Stale Connection'\r\n")

        async with speaking(converse) as port:
            connection = await connected(port)
            client = NatsStorage(connection, 3)
            assert await raised(client.write("a", b"1")) == ("indefinite", errors.CONNECTION_LOST)
            with pytest.raises(NotSent):
                await client.write("a", b"2")
            assert connection.ended is not None
            await client.close()

    run(scenario())
