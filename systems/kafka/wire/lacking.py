"""Messages that kafka-python lacks: requests among nodes, and of those who change the quorum's voters.

Source: the definitions in `common/message/` of kafka-clients 3.6.0, 3.9.2 and 4.3.1; a test compares them.
"""

from typing import Final

from fencepost.systems.kafka.wire.codec import field, structure

_THROTTLE: Final = field("throttle_time_ms", "int32")
_ERROR: Final = field("error_code", "int16")
_ERROR_MESSAGE: Final = field("error_message", "string", nullable=True, default=None)
_SNAPSHOT_ID: Final = field("snapshot_id", "SnapshotId", field("end_offset", "int64"), field("epoch", "int32"))
_CURRENT_LEADER: Final = field(
    "current_leader", "LeaderIdAndEpoch", field("leader_id", "int32"), field("leader_epoch", "int32"), tag=0
)

FetchSnapshotRequest: Final = structure(
    "FetchSnapshotRequest",
    field("cluster_id", "string", tag=0, nullable=True, default=None),
    field("replica_id", "int32", default=-1),
    field("max_bytes", "int32", default=0x7FFFFFFF),
    field(
        "topics",
        "[]SnapshotTopic",
        field("name", "string"),
        field(
            "partitions",
            "[]SnapshotPartition",
            field("partition", "int32"),
            field("current_leader_epoch", "int32"),
            _SNAPSHOT_ID,
            field("position", "int64"),
        ),
    ),
)
FetchSnapshotResponse: Final = structure(
    "FetchSnapshotResponse",
    _THROTTLE,
    _ERROR,
    field(
        "topics",
        "[]SnapshotTopic",
        field("name", "string"),
        field(
            "partitions",
            "[]SnapshotPartition",
            field("index", "int32"),
            _ERROR,
            _SNAPSHOT_ID,
            _CURRENT_LEADER,
            field("size", "int64"),
            field("position", "int64"),
            field("unaligned_records", "records"),
        ),
    ),
)
AddRaftVoterRequest: Final = structure(
    "AddRaftVoterRequest",
    field("cluster_id", "string", nullable=True, default=None),
    field("timeout_ms", "int32"),
    field("voter_id", "int32"),
    field("voter_directory_id", "uuid"),
    field(
        "listeners",
        "[]VoterListener",
        field("name", "string"),
        field("host", "string"),
        field("port", "uint16"),
    ),
    field("ack_when_committed", "bool", since=1, default=True),
    newest=1,
)
AddRaftVoterResponse: Final = structure("AddRaftVoterResponse", _THROTTLE, _ERROR, _ERROR_MESSAGE, newest=1)
RemoveRaftVoterRequest: Final = structure(
    "RemoveRaftVoterRequest",
    field("cluster_id", "string", nullable=True, default=None),
    field("voter_id", "int32"),
    field("voter_directory_id", "uuid"),
)
RemoveRaftVoterResponse: Final = structure("RemoveRaftVoterResponse", _THROTTLE, _ERROR, _ERROR_MESSAGE)
