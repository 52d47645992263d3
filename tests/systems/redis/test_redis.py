"""Redis: answers on the wire, outcomes of errors, what the client sends, and the configurations of a cluster."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.harness.base.options import seconds
from fencepost.harness.coordination import Definite, Held, Indefinite, NotSent, ReadMode, Reply
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Place
from fencepost.systems.redis import replicas
from fencepost.systems.redis.client import RedisClient
from fencepost.systems.redis.options import RedisOptions
from fencepost.systems.redis.system import REDIS
from fencepost.systems.redis.wire import RedisConnection, RedisRefusal, decode, encode

ANSWERS = [
    (b"+OK\r\n", b"OK"),
    (b":-3\r\n", -3),
    (b"$5\r\na\r\nbc\r\n", b"a\r\nbc"),
    (b"$-1\r\n", None),
    (b"*-1\r\n", None),
    (b"*3\r\n*1\r\n:1\r\n$0\r\n\r\n-ERR no\r\n", [[1], b"", RedisRefusal("ERR no")]),
]
#: The text, the exception and its code.
ERRORS = [
    ("READONLY You can't write against a read only replica. script: ab, on @user_script:2.", Definite, "not-leader"),
    ("NOREPLICAS Not enough good replicas to write.", Definite, "unavailable"),
    ("LOADING Redis is loading the dataset in memory", Definite, "loading"),
    ("EXECABORT Transaction discarded because of previous errors.", Definite, "aborted"),
    ("ERR unknown command", Indefinite, "err"),
    ("UNBLOCKED force unblock from blocking operation", Indefinite, "unblocked"),
]
HELD = Held(token=7, handle="ab")


@pytest.mark.parametrize(("data", "answer"), ANSWERS)
def test_an_answer_is_read_once_it_is_all_there(data: bytes, answer: object) -> None:
    assert decode(data + b"+next") == (answer, len(data))
    for end in range(len(data)):
        with pytest.raises(EOFError):
            decode(data[:end])


def test_what_is_no_answer_is_refused() -> None:
    for data in (b"?1\r\n", b":one\r\n", b"$x\r\n"):
        with pytest.raises(ValueError):
            decode(data)


@pytest.mark.parametrize(("text", "kind", "code"), ERRORS)
def test_errors_and_their_outcomes(text: str, kind: type[Exception], code: str) -> None:
    outcome = RedisRefusal(text).outcome()
    assert (type(outcome), outcome.code) == (kind, code)


class Peer(asyncio.Transport):
    """A server that answers the first request so, in pieces; without an answer it ends the connection."""

    def __init__(self, answers: bytes) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.connection = RedisConnection()
        self.connection.connection_made(self)
        self._answers = answers

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent.append(bytes(data))
        for start in range(0, len(self._answers), 5):
            self.connection.data_received(self._answers[start : start + 5])
        if not self._answers:
            self.connection.connection_lost(None)

    def abort(self) -> None:
        """Do nothing: nothing is open."""

    def is_closing(self) -> bool:
        return False

    @property
    def client(self) -> RedisClient:
        return RedisClient(self.connection, RedisOptions())


async def strong(client: RedisClient) -> Reply:
    return await client.read("r1", ReadMode.STRONG)


Call = Callable[[RedisClient], Awaitable[Any]]
IN_TRANSACTION = b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n*1\r\n+%b\r\n$1\r\n5\r\n"
CALLS: list[tuple[Call, bytes, str]] = [
    (lambda c: c.write("r1", b"1"), b"+OK\r\n", "Reply"),
    (lambda c: c.cas("r1", b"1", b"2"), b"$-1\r\n", "cas-mismatch"),
    (lambda c: c.create("r1", b"1"), b"$-1\r\n", "exists"),
    (lambda c: c.update("r1", b"1"), b"$-1\r\n", "absent"),
    (lambda c: c.add("s", 4), b":0\r\n", "exists"),
    (lambda c: c.read("r1", ReadMode.PLAIN), b"$1\r\n5\r\n", "Reply(value=b'5'"),
    (strong, IN_TRANSACTION % b"master", "Reply(value=b'5'"),
    (strong, IN_TRANSACTION % b"slave", "not-leader: slave"),
    (lambda c: c.acquire("lock"), b"$4\r\n7:ab\r\n", "Held(token=7, handle='ab'"),
    (lambda c: c.acquire("lock"), b"$-1\r\n", "held"),
    (lambda c: c.renew(), b"", "lease-expired"),
    (lambda c: c.release("lock", HELD), b"$-1\r\n", "not-held"),
    (lambda c: c.guarded_write("k", b"1", "lock", HELD), b"$-1\r\n", "fenced"),
    (lambda c: c.act("trail", "7-ab-1", "lock", HELD, guarded=True), b"$-1\r\n", "fenced"),
    (lambda c: c.leader("lock", ReadMode.PLAIN), b"$4\r\n7:ab\r\n", "Leading(token=7"),
]


@pytest.mark.parametrize(("call", "answers", "outcome"), CALLS)
def test_what_answers_mean(call: Call, answers: bytes, outcome: str) -> None:
    async def play() -> str:
        try:
            return repr(await call(Peer(answers).client))
        except Definite as error:
            return str(error)

    assert asyncio.run(play()).startswith(outcome)


def test_a_lost_connection_leaves_the_outcome_unknown_and_takes_no_more() -> None:
    async def play() -> None:
        peer = Peer(b"")
        with pytest.raises(Indefinite):
            await peer.client.write("r1", b"1")
        with pytest.raises(NotSent):
            await peer.client.write("r1", b"2")
        assert peer.sent == [encode("SET", "r1", b"1")]

    asyncio.run(play())


def test_an_answer_that_is_late_is_not_taken_for_the_next_one() -> None:
    class Slow(Peer):
        def write(self, data: bytes | bytearray | memoryview) -> None:
            self.sent.append(bytes(data))

    async def play() -> None:
        peer = Slow(b"")
        first, second = (asyncio.ensure_future(peer.connection.command(("GET", key))) for key in ("r1", "r2"))
        await asyncio.sleep(0)
        first.cancel()
        peer.connection.data_received(b"$1\r\n1\r\n$1\r\n2\r\n")
        assert await second == b"2"

    asyncio.run(play())


def place(number: int) -> Place:
    home = Path("/run")
    return Place(name=f"n{number}", number=number, address=f"10.0.0.{number}", folder=home, data=home, kept=home)


def test_servers_agree_by_keys_elements_and_the_order_of_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    def entries(*held: object) -> dict[str, str]:
        async def answer(*_: object, **__: object) -> list[object]:
            return [[b"r1", b"string", b"5"], *held]

        monkeypatch.setattr(replicas, "ask_once", answer)
        (state,) = asyncio.run(replicas.read(place(1)))
        return dict(state.entries)

    both = entries([b"s", b"set", [b"1", b"2"]])
    assert both == entries([b"s", b"set", [b"2", b"1"]]) and both != entries([b"s", b"set", [b"1"]])
    assert entries([b"t", b"list", [b"1", b"2"]]) != entries([b"t", b"list", [b"2", b"1"]])


def test_configurations() -> None:
    layout = {f"n{n}": place(n) for n in (1, 2, 3)}
    options = RedisOptions(min_replicas_to_write=1, min_replicas_max_lag=seconds(2), down_after=seconds(1))
    artifacts = Artifacts(version="7.0.15", paths={"redis-server": "/usr/bin/redis-server"}, sha256={})
    specs = REDIS.specs(layout, artifacts, options)
    servers, sentinels = zip(*((s.data_files["redis.conf"], s.data_files["sentinel.conf"]) for s in specs), strict=True)
    assert ["replicaof 10.0.0.1 6379" in str(text) for text in servers] == [False, True, True]
    assert all("min-replicas-to-write 1\nmin-replicas-max-lag 2\n" in str(text) for text in servers)
    for text in map(str, sentinels):
        assert "sentinel monitor fencepost 10.0.0.1 6379 2\nsentinel down-after-milliseconds fencepost 1000" in text
        assert (text.count("known-replica"), text.count("known-sentinel")) == (2, 2)
