"""Every way in which a connection to a Kafka node can end or misbehave, against a node that does as it is told."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
import uvloop
from kafka.protocol.admin.topics import CreateTopicsResponse
from kafka.protocol.metadata.api_versions import ApiVersionsResponse
from kafka.protocol.producer.produce import ProduceResponse
from kafka.protocol.producer.transaction import InitProducerIdRequest, InitProducerIdResponse

from fencepost.harness.coordination import Definite, Indefinite, NotSent
from fencepost.systems.kafka.client.client import KafkaNode, open_node
from fencepost.systems.kafka.wire.messages import INIT_PRODUCER_ID
from fencepost.systems.kafka.wire.values import ALL_BROKERS
from tests.fakes.kafka_broker import (
    BROKER,
    CLOSE,
    CONTROLLER,
    RESET,
    SILENCE,
    ZOOKEEPER_BROKER,
    Answer,
    Asked,
    FakeNode,
    answer_frame,
    everything,
    node,
)
from tests.systems.contract.patience import PATIENCE_S, until

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
Run = Callable[[Coroutine[Any, Any, None]], None]
ID = InitProducerIdResponse(producer_id=7, producer_epoch=1)


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Run:
    """Run a coroutine on each of the two loops that the harness may live on."""

    def on_loop(coroutine: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            runner.run(asyncio.wait_for(coroutine, 100))

    return on_loop


async def outcome(request: Awaitable[object], timeout_s: float = PATIENCE_S) -> tuple[str, str]:
    """(kind, code); a request that hangs is cancelled, as the interpreter does it."""
    try:
        async with asyncio.timeout(timeout_s):
            return "ok", repr(await request)
    except NotSent as error:
        return "not-sent", error.code
    except Definite as error:
        return "definite", error.code
    except Indefinite as error:
        return "indefinite", error.code
    except TimeoutError:
        return "cancelled", "timeout"


async def opened(fake: FakeNode) -> KafkaNode:
    return await open_node("127.0.0.1", fake.port, connect_timeout_s=PATIENCE_S)


def fixed(answer: Answer) -> Callable[[Asked], Answer]:
    return lambda asked: answer


LOST = ("indefinite", "connection-lost")
CLOSED = ("not-sent", "not-sent")


def test_several_in_flight_end_together(run: Run) -> None:
    async def scenario() -> None:
        async with node(lambda asked: CLOSE if len(fake.asked) == 3 else SILENCE) as fake:
            client = await opened(fake)
            ends = await asyncio.gather(*(outcome(client.allocate_producer_id()) for _ in range(3)))
            assert ends == [LOST] * 3

    run(scenario())


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize(
    ("what", "why"),
    [
        (lambda asked: answer_frame(asked, ID, asked.correlation + 1), "was due"),
        (lambda asked: answer_frame(asked, ID) * 2, "where none was due"),
        (lambda asked: struct.pack(">i", -5), "an answer of -5 bytes"),
        (lambda asked: struct.pack(">i", 1 << 30), f"an answer of {1 << 30} bytes"),
        (lambda asked: frame(b"\0"), "an answer of 1 bytes"),
        (lambda asked: frame(struct.pack(">i", asked.correlation)), "ends inside its header"),
        (lambda asked: frame(struct.pack(">i", asked.correlation) + b"\0\0\0"), "cannot be read"),
        (lambda asked: frame(answer_frame(asked, ID)[4:] + b"\0"), "cannot be read"),
    ],
)
def test_a_node_that_breaks_the_protocol_is_left(run: Run, what: Callable[[Asked], bytes], why: str) -> None:
    async def scenario() -> None:
        async with node(what) as fake:
            client = await opened(fake)
            first = await outcome(client.allocate_producer_id())
            assert first == LOST or (why == "where none was due" and first[0] == "ok")
            await until(lambda: client.connection.ended)
            assert why in (client.connection.ended or "")
            assert await outcome(client.allocate_producer_id()) == CLOSED

    run(scenario())


def test_answers_of_the_same_bytes_are_read_once_and_others_each(run: Run) -> None:
    asked_before: list[Any] = []

    async def scenario() -> None:
        answers = iter((7, 7, 8, 7))

        def answer(asked: Asked) -> Answer:
            asked_before.append(asked.message)
            return InitProducerIdResponse(producer_id=next(answers), producer_epoch=1)

        async with node(answer) as fake:
            client = await opened(fake)
            question = InitProducerIdRequest(transaction_timeout_ms=1)
            got = [await client.connection.request(INIT_PRODUCER_ID, question) for _ in range(4)]
            assert [each.producer_id for each in got] == [7, 7, 8, 7]
            assert got[0] is got[1]
            client.close()

    run(scenario())
    assert len(asked_before) == 4 and all(asked == asked_before[0] for asked in asked_before)


@pytest.mark.parametrize("answer", [SILENCE, CLOSE, RESET, b"\xff" * 8, ApiVersionsResponse(error_code=35)])
def test_what_does_not_name_its_apis_is_not_connected_to(run: Run, answer: Answer) -> None:
    async def scenario() -> None:
        async with node(fixed(answer), offered={}) as fake:
            opening = open_node("127.0.0.1", fake.port, connect_timeout_s=0.3)
            assert await outcome(opening) == ("definite", "not-connected")

    run(scenario())


def test_a_refusal_in_version_0_is_understood(run: Run) -> None:
    """A node that does not know our version of ApiVersions answers in its lowest one."""

    def lowest(asked: Asked) -> bytes:
        return frame(struct.pack(">ihi", asked.correlation, 35, 0))

    async def scenario() -> None:
        async with node(lowest, offered={}) as fake:
            with pytest.raises(Definite, match="error 35"):
                await opened(fake)

    run(scenario())


def test_nothing_is_begun_while_the_kernel_has_not_taken_the_last_request(run: Run) -> None:
    """A node that does not read, as a paused one: its socket fills, and from then on nothing is handed over."""

    async def scenario() -> None:
        deaf = socket.create_server(("127.0.0.1", 0))
        deaf.setblocking(False)
        loop = asyncio.get_running_loop()
        opening = asyncio.create_task(open_node("127.0.0.1", deaf.getsockname()[1], connect_timeout_s=PATIENCE_S))
        taken, _ = await loop.sock_accept(deaf)
        asked = await loop.sock_recv(taken, 1000)
        offers = [(key, low, high) for key, (low, high) in everything().items()]
        body = struct.pack(">h", 0) + bytes([len(offers) + 1])
        body += b"".join(struct.pack(">hhh", *offer) + b"\0" for offer in offers) + struct.pack(">i", 0) + b"\0"
        await loop.sock_sendall(taken, frame(asked[8:12] + body))
        client = await opening
        sent = []
        for _ in range(200):
            sent.append(asyncio.create_task(outcome(client.logs.produce("t", 0, [bytes(1 << 18)]))))
            await asyncio.sleep(0)
            if any(one.done() for one in sent):
                break
        await asyncio.sleep(0.05)
        done = [one.result() for one in sent if one.done()]
        assert done and set(done) == {("definite", "not-taken")}
        taken.close()
        deaf.close()
        assert {await one for one in sent} == {("definite", "not-taken"), LOST}
        assert await outcome(client.logs.produce("t", 0, [b"x"])) == CLOSED

    run(scenario())


# What is asked of which node, in which version


def test_the_highest_version_that_both_know_is_asked_and_recorded(run: Run) -> None:
    async def scenario() -> None:
        offered = everything() | {22: (2, 3), 19: (0, 99), 20: (6, 9), 44: (-1, -1)}
        async with node(lambda asked: ID if asked.api.key == 22 else CreateTopicsResponse(), offered) as fake:
            client = await opened(fake)
            await client.allocate_producer_id()
            await outcome(client.create_topic("t"))
            assert client.versions == {"ApiVersions": 3, "InitProducerId": 3, "CreateTopics": 7}
            assert [asked.version for asked in fake.asked] == [3, 7]
            asked = fake.asked[0].message
            assert (asked.transactional_id, asked.transaction_timeout_ms, asked.producer_id) == (None, 60_000, -1)
            for request in (client.delete_topic("t"), client.alter_config(ALL_BROKERS, "k", "v")):
                assert await outcome(request) == ("definite", "unsupported-api")
            assert len(fake.asked) == 2
            client.close()

    run(scenario())


def test_what_a_node_does_not_offer_is_never_sent(run: Run) -> None:
    """Controllers of 3.6 close the connection on DescribeConfigs; they do not offer it."""

    async def scenario() -> None:
        async with node(
            fixed(CLOSE), {key: value for key, value in everything(CONTROLLER).items() if key != 22}
        ) as fake:
            client = await opened(fake)
            assert await outcome(client.allocate_producer_id()) == ("definite", "unsupported-api")
            assert not fake.asked
            assert client.connection.ended is None
            client.close()

    run(scenario())


@pytest.mark.parametrize(
    ("offered", "role"), [(CONTROLLER, "controller"), (BROKER, "broker"), (ZOOKEEPER_BROKER, "zookeeper-broker")]
)
def test_a_node_is_known_by_what_it_offers(run: Run, offered: dict[int, tuple[int, int]], role: str) -> None:
    async def scenario() -> None:
        async with node(fixed(SILENCE), everything(offered)) as fake:
            client = await opened(fake)
            assert client.role == role
            client.close()

    run(scenario())


def test_produce_without_acknowledgement_is_sent_and_proves_nothing(run: Run) -> None:
    async def scenario() -> None:
        async with node(lambda asked: SILENCE if asked.message.acks == 0 else ProduceResponse()) as fake:
            client = await opened(fake)
            assert await outcome(client.logs.produce("t", 0, [b"x"], acks=0)) == ("indefinite", "no-acknowledgement")
            assert len(client.connection._waiting) == 0
            assert await outcome(client.logs.produce("t", 0, [b"x"])) == ("indefinite", "incomplete-answer")
            assert [asked.message.acks for asked in fake.asked] == [0, -1]
            client.close()

    run(scenario())


NAMES_WHAT_WAS_ASKED: dict[str, Callable[[KafkaNode], Awaitable[object]]] = {
    "CreateTopics": lambda c: c.create_topic("t"),
    "DeleteTopics": lambda c: c.delete_topic("t"),
    "IncrementalAlterConfigs": lambda c: c.alter_config(ALL_BROKERS, "k", "v"),
    "DescribeConfigs": lambda c: c.read_config(ALL_BROKERS, "k"),
    "Produce": lambda c: c.logs.produce("t", 0, [b"x"]),
    "Fetch": lambda c: c.logs.fetch("t", 0, 0),
    "ListOffsets": lambda c: c.logs.position("t", 0),
    "DescribeQuorum": lambda c: c.describe_quorum(),
}


@pytest.mark.parametrize("name", NAMES_WHAT_WAS_ASKED)
def test_an_answer_that_names_nothing_proves_nothing(run: Run, name: str) -> None:
    async def scenario() -> None:
        async with node(lambda asked: asked.api.response()) as fake:
            client = await opened(fake)
            assert await outcome(NAMES_WHAT_WAS_ASKED[name](client)) == ("indefinite", "incomplete-answer")
            assert [asked.api.name for asked in fake.asked] == [name]
            client.close()

    run(scenario())
