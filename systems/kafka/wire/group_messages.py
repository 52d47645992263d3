"""Kafka's messages about consumer groups: members, generations, and the offsets that they commit; see `messages`.

These are the messages of the classic protocol (KIP-62), in versions that every release from 2.8 on knows, and in which
a member gets its id with its first request (KIP-394 came later).
"""

from typing import Annotated, Final

from fencepost.systems.kafka.wire.fields import Body, Bool, Bytes, Int16, Int32, Int64, Since, Text
from fencepost.systems.kafka.wire.messages import Api

# JoinGroup


class JoinGroupRequestProtocol(Body, frozen=True):
    name: Text = ""
    metadata: Bytes = b""


class JoinGroupRequest(Body, frozen=True):
    group_id: Text = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Int32 = -1
    member_id: Text = ""
    protocol_type: Text = ""
    protocols: tuple[JoinGroupRequestProtocol, ...] = ()


class JoinGroupResponseMember(Body, frozen=True):
    member_id: Text = ""
    metadata: Bytes = b""


class JoinGroupResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_name: Text = ""
    leader: Text = ""
    member_id: Text = ""
    members: tuple[JoinGroupResponseMember, ...] = ()


# SyncGroup


class SyncGroupRequestAssignment(Body, frozen=True):
    member_id: Text = ""
    assignment: Bytes = b""


class SyncGroupRequest(Body, frozen=True):
    group_id: Text = ""
    generation_id: Int32 = 0
    member_id: Text = ""
    assignments: tuple[SyncGroupRequestAssignment, ...] = ()


class SyncGroupResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    assignment: Bytes = b""


# Heartbeat and LeaveGroup


class HeartbeatRequest(Body, frozen=True):
    group_id: Text = ""
    generation_id: Int32 = 0
    member_id: Text = ""


class HeartbeatResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


class LeaveGroupRequest(Body, frozen=True):
    group_id: Text = ""
    member_id: Text = ""


class LeaveGroupResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


# OffsetCommit


class OffsetCommitRequestPartition(Body, frozen=True):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_metadata: Text | None = ""


class OffsetCommitRequestTopic(Body, frozen=True):
    name: Text = ""
    partitions: tuple[OffsetCommitRequestPartition, ...] = ()


class OffsetCommitRequest(Body, frozen=True):
    group_id: Text = ""
    generation_id_or_member_epoch: Int32 = -1
    member_id: Text = ""
    topics: tuple[OffsetCommitRequestTopic, ...] = ()


class OffsetCommitResponsePartition(Body, frozen=True):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetCommitResponseTopic(Body, frozen=True):
    name: Text = ""
    partitions: tuple[OffsetCommitResponsePartition, ...] = ()


class OffsetCommitResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    topics: tuple[OffsetCommitResponseTopic, ...] = ()


# OffsetFetch


class OffsetFetchRequestTopic(Body, frozen=True):
    name: Text = ""
    partition_indexes: tuple[Int32, ...] = ()


class OffsetFetchRequest(Body, frozen=True):
    group_id: Text = ""
    topics: tuple[OffsetFetchRequestTopic, ...] | None = ()
    require_stable: Annotated[Bool, Since(7)] = False


class OffsetFetchResponsePartition(Body, frozen=True):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, Since(5)] = -1
    metadata: Text | None = ""
    error_code: Int16 = 0


class OffsetFetchResponseTopic(Body, frozen=True):
    name: Text = ""
    partitions: tuple[OffsetFetchResponsePartition, ...] = ()


class OffsetFetchResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    topics: tuple[OffsetFetchResponseTopic, ...] = ()
    error_code: Int16 = 0


JOIN_GROUP: Final = Api("JoinGroup", 11, (3, 3), 6, JoinGroupRequest, JoinGroupResponse)
SYNC_GROUP: Final = Api("SyncGroup", 14, (2, 2), 4, SyncGroupRequest, SyncGroupResponse)
HEARTBEAT: Final = Api("Heartbeat", 12, (2, 2), 4, HeartbeatRequest, HeartbeatResponse)
LEAVE_GROUP: Final = Api("LeaveGroup", 13, (2, 2), 4, LeaveGroupRequest, LeaveGroupResponse)
OFFSET_COMMIT: Final = Api("OffsetCommit", 8, (5, 5), 8, OffsetCommitRequest, OffsetCommitResponse)
OFFSET_FETCH: Final = Api("OffsetFetch", 9, (3, 7), 6, OffsetFetchRequest, OffsetFetchResponse)
