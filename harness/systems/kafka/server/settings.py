"""Settings of Kafka itself: keys of server.properties.

Kafka takes a key that it does not know without a word. So a key is looked for in the classes of the release's own jars
before the start, and once it runs each node is asked what it has (DescribeConfigs): what it does not know has no value
there. Controllers before 3.7 do not offer the question.
"""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.runtime.node import Node
from fencepost.harness.systems.contract.server_settings import Reserved, Settings, Taken, same, unknown
from fencepost.harness.systems.java import class_constants as class_words
from fencepost.harness.systems.kafka.client.client import KafkaNode, open_node
from fencepost.harness.systems.kafka.wire.values import Resource, ResourceType

ABOUT: Final = "a key of server.properties"
_LINKS: Final = "lays every link of the cluster by it"
_REASONS: Final = {
    r"process\.roles|node\.id|broker\.id.*|controller\.quorum\.(voters|bootstrap\.servers)": "knows its nodes by it",
    r"(advertised\.)?listeners|controller\.listener\.names|control\.plane\.listener\.name|listener\..*": _LINKS,
    r".*inter\.broker\.(listener\.name|protocol)": _LINKS,
    r"zookeeper\.connect|zookeeper\.(ssl|clientCnxnSocket).*|ssl\..*|sasl\..*": _LINKS,
    r"log\.dirs?|metadata\.log\.dir": "copies, damages and measures the data where it puts them",
    r"auto\.create\.topics\.enable": "asks whether topics exist without making them",
}
#: A topic's settings, with "log." before them, are a server's defaults for all topics; the name is put together.
_TOPIC: Final = "log."
#: Of a request whose kind the node does not offer.
_NOT_OFFERED: Final = "DescribeConfigs is not offered"
_ASK_S: Final = 5.0
_DESCRIBE_CONFIGS: Final = 32


def reserved(options: Mapping[str, str]) -> Reserved:
    """With those keys that have an option in this system."""
    return Reserved(options=options, reasons=_REASONS)


def refuse_unknown(of: str, jars: Iterable[Path], version: str, settings: Settings) -> Refusal | None:
    """The refusal of the first key that the classes of these jars do not know."""
    keys = settings.get(of, {})
    own = [jar for jar in jars if jar.name.startswith("kafka")]
    if not own:
        return None
    known = class_words.constants(own, {name for key in keys for name in (key, key.removeprefix(_TOPIC))})
    for key in keys:
        if key not in known and key.removeprefix(_TOPIC) not in known:
            what = f"known to Kafka {version}: its classes do not name it"
            return unknown(of, key, class_words.names(own), what=what)
    return None


async def taken(of: str, node: Node, address: tuple[str, int], file: str, settings: Settings) -> list[Taken]:
    """What the node says that it has; raises ValueError where it says something else, or does not know the key."""
    keys = settings.get(of, {})
    if not keys:
        return []
    async with asyncio.timeout(_ASK_S):
        asked = await open_node(*address, connect_timeout_s=_ASK_S)
        try:
            if _DESCRIBE_CONFIGS not in asked.connection.offered:
                by = f"{file}; {_NOT_OFFERED} by this node"
                return [
                    Taken(node=node.name, setting=f"{of}.{key}", value=value, says=None, by=by)
                    for key, value in keys.items()
                ]
            return [await _said(of, node, asked, key, value) for key, value in keys.items()]
        finally:
            asked.close()


async def _said(of: str, node: Node, asked: KafkaNode, key: str, value: str) -> Taken:
    found = await asked.read_config(Resource(ResourceType.BROKER, str(node.place.number)), key)
    if found is None or found.value is None:
        raise ValueError(f"{node.name} does not know the setting {key}: it has no value of it")
    if not same(found.value, value):
        raise ValueError(f"{node.name} says that {key} is {found.value}, not {value}")
    return Taken(node=node.name, setting=f"{of}.{key}", value=value, says=found.value, by="DescribeConfigs")
