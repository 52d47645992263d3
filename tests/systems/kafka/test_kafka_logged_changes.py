"""Changes in the logs of Kafka's nodes: lines of real servers of 3.9.2 and 4.3.1."""

import pytest

from fencepost.harness.contract.logs import LoggedChange, LogTable
from fencepost.harness.history import Logged
from fencepost.systems.kafka.kraft import KRAFT
from fencepost.systems.kafka.zookeeper_mode import KAFKA_ZK

_CLUSTER = "19:43:45.569 INFO ClusterControlManager - [QuorumController id=3] "
_RAFT = "19:42:56.904 INFO QuorumState - [RaftManager id=1] "
_LIFE = "19:43:47.670 INFO BrokerLifecycleManager - [BrokerLifecycleManager id=6] "
_CHANGE = (
    "Replayed BrokerRegistrationChangeRecord modifying the registration for broker 6: BrokerRegistrationChangeRecord"
)


def _changes(logs: LogTable, line: str) -> tuple[LoggedChange, ...]:
    return tuple(event for event in logs.events([line]) if isinstance(event, LoggedChange))


def _registration(fenced: int, stops: int) -> str:
    return (
        f"{_CLUSTER}{_CHANGE}(brokerId=6, brokerEpoch=23, fenced={fenced}, inControlledShutdown={stops}, logDirs=[], "
        "cordonedLogDirs=null)"
    )


@pytest.mark.parametrize(
    ("line", "change"),
    [
        (
            f"{_RAFT}Completed transition to ResignedState(localId=1, epoch=3, voters=[1, 2, 3], electionTimeoutMs=630"
            ", unackedVoters=[2, 3], ...) from Leader(localVoterNode=VoterNode(...), epoch=3, ...)",
            LoggedChange(Logged.RESIGNED, subject="raft", epoch=3),
        ),
        (
            "19:42:57.535 WARN QuorumController - [QuorumController id=1] Renouncing the leadership due to a metadata "
            "log event. We were the leader at epoch 3, but in the new epoch 4, the leader is (none). Reverting to last "
            "stable offset 147.",
            LoggedChange(Logged.RESIGNED, subject="controller", epoch=3, position=147),
        ),
        (
            "19:42:42.943 INFO QuorumController - [QuorumController id=1] Becoming the active controller at epoch 3, "
            "next write offset 57.",
            None,
        ),
        (
            f"{_CLUSTER}Replayed initial RegisterBrokerRecord for broker 6: RegisterBrokerRecord(brokerId=6, "
            "isMigratingZkBroker=false, incarnationId=silO0OS4QX-E5KyYDRkOSw, brokerEpoch=23, endPoints=[...])",
            LoggedChange(Logged.REGISTERED, number=6, position=23),
        ),
        (_registration(-1, 0), LoggedChange(Logged.UNFENCED, number=6, position=23)),
        (_registration(1, 0), LoggedChange(Logged.FENCED, number=6, position=23)),
        (_registration(0, 1), LoggedChange(Logged.STOPPING, number=6, position=23)),
        (_registration(0, 0), None),
        (f"{_LIFE}Beginning controlled shutdown.", LoggedChange(Logged.STOPPING)),
        (f"{_LIFE}The controller has asked us to exit controlled shutdown.", LoggedChange(Logged.MAY_STOP)),
        (f"{_LIFE}The broker is in PENDING_CONTROLLED_SHUTDOWN state, still waiting.", None),
        (
            "19:47:41.501 INFO logger - [Broker id=4] Leader k7-0 with topic id Some(sEpoG7CmTpWsizpjh5-Bfw) starts at "
            "leader epoch 2 from offset 0 with partition epoch 0, high watermark 0, ISR [4,5,6], adding replicas []"
            " and removing replicas [] . Previous leader None and previous leader epoch was -1.",
            LoggedChange(Logged.IN_SYNC, key="k7-0", epoch=2, detail="4,5,6", topic="sEpoG7CmTpWsizpjh5-Bfw"),
        ),
        (
            "10:01:02.003 INFO logger - [Broker id=4] Leader k7-0 with topic id None starts at leader epoch 2 from "
            "offset 0 with partition epoch 0, high watermark 0, ISR [4], adding replicas [] and removing replicas [] .",
            LoggedChange(Logged.IN_SYNC, key="k7-0", epoch=2, detail="4"),
        ),
        (
            "02:44:58.052 INFO Partition - [Partition out-2 broker=6] ISR updated to 4,5,6  and version updated to 2",
            LoggedChange(Logged.IN_SYNC, key="out-2", detail="4,5,6", position=2),
        ),
        (
            "19:43:45.546 INFO QuorumController - [QuorumController id=3] registerBroker: event failed with "
            "DuplicateBrokerRegistrationException in 83 microseconds. Exception message: Another broker is registered "
            "with that broker id.",
            LoggedChange(Logged.DUPLICATE_ID, detail="registerBroker"),
        ),
        ("", None),
    ],
)
def test_lines_of_kraft(line: str, change: LoggedChange | None) -> None:
    assert _changes(KRAFT.logs, line) == (() if change is None else (change,))


def test_lines_of_zookeeper_mode() -> None:
    says = "22:01:20.761 INFO KafkaController - [Controller id=5] "
    assert _changes(KAFKA_ZK.logs, f"{says}Resigned") == (LoggedChange(Logged.RESIGNED, subject="controller"),)
    active = _changes(KAFKA_ZK.logs, f"{says}Currently active brokers in the cluster: Set(4, 6)")
    assert active == tuple(LoggedChange(Logged.UNFENCED, number=number) for number in (4, 6))
    went = _changes(
        KAFKA_ZK.logs, f"{says}Newly added brokers: 4, deleted brokers: 5,6, bounced brokers: , all live brokers: 4"
    )
    assert [(c.change, c.number) for c in went] == [
        (Logged.FENCED, 5), (Logged.FENCED, 6), (Logged.UNFENCED, 4)
    ]  # fmt: skip
