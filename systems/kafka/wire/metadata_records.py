"""The records of Kafka's metadata log, by their number and versions.

A record begins with three varints: frame version (1), number, version. Control records, which the raft layer writes,
are identified by their key instead. An unknown record keeps its bytes, so that logs can still be compared.

Source: the definitions in `common/metadata/` of kafka-metadata and `common/message/` of kafka-clients, 3.6.0 to 4.3.1;
MetadataRecordSerde, ControlRecordType.
"""

from functools import cache
from typing import Any, Final

from fencepost.systems.kafka.wire.codec import field, structure

_END_POINTS: Final = (
    field("name", "string"),
    field("host", "string"),
    field("port", "uint16"),
    field("security_protocol", "int16"),
)
_FEATURES: Final = (
    field("name", "string"),
    field("min_supported_version", "int16"),
    field("max_supported_version", "int16"),
)
_QUOTA_ENTITY: Final = (field("entity_type", "string"), field("entity_name", "string", nullable=True, default=None))
_VOTERS: Final = (field("voter_id", "int32"), field("voter_directory_id", "uuid", since=1))


@cache
def records() -> dict[int, Any]:
    """By number: a class that has the record's name in histories and the highest version that is described."""
    return {
        0: structure(
            "register-broker",
            field("broker_id", "int32"),
            field("is_migrating_zk_broker", "bool", since=2),
            field("incarnation_id", "uuid"),
            field("broker_epoch", "int64"),
            field("end_points", "[]EndPoint", *_END_POINTS),
            field("features", "[]Feature", *_FEATURES),
            field("rack", "string", nullable=True, default=None),
            field("fenced", "bool", default=True),
            field("in_controlled_shutdown", "bool", since=1),
            field("log_dirs", "[]uuid", since=3, tag=0),
            field("cordoned_log_dirs", "[]uuid", since=4, tag=1, nullable=True, default=None),
            newest=4,
        ),
        1: structure("unregister-broker", field("broker_id", "int32"), field("broker_epoch", "int64")),
        2: structure("topic", field("name", "string"), field("topic_id", "uuid")),
        3: structure(
            "partition",
            field("partition_id", "int32", default=-1),
            field("topic_id", "uuid"),
            field("replicas", "[]int32"),
            field("isr", "[]int32"),
            field("removing_replicas", "[]int32"),
            field("adding_replicas", "[]int32"),
            field("leader", "int32", default=-1),
            field("leader_recovery_state", "int8", tag=0),
            field("leader_epoch", "int32", default=-1),
            field("partition_epoch", "int32", default=-1),
            field("directories", "[]uuid", since=1),
            field("eligible_leader_replicas", "[]int32", since=2, tag=1, nullable=True, default=None),
            field("last_known_elr", "[]int32", since=2, tag=2, nullable=True, default=None),
            newest=2,
        ),
        4: structure(
            "config",
            field("resource_type", "int8"),
            field("resource_name", "string"),
            field("name", "string"),
            field("value", "string", nullable=True),
        ),
        5: structure(
            "partition-change",
            field("partition_id", "int32", default=-1),
            field("topic_id", "uuid"),
            field("isr", "[]int32", tag=0, nullable=True, default=None),
            field("leader", "int32", tag=1, default=-2),
            field("replicas", "[]int32", tag=2, nullable=True, default=None),
            field("removing_replicas", "[]int32", tag=3, nullable=True, default=None),
            field("adding_replicas", "[]int32", tag=4, nullable=True, default=None),
            field("leader_recovery_state", "int8", tag=5, default=-1),
            field("directories", "[]uuid", since=1, tag=8, nullable=True, default=None),
            field("eligible_leader_replicas", "[]int32", since=2, tag=6, nullable=True, default=None),
            field("last_known_elr", "[]int32", since=2, tag=7, nullable=True, default=None),
            newest=2,
        ),
        7: structure("fence-broker", field("id", "int32"), field("epoch", "int64")),
        8: structure("unfence-broker", field("id", "int32"), field("epoch", "int64")),
        9: structure("remove-topic", field("topic_id", "uuid")),
        10: structure(
            "delegation-token",
            field("owner", "string"),
            field("requester", "string"),
            field("renewers", "[]string"),
            field("issue_timestamp", "int64"),
            field("max_timestamp", "int64"),
            field("expiration_timestamp", "int64"),
            field("token_id", "string"),
        ),
        11: structure(
            "user-scram-credential",
            field("name", "string"),
            field("mechanism", "int8"),
            field("salt", "bytes"),
            field("stored_key", "bytes"),
            field("server_key", "bytes"),
            field("iterations", "int32"),
        ),
        12: structure("feature-level", field("name", "string"), field("feature_level", "int16")),
        14: structure(
            "client-quota",
            field("entity", "[]QuotaEntity", *_QUOTA_ENTITY),
            field("key", "string"),
            field("value", "float64"),
            field("remove", "bool"),
        ),
        15: structure(
            "producer-ids",
            field("broker_id", "int32"),
            field("broker_epoch", "int64", default=-1),
            field("next_producer_id", "int64"),
        ),
        17: structure(
            "broker-registration-change",
            field("broker_id", "int32"),
            field("broker_epoch", "int64"),
            field("fenced", "int8", tag=0),
            field("in_controlled_shutdown", "int8", since=1, tag=1),
            field("log_dirs", "[]uuid", since=2, tag=2),
            field("cordoned_log_dirs", "[]uuid", since=3, tag=3, nullable=True, default=None),
            newest=3,
        ),
        18: structure(
            "access-control-entry",
            field("id", "uuid"),
            field("resource_type", "int8"),
            field("resource_name", "string"),
            field("pattern_type", "int8"),
            field("principal", "string"),
            field("host", "string"),
            field("operation", "int8"),
            field("permission_type", "int8"),
        ),
        19: structure("remove-access-control-entry", field("id", "uuid")),
        20: structure("no-op"),
        21: structure("zk-migration-state", field("zk_migration_state", "int8")),
        22: structure("remove-user-scram-credential", field("name", "string"), field("mechanism", "int8")),
        23: structure("begin-transaction", field("name", "string", tag=0, nullable=True, default=None)),
        24: structure("end-transaction"),
        25: structure("abort-transaction", field("reason", "string", tag=0, nullable=True, default=None)),
        26: structure("remove-delegation-token", field("token_id", "string")),
        27: structure(
            "register-controller",
            field("controller_id", "int32"),
            field("incarnation_id", "uuid"),
            field("zk_migration_ready", "bool"),
            field("end_points", "[]EndPoint", *_END_POINTS),
            field("features", "[]Feature", *_FEATURES),
        ),
        28: structure("clear-elr", field("topic_name", "string")),
    }


@cache
def controls() -> dict[int, Any]:
    """Control records by the type in their key; their version is the first field of the value."""
    return {
        2: structure(
            "leader-change",
            field("version", "int16"),
            field("leader_id", "int32"),
            field("voters", "[]Voter", *_VOTERS),
            field("granting_voters", "[]Voter", *_VOTERS),
            newest=1,
        ),
        3: structure("snapshot-header", field("version", "int16"), field("last_contained_log_timestamp", "int64")),
        4: structure("snapshot-footer", field("version", "int16")),
        5: structure("kraft-version", field("version", "int16"), field("kraft_version", "int16")),
    }
