"""What stands in the znodes of Kafka's metadata, as far as it can be compared with the records of KRaft's log.

| znode                                 | content                                                                   |
| /brokers/topics/T                     | topic_id; replicas, adding_replicas, removing_replicas by partition       |
| /config/KIND/NAME, not of a topic     | config: settings, quotas, and the SCRAM credentials of a user, by name    |
| /kafka-acl/TYPE/NAME, and -extended   | acls, each as "Allow User:a Read from *"                                  |
| /latest_producer_id_block             | next_producer_id                                                          |

Source: ZkData, ZkAclStore, ProducerIdBlockZNode of Kafka 2.8 to 3.9; ZkMigrationClient (writeProducerId) of 3.6 to 3.9.
"""

import re
from typing import Any, Final

import msgspec

_TOPIC: Final = re.compile(r"/brokers/topics/[^/]+")
_CONFIG: Final = re.compile(r"/config/(?:users/[^/]+(?:/clients/[^/]+)?|(?:clients|ips|brokers)/[^/]+)")
_ACLS: Final = re.compile(r"/kafka-acl(?:-extended/[^/]+)?/[^/]+/.+")
_PRODUCER_IDS: Final = "/latest_producer_id_block"
_NOBODY: Final = -1

_ByPartition = dict[str, list[int]]


class _Topic(msgspec.Struct):
    topic_id: str = ""
    partitions: _ByPartition = {}
    adding_replicas: _ByPartition = {}
    removing_replicas: _ByPartition = {}


class _Config(msgspec.Struct):
    config: dict[str, str] = {}


class _Acl(msgspec.Struct, rename="camel"):
    principal: str
    permission_type: str
    operation: str
    host: str


class _Acls(msgspec.Struct):
    acls: list[_Acl] = []


class _Block(msgspec.Struct):
    """The last block of producer ids that a broker was given; its ends are numbers in quotes.

    A KRaft controller writes the block that comes next, as nobody's.
    """

    broker: int
    block_start: str
    block_end: str

    @property
    def next_producer_id(self) -> int:
        return int(self.block_start) if self.broker == _NOBODY else int(self.block_end) + 1


def content_of(path: str, data: bytes | None) -> dict[str, Any] | None:
    """Decode a znode of the table; None for any other. Raises ValueError if it holds something else."""
    if not data:
        return None
    if _TOPIC.fullmatch(path):
        topic = msgspec.json.decode(data, type=_Topic)
        return {
            "topic_id": topic.topic_id,
            "replicas": topic.partitions,
            "adding_replicas": topic.adding_replicas,
            "removing_replicas": topic.removing_replicas,
        }
    if _CONFIG.fullmatch(path):
        return {"config": msgspec.json.decode(data, type=_Config).config}
    if _ACLS.fullmatch(path):
        acls = msgspec.json.decode(data, type=_Acls).acls
        return {"acls": sorted(f"{a.permission_type} {a.principal} {a.operation} from {a.host}" for a in acls)}
    if path == _PRODUCER_IDS:
        return {"next_producer_id": msgspec.json.decode(data, type=_Block).next_producer_id}
    return None
