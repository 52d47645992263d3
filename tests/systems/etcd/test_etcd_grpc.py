"""What an answer's headers, trailers and body mean: gRPC's rules, against a server of bare frames."""

import asyncio

import pytest

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.systems.etcd.wire import rpc_pb2 as rpc
from tests.systems.etcd import etcd_wire as wire
from tests.systems.etcd.etcd_wire import playing

UNREADABLE = b"\0\0\0\0\x02\x0a\x7f"


def only(*headers: tuple[str, str]) -> tuple[bytes, ...]:
    """An answer of headers alone."""
    return (wire.end(1, [*wire.OK_HEAD, *headers]),)


def whole(body: bytes = wire.PUT, *trailers: tuple[str, str], http: str = "200") -> tuple[bytes, ...]:
    head = [(":status", http), ("content-type", "application/grpc")]
    return (wire.head(1, head), wire.frame(wire.DATA, 0, 1, body), wire.end(1, [*(trailers or wire.OK_END)]))


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (whole(), "ok"),
        (whole(wire.PUT, ("grpc-status", "0")), "ok"),
        (whole(wire.message(rpc.PutResponse())), "ok"),
        (whole(wire.PUT, ("grpc-status", "14"), ("grpc-message", "etcdserver: no leader")), "unavailable"),
        (only(("grpc-status", "3"), ("grpc-message", "etcdserver: key")), "invalid-argument"),
        (only(("grpc-status", "0")), "unforeseen-status"),
        (only(("grpc-status", "99")), "unforeseen-status"),
        (only(("grpc-status", "-1")), "unforeseen-status"),
        (only(("grpc-status", "three")), "unforeseen-status"),
        (only(), "unforeseen-status"),
        (whole(wire.PUT, ("x", "y")), "unforeseen-status"),
        (whole(http="500"), "unforeseen-status"),
        ((wire.end(1, [(":status", "404")]),), "unforeseen-status"),
        ((wire.end(1, [(":status", "503")]),), "connection-lost"),
        ((wire.end(1, [(":status", "503"), ("grpc-status", "8")]),), "unforeseen-status"),
        ((wire.end(1, wire.OK_END),), "unforeseen-status"),
        ((wire.head(1), wire.frame(wire.DATA, wire.END_STREAM, 1, wire.PUT)), "unforeseen-status"),
        (whole(b""), "unforeseen-status"),
        (whole(wire.PUT[:-1]), "unforeseen-status"),
        (whole(wire.PUT + wire.PUT), "unforeseen-status"),
        (whole(b"\x01" + wire.PUT[1:]), "unforeseen-status"),
        (whole(UNREADABLE), "unforeseen-status"),
    ],
)
def test_an_answer_means_what_grpc_says(told: tuple[bytes, ...], expected: str) -> None:
    async def scenario() -> None:
        async with playing() as (client, peer):
            put = asyncio.create_task(client.write("k", b"v"))
            await peer.request()
            peer.send(*told)
            [ended] = await asyncio.gather(put, return_exceptions=True)
            assert (ended.code if isinstance(ended, Definite | Indefinite) else "ok") == expected, ended
            assert client._connection.shut is None, "the connection is as good as before"

    asyncio.run(asyncio.wait_for(scenario(), 100))


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ("etcdserver: too many requests", "etcdserver: too many requests"),
        ("50%25 of %E2%82%AC5", "50% of €5"),
        ("%zz and %", "%zz and %"),
        ("%FF", "�"),
        ("", ""),
    ],
)
def test_the_servers_words_are_decoded(sent: str, said: str) -> None:
    async def scenario() -> None:
        async with playing() as (client, peer):
            put = asyncio.create_task(client.write("k", b"v"))
            await peer.request()
            peer.send(*only(("grpc-status", "2"), ("grpc-message", sent)))
            with pytest.raises(Indefinite) as caught:
                await put
            assert str(caught.value) == f"unforeseen-status: UNKNOWN: {said}"

    asyncio.run(asyncio.wait_for(scenario(), 100))


def test_a_renewal_is_one_request_that_ends_its_half() -> None:
    async def scenario() -> None:
        async with playing() as (client, peer):
            client._lease = 7
            renewal = asyncio.create_task(client.renew())
            stream = await peer.request()
            said = rpc.LeaseKeepAliveResponse(header=rpc.ResponseHeader(revision=5, raft_term=2), ID=7, TTL=2)
            peer.send(wire.answer(stream, wire.message(said)))
            assert (await renewal).position == 5
            assert await peer.silent()

    asyncio.run(asyncio.wait_for(scenario(), 100))
