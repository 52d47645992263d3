"""Asking one Kafka node alone whether it leads: three subjects, three questions
(`harness.contract.system.Question`).

- `QuorumQuestion` asks the raft layer of a KRaft controller, by DescribeQuorum. Only a node that believes it leads the
  quorum answers. Any other node answers with error 6, and with leader 0 and epoch 0, which state nothing: no claim,
  epoch unknown. Role and epoch come from one snapshot of the raft layer (KafkaRaftClient.handleDescribeQuorumRequest).
  A broker forwards the request to the controller that it follows, so its answer names that controller.
- `ControllerQuestion` asks the controller layer above it, by CreateTopics with `validate_only`, which goes through the
  controller's event queue and changes nothing. An active controller answers "could be created" or "exists", any other
  node error 41. The answer names no epoch. A superseded controller with an uncommitted record in its queue does not
  answer at all. In ZooKeeper mode the question asks a broker whether it is the controller; a broker that has lost
  ZooKeeper does not answer. A broker checks its role before it asks ZooKeeper (KafkaApis.handleCreateTopicsRequest). So
  error -1, with which it passes on an error of ZooKeeper ("session expired"), comes from a broker that believes it is
  the controller.
- `ViewQuestion` asks a broker in ZooKeeper mode, by Metadata, which controller it last learned of. It answers from its
  own memory, also while it is cut off. The answer names no epoch.
"""

from collections.abc import Callable
from typing import Final

from fencepost.harness.contract.system import Answer
from fencepost.harness.history import Claim
from fencepost.systems.kafka.client.client import KafkaNode, ListenerRole
from fencepost.systems.kafka.client.reconnecting_client import ReconnectingClient
from fencepost.systems.kafka.wire.errors import (
    INVALID_REPLICATION_FACTOR,
    NOT_CONTROLLER,
    NOT_LEADER_OR_FOLLOWER,
    TOPIC_ALREADY_EXISTS,
    ServerRefusal,
)
from fencepost.systems.kafka.wire.values import MetadataQuorum

QUORUM_SOURCE: Final = "describe-quorum"
CONTROLLER_SOURCE: Final = "validate-only"
VIEW_SOURCE: Final = "metadata"
#: The topic that the question asks for and that is never created.
PROBE_TOPIC: Final = "fencepost-who-leads"

#: An active controller's answers to the question; 38 while no broker is registered.
_ACTIVE: Final = frozenset({TOPIC_ALREADY_EXISTS, INVALID_REPLICATION_FACTOR})
#: The answer of a broker in ZooKeeper mode when ZooKeeper refused its request.
_UNKNOWN_SERVER_ERROR: Final = -1
#: A node need not keep the request in its queue for longer than an observer waits.
_PROBE_TIMEOUT_MS: Final = 1000


class _OfOneNode:
    """What the questions share: a connection for each, the node's id, and the names of nodes by id."""

    def __init__(self, number: int, address: str, port: int, name_of: Callable[[int], str]) -> None:
        self._number = number
        self._name_of = name_of
        self._line = ReconnectingClient(address, port)

    async def close(self) -> None:
        await self._line.close()

    def _name(self, number: int) -> str | None:
        return self._name_of(number) if number >= 0 else None


class QuorumQuestion(_OfOneNode):
    """Does this node believe that it leads the metadata quorum? `position` is the high watermark."""

    async def ask(self) -> Answer:
        return await self._line.ask(self._answer)

    async def _answer(self, node: KafkaNode) -> Answer:
        try:
            quorum = await node.describe_quorum()
        except ServerRefusal as refusal:
            if refusal.number != NOT_LEADER_OR_FOLLOWER:
                raise
            return Answer(claims=Claim.NO, source=QUORUM_SOURCE, detail="not leader")
        leads = quorum.leader == self._number and node.role is ListenerRole.CONTROLLER
        return Answer(
            claims=Claim.YES if leads else Claim.NO,
            source=QUORUM_SOURCE,
            epoch=quorum.epoch,
            leader=self._name(quorum.leader),
            position=quorum.high_watermark,
            detail="forwarded" if node.role is ListenerRole.BROKER else _behind(quorum) if leads else None,
        )


class ControllerQuestion(_OfOneNode):
    """Does this node act as the active controller? Not for KRaft brokers, which forward the request."""

    async def ask(self) -> Answer:
        return await self._line.ask(self._answer)

    async def _answer(self, node: KafkaNode) -> Answer:
        if node.role is ListenerRole.BROKER:
            raise ValueError("a KRaft broker forwards this question to a controller")
        try:
            await node.create_topic(PROBE_TOPIC, validate_only=True, timeout_ms=_PROBE_TIMEOUT_MS)
        except ServerRefusal as refusal:
            if refusal.number == NOT_CONTROLLER:
                return Answer(claims=Claim.NO, source=CONTROLLER_SOURCE, epoch_exact=False, detail="not controller")
            if refusal.number == _UNKNOWN_SERVER_ERROR and node.role is ListenerRole.ZOOKEEPER_BROKER:
                return self._active("active, but refused by ZooKeeper")
            if refusal.number not in _ACTIVE:
                raise
        return self._active()

    def _active(self, detail: str | None = None) -> Answer:
        leader = self._name(self._number)
        return Answer(claims=Claim.YES, source=CONTROLLER_SOURCE, epoch_exact=False, leader=leader, detail=detail)


class ViewQuestion(_OfOneNode):
    """Whom does this broker believe to be the controller, in ZooKeeper mode?"""

    async def ask(self) -> Answer:
        return await self._line.ask(self._answer)

    async def _answer(self, node: KafkaNode) -> Answer:
        if node.role is not ListenerRole.ZOOKEEPER_BROKER:
            raise ValueError("a KRaft broker names any broker as its controller")
        controller = (await node.metadata()).controller
        return Answer(
            claims=Claim.YES if controller == self._number else Claim.NO,
            source=VIEW_SOURCE,
            epoch_exact=False,
            leader=self._name(controller),
        )


def _behind(quorum: MetadataQuorum) -> str | None:
    """Say how many offsets each replica is behind the high watermark, by node id: "behind 4=12 2=3".

    Brokers replicate the log too. The leader knows where a replica's log ends by what it fetches.
    """
    high = quorum.high_watermark
    late = {replica.node: high - replica.log_end_offset for replica in (*quorum.voters, *quorum.observers)}
    parts = [f"{node}={offsets}" for node, offsets in sorted(late.items()) if 0 < offsets <= high]
    return f"behind {' '.join(parts)}" if parts else None
