"""What a Kafka node says of its role: the three questions against nodes that do as they are told, and log lines."""

import asyncio
import re
from typing import Any

import pytest
from kafka.protocol.admin.cluster import DescribeQuorumResponse
from kafka.protocol.admin.topics import CreateTopicsResponse
from kafka.protocol.metadata.metadata import MetadataResponse

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.history import Claim
from fencepost.systems.kafka.client.question import PROBE_TOPIC, ControllerQuestion, QuorumQuestion, ViewQuestion
from fencepost.systems.kafka.server.log_lines import BEGINS, Layer, RoleChange, read_role_change
from fencepost.systems.kafka.wire.connection import KafkaConnection
from tests.fakes.kafka_broker import (
    BROKER,
    CLOSE,
    CONTROLLER,
    SILENCE,
    ZOOKEEPER_BROKER,
    Answer,
    FakeNode,
    answer_frame,
    everything,
    node,
)
from tests.systems.contract.patience import PATIENCE_S, refused_port, until

NAMES = {1: "n1", 2: "n2"}
QUORUM = DescribeQuorumResponse.TopicData


def name_of(number: int) -> str:
    return NAMES.get(number, str(number))


@pytest.fixture(autouse=True)
def _dials_patiently(monkeypatch: pytest.MonkeyPatch) -> None:
    """These nodes share a process, which may be busy, with whoever dials."""
    monkeypatch.setattr("fencepost.systems.kafka.client.reconnecting_client._DIAL_S", PATIENCE_S)


Question = QuorumQuestion | ControllerQuestion | ViewQuestion


def quorum(number: int, leader: int, epoch: int) -> DescribeQuorumResponse:
    partition = QUORUM.PartitionData(error_code=number, leader_id=leader, leader_epoch=epoch, high_watermark=80)
    return DescribeQuorumResponse(topics=[QUORUM(topic_name="__cluster_metadata", partitions=[partition])])


def created(number: int) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreateTopicsResponse.CreatableTopicResult(name=PROBE_TOPIC, error_code=number)])


def asking(kind: type[Question], fake: FakeNode) -> Question:
    return kind(2, "127.0.0.1", fake.port, name_of)


@pytest.mark.parametrize(
    ("role", "kind", "answer", "claims", "leader", "epoch"),
    [
        (CONTROLLER, QuorumQuestion, quorum(0, 2, 11), Claim.YES, "n2", 11),
        (CONTROLLER, QuorumQuestion, quorum(6, 0, 0), Claim.NO, None, None),
        (BROKER, QuorumQuestion, quorum(0, 2, 11), Claim.NO, "n2", 11),
        (BROKER, QuorumQuestion, quorum(0, 7, 11), Claim.NO, "7", 11),
        (CONTROLLER, ControllerQuestion, created(0), Claim.YES, "n2", None),
        (CONTROLLER, ControllerQuestion, created(36), Claim.YES, "n2", None),
        (CONTROLLER, ControllerQuestion, created(38), Claim.YES, "n2", None),
        (CONTROLLER, ControllerQuestion, created(41), Claim.NO, None, None),
        (ZOOKEEPER_BROKER, ControllerQuestion, created(41), Claim.NO, None, None),
        (ZOOKEEPER_BROKER, ControllerQuestion, created(0), Claim.YES, "n2", None),
        # It looks at its role first: what went wrong behind that went wrong in a controller's hands.
        (ZOOKEEPER_BROKER, ControllerQuestion, created(-1), Claim.YES, "n2", None),
        (ZOOKEEPER_BROKER, ViewQuestion, MetadataResponse(controller_id=2), Claim.YES, "n2", None),
        (ZOOKEEPER_BROKER, ViewQuestion, MetadataResponse(controller_id=1), Claim.NO, "n1", None),
        (ZOOKEEPER_BROKER, ViewQuestion, MetadataResponse(controller_id=-1), Claim.NO, None, None),
    ],
)
def test_answers(
    role: Any, kind: type[Question], answer: Answer, claims: Claim, leader: str | None, epoch: int | None
) -> None:
    async def scenario() -> None:
        async with node(lambda asked: answer, everything(role)) as fake:
            question = asking(kind, fake)
            said = await question.ask()
            assert (said.claims, said.leader, said.epoch) == (claims, leader, epoch)
            await question.close()
            if kind is ControllerQuestion:
                assert fake.asked[0].message.validate_only

    asyncio.run(scenario())


def test_a_leader_says_how_far_others_are_behind() -> None:
    replica = QUORUM.PartitionData.ReplicaState
    told = QUORUM.PartitionData(
        leader_id=2,
        leader_epoch=11,
        high_watermark=80,
        current_voters=[replica(replica_id=i, log_end_offset=end) for i, end in ((1, 80), (2, 68), (3, -1))],
        observers=[replica(replica_id=4, log_end_offset=77)],
    )
    answer = DescribeQuorumResponse(topics=[QUORUM(topic_name="__cluster_metadata", partitions=[told])])

    async def scenario() -> None:
        async with node(lambda asked: answer, everything(CONTROLLER)) as fake:
            question = asking(QuorumQuestion, fake)
            assert (await question.ask()).detail == "behind 2=12 4=3"
            await question.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("role", "kind", "answer"),
    [
        (CONTROLLER, QuorumQuestion, quorum(3, 2, 11)),
        (CONTROLLER, QuorumQuestion, quorum(-1, 2, 11)),
        (CONTROLLER, QuorumQuestion, CLOSE),
        (CONTROLLER, ControllerQuestion, created(7)),
        (CONTROLLER, ControllerQuestion, created(-1)),
        (BROKER, ControllerQuestion, created(0)),
        (BROKER, ViewQuestion, MetadataResponse(controller_id=2)),
    ],
)
def test_what_states_nothing_is_no_answer(role: Any, kind: type[Question], answer: Answer) -> None:
    async def scenario() -> None:
        async with node(lambda asked: answer, everything(role)) as fake:
            question = asking(kind, fake)
            with pytest.raises((Definite, Indefinite, ValueError)):
                await question.ask()
            await question.close()
            with pytest.raises(RuntimeError, match="after close"):
                await question.ask()

    asyncio.run(scenario())


async def give_up(question: Question, fake: FakeNode) -> None:
    """Ask a node that is silent, and give up when the question has come."""
    asked = len(fake.asked)
    asking = asyncio.create_task(question.ask())
    await until(lambda: len(fake.asked) > asked)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


def line_of(question: Question) -> KafkaConnection:
    """The connection in use."""
    line = question._line._line
    assert line is not None
    return line.node.connection


def test_a_kept_connection_serves_many_questions_and_a_lost_one_is_replaced() -> None:
    async def scenario() -> None:
        async with node(lambda asked: quorum(0, 2, 11), everything(CONTROLLER)) as fake:
            question = asking(QuorumQuestion, fake)
            await asyncio.gather(*(question.ask() for _ in range(5)))
            assert fake.connections == 1
            kept = line_of(question)
            fake.writers[0].close()
            await until(lambda: kept.ended)
            await question.ask()
            assert fake.connections == 2
            await question.close()

    asyncio.run(scenario())


def test_a_silent_connection_is_replaced_but_heard_out() -> None:
    async def scenario() -> None:
        sleeps = True
        async with node(lambda asked: SILENCE if sleeps else quorum(0, 2, 11), everything(CONTROLLER)) as fake:
            question = asking(QuorumQuestion, fake)
            for _ in range(3):
                await give_up(question, fake)
            sleeps = False
            assert (await question.ask()).claims is Claim.YES
            assert fake.connections == 2
            await question.close()

    asyncio.run(scenario())


def test_a_question_that_waits_keeps_its_connection() -> None:
    async def scenario() -> None:
        async with node(lambda asked: SILENCE, everything(CONTROLLER)) as fake:
            question = asking(QuorumQuestion, fake)
            waiting = asyncio.create_task(question.ask())
            await until(lambda: fake.asked)
            for _ in range(4):
                await give_up(question, fake)
            assert fake.connections == 2
            first = fake.asked[0]
            fake.writers[0].write(answer_frame(first, quorum(0, 2, 11)))
            assert (await waiting).epoch == 11
            await question.close()

    asyncio.run(scenario())


def test_a_dead_node_is_no_answer_and_is_seen_again() -> None:
    async def scenario() -> None:
        async with node(lambda asked: quorum(0, 2, 11), everything(CONTROLLER)) as fake:
            port = fake.port
            question = QuorumQuestion(2, "127.0.0.1", port, name_of)
            await question.ask()
            kept = line_of(question)
        await until(lambda: kept.ended)
        with refused_port(port), pytest.raises(Definite, match="not-connected"):
            await question.ask()
        await question.close()

    asyncio.run(scenario())


# Log lines of real servers, cut short where "..." stands

RAFT = "INFO org.apache.kafka.raft.QuorumState - [RaftManager id=1] "
ACTS = "org.apache.kafka.controller.QuorumController - [QuorumController id=2] "
ZK = "[controller-event-thread] INFO kafka.controller.KafkaController - "
LEADER_360 = "Leader(localId=1, epoch=5, epochStartOffset=23, highWatermark=Optional.empty, voterStates={...})"
LEADER_392 = (
    "Leader(localReplicaKey=ReplicaKey(id=1, directoryId=Optional[WAcGpd3ofpveHgQGRyMxZw]), epoch=4, "
    "epochStartOffset=16, highWatermark=Optional.empty, voterStates={...})"
)
LEADER_431 = (
    "Leader(localVoterNode=VoterNode(voterKey=ReplicaKey(id=1, directoryId=1ehIXLsNTvTo4J3B8jj9FA), "
    "listeners=Endpoints(endpoints={ListenerName(CONTROLLER)=127.0.0.1/<unresolved>:19101}), "
    "supportedKRaftVersion=SupportedVersionRange[min_version:0, max_version:1]), "
    "epoch=3, epochStartOffset=25, highWatermark=Optional.empty, voterStates={...})"
)
FOLLOWS = "FollowerState(fetchTimeoutMs=1000, epoch=2, leaderId=3, voters=[1, 2, 3], highWatermark=Optional.empty, ...)"


@pytest.mark.parametrize(
    ("line", "change"),
    [
        (
            f"{RAFT}Completed transition to {LEADER_360} from CandidateState(localId=1, epoch=5, retries=1, ...)",
            RoleChange(Layer.RAFT, True, 5),
        ),
        (
            f"{RAFT}Completed transition to {LEADER_392} from CandidateState(localId=1, "
            "localDirectoryId=WAcGpd3ofpveHgQGRyMxZw,epoch=4, retries=1, ...)",
            RoleChange(Layer.RAFT, True, 4),
        ),
        (
            f"{RAFT}Completed transition to {LEADER_431} from CandidateState(localId=1, "
            "localDirectoryId=1ehIXLsNTvTo4J3B8jj9FA, epoch=3, epochElection=EpochElection[...], ...)",
            RoleChange(Layer.RAFT, True, 3),
        ),
        (
            f"{RAFT}Completed transition to ResignedState(localId=1, epoch=4, voters=[1, 2, 3], ...) from {LEADER_392}",
            RoleChange(Layer.RAFT, False, 4),
        ),
        (
            f"{RAFT}Completed transition to Unattached(epoch=7, voters=[1, 2, 3], electionTimeoutMs=757) "
            f"from {LEADER_360}",
            RoleChange(Layer.RAFT, False, 5),
        ),
        (f"{RAFT}Completed transition to {FOLLOWS} from Voted(epoch=2, votedId=3, ...)", None),
        (f"{RAFT}Attempting durable transition to {FOLLOWS} from {LEADER_431}", None),
        (f"{RAFT}Completed transition to UnattachedState(epoch=0, leaderId=OptionalInt.empty, ...) from null", None),
        (
            f"INFO {ACTS}Becoming the active controller at epoch 2, next write offset 15.",
            RoleChange(Layer.CONTROLLER, True, 2),
        ),
        (
            f"WARN {ACTS}Renouncing the leadership due to a metadata log event. We were the leader at epoch 2, "
            "but in the new epoch 3, the leader is (none). Reverting to last stable offset 24.",
            RoleChange(Layer.CONTROLLER, False, 2, 24),
        ),
        (
            f"INFO {ACTS}writeNoOpRecord: event failed with NotLeaderException (treated as NotControllerException) at "
            "epoch 5 in 4496 microseconds. Renouncing leadership and reverting to the last committed offset 21.",
            RoleChange(Layer.CONTROLLER, False, 5, 21),
        ),
        (f"INFO {ACTS}Activated periodic tasks: electPreferred, writeNoOpRecord", None),
        (
            f"{ZK}[Controller id=1] 1 successfully elected as the controller. Epoch incremented to 12 and epoch "
            "zk version is now 12",
            RoleChange(Layer.ZOOKEEPER, True, 12),
        ),
        (f"{ZK}[Controller id=1] Resigned\n", RoleChange(Layer.ZOOKEEPER, False, None)),
        (f"{ZK}[Controller id=1] Ready to serve as the new controller with epoch 1", None),
        ("", None),
    ],
)
def test_log_lines(line: str, change: RoleChange | None) -> None:
    assert read_role_change(line) == change
    begun = {layer: int(match[1]) for layer, pattern in BEGINS.items() if (match := re.search(pattern, line))}
    assert begun == ({change.layer: change.epoch} if change is not None and change.leads else {})
