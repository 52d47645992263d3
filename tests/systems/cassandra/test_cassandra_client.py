"""The Cassandra client against a scripted server: statements, every row of the error table, connections that end."""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from fencepost.harness.coordination import Definite, Indefinite, ReadMode
from fencepost.harness.coordination.session import Row
from fencepost.systems.cassandra.client import RowStorage
from fencepost.systems.cassandra.elections import RowElections
from fencepost.systems.cassandra.members import RowMemberships
from fencepost.systems.cassandra.options import CassandraOptions, Writes
from fencepost.systems.cassandra.transactions import RowTransactions
from fencepost.systems.cassandra.wire import errors
from fencepost.systems.cassandra.wire.connection import connect
from fencepost.systems.cassandra.wire.frames import CassandraError, Consistency, Opcode
from fencepost.systems.cassandra.wire.frames import answer as read_answer
from tests.systems.cassandra.scripted import APPLIED, REFUSED, VOID, Said, error, rows, serving
from tests.systems.contract.patience import PATIENCE_S

PLAIN = CassandraOptions(writes=Writes.QUORUM)


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 100))


async def raised(request: Awaitable[object]) -> tuple[str, str]:
    try:
        return "ok", repr(await request)
    except Definite as refused:
        return "definite", refused.code
    except Indefinite as doubt:
        return "indefinite", doubt.code


class CassandraClient(RowStorage, RowElections, RowMemberships, RowTransactions):
    """The requests of every interface on one connection."""


def with_client(
    answer: Callable[[str], Said],
    scenario: Callable[[CassandraClient], Awaitable[None]],
    options: CassandraOptions | None = None,
) -> None:
    async def whole() -> None:
        async with serving(answer) as port:
            client = CassandraClient(await connect("127.0.0.1", port, PATIENCE_S), options or CassandraOptions())
            await scenario(client)
            await client.close()

    run(whole())


@pytest.mark.parametrize(("number", "row"), errors.TABLE.items())
def test_every_error_has_the_outcome_of_its_row(number: int, row: Row) -> None:
    named = number in (0x1000, 0x1100, 0x1200, 0x1300, 0x1500, 0x1700)

    async def scenario(client: CassandraClient) -> None:
        expected = ("definite" if row.definite else "indefinite", row.code)
        assert await raised(client.write("a", b"1")) == expected

    with_client(lambda _: error(number, level=Consistency.SERIAL if named else None), scenario)


def test_a_decided_transaction_that_cannot_be_committed_is_unknown() -> None:
    async def lightweight(client: CassandraClient) -> None:
        assert await raised(client.cas("a", b"1", b"2")) == ("indefinite", "unavailable-at-commit")

    async def plain(client: CassandraClient) -> None:
        assert await raised(client.write("a", b"1")) == ("definite", "unavailable")

    with_client(lambda _: error(0x1000, level=Consistency.QUORUM), lightweight)
    with_client(lambda _: error(0x1000, level=Consistency.QUORUM), plain, PLAIN)


def test_what_nobody_foresaw_is_unknown() -> None:
    doubt = errors.outcome(CassandraError(0x4242, "new", None), conditional=False)
    assert isinstance(doubt, Indefinite) and doubt.code == "cql-4242"


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda client: client.cas("a", b"1", b"2"), errors.CAS_MISMATCH),
        (lambda client: client.create("a", b"1"), errors.EXISTS),
        (lambda client: client.write("a", b"1"), errors.ABSENT),
        (lambda client: client.write_if("a", b"1", None, 7), errors.CAS_MISMATCH),
        (lambda client: client.add("s", 1), errors.EXISTS),
    ],
)
def test_a_condition_that_does_not_hold_is_definite(
    call: Callable[[CassandraClient], Awaitable[object]], code: str
) -> None:
    assert code in errors.OWN_DEFINITE

    async def scenario(client: CassandraClient) -> None:
        assert await raised(call(client)) == ("definite", code)

    with_client(lambda _: REFUSED, scenario)


def test_reads_and_their_editions() -> None:
    edition = bytes(range(16))

    def answer(statement: str) -> Said:
        return rows({"v": b"5", "edition": edition}) if statement.startswith("SELECT v") else APPLIED

    async def scenario(client: CassandraClient) -> None:
        reply = await client.read("a", ReadMode.QUORUM)
        assert (reply.value, reply.position, reply.version) == (b"5", None, int.from_bytes(edition))
        assert (await raised(client.write_if("a", b"6", reply.value_position, reply.version)))[0] == "ok"
        assert await raised(client.read("a", ReadMode.SYNC)) == ("definite", "no-such-read")

    with_client(answer, scenario)
    with_client(lambda _: rows(), _reads_nothing)


async def _reads_nothing(client: CassandraClient) -> None:
    assert (await client.read("a", ReadMode.STRONG)).value is None


def test_members_in_order() -> None:
    async def scenario(client: CassandraClient) -> None:
        assert (await client.members("s", ReadMode.STRONG)).elements == (1, 258)

    with_client(lambda _: rows({"element": b"\0\0\1\2"}, {"element": b"\0\0\0\1"}), scenario)


def test_only_a_lightweight_write_has_a_condition() -> None:
    statements: list[str] = []

    def answer(statement: str) -> Said:
        statements.append(statement)
        return APPLIED if " IF " in statement else VOID

    async def scenario(client: CassandraClient) -> None:
        await client.write("a", b"1")
        await client.add("s", 1)

    with_client(answer, scenario)
    with_client(answer, scenario, PLAIN)
    assert [" IF " in statement for statement in statements] == [True, True, False, False]


@pytest.mark.parametrize("reply", [(0x42, b""), (0x08, b"\0\0")], ids=["an unknown opcode", "half an answer"])
def test_what_is_no_answer_ends_the_connection(reply: tuple[int, bytes]) -> None:
    async def scenario(client: CassandraClient) -> None:
        assert await raised(client.write("a", b"1")) == ("indefinite", errors.CONNECTION_LOST)
        assert (await raised(client.write("a", b"1")))[0] == "definite"

    with_client(lambda _: reply, scenario)


def test_a_transaction_reads_lists_and_then_appends() -> None:
    asked: list[str] = []

    def answer(statement: str) -> Said:
        asked.append(statement)
        two = (2).to_bytes(4) + b"".join((4).to_bytes(4) + n.to_bytes(4) for n in (7, 9))
        return rows({"r0.v": two, "r1.v": None}) if "SELECT r0.v" in statement else VOID

    async def scenario(client: CassandraClient) -> None:
        assert (await client.transact(["l1", "l2"], [("l1", 11)])).lists == ((7, 9), ())
        assert (await client.transact([], [("l1", 12)])).lists == ()

    with_client(answer, scenario)
    first, second = asked
    assert first.startswith("BEGIN TRANSACTION LET r0 = (SELECT v") and "SELECT r0.v, r1.v;" in first
    assert first.endswith("UPDATE fencepost.lists SET v += ? WHERE k = ?; COMMIT TRANSACTION")
    assert second == "BEGIN TRANSACTION UPDATE fencepost.lists SET v += ? WHERE k = ?; COMMIT TRANSACTION"


def test_a_column_of_lists_is_read_over() -> None:
    of_lists = struct.pack(">iii", 2, 1, 1) + b"\0\1k\0\1t" + b"\0\1v" + b"\0\x20\0\x09" + struct.pack(">i", 0)
    assert read_answer(Opcode.RESULT, 0, of_lists) == []
