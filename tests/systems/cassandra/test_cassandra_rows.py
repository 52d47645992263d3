"""Leaders and members of Cassandra: rows with a time to live, against a scripted server."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.coordination import Held, ReadMode
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import check_plan
from tests.systems.cassandra.scripted import APPLIED, REFUSED, VOID, Said, error, rows
from tests.systems.cassandra.test_cassandra_client import CassandraClient, raised, with_client

THREE = (3).to_bytes(8)
FREE = rows({"owner": None, "term": THREE})
LED = rows({"owner": b"t3", "term": THREE})


def scripted(**answers: Said) -> Callable[[str], Said]:
    """Answers by the first word of a statement."""
    return lambda statement: answers[statement.split()[0].lower()]


@pytest.mark.parametrize(
    ("look", "take", "ended"),
    [
        (FREE, APPLIED, ("ok", "Held(token=4, handle='t4', epoch=None, position=None)")),
        (FREE, REFUSED, ("definite", "held")),
        (LED, APPLIED, ("definite", "held")),
        (FREE, error(0x1100, level=8), ("indefinite", "write-timeout")),
        # The look alone changes nothing.
        (error(0x1200, level=4), APPLIED, ("definite", "read-timeout")),
        (rows(), APPLIED, ("definite", "absent")),
    ],
)
def test_a_campaign_takes_the_row_where_it_is_absent(look: Said, take: Said, ended: tuple[str, str]) -> None:
    async def scenario(client: CassandraClient) -> None:
        assert await raised(client.acquire("election")) == ended

    with_client(scripted(select=look, begin=take), scenario)


def test_a_leader_renews_acts_and_resigns_on_condition_that_the_row_is_its_own() -> None:
    asked: list[str] = []
    applied = True

    def answer(statement: str) -> Said:
        asked.append(statement)
        if statement.startswith("SELECT"):
            return FREE
        return APPLIED if applied else REFUSED

    async def scenario(client: CassandraClient) -> None:
        nonlocal applied
        assert await raised(client.renew()) == ("definite", "lease-expired")
        held = await client.acquire("election")
        await client.renew()
        await client.act("trail", "4-t4-1", "election", held, guarded=True)
        assert "IF owner = ?" in asked[-1]
        await client.act("trail", "4-t4-2", "election", held, guarded=False)
        assert "IF owner" not in asked[-1]
        applied = False
        assert await raised(client.act("trail", "x", "election", held, guarded=True)) == ("definite", "fenced")
        assert await raised(client.release("election", held)) == ("definite", "not-held")
        assert await raised(client.renew()) == ("definite", "lease-expired")
        sent = len(asked)
        assert await raised(client.renew()) == ("definite", "lease-expired")
        assert len(asked) == sent, "the client knows that it holds no term"

    with_client(answer, scenario)


def test_the_trail_stands_in_the_order_of_ballots() -> None:
    trail = rows(
        {"deed": b"late", "at": (30).to_bytes(8)},
        {"deed": b"early", "at": (10).to_bytes(8)},
        # The row of the leader alone, without any act.
        {"deed": None, "at": None},
    )

    async def scenario(client: CassandraClient) -> None:
        assert (await client.deeds("trail", ReadMode.STRONG)).deeds == ("early", "late")

    with_client(lambda _: trail, scenario)


def test_who_leads_is_a_term() -> None:
    async def leads(client: CassandraClient) -> None:
        assert (await client.leader("election", ReadMode.PLAIN)).token == 3

    async def nobody(client: CassandraClient) -> None:
        assert (await client.leader("election", ReadMode.PLAIN)).token is None

    with_client(lambda _: LED, leads)
    with_client(lambda _: FREE, nobody)


def test_a_term_is_a_value_that_another_connection_goes_on_with() -> None:
    async def scenario(client: CassandraClient) -> None:
        await client.act("trail", "d", "election", Held(token=9, handle="t9"), guarded=True)

    with_client(lambda _: APPLIED, scenario)


class Rows:
    """The rows of members and of handles, as a server without time."""

    def __init__(self) -> None:
        self.applies = True

    def answer(self, statement: str) -> Said:
        if "now()" in statement:
            return rows({"id": b"\x01\x02"})
        if "leases" in statement:
            return VOID if statement.startswith("INSERT") else rows({"team": b"g", "id": b"m1", "data": b"7"})
        if statement.startswith("SELECT"):
            return rows({"id": b"m1", "data": b"7"}, {"id": b"m2", "data": None})
        return APPLIED if self.applies else REFUSED


def members(scenario: Callable[[CassandraClient, Rows], Awaitable[None]]) -> None:
    kept = Rows()
    with_client(kept.answer, lambda client: scenario(client, kept))


def test_a_member_is_kept_over_any_connection_that_knows_the_handle() -> None:
    async def scenario(client: CassandraClient, kept: Rows) -> None:
        granted = await client.grant(3000)
        assert (granted.handle, granted.ttl_ms) == ("0102.3", 3000)
        await client.enter("group", "m1", b"7", granted.handle)
        # This client did not enter with it.
        assert (await client.keep_alive("0a0b.3")).ttl_ms == 3000
        await client.revoke("0a0b.3")
        kept.applies = False
        assert await raised(client.enter("group", "m1", b"8", "0c.3")) == ("definite", "exists")
        assert await raised(client.keep_alive("0a0b.3")) == ("definite", "lease-expired")
        assert await raised(client.revoke("0a0b.3")) == ("definite", "lease-expired")

    members(scenario)


def test_a_row_without_values_is_no_member() -> None:
    async def scenario(client: CassandraClient, kept: Rows) -> None:
        assert (await client.roster("group", ReadMode.STRONG)).ids == {"m1"}

    members(scenario)


def test_a_listener_reads_again_and_again() -> None:
    data = b"7"

    def answer(_: str) -> Said:
        return rows({"id": b"m1", "data": data})

    async def scenario(client: CassandraClient) -> None:
        nonlocal data
        assert await raised(client.roster_changed(0.1)) == ("definite", "not-watching")
        await client.watch_roster("group")
        assert not await client.roster_changed(0.05)
        waiting = asyncio.ensure_future(client.roster_changed(20.0))
        await asyncio.sleep(0.05)
        data = b"8"
        assert await waiting

    with_client(answer, scenario)


def test_a_time_to_live_is_in_whole_seconds() -> None:
    plan = Plan(system="cassandra", workload="election", nemesis="none", seed=1, system_options={"lock_ttl": "1500ms"})
    with pytest.raises(UsageError, match="whole number of seconds"):
        check_plan(plan)
