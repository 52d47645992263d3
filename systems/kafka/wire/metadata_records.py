"""The records of Kafka's metadata log as tables of fields (see `fields`), by their number and versions.

A record begins with three varints: frame version (1), number, version. Control records, which the raft layer writes,
are identified by their key instead. An unknown record keeps its bytes, so that logs can still be compared.

Source: the definitions in `common/metadata/` of kafka-metadata and `common/message/` of kafka-clients, 3.6.0 to 4.3.1;
MetadataRecordSerde, ControlRecordType.
"""

from typing import Annotated, Final

from fencepost.systems.kafka.wire.fields import (
    NO_UUID,
    Body,
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Since,
    Tag,
    Text,
    UInt16,
    Uuid,
)

Brokers = tuple[Int32, ...]
Directories = tuple[Uuid, ...]


class EndPoint(Body, frozen=True):
    name: Text = ""
    host: Text = ""
    port: UInt16 = 0
    security_protocol: Int16 = 0


class Feature(Body, frozen=True):
    name: Text = ""
    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 0


class RegisterBroker(Body, frozen=True):
    broker_id: Int32 = 0
    is_migrating_zk_broker: Annotated[Bool, Since(2)] = False
    incarnation_id: Uuid = NO_UUID
    broker_epoch: Int64 = 0
    end_points: tuple[EndPoint, ...] = ()
    features: tuple[Feature, ...] = ()
    rack: Text | None = None
    fenced: Bool = True
    in_controlled_shutdown: Annotated[Bool, Since(1)] = False
    log_dirs: Annotated[Directories, Since(3), Tag(0)] = ()
    cordoned_log_dirs: Annotated[Directories | None, Since(4), Tag(1)] = None


class UnregisterBroker(Body, frozen=True):
    broker_id: Int32 = 0
    broker_epoch: Int64 = 0


class Topic(Body, frozen=True):
    name: Text = ""
    topic_id: Uuid = NO_UUID


class Partition(Body, frozen=True):
    partition_id: Int32 = -1
    topic_id: Uuid = NO_UUID
    replicas: Brokers = ()
    isr: Brokers = ()
    removing_replicas: Brokers = ()
    adding_replicas: Brokers = ()
    leader: Int32 = -1
    leader_recovery_state: Annotated[Int8, Tag(0)] = 0
    leader_epoch: Int32 = -1
    partition_epoch: Int32 = -1
    directories: Annotated[Directories, Since(1)] = ()
    eligible_leader_replicas: Annotated[Brokers | None, Since(2), Tag(1)] = None
    last_known_elr: Annotated[Brokers | None, Since(2), Tag(2)] = None


class Config(Body, frozen=True):
    resource_type: Int8 = 0
    resource_name: Text = ""
    name: Text = ""
    value: Text | None = ""


class PartitionChange(Body, frozen=True):
    partition_id: Int32 = -1
    topic_id: Uuid = NO_UUID
    isr: Annotated[Brokers | None, Tag(0)] = None
    leader: Annotated[Int32, Tag(1)] = -2
    replicas: Annotated[Brokers | None, Tag(2)] = None
    removing_replicas: Annotated[Brokers | None, Tag(3)] = None
    adding_replicas: Annotated[Brokers | None, Tag(4)] = None
    leader_recovery_state: Annotated[Int8, Tag(5)] = -1
    directories: Annotated[Directories | None, Since(1), Tag(8)] = None
    eligible_leader_replicas: Annotated[Brokers | None, Since(2), Tag(6)] = None
    last_known_elr: Annotated[Brokers | None, Since(2), Tag(7)] = None


class FenceBroker(Body, frozen=True):
    id: Int32 = 0
    epoch: Int64 = 0


class UnfenceBroker(Body, frozen=True):
    id: Int32 = 0
    epoch: Int64 = 0


class RemoveTopic(Body, frozen=True):
    topic_id: Uuid = NO_UUID


class FeatureLevel(Body, frozen=True):
    name: Text = ""
    feature_level: Int16 = 0


class ProducerIds(Body, frozen=True):
    broker_id: Int32 = 0
    broker_epoch: Int64 = -1
    next_producer_id: Int64 = 0


class BrokerRegistrationChange(Body, frozen=True):
    broker_id: Int32 = 0
    broker_epoch: Int64 = 0
    fenced: Annotated[Int8, Tag(0)] = 0
    in_controlled_shutdown: Annotated[Int8, Since(1), Tag(1)] = 0
    log_dirs: Annotated[Directories, Since(2), Tag(2)] = ()
    cordoned_log_dirs: Annotated[Directories | None, Since(3), Tag(3)] = None


class NoOp(Body, frozen=True):
    pass


class DelegationToken(Body, frozen=True):
    owner: Text = ""
    requester: Text = ""
    renewers: tuple[Text, ...] = ()
    issue_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    expiration_timestamp: Int64 = 0
    token_id: Text = ""


class UserScramCredential(Body, frozen=True):
    name: Text = ""
    mechanism: Int8 = 0
    salt: Bytes = b""
    stored_key: Bytes = b""
    server_key: Bytes = b""
    iterations: Int32 = 0


class RemoveUserScramCredential(Body, frozen=True):
    name: Text = ""
    mechanism: Int8 = 0


class QuotaEntity(Body, frozen=True):
    entity_type: Text = ""
    entity_name: Text | None = None


class ClientQuota(Body, frozen=True):
    entity: tuple[QuotaEntity, ...] = ()
    key: Text = ""
    value: Float64 = 0.0
    remove: Bool = False


class AccessControlEntry(Body, frozen=True):
    id: Uuid = NO_UUID
    resource_type: Int8 = 0
    resource_name: Text = ""
    pattern_type: Int8 = 0
    principal: Text = ""
    host: Text = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class RemoveAccessControlEntry(Body, frozen=True):
    id: Uuid = NO_UUID


class ClearElr(Body, frozen=True):
    topic_name: Text = ""


class ZkMigrationState(Body, frozen=True):
    zk_migration_state: Int8 = 0


class RemoveDelegationToken(Body, frozen=True):
    token_id: Text = ""


class BeginTransaction(Body, frozen=True):
    name: Annotated[Text | None, Tag(0)] = None


class EndTransaction(Body, frozen=True):
    pass


class AbortTransaction(Body, frozen=True):
    reason: Annotated[Text | None, Tag(0)] = None


class RegisterController(Body, frozen=True):
    controller_id: Int32 = 0
    incarnation_id: Uuid = NO_UUID
    zk_migration_ready: Bool = False
    end_points: tuple[EndPoint, ...] = ()
    features: tuple[Feature, ...] = ()


#: By number: the name in histories, the table, and the highest version that the table describes.
RECORDS: Final[dict[int, tuple[str, type[Body], int]]] = {
    0: ("register-broker", RegisterBroker, 4),
    1: ("unregister-broker", UnregisterBroker, 0),
    2: ("topic", Topic, 0),
    3: ("partition", Partition, 2),
    4: ("config", Config, 0),
    5: ("partition-change", PartitionChange, 2),
    7: ("fence-broker", FenceBroker, 0),
    8: ("unfence-broker", UnfenceBroker, 0),
    9: ("remove-topic", RemoveTopic, 0),
    10: ("delegation-token", DelegationToken, 0),
    11: ("user-scram-credential", UserScramCredential, 0),
    12: ("feature-level", FeatureLevel, 0),
    14: ("client-quota", ClientQuota, 0),
    15: ("producer-ids", ProducerIds, 0),
    17: ("broker-registration-change", BrokerRegistrationChange, 3),
    18: ("access-control-entry", AccessControlEntry, 0),
    19: ("remove-access-control-entry", RemoveAccessControlEntry, 0),
    20: ("no-op", NoOp, 0),
    21: ("zk-migration-state", ZkMigrationState, 0),
    22: ("remove-user-scram-credential", RemoveUserScramCredential, 0),
    23: ("begin-transaction", BeginTransaction, 0),
    24: ("end-transaction", EndTransaction, 0),
    25: ("abort-transaction", AbortTransaction, 0),
    26: ("remove-delegation-token", RemoveDelegationToken, 0),
    27: ("register-controller", RegisterController, 0),
    28: ("clear-elr", ClearElr, 0),
}


class Voter(Body, frozen=True):
    voter_id: Int32 = 0
    voter_directory_id: Annotated[Uuid, Since(1)] = NO_UUID


class LeaderChange(Body, frozen=True):
    version: Int16 = 0
    leader_id: Int32 = 0
    voters: tuple[Voter, ...] = ()
    granting_voters: tuple[Voter, ...] = ()


class SnapshotHeader(Body, frozen=True):
    version: Int16 = 0
    last_contained_log_timestamp: Int64 = 0


class SnapshotFooter(Body, frozen=True):
    version: Int16 = 0


class KraftVersion(Body, frozen=True):
    version: Int16 = 0
    kraft_version: Int16 = 0


#: Control records by the type in their key; their version is the first field of the value, and they are flexible.
CONTROLS: Final[dict[int, tuple[str, type[Body], int]]] = {
    2: ("leader-change", LeaderChange, 1),
    3: ("snapshot-header", SnapshotHeader, 0),
    4: ("snapshot-footer", SnapshotFooter, 0),
    5: ("kraft-version", KraftVersion, 0),
}
