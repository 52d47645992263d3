"""Settings of Kafka itself: keys of server.properties.

Kafka accepts an unknown key silently. So each key is searched for in the classes of the release's own jars before the
start. Once the servers run, each node is asked for its values (DescribeConfigs), where an unknown key has none.
Controllers before 3.7 do not offer that request.
"""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract.server_settings import AppliedSetting, Reserved, Settings, same_value, unknown
from fencepost.harness.java import class_constants as class_words
from fencepost.harness.runtime.node import Node
from fencepost.systems.kafka.client.client import KafkaNode, open_node
from fencepost.systems.kafka.wire.values import Resource, ResourceType

ABOUT: Final = "a key of server.properties"
_LINKS: Final = "builds the links of the cluster from it"
_REASONS: Final = {
    r"process\.roles|node\.id|broker\.id.*|controller\.quorum\.(voters|bootstrap\.servers)": "names its nodes by it",
    r"(advertised\.)?listeners|controller\.listener\.names|control\.plane\.listener\.name|listener\..*": _LINKS,
    r".*inter\.broker\.(listener\.name|protocol)": _LINKS,
    r"zookeeper\.connect|zookeeper\.(ssl|clientCnxnSocket).*|ssl\..*|sasl\..*": _LINKS,
    r"log\.dirs?|metadata\.log\.dir": "copies, damages and measures the data in the place that it chose",
    r"auto\.create\.topics\.enable": "asks whether topics exist without creating them",
}
#: "log." and the name of a topic's setting is the server's default for all topics; no class has the whole name.
_TOPIC: Final = "log."
#: The evidence from a node that does not offer the request.
_NOT_OFFERED: Final = "DescribeConfigs is not offered"
_ASK_S: Final = 5.0
_DESCRIBE_CONFIGS: Final = 32


def reserved(options: Mapping[str, str]) -> Reserved:
    """The keys that may not be set; `options` are those that have an option in this system."""
    return Reserved(options=options, reasons=_REASONS)


def refuse_unknown(of: str, jars: Iterable[Path], version: str, settings: Settings) -> Refusal | None:
    """Refuse the first key that is in no class of these jars; None when all are."""
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


async def applied_settings(
    of: str, node: Node, address: tuple[str, int], file: str, settings: Settings
) -> list[AppliedSetting]:
    """How each setting is known to apply on this node.

    Raises ValueError when the node has another value, or does not know the key.
    """
    keys = settings.get(of, {})
    if not keys:
        return []
    async with asyncio.timeout(_ASK_S):
        client = await open_node(*address, connect_timeout_s=_ASK_S)
        try:
            if _DESCRIBE_CONFIGS not in client.connection.offered:
                by = f"{file}; {_NOT_OFFERED} by this node"
                return [
                    AppliedSetting(node=node.name, setting=f"{of}.{key}", value=value, says=None, by=by)
                    for key, value in keys.items()
                ]
            return [await _applied_setting(of, node, client, key, value) for key, value in keys.items()]
        finally:
            client.close()


async def _applied_setting(of: str, node: Node, client: KafkaNode, key: str, value: str) -> AppliedSetting:
    config = await client.read_config(Resource(ResourceType.BROKER, str(node.place.number)), key)
    if config is None or config.value is None:
        raise ValueError(f"{node.name} does not know the setting {key}: it has no value of it")
    if not same_value(config.value, value):
        raise ValueError(f"{node.name} says that {key} is {config.value}, not {value}")
    return AppliedSetting(node=node.name, setting=f"{of}.{key}", value=value, says=config.value, by="DescribeConfigs")
