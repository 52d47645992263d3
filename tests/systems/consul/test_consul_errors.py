"""Every row of Consul's error table, and what the client sends, against a server that answers as it is told."""

from collections.abc import Awaitable, Callable, Sequence

import pytest

from fencepost.harness.coordination import (
    Definite,
    Granted,
    Held,
    Indefinite,
    ListedMember,
    NotSent,
    ReadMode,
    Reply,
    Roster,
)
from fencepost.systems.consul.catalog import CatalogClient
from fencepost.systems.consul.client import ConsulClient
from fencepost.systems.consul.options import ConsulOptions
from fencepost.systems.consul.wire import errors
from fencepost.systems.consul.wire.calls import ConsulCalls, connect
from tests.systems.http.scripted import Script, answer, play

REMOTE = "rpc error making call: "
STALE = 'failed to set key "r1", index is stale'

#: Status, text, kind and row that must come of it.
ANSWERS = [
    (500, "No cluster leader", "definite", "no-leader"),
    (500, REMOTE + "No cluster leader", "definite", "no-leader"),
    (500, "Raft leader not found in server lookup mapping", "definite", "leader-not-tracked"),
    (500, "Not ready to serve consistent reads", "definite", "not-ready"),
    (500, "raft apply failed: node is not the leader", "definite", "not-leader"),
    (500, REMOTE + "raft apply failed: node is not the leader", "definite", "not-leader"),
    (500, "raft apply failed: leadership transfer in progress", "definite", "leadership-transfer"),
    (500, "raft apply failed: leadership lost while committing log", "indefinite", "leader-changed"),
    (500, REMOTE + "raft apply failed: leadership lost while committing log", "indefinite", "leader-changed"),
    (500, "apply failed: Missing node registration", "definite", "missing-node"),
    (500, "rpc error getting client: failed to get conn: dial tcp: i/o timeout", "definite", "no-connection"),
    (500, REMOTE + "EOF", "indefinite", "rpc-error"),
    (500, REMOTE + "session shutdown", "indefinite", "rpc-error"),
    (500, "raft is already shutdown", "indefinite", "unforeseen-answer"),
    (400, "Failed to parse body", "definite", "invalid-argument"),
    (413, "Request body too large", "definite", "too-large"),
    (404, "Session id 'x' not found", "definite", "lease-expired"),
    (404, 'Unknown check ID "service:1.3000".', "definite", "lease-expired"),
    (404, 'Unknown service ID "1.3000".', "definite", "lease-expired"),
    (429, "Rate limit reached, try again later", "indefinite", "unforeseen-answer"),
    (503, "what now", "indefinite", "unforeseen-answer"),
]


async def raised(request: Awaitable[object]) -> tuple[str, str]:
    try:
        return "ok", repr(await request)
    except Definite as error:
        return "definite", error.code
    except Indefinite as error:
        return "indefinite", error.code


def asked(
    answers: Sequence[bytes | None],
    request: Callable[[ConsulClient], Awaitable[object]],
    made: Callable[[ConsulCalls, ConsulOptions], ConsulClient] = ConsulClient,
) -> tuple[str, str]:
    """The outcome of this request on one connection that got these answers."""
    outcomes = []

    async def use(host: str, port: int, script: Script) -> None:
        client = made(await connect(host, port, 5), ConsulOptions())
        outcomes.append(await raised(request(client)))
        await client.close()

    script = play(answers, use)
    assert script.connections == 1
    assert len(script.requests) <= len(answers), "a request was sent again"
    return outcomes[0]


def instance(data: str, index: int) -> str:
    """One member "m1" as the catalog lists it."""
    return f'{{"Service":{{"Meta":{{"member":"m1","data":"{data}"}},"CreateIndex":{index}}}}}'


#: Two agents each have a member with one id, with the data "8" and "7".
LISTED = f"[{instance('OA==', 14)},{instance('Nw==', 11)}]"


def refused(what: str, index: int = 0) -> bytes:
    body = f'{{"Results":null,"Errors":[{{"OpIndex":{index},"What":"{what.replace(chr(34), chr(92) + chr(34))}"}}]}}'
    return answer(409, body)


def done(index: int) -> bytes:
    return answer(200, f'{{"Results":[{{"KV":{{"Key":"k","ModifyIndex":{index},"CreateIndex":3}}}}],"Errors":null}}')


@pytest.mark.parametrize(("status", "text", "kind", "code"), ANSWERS)
def test_each_answer_ends_as_the_table_says(status: int, text: str, kind: str, code: str) -> None:
    assert asked([answer(status, text)], lambda client: client.write("k", b"1")) == (kind, code)


def test_each_row_is_reached_by_an_answer() -> None:
    in_transactions = {errors.LOCK_DELAY, errors.LEASE_EXPIRED, "refused"}
    assert {code for _, _, _, code in ANSWERS} | in_transactions == {row.code for row in errors.TABLE.values()}
    assert all(row.why for row in errors.TABLE.values())


@pytest.mark.parametrize(
    ("answers", "request_", "outcome"),
    [
        ([answer(200, "")], lambda client: client.enter("g", "m1", b"7", "1.3000"), ("ok", repr(Reply()))),
        ([None], lambda client: client.enter("g", "m1", b"7", "1.3000"), ("indefinite", "connection-lost")),
        ([answer(200, "")], lambda client: client.keep_alive("1.3000"), ("ok", repr(Granted("1.3000", 3000)))),
        ([answer(404, "Unknown check ID")], lambda client: client.keep_alive("1.3000"), ("definite", "lease-expired")),
        ([answer(404, "Unknown service ID")], lambda client: client.revoke("1.3000"), ("definite", "lease-expired")),
        ([], lambda client: client.roster_changed(0.1), ("definite", "not-watching")),
        (
            [answer(200, LISTED)],
            lambda client: client.roster("g", ReadMode.STRONG),
            ("ok", repr(Roster((ListedMember("m1", b"7", 11), ListedMember("m1", b"8", 14))))),
        ),
    ],
)
def test_members_by_the_catalog(
    answers: list[bytes | None], request_: Callable[[ConsulClient], Awaitable[object]], outcome: tuple[str, str]
) -> None:
    assert asked(answers, request_, CatalogClient) == outcome


HELD = Held(token=5, handle="s")


@pytest.mark.parametrize(
    ("what", "request_", "code"),
    [
        ('key "c" exists', lambda client: client.create("c", b"1"), "exists"),
        (STALE, lambda client: client.write_if("r1", b"1", 4, None), "cas-mismatch"),
        ('key "s/1" exists', lambda client: client.add("s", 1), "exists"),
        ("failed index check", lambda client: client.guarded_write("g", b"1", "l", HELD), "fenced"),
        ("failed to check index", lambda client: client.release("l", HELD), "not-held"),
        ("failed index check", lambda client: client.act("t", "d", "l", HELD, guarded=True), "fenced"),
        ('key "t/d" exists', lambda client: client.act("t", "d", "l", HELD, guarded=False), "exists"),
        ('invalid session "x"', lambda client: client.attach("bound", 1, "x"), "lease-expired"),
        ('failed to lock key "k" due to lock delay', lambda client: client.attach("bound", 1, "x"), "lock-delay"),
        ("anything else", lambda client: client.write("k", b"1"), "refused"),
    ],
)
def test_a_transaction_that_did_not_hold_is_definite(
    what: str, request_: Callable[[ConsulClient], Awaitable[object]], code: str
) -> None:
    assert asked([refused(what)], request_) == ("definite", code)


SESSION = answer(200, '{"ID":"s-1"}')


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        ([SESSION, refused('key "lock/l" exists')], ("definite", "held")),
        ([SESSION, refused("due to lock delay", 1)], ("definite", "lock-delay")),
        ([SESSION, refused('invalid session "s-1"', 1)], ("definite", "lease-expired")),
        ([SESSION, None], ("indefinite", "connection-lost")),
        ([None], ("definite", "lease-not-granted")),
        ([answer(500, "leadership lost while committing log")], ("definite", "lease-not-granted")),
    ],
)
def test_acquire(answers: list[bytes | None], outcome: tuple[str, str]) -> None:
    assert asked(answers, lambda client: client.acquire("l")) == outcome


def test_a_session_that_ended_is_not_used_again() -> None:
    async def twice(client: ConsulClient) -> None:
        with pytest.raises(Definite, match="lease-expired"):
            await client.acquire("l")
        assert (await client.acquire("l")).handle == "s2", "a word without dashes"

    answers = [SESSION, refused('invalid session "s-1"', 1), answer(200, '{"ID":"s-2"}'), done(9)]
    assert asked(answers, twice)[0] == "ok"


class TestCas:
    """A read and a write: only the write can leave anything in doubt."""

    READ = answer(200, '[{"Key":"r","Value":"MQ==","ModifyIndex":4,"CreateIndex":2}]')

    def test_write_compares_the_index_that_was_read(self) -> None:
        assert asked([self.READ, done(6)], lambda client: client.cas("r", b"1", b"2"))[0] == "ok"

    def test_mismatches(self) -> None:
        assert asked([self.READ], lambda client: client.cas("r", b"3", b"2")) == ("definite", "cas-mismatch")
        assert asked([self.READ, refused(STALE)], lambda c: c.cas("r", b"1", b"2")) == ("definite", "cas-mismatch")
        assert asked([answer(404, "")], lambda client: client.cas("r", b"1", b"2")) == ("definite", "cas-mismatch")

    def test_a_lost_read_wrote_nothing(self) -> None:
        assert asked([None], lambda client: client.cas("r", b"1", b"2")) == ("definite", "connection-lost")

    def test_a_lost_write_is_in_doubt(self) -> None:
        outcome = asked([self.READ, None], lambda client: client.cas("r", b"1", b"2"))
        assert outcome == ("indefinite", "connection-lost")


@pytest.mark.parametrize(
    ("mode", "query"), [(ReadMode.STRONG, "?consistent"), (ReadMode.LEADER, "?"), (ReadMode.PLAIN, "?stale")]
)
def test_each_mode_of_reading_is_asked_in_consuls_words(mode: ReadMode, query: str) -> None:
    targets: list[str] = []

    async def use(host: str, port: int, script: Script) -> None:
        client = ConsulClient(await connect(host, port, 5), ConsulOptions())
        reply = await client.read("r1", mode)
        assert (reply.value, reply.value_position, reply.position) == (b"1", 4, None)
        absent = await client.read("r2", mode)
        assert (absent.value, absent.position) == (None, 7)
        targets.extend(request.split(b" ")[1].decode() for request in script.requests)

    play([TestCas.READ, answer(404, "")], use)
    assert targets == [f"/v1/kv/r1{query}", f"/v1/kv/r2{query}"]


def test_a_mode_that_consul_does_not_have() -> None:
    async def use(host: str, port: int, script: Script) -> None:
        with pytest.raises(ValueError, match="barrier"):
            await ConsulClient(await connect(host, port, 5), ConsulOptions()).read("r1", ReadMode.BARRIER)

    assert play([], use).requests == []


def test_a_closed_client_sends_nothing() -> None:
    async def use(host: str, port: int, script: Script) -> None:
        client = ConsulClient(await connect(host, port, 5), ConsulOptions())
        await client.close()
        with pytest.raises(NotSent):
            await client.write("k", b"1")

    assert play([], use).requests == []
