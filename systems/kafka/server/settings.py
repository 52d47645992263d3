"""Settings of Kafka itself: keys of server.properties.

Kafka accepts an unknown key silently. So each key is searched for in the classes of the release's own jars before the
start. Once the servers run, each node is asked for its values (DescribeConfigs), where an unknown key has none.
Controllers before 3.7 do not offer that request.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract.profile import SystemOptions
from fencepost.harness.contract.server_settings import (
    AppliedSetting,
    Reserved,
    ServerSettings,
    Settings,
    applied,
    same_value,
)
from fencepost.harness.java import class_constants
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Node
from fencepost.systems.kafka.client.client import KafkaNode, asking
from fencepost.systems.kafka.names import CLIENT_PORT
from fencepost.systems.kafka.server.start import PROPERTIES
from fencepost.systems.kafka.server.versions import JARS
from fencepost.systems.kafka.wire.values import Resource, ResourceType
from fencepost.systems.zookeeper import settings as zookeeper
from fencepost.systems.zookeeper.configuration import ZOOKEEPER

_LINKS: Final = "builds the links of the cluster from it"
_REASONS: Final = {
    r"process\.roles|node\.id|broker\.id.*|controller\.quorum\.(voters|bootstrap\.servers)": "names its nodes by it",
    r"(advertised\.)?listeners|controller\.listener\.names|control\.plane\.listener\.name|listener\..*": _LINKS,
    r".*inter\.broker\.(listener\.name|protocol)": _LINKS,
    r"zookeeper\.connect|zookeeper\.(ssl|clientCnxnSocket).*|ssl\..*|sasl\..*": _LINKS,
    r"log\.dirs?|metadata\.log\.dir": "copies, damages and measures the data in the place that it chose",
    r"auto\.create\.topics\.enable": "asks whether topics exist without creating them",
}
#: The evidence from a node that does not offer the request.
_NOT_OFFERED: Final = "DescribeConfigs is not offered"
_ASK_S: Final = 5.0
_DESCRIBE_CONFIGS: Final = 32


def kafka_settings(name: str, roles_of_keepers: Collection[str] = ()) -> ServerSettings[Any]:
    """The settings of the Kafka of this name, and of ZooKeepers where its nodes with these roles are such."""

    def refuse(of: str, key: str, options: SystemOptions) -> Refusal | None:
        if of == ZOOKEEPER:
            return zookeeper.refuse(of, key, options)
        return Reserved.beside(type(options), _REASONS).refuse(key)

    def refuse_unknown(artifacts: Artifacts, settings: Settings) -> Refusal | None:
        jars, version = JARS.of(artifacts), artifacts.version
        # "log." and the name of a topic's setting is the default for all topics; no class has the whole name.
        spelled = {key: (key, key.removeprefix("log.")) for key in settings.get(name, {})}
        own = [jar for jar in jars if jar.name.startswith("kafka")]
        what = f"known to Kafka {version}: its classes do not name it"
        refusal = class_constants.refuse_unknown(name, spelled, own, what=what)
        return refusal or zookeeper.refuse_unknown(jars, f"of Kafka {version}", settings)

    async def applied_settings(node: Node, settings: Settings) -> list[AppliedSetting]:
        if not set(node.place.roles).isdisjoint(roles_of_keepers):
            return await zookeeper.applied_settings(node, settings)
        return await _applied(name, node, settings.get(name, {}))

    keepers = {ZOOKEEPER: zookeeper.ABOUT} if roles_of_keepers else {}
    return ServerSettings(
        settable={name: "a key of server.properties", **keepers},
        samples={name: {"num.partitions": "2"}},
        refuse=refuse,
        refuse_unknown=refuse_unknown,
        applied=applied_settings,
    )


async def _applied(of: str, node: Node, keys: Mapping[str, str]) -> list[AppliedSetting]:
    """How each setting is known to apply on this node.

    Raises ValueError when the node has another value, or does not know the key.
    """
    if not keys:
        return []
    async with asking(node.place.dial(CLIENT_PORT), _ASK_S) as client:
        if _DESCRIBE_CONFIGS not in client.connection.offered:
            by = f"{PROPERTIES}; {_NOT_OFFERED} by this node"
            return [applied(of, node, key, value, by=by) for key, value in keys.items()]
        return [await _applied_setting(of, node, client, key, value) for key, value in keys.items()]


async def _applied_setting(of: str, node: Node, client: KafkaNode, key: str, value: str) -> AppliedSetting:
    config = await client.read_config(Resource(ResourceType.BROKER, str(node.place.number)), key)
    if config is None or config.value is None:
        raise ValueError(f"{node.name} does not know the setting {key}: it has no value of it")
    if not same_value(config.value, value):
        raise ValueError(f"{node.name} says that {key} is {config.value}, not {value}")
    return applied(of, node, key, value, says=config.value, by="DescribeConfigs")
