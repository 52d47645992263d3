"""Kafka's messages that fencepost sends and reads, as tables of fields (see `fields`).

The `versions` of an API are those that we write and read: low enough for the oldest release in use (2.8), and no higher
than this code needs. Fetch and Produce end at 12 and DeleteTopics at 5, because later versions name topics only by
id.

Source: the definitions in `common/message/` of kafka-clients 3.6.0, 3.9.2 and 4.3.1; a test compares them.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Final, Generic, TypeVar

from fencepost.systems.kafka.wire.fields import (
    NO_UUID,
    Body,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    Since,
    Tag,
    Text,
    UInt16,
    Until,
    Uuid,
)

Q = TypeVar("Q", bound=Body)
A = TypeVar("A", bound=Body)


@dataclass(frozen=True, slots=True)
class Api(Generic[Q, A]):
    """One kind of request: its name and number, the lowest and highest version known here, the first flexible one."""

    name: str
    key: int
    versions: tuple[int, int]
    flexible: int
    request: type[Q]
    response: type[A]

    def within(self, low: int, high: int) -> "Api[Q, A]":
        """The same request, in some of its versions only: they may differ in what the node does."""
        return replace(self, versions=(low, high))


# ApiVersions


class ApiVersionsRequest(Body, frozen=True):
    client_software_name: Annotated[Text, Since(3)] = ""
    client_software_version: Annotated[Text, Since(3)] = ""


class ApiVersion(Body, frozen=True):
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


class FinalizedFeature(Body, frozen=True):
    name: Text = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


class ApiVersionsResponse(Body, frozen=True):
    error_code: Int16 = 0
    api_keys: tuple[ApiVersion, ...] = ()
    throttle_time_ms: Annotated[Int32, Since(1)] = 0
    finalized_features_epoch: Annotated[Int64, Since(3), Tag(1)] = -1
    finalized_features: Annotated[tuple[FinalizedFeature, ...], Since(3), Tag(2)] = ()


# Metadata and DescribeCluster


class MetadataRequestTopic(Body, frozen=True):
    topic_id: Annotated[Uuid, Since(10)] = NO_UUID
    name: Text | None = ""


class MetadataRequest(Body, frozen=True):
    topics: tuple[MetadataRequestTopic, ...] | None = ()
    allow_auto_topic_creation: Annotated[Bool, Since(4)] = True
    include_cluster_authorized_operations: Annotated[Bool, Since(8), Until(10)] = False
    include_topic_authorized_operations: Annotated[Bool, Since(8)] = False


class MetadataBroker(Body, frozen=True):
    node_id: Int32 = 0
    host: Text = ""
    port: Int32 = 0
    rack: Text | None = None


class MetadataPartition(Body, frozen=True):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Annotated[Int32, Since(7)] = -1
    replica_nodes: tuple[Int32, ...] = ()
    isr_nodes: tuple[Int32, ...] = ()
    offline_replicas: Annotated[tuple[Int32, ...], Since(5)] = ()


class MetadataTopic(Body, frozen=True):
    error_code: Int16 = 0
    name: Text | None = ""
    topic_id: Annotated[Uuid, Since(10)] = NO_UUID
    is_internal: Bool = False
    partitions: tuple[MetadataPartition, ...] = ()
    topic_authorized_operations: Annotated[Int32, Since(8)] = -2147483648


class MetadataResponse(Body, frozen=True):
    throttle_time_ms: Annotated[Int32, Since(3)] = 0
    brokers: tuple[MetadataBroker, ...] = ()
    cluster_id: Annotated[Text | None, Since(2)] = None
    controller_id: Int32 = -1
    topics: tuple[MetadataTopic, ...] = ()
    cluster_authorized_operations: Annotated[Int32, Since(8), Until(10)] = -2147483648


class DescribeClusterRequest(Body, frozen=True):
    include_cluster_authorized_operations: Bool = False
    endpoint_type: Annotated[Int8, Since(1)] = 1
    include_fenced_brokers: Annotated[Bool, Since(2)] = False


class DescribeClusterBroker(Body, frozen=True):
    broker_id: Int32 = 0
    host: Text = ""
    port: Int32 = 0
    rack: Text | None = None
    is_fenced: Annotated[Bool, Since(2)] = False


class DescribeClusterResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: Text | None = None
    endpoint_type: Annotated[Int8, Since(1)] = 1
    cluster_id: Text = ""
    controller_id: Int32 = -1
    brokers: tuple[DescribeClusterBroker, ...] = ()
    cluster_authorized_operations: Int32 = -2147483648


# Topics


class ReplicaAssignment(Body, frozen=True):
    partition_index: Int32 = 0
    broker_ids: tuple[Int32, ...] = ()


class TopicConfig(Body, frozen=True):
    name: Text = ""
    value: Text | None = ""


class CreatableTopic(Body, frozen=True):
    name: Text = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: tuple[ReplicaAssignment, ...] = ()
    configs: tuple[TopicConfig, ...] = ()


class CreateTopicsRequest(Body, frozen=True):
    topics: tuple[CreatableTopic, ...] = ()
    timeout_ms: Int32 = 60000
    validate_only: Bool = False


class CreatedConfig(Body, frozen=True):
    name: Text = ""
    value: Text | None = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False


class CreatableTopicResult(Body, frozen=True):
    name: Text = ""
    topic_id: Annotated[Uuid, Since(7)] = NO_UUID
    error_code: Int16 = 0
    error_message: Text | None = ""
    topic_config_error_code: Annotated[Int16, Since(5), Tag(0)] = 0
    num_partitions: Annotated[Int32, Since(5)] = -1
    replication_factor: Annotated[Int16, Since(5)] = -1
    configs: Annotated[tuple[CreatedConfig, ...] | None, Since(5)] = ()


class CreateTopicsResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    topics: tuple[CreatableTopicResult, ...] = ()


class DeleteTopicsRequest(Body, frozen=True):
    topic_names: tuple[Text, ...] = ()
    timeout_ms: Int32 = 0


class DeletableTopicResult(Body, frozen=True):
    name: Text = ""
    error_code: Int16 = 0
    error_message: Annotated[Text | None, Since(5)] = None


class DeleteTopicsResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    responses: tuple[DeletableTopicResult, ...] = ()


# Configurations


class AlterableConfig(Body, frozen=True):
    name: Text = ""
    config_operation: Int8 = 0
    value: Text | None = ""


class AlterConfigsResource(Body, frozen=True):
    resource_type: Int8 = 0
    resource_name: Text = ""
    configs: tuple[AlterableConfig, ...] = ()


class IncrementalAlterConfigsRequest(Body, frozen=True):
    resources: tuple[AlterConfigsResource, ...] = ()
    validate_only: Bool = False


class AlterConfigsResult(Body, frozen=True):
    error_code: Int16 = 0
    error_message: Text | None = ""
    resource_type: Int8 = 0
    resource_name: Text = ""


class IncrementalAlterConfigsResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    responses: tuple[AlterConfigsResult, ...] = ()


class DescribeConfigsResource(Body, frozen=True):
    resource_type: Int8 = 0
    resource_name: Text = ""
    configuration_keys: tuple[Text, ...] | None = ()


class DescribeConfigsRequest(Body, frozen=True):
    resources: tuple[DescribeConfigsResource, ...] = ()
    include_synonyms: Bool = False
    include_documentation: Annotated[Bool, Since(3)] = False


class ConfigSynonym(Body, frozen=True):
    name: Text = ""
    value: Text | None = ""
    source: Int8 = 0


class DescribedConfig(Body, frozen=True):
    name: Text = ""
    value: Text | None = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    config_type: Annotated[Int8, Since(3)] = 0
    documentation: Annotated[Text | None, Since(3)] = ""


class DescribeConfigsResult(Body, frozen=True):
    error_code: Int16 = 0
    error_message: Text | None = ""
    resource_type: Int8 = 0
    resource_name: Text = ""
    configs: tuple[DescribedConfig, ...] = ()


class DescribeConfigsResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    results: tuple[DescribeConfigsResult, ...] = ()


# Producer ids


class InitProducerIdRequest(Body, frozen=True):
    transactional_id: Text | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, Since(3)] = -1
    producer_epoch: Annotated[Int16, Since(3)] = -1


class InitProducerIdResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0


class AllocateProducerIdsRequest(Body, frozen=True):
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1


class AllocateProducerIdsResponse(Body, frozen=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id_start: Int64 = 0
    producer_id_len: Int32 = 0


# The quorum


class QuorumRequestPartition(Body, frozen=True):
    partition_index: Int32 = 0


class QuorumRequestTopic(Body, frozen=True):
    topic_name: Text = ""
    partitions: tuple[QuorumRequestPartition, ...] = ()


class DescribeQuorumRequest(Body, frozen=True):
    topics: tuple[QuorumRequestTopic, ...] = ()


class ReplicaState(Body, frozen=True):
    replica_id: Int32 = 0
    replica_directory_id: Annotated[Uuid, Since(2)] = NO_UUID
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Annotated[Int64, Since(1)] = -1
    last_caught_up_timestamp: Annotated[Int64, Since(1)] = -1


class QuorumPartition(Body, frozen=True):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[Text | None, Since(2)] = ""
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: tuple[ReplicaState, ...] = ()
    observers: tuple[ReplicaState, ...] = ()


class QuorumTopic(Body, frozen=True):
    topic_name: Text = ""
    partitions: tuple[QuorumPartition, ...] = ()


class QuorumListener(Body, frozen=True):
    name: Text = ""
    host: Text = ""
    port: UInt16 = 0


class QuorumNode(Body, frozen=True):
    node_id: Int32 = 0
    listeners: tuple[QuorumListener, ...] = ()


class DescribeQuorumResponse(Body, frozen=True):
    error_code: Int16 = 0
    error_message: Annotated[Text | None, Since(2)] = ""
    topics: tuple[QuorumTopic, ...] = ()
    nodes: Annotated[tuple[QuorumNode, ...], Since(2)] = ()


API_VERSIONS: Final = Api("ApiVersions", 18, (0, 3), 3, ApiVersionsRequest, ApiVersionsResponse)
METADATA: Final = Api("Metadata", 3, (4, 12), 9, MetadataRequest, MetadataResponse)
DESCRIBE_CLUSTER: Final = Api("DescribeCluster", 60, (0, 2), 0, DescribeClusterRequest, DescribeClusterResponse)
CREATE_TOPICS: Final = Api("CreateTopics", 19, (2, 7), 5, CreateTopicsRequest, CreateTopicsResponse)
DELETE_TOPICS: Final = Api("DeleteTopics", 20, (1, 5), 4, DeleteTopicsRequest, DeleteTopicsResponse)
INCREMENTAL_ALTER_CONFIGS: Final = Api(
    "IncrementalAlterConfigs", 44, (0, 1), 1, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
)
DESCRIBE_CONFIGS: Final = Api("DescribeConfigs", 32, (1, 4), 4, DescribeConfigsRequest, DescribeConfigsResponse)
INIT_PRODUCER_ID: Final = Api("InitProducerId", 22, (0, 4), 2, InitProducerIdRequest, InitProducerIdResponse)
ALLOCATE_PRODUCER_IDS: Final = Api(
    "AllocateProducerIds", 67, (0, 0), 0, AllocateProducerIdsRequest, AllocateProducerIdsResponse
)
DESCRIBE_QUORUM: Final = Api("DescribeQuorum", 55, (0, 2), 0, DescribeQuorumRequest, DescribeQuorumResponse)
