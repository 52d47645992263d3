"""Which session offers which interface, in every mode of Kafka."""

from collections.abc import Mapping
from typing import Final

from fencepost.harness.coordination import Interface
from fencepost.systems.kafka.client.client import open_node
from fencepost.systems.kafka.client.elections import KafkaElections
from fencepost.systems.kafka.client.groups import KafkaGroups
from fencepost.systems.kafka.client.log import KafkaLog, KafkaPartitionStates
from fencepost.systems.kafka.client.log_listener import KafkaLogListener
from fencepost.systems.kafka.client.log_transactions import KafkaTransactions
from fencepost.systems.kafka.client.metadata import KafkaMetadata
from fencepost.systems.kafka.client.session import KafkaSession
from fencepost.systems.kafka.client.topics import KafkaTopics
from fencepost.systems.kafka.protocols import KafkaInterface


class KafkaProducerIds(KafkaSession):
    """`systems.kafka.protocols.GrantsProducerIds`, by InitProducerId of a broker."""

    async def allocate(self) -> int:
        return (await self.node.allocate_producer_id()).id


_SESSIONS: Final[Mapping[str, type[KafkaSession]]] = {
    Interface.ELECTION: KafkaElections,
    Interface.LOG: KafkaLog,
    KafkaInterface.METADATA: KafkaMetadata,
    KafkaInterface.METADATA_LOG: KafkaLogListener,
    KafkaInterface.PRODUCER_IDS: KafkaProducerIds,
    KafkaInterface.TOPICS: KafkaTopics,
    KafkaInterface.PARTITION_STATES: KafkaPartitionStates,
    KafkaInterface.GROUPS: KafkaGroups,
    KafkaInterface.TRANSACTIONS: KafkaTransactions,
}
#: What every mode offers; the metadata log is KRaft's alone.
INTERFACES: Final = frozenset(_SESSIONS) - {KafkaInterface.METADATA_LOG}
#: With three brokers a record can be on two nodes while one is away. The short times let a broker that is cut off be
#: superseded, and one that has fallen behind leave the in-sync replicas (`replica.lag.time.max.ms`, 30 s by default),
#: while the fault lasts.
_SHORT: Final = {"brokers": 3, "broker_session": "3s", "broker_heartbeat": "500ms"}
WANTS: Final[Mapping[str, Mapping[str, object]]] = {
    Interface.ELECTION: _SHORT,
    Interface.LOG: {**_SHORT, "replica_lag": "3s"},
}
#: What operators call the node that leads; in KRaft also a role, of which the active node is meant.
LEADER_WORD: Final = "controller"


async def open_session(
    address: tuple[str, int], number: int, interface: str, *, connect_timeout_s: float
) -> KafkaSession:
    """Open a session with the node at this address; raises `Definite("not-connected")`."""
    node = await open_node(*address, connect_timeout_s=connect_timeout_s)
    return _SESSIONS[interface](node, number, connect_timeout_s=connect_timeout_s)
