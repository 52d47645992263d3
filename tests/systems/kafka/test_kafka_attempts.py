"""What logs tell of a superseded controller's attempts: real lines, and of the source where none was seen."""

import pytest

from fencepost.harness.contract.logs import Attempt, LogTable
from fencepost.systems.kafka.kraft import KRAFT
from fencepost.systems.kafka.server.fenced_attempts import ENTRY, attempted
from fencepost.systems.kafka.zookeeper_mode import KAFKA_ZK

#: Of 3.9.2: a controller that was deposed while it was paused, on waking.
MOVED = """\
22:29:25.973 ERROR ZkPartitionStateMachine - [PartitionStateMachine controllerId=4] Controller moved to another broker \
when moving some partitions to OnlinePartition state
org.apache.kafka.common.errors.ControllerMovedException: Controller epoch zkVersion check fails. Expected zkVersion = 1
22:29:25.974 INFO KafkaController - [Controller id=4] Controller moved to another broker when processing TopicChange.
org.apache.kafka.common.errors.ControllerMovedException: Controller epoch zkVersion check fails. Expected zkVersion = 1
22:29:25.985 INFO KafkaController - [Controller id=4] Resigned"""
#: Of 3.9.2: a controller whose session had expired while it was paused, asked for a topic.
EXPIRED = """\
22:01:20.858 ERROR ZkAdminManager - [Admin Manager on Broker 5]: Error processing create topic request \
CreatableTopic(name='t46', numPartitions=1, replicationFactor=1, assignments=[], configs=[])
org.apache.zookeeper.KeeperException$SessionExpiredException: KeeperErrorCode = Session expired for \
/admin/delete_topics/t46
\tat org.apache.zookeeper.KeeperException.create(KeeperException.java:134)
22:01:20.859 ERROR ConfigHelper - Error processing describe configs request for resource \
DescribeConfigsResource(resourceType=2, resourceName='k0', configurationKeys=[retention.bytes])
org.apache.zookeeper.KeeperException$SessionExpiredException: KeeperErrorCode = Session expired for /config/topics/k0"""
#: Another error of the same request, and then an expired session of another one.
OTHERWISE = """\
22:01:20.858 ERROR ZkAdminManager - [Admin Manager on Broker 5]: Error processing create topic request \
CreatableTopic(name='t46', numPartitions=1, replicationFactor=1, assignments=[], configs=[])
org.apache.kafka.common.errors.InvalidReplicationFactorException: Replication factor: 3 larger than available: 2.
22:01:20.859 ERROR ConfigHelper - Error processing describe configs request for resource
org.apache.zookeeper.KeeperException$SessionExpiredException: KeeperErrorCode = Session expired for /config/topics/k0"""
#: As ReplicaManager writes them in 3.9 (its state change logger prefixes the broker) and, in small letters, in 2.x.
LEADER_AND_ISR = (
    "22:01:20.858 WARN logger - [Broker id=6] Ignoring LeaderAndIsr request from controller 5 with correlation id 7 "
    "since its controller epoch 1 is old. Latest known controller epoch is 2"
)
LEADER_AND_ISR_2 = (
    "22:01:20.858 WARN logger - [Broker id=6] ignoring LeaderAndIsr request from controller 5 with correlation id 7 "
    "since its controller epoch 1 is old. Latest known controller epoch is 3"
)
STOP_REPLICA = (
    "22:01:20.858 WARN logger - [Broker id=6] Ignoring StopReplica request from controller 5 with correlation id 8 "
    "since its controller epoch 1 is old. Latest known controller epoch is 2"
)
#: Of 3.9.2: the exception below the line says it again.
UPDATE_METADATA = """\
22:48:15.425 WARN logger - [Broker id=6] Received update metadata request with correlation id 15 from an old \
controller 5 with epoch 1. Latest known controller epoch is 2
22:48:15.426 ERROR KafkaApis - [KafkaApi-6] Unexpected error handling request
org.apache.kafka.common.errors.ControllerMovedException: [Broker id=6] Received update metadata request with \
correlation id 15 from an old controller 5 with epoch 1. Latest known controller epoch is 2"""
CURRENT = (
    "22:01:11.596 INFO logger - [Broker id=6] Ignoring LeaderAndIsr request from controller 4 with correlation id 1 "
    "epoch 2 for partition k0-0 since its associated leader epoch 0 matches the current leader epoch"
)
NO_CONTROLLER = (
    "org.apache.kafka.common.errors.ControllerMovedException: Cannot set entity configs for topics k0 when there is "
    "no controller."
)


def by_broker(f: str, latest: int = 2) -> Attempt:
    return Attempt(f, "stale-controller-epoch", node="b2", epoch=1, detail=f"knew of epoch {latest}")


@pytest.mark.parametrize(
    ("lines", "attempts"),
    [
        (MOVED, [Attempt("TopicChange", "controller-epoch")]),
        (
            "22:01:20.858 INFO KafkaController - [Controller id=4] Controller moved to another broker when processing "
            "ReplicaLeaderElection(None,PREFERRED,ZkTriggered,x).",
            [Attempt("ReplicaLeaderElection", "controller-epoch")],
        ),
        (
            EXPIRED,
            [
                Attempt(
                    "create",
                    "session-expired",
                    key="t46",
                    detail="KeeperErrorCode = Session expired for /admin/delete_topics/t46",
                )
            ],
        ),
        (OTHERWISE, []),
        (LEADER_AND_ISR, [by_broker("LeaderAndIsr")]),
        (LEADER_AND_ISR_2, [by_broker("LeaderAndIsr", 3)]),
        (STOP_REPLICA, [by_broker("StopReplica")]),
        (UPDATE_METADATA, [by_broker("UpdateMetadata")]),
        (CURRENT, []),
        (NO_CONTROLLER, []),
        ("INFO KafkaController - [Controller id=4] Resigned", []),
    ],
)
def test_lines(lines: str, attempts: list[Attempt]) -> None:
    logs = LogTable(attempted=attempted(lambda number: f"b{number - 3}"), entry=ENTRY)
    assert list(logs.events(lines.splitlines())) == attempts


def test_which_systems_logs_tell_of_attempts() -> None:
    assert not KRAFT.logs.attempted
    assert list(KAFKA_ZK.logs.events(UPDATE_METADATA.splitlines())) == [by_broker("UpdateMetadata")]
