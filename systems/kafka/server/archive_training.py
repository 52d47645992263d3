"""The training run for Kafka's start-up archive: one node that is controller and broker, asked a bit of everything.

The archive of a combined node serves pure controllers and brokers too (measured). The node ends by SIGTERM, at which
the JVM writes the archive.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.java.archive_training import LOOPBACK, held_ports, running
from fencepost.harness.runtime.artifacts.java import find_java
from fencepost.systems.kafka.client.client import KafkaNode, open_node
from fencepost.systems.kafka.server import start as server
from fencepost.systems.kafka.server import storage
from fencepost.systems.kafka.wire.errors import TOPIC_ALREADY_EXISTS, ServerDoubt, ServerRefusal
from fencepost.systems.kafka.wire.values import ALL_BROKERS, Resource, ResourceType

_READY_TIMEOUT_S: Final = 60.0
_ATTEMPT_S: Final = 5.0
_ASK_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.1
_HEAP_MIB: Final = 256
_TOPIC: Final = "training"


def train(version: str, jars: list[Path], flags: list[str]) -> None:
    """Run the node with these further `flags`. Raises TimeoutError when it does not come up."""
    with tempfile.TemporaryDirectory(prefix="fencepost-training-") as name, held_ports(2) as (client, controller):
        home = Path(name)
        for relative, content in storage.data_files(1, version, votes=True).items():
            path = home / "data" / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        (home / server.PROPERTIES).write_text(server.properties(_settings(home, client, controller)), encoding="utf-8")
        command = server.argv(find_java(), jars, None, home / server.PROPERTIES, heap_mib=_HEAP_MIB, more=tuple(flags))
        with running(command, home / "log") as process:
            in_thread(lambda: _converse(client, controller))
            process.stop()


def _settings(home: Path, client: int, controller: int) -> dict[str, object]:
    return {
        "process.roles": "controller,broker",
        "node.id": 1,
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
        "listeners": f"CLIENT://{LOOPBACK}:{client},CONTROLLER://{LOOPBACK}:{controller}",
        "advertised.listeners": f"CLIENT://{LOOPBACK}:{client}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "CLIENT",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": home / "data",
        "controller.quorum.append.linger.ms": 0,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
    }


def in_thread(conversation: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine to its end on a loop of its own, also when the caller is on one.

    An answer that refuses what was asked ends the training as a node that is late does.
    """
    with ThreadPoolExecutor(1) as pool:
        try:
            pool.submit(lambda: asyncio.run(conversation())).result()
        except (Definite, Indefinite) as error:
            raise TimeoutError(f"the node of the training run answered {error}") from error


async def converse_with_broker(port: int) -> None:
    """Once the broker has a topic: what runs ask of one, so that the classes behind it are loaded too."""
    broker = await _once_it_serves(port)
    async with asyncio.timeout(_ASK_TIMEOUT_S):
        await broker.logs.produce(_TOPIC, 0, [b"x"])
        await broker.logs.fetch(_TOPIC, 0, 0)
        await broker.logs.position(_TOPIC, 0)
        await broker.alter_config(Resource(ResourceType.TOPIC, _TOPIC), "retention.bytes", "1000")
        await broker.read_config(Resource(ResourceType.TOPIC, _TOPIC), "retention.bytes")
        await broker.metadata(None)
        with suppress(Definite):  # it fetches its first block of ids only now
            await broker.allocate_producer_id()
    broker.close()


async def _once_it_serves(port: int) -> KafkaNode:
    deadline = time.monotonic() + _READY_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            async with asyncio.timeout(_ATTEMPT_S):
                node = await open_node(LOOPBACK, port, connect_timeout_s=1)
                try:
                    await _make_topic(node)
                    await _led(node)
                except BaseException:
                    node.close()
                    raise
                return node
        except (Definite, Indefinite, TimeoutError):
            await asyncio.sleep(_POLL_S)
    raise TimeoutError(f"the node of the training run does not serve within {_READY_TIMEOUT_S:g} s")


async def _make_topic(node: KafkaNode) -> None:
    """Also when an earlier attempt made it, which was given up before the answer came."""
    try:
        await node.create_topic(_TOPIC)
    except (ServerRefusal, ServerDoubt) as answered:
        if answered.number != TOPIC_ALREADY_EXISTS:
            raise


async def _led(node: KafkaNode) -> None:
    while True:
        topics = (await node.metadata([_TOPIC])).topics
        if topics and topics[0].partitions and topics[0].partitions[0].leader >= 0:
            return
        await asyncio.sleep(_POLL_S)


async def _converse(client: int, controller: int) -> None:
    await converse_with_broker(client)
    node = await open_node(LOOPBACK, controller, connect_timeout_s=5)
    async with asyncio.timeout(_ASK_TIMEOUT_S):
        await node.describe_quorum()
        await node.create_topic(_TOPIC + "-2", validate_only=True)
        await node.alter_config(ALL_BROKERS, "message.max.bytes", "1000000")
    node.close()
