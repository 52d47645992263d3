"""The requests that fencepost sends, each with its number, its versions, and the classes of its two messages.

The classes are those of kafka-python, made from Kafka's own definitions, and for what it lacks those of `lacking`.
The `versions` of an API are those that we write and read: low enough for the oldest release in use (2.8), and no higher
than this code needs. Fetch and Produce end at 12 and DeleteTopics at 5, because later versions name topics only by
id.

- **Groups** speak the classic protocol (KIP-62), in versions in which a member gets its id with its first request
  (KIP-394 came later).
- **Transactions**: from EndTxn 5 on (transactions of version 2, KIP-890) a coordinator gives the producer a new epoch
  at the end of every transaction, and partitions and groups are added to it by Produce 12 and TxnOffsetCommit 5. In the
  earlier versions an epoch lasts until another producer with the same transactional id begins, and partitions are added
  first. A client chooses by the versions in which it asks (`client.transactions`).
- **The metadata log** is known to the raft layer by its topic's id, so a Fetch of it begins at version 13. It answers
  with what is not committed too, also to whoever names no replica (KIP-595, KIP-630).

Source: the definitions in `common/message/` of kafka-clients 3.6.0, 3.9.2 and 4.3.1; a test compares them.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from kafka.protocol.admin import acl, client_quotas, cluster, configs, topics, transactions, users
    from kafka.protocol.consumer import fetch, group, offsets
    from kafka.protocol.data_container import DataContainer
    from kafka.protocol.metadata import api_versions, find_coordinator, metadata
    from kafka.protocol.producer import produce, transaction

Q = TypeVar("Q", bound="DataContainer")
A = TypeVar("A", bound="DataContainer")

NO_UUID: Final = uuid.UUID(int=0)
METADATA_TOPIC: Final = "__cluster_metadata"
#: The id that every cluster gives its metadata log.
METADATA_TOPIC_ID: Final = uuid.UUID(int=1)
#: `upgrade_type` of a feature: the level may only grow.
UPGRADE: Final = 1


@dataclass(frozen=True)
class Api(Generic[Q, A]):
    """One kind of request: its name and number, the lowest and highest version known here, the first flexible one."""

    #: The module with the classes of its two messages, which are imported when they are first needed.
    module: str
    name: str
    key: int
    versions: tuple[int, int]
    flexible: int

    @cached_property
    def request(self) -> type[Q]:
        """The class of the request."""
        kind: type[Q] = getattr(import_module(self.module), f"{self.name}Request")
        return kind

    @cached_property
    def response(self) -> type[A]:
        """The class of the answer."""
        kind: type[A] = getattr(import_module(self.module), f"{self.name}Response")
        return kind

    def within(self, low: int, high: int) -> Api[Q, A]:
        """The same request, in some of its versions only: they may differ in what the node does."""
        return replace(self, versions=(low, high))


def _api(module: str, name: str, key: int, versions: tuple[int, int], flexible: int) -> Any:
    return Api(f"kafka.protocol.{module}", name, key, versions, flexible)


API_VERSIONS: Final[Api[api_versions.ApiVersionsRequest, api_versions.ApiVersionsResponse]] = _api(
    "metadata.api_versions", "ApiVersions", 18, (0, 3), 3
)
METADATA: Final[Api[metadata.MetadataRequest, metadata.MetadataResponse]] = _api(
    "metadata.metadata", "Metadata", 3, (4, 12), 9
)
CREATE_TOPICS: Final[Api[topics.CreateTopicsRequest, topics.CreateTopicsResponse]] = _api(
    "admin.topics", "CreateTopics", 19, (2, 7), 5
)
DELETE_TOPICS: Final[Api[topics.DeleteTopicsRequest, topics.DeleteTopicsResponse]] = _api(
    "admin.topics", "DeleteTopics", 20, (1, 5), 4
)
CREATE_PARTITIONS: Final[Api[topics.CreatePartitionsRequest, topics.CreatePartitionsResponse]] = _api(
    "admin.topics", "CreatePartitions", 37, (0, 3), 2
)
ELECT_LEADERS: Final[Api[topics.ElectLeadersRequest, topics.ElectLeadersResponse]] = _api(
    "admin.topics", "ElectLeaders", 43, (1, 2), 2
)
ALTER_PARTITION_REASSIGNMENTS: Final[
    Api[topics.AlterPartitionReassignmentsRequest, topics.AlterPartitionReassignmentsResponse]
] = _api("admin.topics", "AlterPartitionReassignments", 45, (0, 0), 0)
INCREMENTAL_ALTER_CONFIGS: Final[
    Api[configs.IncrementalAlterConfigsRequest, configs.IncrementalAlterConfigsResponse]
] = _api("admin.configs", "IncrementalAlterConfigs", 44, (0, 1), 1)
DESCRIBE_CONFIGS: Final[Api[configs.DescribeConfigsRequest, configs.DescribeConfigsResponse]] = _api(
    "admin.configs", "DescribeConfigs", 32, (1, 4), 4
)
DESCRIBE_QUORUM: Final[Api[cluster.DescribeQuorumRequest, cluster.DescribeQuorumResponse]] = _api(
    "admin.cluster", "DescribeQuorum", 55, (0, 2), 0
)
UPDATE_FEATURES: Final[Api[cluster.UpdateFeaturesRequest, cluster.UpdateFeaturesResponse]] = _api(
    "admin.cluster", "UpdateFeatures", 57, (1, 1), 0
)

DESCRIBE_ACLS: Final[Api[acl.DescribeAclsRequest, acl.DescribeAclsResponse]] = _api(
    "admin.acl", "DescribeAcls", 29, (1, 3), 2
)
CREATE_ACLS: Final[Api[acl.CreateAclsRequest, acl.CreateAclsResponse]] = _api("admin.acl", "CreateAcls", 30, (1, 3), 2)
DELETE_ACLS: Final[Api[acl.DeleteAclsRequest, acl.DeleteAclsResponse]] = _api("admin.acl", "DeleteAcls", 31, (1, 3), 2)
DESCRIBE_CLIENT_QUOTAS: Final[
    Api[client_quotas.DescribeClientQuotasRequest, client_quotas.DescribeClientQuotasResponse]
] = _api("admin.client_quotas", "DescribeClientQuotas", 48, (0, 1), 1)
ALTER_CLIENT_QUOTAS: Final[Api[client_quotas.AlterClientQuotasRequest, client_quotas.AlterClientQuotasResponse]] = _api(
    "admin.client_quotas", "AlterClientQuotas", 49, (0, 1), 1
)
DESCRIBE_USER_SCRAM_CREDENTIALS: Final[
    Api[users.DescribeUserScramCredentialsRequest, users.DescribeUserScramCredentialsResponse]
] = _api("admin.users", "DescribeUserScramCredentials", 50, (0, 0), 0)
ALTER_USER_SCRAM_CREDENTIALS: Final[
    Api[users.AlterUserScramCredentialsRequest, users.AlterUserScramCredentialsResponse]
] = _api("admin.users", "AlterUserScramCredentials", 51, (0, 0), 0)

PRODUCE: Final[Api[produce.ProduceRequest, produce.ProduceResponse]] = _api(
    "producer.produce", "Produce", 0, (3, 12), 9
)
FETCH: Final[Api[fetch.FetchRequest, fetch.FetchResponse]] = _api("consumer.fetch", "Fetch", 1, (4, 12), 12)
FETCH_LOG: Final[Api[fetch.FetchRequest, fetch.FetchResponse]] = _api("consumer.fetch", "Fetch", 1, (13, 13), 12)
LIST_OFFSETS: Final[Api[offsets.ListOffsetsRequest, offsets.ListOffsetsResponse]] = _api(
    "consumer.offsets", "ListOffsets", 2, (1, 7), 6
)

JOIN_GROUP: Final[Api[group.JoinGroupRequest, group.JoinGroupResponse]] = _api(
    "consumer.group", "JoinGroup", 11, (3, 3), 6
)
SYNC_GROUP: Final[Api[group.SyncGroupRequest, group.SyncGroupResponse]] = _api(
    "consumer.group", "SyncGroup", 14, (2, 2), 4
)
HEARTBEAT: Final[Api[group.HeartbeatRequest, group.HeartbeatResponse]] = _api(
    "consumer.group", "Heartbeat", 12, (2, 2), 4
)
LEAVE_GROUP: Final[Api[group.LeaveGroupRequest, group.LeaveGroupResponse]] = _api(
    "consumer.group", "LeaveGroup", 13, (2, 2), 4
)
OFFSET_COMMIT: Final[Api[group.OffsetCommitRequest, group.OffsetCommitResponse]] = _api(
    "consumer.group", "OffsetCommit", 8, (5, 5), 8
)
OFFSET_FETCH: Final[Api[group.OffsetFetchRequest, group.OffsetFetchResponse]] = _api(
    "consumer.group", "OffsetFetch", 9, (3, 7), 6
)

INIT_PRODUCER_ID: Final[Api[transaction.InitProducerIdRequest, transaction.InitProducerIdResponse]] = _api(
    "producer.transaction", "InitProducerId", 22, (0, 4), 2
)
FIND_COORDINATOR: Final[Api[find_coordinator.FindCoordinatorRequest, find_coordinator.FindCoordinatorResponse]] = _api(
    "metadata.find_coordinator", "FindCoordinator", 10, (3, 3), 3
)
ADD_PARTITIONS_TO_TXN: Final[Api[transaction.AddPartitionsToTxnRequest, transaction.AddPartitionsToTxnResponse]] = _api(
    "producer.transaction", "AddPartitionsToTxn", 24, (3, 3), 3
)
END_TXN: Final[Api[transaction.EndTxnRequest, transaction.EndTxnResponse]] = _api(
    "producer.transaction", "EndTxn", 26, (3, 5), 3
)
ADD_OFFSETS_TO_TXN: Final[Api[transaction.AddOffsetsToTxnRequest, transaction.AddOffsetsToTxnResponse]] = _api(
    "producer.transaction", "AddOffsetsToTxn", 25, (3, 3), 3
)
TXN_OFFSET_COMMIT: Final[Api[transaction.TxnOffsetCommitRequest, transaction.TxnOffsetCommitResponse]] = _api(
    "producer.transaction", "TxnOffsetCommit", 28, (3, 5), 3
)
DESCRIBE_TRANSACTIONS: Final[
    Api[transactions.DescribeTransactionsRequest, transactions.DescribeTransactionsResponse]
] = _api("admin.transactions", "DescribeTransactions", 65, (0, 0), 0)

_LACKING: Final = "fencepost.systems.kafka.wire.lacking"
FETCH_SNAPSHOT: Final[Api[Any, Any]] = Api(_LACKING, "FetchSnapshot", 59, (0, 0), 0)
ADD_RAFT_VOTER: Final[Api[Any, Any]] = Api(_LACKING, "AddRaftVoter", 80, (0, 1), 0)
REMOVE_RAFT_VOTER: Final[Api[Any, Any]] = Api(_LACKING, "RemoveRaftVoter", 81, (0, 0), 0)
