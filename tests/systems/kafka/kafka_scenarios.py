"""What happens to Kafka connections and questions on real nodes in the lab; judged by `test_kafka_cluster`.

The nodes are controller and broker in one, started as plainly as they start at all: the systems proper come later.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from kafka.protocol.producer.produce import ProduceRequest

from fencepost.harness.contract.system import Answer
from fencepost.harness.coordination import Definite, Indefinite, NotSent
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.lab.lab import Lab
from fencepost.harness.runtime.node import Layout, NodeSpec, Place
from fencepost.systems.kafka.client.client import KafkaNode, open_node
from fencepost.systems.kafka.client.partition_logs import ACKS_ALL, EARLIEST
from fencepost.systems.kafka.client.question import ControllerQuestion, QuorumQuestion
from fencepost.systems.kafka.kraft import KRAFT
from fencepost.systems.kafka.server import start as server
from fencepost.systems.kafka.wire.errors import RequestKind, answered
from fencepost.systems.kafka.wire.messages import PRODUCE
from fencepost.systems.kafka.wire.records import Producer, write_batch
from fencepost.systems.kafka.wire.values import ALL_BROKERS, Resource, ResourceType
from tests.systems.contract.patience import PATIENCE_S, stopped

BROKER_PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
_HEAP_MIB: Final = 256


def specs(layout: Layout) -> list[NodeSpec]:
    artifacts = KRAFT.releases.resolve(KRAFT.releases.default)
    return [spec(place, layout, artifacts) for place in layout.values()]


def spec(place: Place, layout: Layout, artifacts: Artifacts) -> NodeSpec:
    # A node of its own is never to be fenced; of three, one that is cut off soon.
    session_ms = 18_000 if len(layout) == 1 else 3000
    voters = ",".join(f"{other.number}@{other.address}:{CONTROLLER_PORT}" for other in layout.values())
    settings = {
        "process.roles": "controller,broker",
        "node.id": place.number,
        "controller.quorum.voters": voters,
        "listeners": f"PLAINTEXT://{place.address}:{BROKER_PORT},CONTROLLER://{place.address}:{CONTROLLER_PORT}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": place.data,
        "controller.quorum.append.linger.ms": 0,
        "controller.quorum.election.timeout.ms": 500,
        "controller.quorum.fetch.timeout.ms": 1000,
        "controller.quorum.request.timeout.ms": 1000,
        "auto.create.topics.enable": "false",
        "broker.session.timeout.ms": session_ms,
        "broker.heartbeat.interval.ms": 300,
        "replica.lag.time.max.ms": 2000,
        "unclean.leader.election.enable": "false",
        "log.index.size.max.bytes": 4096,
        "num.network.threads": 1,
        "num.io.threads": 2,
    }
    return NodeSpec(
        name=place.name,
        argv=server.command(artifacts, place.folder / "server.properties", heap_mib=_HEAP_MIB),
        listeners={"client": BROKER_PORT, "controller": CONTROLLER_PORT},
        files={"server.properties": "".join(f"{key}={value}\n" for key, value in settings.items())},
        data_files={"meta.properties": f"version=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\nnode.id={place.number}\n"},
    )


async def start(lab: Lab) -> None:
    """Until a topic with a replica on every broker was made, and every broker knows who leads it."""
    await lab.realise(specs(lab.layout))
    for node in lab.nodes.values():
        await node.start()
    why = "never asked"
    try:
        async with asyncio.timeout(60):
            while True:
                for place in lab.layout.values():
                    try:
                        controller = await at_controller(place)
                        ended = await outcome(controller.create_topic("all", replication=len(lab.layout)))
                        controller.close()
                        # An earlier attempt may have made it and not been told.
                        if ended[0] != "ok" and ended[1] != "topic-already-exists":
                            raise Definite(ended[1])
                        for other in lab.layout.values():
                            await until(partial(serves, other), 30)
                        return
                    except (Definite, Indefinite) as error:
                        why = str(error)
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"not ready: {why}\n{lab.nodes['n1'].log_tail()}") from None


async def serves(place: Place) -> bool:
    try:
        topics = (await (await at_broker(place)).metadata(["all"])).topics
    except (Definite, Indefinite):
        return False
    return topics[0].error == 0 and all(view.leader > 0 for view in topics[0].partitions)


async def at_controller(place: Place) -> KafkaNode:
    return await open_node(*place.dial(CONTROLLER_PORT), connect_timeout_s=PATIENCE_S)


async def at_broker(place: Place, connect_timeout_s: float = PATIENCE_S) -> KafkaNode:
    return await open_node(*place.dial(BROKER_PORT), connect_timeout_s=connect_timeout_s)


async def answer_of(question: QuorumQuestion | ControllerQuestion) -> Answer:
    """Its first one: a dial is given up soon, and a busy node may be late for it."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await question.ask()
            except (Definite, Indefinite):
                await asyncio.sleep(0.05)


async def outcome(request: Awaitable[Any], timeout_s: float = PATIENCE_S) -> list[str]:
    """[kind, code or answer], the deadline applied as the interpreter does: by cancelling."""
    try:
        async with asyncio.timeout(timeout_s):
            return ["ok", repr(await request)]
    except NotSent as error:
        return ["not-sent", error.code]
    except Definite as error:
        return ["definite", error.code]
    except Indefinite as error:
        return ["indefinite", error.code]
    except TimeoutError:
        return ["cancelled", "timeout"]


async def until(condition: Callable[[], Awaitable[bool]], timeout_s: float = 30.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not await condition():
            await asyncio.sleep(0.05)


# One node


async def alone(lab: Lab, _: dict[str, Any]) -> dict[str, Any]:
    """Every operation, and every row of the error table that a healthy node of one's own can be brought to."""
    await start(lab)
    place = lab.layout["n1"]
    controller, broker = await at_controller(place), await at_broker(place)
    found = {
        "roles": [controller.role, broker.role],
        "changes": await changes(controller, "c") | await too_many(controller),
        "forwarded": await changes(broker, "b") | await too_many(broker),
        "who": await who(controller, broker),
        "log": await the_log(place, broker, controller),
        "versions": [dict(controller.versions), dict(broker.versions)],
        "questions": await questions(place),
        "ended": [controller.connection.ended, broker.connection.ended],
    }
    found["dead"] = await deaths(lab, place)
    return found


async def changes(node: KafkaNode, prefix: str) -> dict[str, Any]:
    topic = Resource(ResourceType.TOPIC, f"{prefix}-t")
    nowhere = Resource(ResourceType.TOPIC, "nowhere")
    steps: dict[str, Awaitable[Any]] = {
        "possible": node.create_topic(f"{prefix}-t", validate_only=True),
        "still possible": node.create_topic(f"{prefix}-t", validate_only=True),
        "made": node.create_topic(f"{prefix}-t", partitions=2, configs={"retention.ms": "1000000"}),
        "again": node.create_topic(f"{prefix}-t"),
        "taken": node.create_topic(f"{prefix}-t", validate_only=True),
        "too many replicas": node.create_topic("u", replication=9),
        "bad name": node.create_topic("a b"),
        "no partitions": node.create_topic("u", partitions=-4),
        "bad config": node.create_topic("u", configs={"nonsense": "1"}),
        "set": node.alter_config(topic, "retention.ms", "2000000"),
        "set all": node.alter_config(ALL_BROKERS, "log.retention.ms", "3000000"),
        "tried": node.alter_config(topic, "retention.ms", "5", validate_only=True),
        "set nowhere": node.alter_config(nowhere, "retention.ms", "1"),
        "set for nobody": node.alter_config(Resource(ResourceType.BROKER, "x"), "log.retention.ms", "1"),
        "set nonsense": node.alter_config(topic, "retention.ms", "x"),
        "read nowhere": node.read_config(nowhere, "retention.ms"),
        "taken back": node.alter_config(topic, "retention.ms", None),
        "deleted": node.delete_topic(f"{prefix}-t"),
        "delete nothing": node.delete_topic(f"{prefix}-t"),
    }
    ends = {name: await outcome(step) for name, step in steps.items()}

    async def seen() -> bool:
        value = await node.read_config(ALL_BROKERS, "log.retention.ms")
        return value is not None and value.value == "3000000"

    await until(seen)  # a node's own copy, which may lag
    return ends


async def too_many(node: KafkaNode) -> dict[str, Any]:
    """In ZooKeeper mode there is no such limit, and they would all be made."""
    return {"too many partitions": await outcome(node.create_topic("u", partitions=10_001))}


async def who(controller: KafkaNode, broker: KafkaNode) -> dict[str, Any]:
    quorum = await controller.describe_quorum()
    forwarded = await broker.describe_quorum()
    metadata = await broker.metadata(["all", "nowhere"])
    return {
        "quorum": [quorum.leader, quorum.epoch, [voter.node for voter in quorum.voters], quorum.high_watermark > 0],
        "forwarded": [forwarded.leader, forwarded.epoch],
        "topics": [[topic.name, topic.error, len(topic.partitions)] for topic in metadata.topics],
        "isr": metadata.topics[0].partitions[0].isr,
        "metadata at a controller": await outcome(controller.metadata()),
    }


async def the_log(place: Place, broker: KafkaNode, controller: KafkaNode) -> dict[str, Any]:
    await controller.create_topic("log")
    await controller.create_topic("strict", configs={"min.insync.replicas": "2"})
    await controller.create_topic("small", configs={"max.message.bytes": "500"})
    await controller.create_topic("compact", configs={"cleanup.policy": "compact"})
    await controller.create_topic("young", configs={"message.timestamp.before.max.ms": "1000"})
    await controller.create_topic("segments", configs={"segment.bytes": str(1 << 20), "max.message.bytes": "3000000"})
    names = ["log", "strict", "small", "compact", "young", "segments"]

    async def led() -> bool:
        topics = (await broker.metadata(names)).topics
        return all(len(topic.partitions) == 1 and topic.partitions[0].leader > 0 for topic in topics)

    await until(led)

    async def given() -> bool:
        kind, _ = await outcome(broker.allocate_producer_id())
        return kind == "ok"

    no_id_yet = await outcome(broker.allocate_producer_id())
    await until(given)
    ids = [await broker.allocate_producer_id() for _ in range(20)]
    by = ids[0]
    first = await broker.logs.produce("log", 0, [b"a", b"b"])
    steps = {
        "one acknowledgement": broker.logs.produce("log", 0, [b"c"], acks=1),
        "none": broker.logs.produce("log", 0, [b"d"], acks=0),
        "idempotent": broker.logs.produce("log", 0, [b"e"], producer=Producer(by.id, by.epoch, 0)),
        "idempotent again": broker.logs.produce("log", 0, [b"e"], producer=Producer(by.id, by.epoch, 0)),
        "sequence left out": broker.logs.produce("log", 0, [b"f"], producer=Producer(by.id, by.epoch, 5)),
        "next epoch": broker.logs.produce("log", 0, [b"g"], producer=Producer(by.id, by.epoch + 1, 0)),
        "old epoch": broker.logs.produce("log", 0, [b"h"], producer=Producer(by.id, by.epoch, 1)),
        "bad acks": broker.logs.produce("log", 0, [b"x"], acks=3),
        "nowhere": broker.logs.produce("nowhere", 0, [b"x"]),
        "no such partition": broker.logs.produce("log", 7, [b"x"]),
        "all of one replica": broker.logs.produce("strict", 0, [b"x"]),
        "too large": broker.logs.produce("small", 0, [bytes(2000)]),
        "larger than a segment": broker.logs.produce("segments", 0, [bytes(2 << 20)]),
        "no key to compact by": broker.logs.produce("compact", 0, [b"x"]),
        "of long ago": broker.logs.produce("young", 0, [b"x"], timestamp_ms=1),
        "damaged": damaged(broker),
        "fetch behind the end": broker.logs.fetch("log", 0, 1000),
        "fetch at a later epoch": broker.logs.fetch("log", 0, 0, leader_epoch=7),
        "fetch nowhere": broker.logs.fetch("nowhere", 0, 0),
        "position nowhere": broker.logs.position("nowhere", 0),
        "produce at a controller": controller.logs.produce("log", 0, [b"x"]),
    }
    ends = {name: await outcome(step) for name, step in steps.items()}
    whole = await broker.logs.fetch("log", 0, 0)
    rest = await broker.logs.fetch("log", 0, 3, leader_epoch=0)
    waited = asyncio.create_task(broker.logs.fetch("log", 0, whole.next_offset, max_wait_ms=30_000))
    other = await at_broker(place)  # a request that waits for records holds back everything behind it
    await other.logs.produce("log", 0, [b"late"])
    return {
        "no id yet": no_id_yet,
        "ids": len({one.id for one in ids}),
        "first": first.base_offset,
        "ends": ends,
        "values": [record.value.decode() for record in whole.records if record.value is not None],
        "offsets": [record.offset for record in whole.records],
        "epochs": sorted({record.epoch for record in whole.records}),
        "watermark": [whole.high_watermark, whole.log_start_offset, whole.next_offset],
        "rest": [record.offset for record in rest.records],
        "late": [record.offset for record in (await waited).records],
        "positions": [
            (await broker.logs.position("log", 0)).offset,
            (await broker.logs.position("log", 0, EARLIEST)).offset,
            (await broker.logs.position("log", 0, 10)).offset,
        ],
    }


async def damaged(broker: KafkaNode) -> None:
    """Produce a batch of which a byte was changed after its checksum was made."""
    batch = bytearray(write_batch([b"damaged"], timestamp_ms=1))
    batch[-2] ^= 1
    of_topic = ProduceRequest.TopicProduceData
    partition = of_topic.PartitionProduceData(index=0, records=bytes(batch))
    asked = ProduceRequest(
        transactional_id=None,
        acks=ACKS_ALL,
        timeout_ms=1000,
        topic_data=[of_topic(name="log", partition_data=[partition])],
    )
    answer = await broker.connection.request(PRODUCE, asked)
    raise answered(RequestKind.PRODUCE, answer.responses[0].partition_responses[0].error_code)


async def questions(place: Place) -> dict[str, Any]:
    def name_of(number: int) -> str:
        return place.name if number == place.number else str(number)

    asked: dict[str, QuorumQuestion | ControllerQuestion] = {
        "raft": QuorumQuestion(place.number, *place.dial(CONTROLLER_PORT), name_of),
        "controller": ControllerQuestion(place.number, *place.dial(CONTROLLER_PORT), name_of),
        "broker": QuorumQuestion(place.number, *place.dial(BROKER_PORT), name_of),
    }
    said = {}
    for name, question in asked.items():
        answer = await answer_of(question)
        said[name] = [answer.claims, answer.leader, answer.epoch, answer.detail]
        await question.close()
    return said


async def deaths(lab: Lab, place: Place) -> dict[str, Any]:
    """A node that sleeps, then one that dies while it is asked."""
    node = lab.nodes[place.name]
    broker, crowded = await at_broker(place), await at_broker(place)
    await stopped(node)
    cancelled = await outcome(broker.logs.produce("log", 0, [b"asleep"]), 0.5)
    # More than the sockets' buffers hold: the rest waits, and what is asked next was not even begun.
    full = asyncio.create_task(outcome(crowded.logs.produce("log", 0, [bytes(32 << 20)]), 0.5))
    await asyncio.sleep(0.1)
    behind = await outcome(crowded.metadata(), 0.5)
    await full
    opening = await outcome(at_broker(place, connect_timeout_s=1.0))
    await node.resume()
    awake = await outcome(broker.metadata())
    await stopped(node)
    asking = asyncio.create_task(outcome(broker.logs.produce("log", 0, [b"dying"])))
    await asyncio.sleep(0.1)
    await node.kill()
    return {
        "asleep": cancelled,
        "behind what the kernel has not taken": behind,
        "opening": opening,
        "awake": awake,
        "dying": await asking,
        "after": await outcome(broker.logs.produce("log", 0, [b"dead"])),
        "gone": await outcome(at_broker(place)),
    }
