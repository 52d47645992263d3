"""Consumer groups on Kafka: a session is one member, by the classic protocol (KIP-62).

- To join is JoinGroup and SyncGroup. JoinGroup is answered when every member has joined again, or has been left out
  because it did not within the rebalance time-out. The leader numbers the members; the number is the share. SyncGroup
  is answered once the generation, with its members, is in the coordinators' log.
- A commit names group, member and generation. Coordinators accept commits of the generation that is ending until all
  members have joined the next one; after that they refuse them.
- A group commits the offset of partition 0 of the topic "log". The numbers need be no offsets of records there.

Every request goes to the group's coordinator, the leader of a partition of `__consumer_offsets` (`peers`).

Source: Kafka's protocol guide, "Group Membership API"; GroupCoordinator (to 3.9), GroupMetadataManager (from 4.0 on).
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fencepost.harness.coordination import Definite, Keys
from fencepost.systems.kafka.client.client import KafkaNode
from fencepost.systems.kafka.client.session import KafkaSession
from fencepost.systems.kafka.client.transactions import GROUP
from fencepost.systems.kafka.names import LOG_TOPIC
from fencepost.systems.kafka.protocols import CommittedAs, Joined
from fencepost.systems.kafka.wire import messages
from fencepost.systems.kafka.wire.errors import (
    UNKNOWN_MEMBER_ID,
    RequestKind,
    ServerRefusal,
    only_item,
    raise_error,
)
from fencepost.systems.kafka.wire.messages import Api
from fencepost.systems.kafka.wire.values import GroupMember

if TYPE_CHECKING:
    from kafka.protocol.consumer.group import JoinGroupResponse, OffsetCommitRequest, SyncGroupResponse
    from kafka.protocol.data_container import DataContainer

T = TypeVar("T")
Q = TypeVar("Q", bound="DataContainer")
A = TypeVar("A", bound="DataContainer")

NOT_A_MEMBER: Final = "not-a-member"
#: A member that is silent for longer is left out of the group.
SESSION_TIMEOUT_MS: Final = 3000
#: How long the members of a generation have to join the next one.
REBALANCE_TIMEOUT_MS: Final = 1000
_PARTITION: Final = 0
_PROTOCOL_TYPE: Final = "consumer"
_NO_OFFSET: Final = -1


class KafkaGroups(KafkaSession):
    """`systems.kafka.protocols.Groups` by way of one node."""

    def __init__(self, node: KafkaNode, number: int, *, connect_timeout_s: float) -> None:
        super().__init__(node, number, connect_timeout_s=connect_timeout_s)
        #: By group: what this session is, and what it was one generation before.
        self._members: dict[str, GroupMember] = {}
        self._earlier: dict[str, GroupMember] = {}

    async def join(self, group: str) -> Joined:
        known = self._members.get(group)
        member, share = await enter(lambda request, id: self._ask(group, request, id), group, known.id if known else "")
        if known is not None and known.generation != member.generation:
            self._earlier[group] = known
        self._members[group] = member
        return Joined(member.generation, share)

    async def leave(self, group: str) -> None:
        member = self._member(group)
        request = messages.LEAVE_GROUP.request(group_id=group, member_id=member.id)
        await self._ask(
            group, lambda node: _accepted(node, RequestKind.GROUP, messages.LEAVE_GROUP, request), member.id
        )
        self._forget(group, member.id)

    async def beat(self, group: str) -> None:
        member = self._member(group)
        request = messages.HEARTBEAT.request(group_id=group, generation_id=member.generation, member_id=member.id)
        await self._ask(group, lambda node: _accepted(node, RequestKind.READ, messages.HEARTBEAT, request), member.id)

    async def commit_offset(self, group: str, offset: int, *, late: bool = False) -> CommittedAs:
        member = self._earlier.get(group) if late else self._member(group)
        if member is None:
            raise Definite(NOT_A_MEMBER, f"{group}: this session was a member of one generation at most")
        of_topic = messages.OFFSET_COMMIT.request.OffsetCommitRequestTopic
        partition = of_topic.OffsetCommitRequestPartition(
            partition_index=_PARTITION, committed_offset=offset, committed_metadata=None
        )
        request = messages.OFFSET_COMMIT.request(
            group_id=group,
            generation_id_or_member_epoch=member.generation,
            member_id=member.id,
            topics=[of_topic(name=LOG_TOPIC, partitions=[partition])],
        )
        await self._ask(group, lambda node: _commit(node, request), member.id)
        return CommittedAs(member.generation)

    async def fetch_offset(self, group: str) -> int | None:
        offset = await self._ask(group, lambda node: committed_offset(node, group, LOG_TOPIC, _PARTITION))
        return None if offset == _NO_OFFSET else offset

    def _member(self, group: str) -> GroupMember:
        if group not in self._members:
            raise Definite(NOT_A_MEMBER, f"{group}: this session has not joined it")
        return self._members[group]

    def _forget(self, group: str, member: str) -> None:
        for known in (self._members, self._earlier):
            if group in known and known[group].id == member:
                del known[group]

    async def _ask(self, group: str, request: Callable[[KafkaNode], Awaitable[T]], member: str = "") -> T:
        """Send one request of this member to the group's coordinator."""
        try:
            return await self.peers.at_coordinator(GROUP, group, request)
        except ServerRefusal as refusal:
            if refusal.number == UNKNOWN_MEMBER_ID:
                self._forget(group, member)
            raise

    async def prepare(self, needs: Keys) -> None:
        """Make the topic and the coordinators' log; wait until every group with such a name is served."""

        async def served() -> None:
            for group in needs.names:
                await self.fetch_offset(group)

        await self.make_topics({LOG_TOPIC: 1}, served=served)


async def enter(
    ask: Callable[[Callable[[KafkaNode], Awaitable[Any]], str], Awaitable[Any]],
    group: str,
    member_id: str,
    *,
    session_ms: int = SESSION_TIMEOUT_MS,
    rebalance_ms: int = REBALANCE_TIMEOUT_MS,
) -> tuple[GroupMember, int]:
    """Join the next generation of a group, and learn one's share of it.

    Args:
        ask: sends a request, of the member with this id, to the group's coordinator.
        member_id: of the generation before; "" joins as a new member.
    """
    request = messages.JOIN_GROUP.request(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member_id,
        protocol_type=_PROTOCOL_TYPE,
        protocols=[messages.JOIN_GROUP.request.JoinGroupRequestProtocol(name="fencepost", metadata=b"")],
    )
    # A refused member has no generation, whatever the reason.
    answer: JoinGroupResponse = await ask(
        lambda node: _accepted(node, RequestKind.READ, messages.JOIN_GROUP, request), member_id
    )
    member = GroupMember(answer.member_id, answer.generation_id)
    ordered = sorted(other.member_id for other in answer.members) if answer.leader == member.id else []
    share_of = messages.SYNC_GROUP.request.SyncGroupRequestAssignment
    sync = messages.SYNC_GROUP.request(
        group_id=group,
        generation_id=member.generation,
        member_id=member.id,
        assignments=[share_of(member_id=other, assignment=b"%d" % i) for i, other in enumerate(ordered)],
    )
    share: SyncGroupResponse = await ask(
        lambda node: _accepted(node, RequestKind.READ, messages.SYNC_GROUP, sync), member.id
    )
    return member, int(share.assignment or b"-1")


async def _accepted(node: KafkaNode, kind: RequestKind, api: Api[Q, A], request: Q) -> A:
    """Send a request whose answer has one error code."""
    answer = await node.connection.request(api, request)
    raise_error(kind, answer.error_code)
    return answer


async def _commit(node: KafkaNode, request: "OffsetCommitRequest") -> None:
    answer = await node.connection.request(messages.OFFSET_COMMIT, request)
    raise_error(RequestKind.GROUP, only_item(only_item(answer.topics).partitions).error_code)


async def committed_offset(
    node: KafkaNode, group: str, topic: str, partition: int, *, require_stable: bool = False
) -> int:
    """The offset that a group has committed, -1 for none; with `require_stable` refused while one is undecided."""
    wanted = messages.OFFSET_FETCH.request.OffsetFetchRequestTopic(name=topic, partition_indexes=[partition])
    request = messages.OFFSET_FETCH.request(group_id=group, topics=[wanted], require_stable=require_stable)
    answer = await node.connection.request(messages.OFFSET_FETCH, request)
    raise_error(RequestKind.READ, answer.error_code)
    result = only_item(only_item(answer.topics).partitions)
    raise_error(RequestKind.READ, result.error_code)
    return result.committed_offset
