"""Every row of etcd's error table, against servers that answer as they are told."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import grpc
import pytest
import uvloop

from fencepost.harness.coordination import Definite, Indefinite, ReadMode
from fencepost.systems.etcd.wire import errors
from fencepost.systems.etcd.wire import rpc_pb2 as rpc
from fencepost.systems.etcd.wire.grpc_call import GrpcStatus, connect
from tests.systems.contract.patience import refused_port, until
from tests.systems.etcd import etcd_scripts as scripts
from tests.systems.etcd.whole_client import EtcdClient

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    """Run a coroutine on each of the two loops that the harness may live on."""

    def on_loop(coroutine: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(asyncio.wait_for(coroutine, 100))

    return on_loop


async def raised(request: Awaitable[object]) -> tuple[str, str]:
    try:
        return "ok", repr(await request)
    except Definite as error:
        return "definite", error.code
    except Indefinite as error:
        return "indefinite", error.code


#: status, text of the server, expected kind, expected row.
ANSWERS = [
    ("INVALID_ARGUMENT", "etcdserver: key is not provided", "definite", "invalid-argument"),
    ("FAILED_PRECONDITION", "etcdserver: lease already exists", "definite", "failed-precondition"),
    ("NOT_FOUND", "etcdserver: requested lease not found", "definite", "not-found"),
    ("OUT_OF_RANGE", "etcdserver: mvcc: required revision has been compacted", "definite", "out-of-range"),
    ("RESOURCE_EXHAUSTED", "etcdserver: too many requests", "definite", "too-many-requests"),
    ("RESOURCE_EXHAUSTED", "etcdserver: mvcc: database space exceeded", "indefinite", "no-space"),
    ("RESOURCE_EXHAUSTED", "something else is exhausted", "indefinite", "unforeseen-status"),
    ("UNAVAILABLE", "etcdserver: request timed out", "indefinite", "request-timed-out"),
    (
        "UNAVAILABLE",
        "etcdserver: request timed out, possibly due to previous leader failure",
        "indefinite",
        "request-timed-out",
    ),
    ("UNAVAILABLE", "etcdserver: leader changed", "indefinite", "leader-changed"),
    ("UNAVAILABLE", "etcdserver: unhealthy cluster", "definite", "unhealthy-cluster"),
    ("UNAVAILABLE", "etcdserver: no leader", "indefinite", "unavailable"),
    ("UNAVAILABLE", "etcdserver: server stopped", "indefinite", "unavailable"),
    ("UNAVAILABLE", "transport is closing", "indefinite", "connection-lost"),
    ("DEADLINE_EXCEEDED", "context deadline exceeded", "indefinite", "deadline-exceeded"),
    ("CANCELLED", "context canceled", "indefinite", "cancelled"),
    *(
        (status, "what now", "indefinite", "unforeseen-status")
        for status in (
            "UNKNOWN",
            "INTERNAL",
            "ABORTED",
            "DATA_LOSS",
            "UNIMPLEMENTED",
            "ALREADY_EXISTS",
            "PERMISSION_DENIED",
            "UNAUTHENTICATED",
        )
    ),
]


def test_every_row_and_every_status_is_tried() -> None:
    assert {row.code for row in errors.TABLE.values()} == {row for *_, row in ANSWERS}
    assert {code.name for code in grpc.StatusCode} - {"OK"} == {status for status, *_ in ANSWERS}
    assert {code.name: code.value[0] for code in grpc.StatusCode} == {
        status.name: status.value for status in GrpcStatus
    }


def test_the_table_is_of_distinct_rows_with_reasons() -> None:
    codes = [row.code for row in errors.TABLE.values()]
    assert len(codes) == len(set(codes))
    assert not set(codes) & set(errors.OWN_DEFINITE)
    assert all(row.why for row in errors.TABLE.values())
    assert all(errors.OWN_DEFINITE.values())


def test_what_the_server_says_decides(run: Any) -> None:
    requests: list[Callable[[EtcdClient], Awaitable[object]]] = [
        lambda client: client.write("k", b"v"),
        lambda client: client.read("k", ReadMode.STRONG),
        lambda client: client.cas("k", b"a", b"b"),
        lambda client: client.members("s", ReadMode.PLAIN),
    ]

    async def scenario() -> None:
        answer: list[Any] = []
        async with scripts.scripted(lambda *_: answer[0]) as port:
            for status, text, kind, row in ANSWERS:
                answer[:] = [(grpc.StatusCode[status], text)]
                for request in requests:
                    async with scripts.client_of(port) as client:
                        assert await raised(request(client)) == (kind, row), (status, text)

    run(scenario())


def test_an_unknown_grant_is_no_lock_but_an_unknown_transaction_may_be_one(run: Any) -> None:
    async def scenario() -> None:
        script: dict[str, Any] = {}

        def behave(method: str, _: bytes) -> Any:
            return script[method.rsplit("/", 1)[1]]

        down = (grpc.StatusCode.UNAVAILABLE, "etcdserver: request timed out")
        header = rpc.ResponseHeader(revision=7, raft_term=3)
        granted = rpc.LeaseGrantResponse(header=header, ID=99, TTL=2)
        async with scripts.scripted(behave) as port, scripts.client_of(port) as client:
            script["LeaseGrant"] = down
            assert await raised(client.acquire("l")) == ("definite", "lease-not-granted")
            assert await raised(client.renew()) == ("definite", "lease-expired")
            script["LeaseGrant"], script["Txn"] = granted, down
            assert await raised(client.acquire("l")) == ("indefinite", "request-timed-out")
            script["Txn"] = rpc.TxnResponse(header=header, succeeded=False)
            assert await raised(client.acquire("l")) == ("definite", "held")
            script["Txn"] = (grpc.StatusCode.NOT_FOUND, "etcdserver: requested lease not found")
            assert await raised(client.acquire("l")) == ("definite", "lease-expired")
            script["Txn"] = rpc.TxnResponse(header=header, succeeded=True)
            held = await client.acquire("l")
            assert (held.token, held.epoch, held.handle) == (7, 3, "63")
            script["LeaseKeepAlive"] = down
            assert await raised(client.renew()) == ("indefinite", "request-timed-out")
            script["LeaseKeepAlive"] = rpc.LeaseKeepAliveResponse(header=header, ID=99, TTL=0)
            assert await raised(client.renew()) == ("definite", "lease-expired")

    run(scenario())


def test_an_answer_that_never_comes_is_left_to_the_caller(run: Any) -> None:
    async def scenario() -> None:
        never = asyncio.Event()

        async def wait() -> None:
            await never.wait()

        async with scripts.scripted(lambda *_: wait()) as port, scripts.client_of(port) as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await client.write("k", b"v")

    run(scenario())


def test_closing_under_a_request_leaves_it_unknown(run: Any) -> None:
    async def scenario() -> None:
        arrived, never = asyncio.Event(), asyncio.Event()

        async def wait() -> None:
            arrived.set()
            await never.wait()

        async with scripts.scripted(lambda *_: wait()) as port, scripts.client_of(port) as client:
            request = asyncio.create_task(raised(client.write("k", b"v")))
            await arrived.wait()
            await client.close()
            assert await request == ("indefinite", "closed")
            assert await raised(client.write("k", b"v")) == ("definite", "not-connected")
            await client.close()

    run(scenario())


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda stream: scripts.rst_stream(stream, scripts.REFUSED_STREAM), ("definite", "refused")),
        (lambda stream: scripts.rst_stream(stream, scripts.INTERNAL_ERROR), ("indefinite", "unforeseen-status")),
        (lambda stream: scripts.goaway(0), ("definite", "refused")),
        (lambda stream: None, ("indefinite", "connection-lost")),
    ],
    ids=["refused stream", "reset stream", "goaway", "connection closed"],
)
def test_nothing_is_sent_twice(run: Any, answer: Any, expected: tuple[str, str]) -> None:
    """Client libraries repeat a stream that was refused, or begun on a connection that is going away."""

    async def scenario() -> None:
        async with scripts.raw(answer) as wire, scripts.client_of(wire.port) as client:
            assert await raised(client.write("k", b"v")) == expected
            await asyncio.sleep(0.3)
            assert (wire.connections, wire.requests) == (1, 1)

    run(scenario())


def test_a_lost_connection_is_never_made_again(run: Any) -> None:
    async def scenario() -> None:
        async with scripts.raw(lambda stream: b"") as wire, scripts.client_of(wire.port) as client:
            wire.cut()
            await until(lambda: client._connection.shut is not None)
            for _ in range(3):
                assert await raised(client.write("k", b"v")) == ("definite", "not-connected")
                await asyncio.sleep(0.1)
            assert (wire.connections, wire.requests) == (1, 0)

    run(scenario())


def test_clients_of_one_node_do_not_share_a_connection(run: Any) -> None:
    async def scenario() -> None:
        async with scripts.raw(lambda stream: b"") as wire, scripts.client_of(wire.port), scripts.client_of(wire.port):
            assert wire.connections == 2

    run(scenario())


def test_a_server_that_accepts_and_says_nothing_is_not_connected(run: Any) -> None:
    async def scenario() -> None:
        async with scripts.raw(lambda stream: b"", settings=False) as wire:
            with pytest.raises(Definite, match=r"did not answer within 0\.3 s") as caught:
                await connect("127.0.0.1", wire.port, 0.3)
            assert caught.value.code == "not-connected"

    run(scenario())


def test_a_refused_connection_is_said_at_once(run: Any) -> None:
    async def scenario() -> None:
        with refused_port() as port, pytest.raises(Definite, match="refused the connection"):
            # Long after the whole scenario would be given up.
            await connect("127.0.0.1", port, 3600.0)

    run(scenario())


def test_the_proxy_of_the_environment_is_not_used(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "grpc_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    async def scenario() -> None:
        async with scripts.raw(lambda stream: b"") as wire, scripts.client_of(wire.port):
            assert wire.connections == 1

    run(scenario())


def test_reads_of_a_mode_that_etcd_lacks_are_refused(run: Any) -> None:
    async def scenario() -> None:
        async with scripts.raw(lambda stream: b"") as wire, scripts.client_of(wire.port) as client:
            for mode in (ReadMode.SYNC, ReadMode.BARRIER):
                with pytest.raises(ValueError, match="no reads of mode"):
                    await client.read("k", mode)
            assert wire.requests == 0

    run(scenario())
