"""A listener of the metadata log against a leader's answers, which here come from objects instead of a connection."""

import asyncio
import zipfile
from collections.abc import Sequence
from typing import Any, Final, cast

import pytest
from kafka.protocol.consumer.fetch import FetchResponse

from fencepost.harness.coordination import Definite
from fencepost.systems.kafka.client.client import KafkaNode, ListenerRole
from fencepost.systems.kafka.client.log_listener import KafkaLogListener
from fencepost.systems.kafka.protocols import LogPiece
from fencepost.systems.kafka.server import versions
from fencepost.systems.kafka.wire.messages import FETCH_LOG, FETCH_SNAPSHOT, METADATA_TOPIC, METADATA_TOPIC_ID, Api
from tests.systems.kafka.test_kafka_metadata_log import REAL, VERSIONS, log_of
from tests.systems.kafka.test_kafka_wire import check_versions, definitions

LOG: Final = REAL[VERSIONS[-1]]
ENTRIES: Final = log_of(LOG).entries
APIS: Final[tuple[Api[Any, Any], ...]] = (FETCH_LOG, FETCH_SNAPSHOT)
FETCHED: Final = FetchResponse.FetchableTopicResponse
PARTITION: Final = FETCHED.PartitionData
SNAPSHOT: Final = PARTITION.SnapshotId(end_offset=12, epoch=2)


class Leader:
    """A node that answers the requests of its connection, in order, and keeps them."""

    def __init__(self, *answers: Any, role: ListenerRole = ListenerRole.CONTROLLER) -> None:
        self.role = role
        self.connection = self
        self.asked: list[Any] = []
        self._answers = list(answers)

    def request(self, api: Api[Any, Any], message: Any) -> "asyncio.Future[Any]":
        self.asked.append(message)
        future = asyncio.get_running_loop().create_future()
        future.set_result(self._answers.pop(0))
        return future


def fetched(**fields: Any) -> FetchResponse:
    leader = PARTITION.LeaderIdAndEpoch(leader_id=1, leader_epoch=2)
    partition = PARTITION(**{"current_leader": leader, "high_watermark": 9, **fields})
    return FetchResponse(responses=[FETCHED(topic_id=METADATA_TOPIC_ID, partitions=[partition])])


def piece_of_snapshot(data: bytes, position: int, size: int) -> Any:
    of_topic = FETCH_SNAPSHOT.response.SnapshotTopic
    partition = of_topic.SnapshotPartition(size=size, position=position, unaligned_records=data)
    return FETCH_SNAPSHOT.response(topics=[of_topic(name=METADATA_TOPIC, partitions=[partition])])


def listened(leader: Leader, *asked: tuple[int, int]) -> list[LogPiece | str]:
    """What a listener gets by these fetches, by offset and last epoch; of a refusal its code."""

    async def run() -> list[LogPiece | str]:
        listener = KafkaLogListener(cast(KafkaNode, leader), 1, connect_timeout_s=1)
        got: list[LogPiece | str] = []
        for offset, epoch in asked:
            try:
                got.append(await listener.listen(offset, epoch, wait_s=0.1))
            except Definite as refusal:
                got.append(refusal.code)
        return got

    return asyncio.run(run())


def test_the_entries_are_those_of_the_disk() -> None:
    (piece,) = listened(Leader(fetched(records=LOG)), (0, 0))
    assert piece == LogPiece(epoch=2, high_watermark=9, entries=ENTRIES)


def test_a_batch_that_begins_earlier_is_cut() -> None:
    (piece,) = listened(Leader(fetched(records=LOG)), (5, 1))
    assert isinstance(piece, LogPiece)
    assert piece.entries == ENTRIES[5:]


def test_the_request_names_no_replica_and_the_epoch_that_the_node_told_last() -> None:
    leader = Leader(fetched(error_code=74), fetched(), fetched(error_code=6))
    assert listened(leader, (7, 1), (7, 1), (7, 2)) == [
        "fenced-leader-epoch",
        LogPiece(epoch=2, high_watermark=9),
        "not-leader-or-follower",
    ]
    assert {request.replica_id for request in leader.asked} == {-1}
    partitions = [request.topics[0].partitions[0] for request in leader.asked]
    assert [(p.current_leader_epoch, p.fetch_offset, p.last_fetched_epoch) for p in partitions] == [
        (1, 7, 1),
        (2, 7, 1),
        (2, 7, 2),
    ]


def test_only_controllers_are_asked() -> None:
    broker = Leader(role=ListenerRole.BROKER)
    assert listened(broker, (0, 0)) == ["no-metadata-log"]
    assert not broker.asked


def test_a_leader_whose_log_parts_says_where() -> None:
    parting = PARTITION.EpochEndOffset(epoch=1, end_offset=5)
    (piece,) = listened(Leader(fetched(diverging_epoch=parting, high_watermark=-1)), (8, 1))
    assert piece == LogPiece(epoch=2, high_watermark=-1, parts_at=(1, 5))


def test_a_snapshot_is_fetched_piece_by_piece() -> None:
    half = len(LOG) // 2
    leader = Leader(
        fetched(snapshot_id=SNAPSHOT),
        piece_of_snapshot(LOG[:half], 0, len(LOG)),
        piece_of_snapshot(LOG[half:], half, len(LOG)),
    )
    (piece,) = listened(leader, (0, 0))
    assert isinstance(piece, LogPiece) and piece.snapshot is not None
    assert (piece.snapshot.end_offset, piece.snapshot.epoch, piece.snapshot.entries) == (12, 2, ENTRIES)
    asked = [request.topics[0].partitions[0] for request in leader.asked[1:]]
    named = [(p.current_leader_epoch, p.snapshot_id.end_offset, p.snapshot_id.epoch, p.position) for p in asked]
    assert named == [(2, 12, 2, 0), (2, 12, 2, half)]


@pytest.mark.parametrize(
    "pieces",
    [
        [piece_of_snapshot(b"", 0, 10)],
        [piece_of_snapshot(LOG[:9], 3, len(LOG))],
        [piece_of_snapshot(LOG[:-1], 0, len(LOG) - 1)],
        [piece_of_snapshot(b"x", 0, 1 << 40)],
    ],
    ids=["empty", "another position", "cut off", "too large"],
)
def test_a_snapshot_that_is_not_what_was_asked_for_is_refused(pieces: Sequence[Any]) -> None:
    got = listened(Leader(fetched(snapshot_id=SNAPSHOT), *pieces), (0, 0))
    assert got == ["unreadable-records"]


@pytest.mark.parametrize(
    "data", [LOG[:-1] + b"x", LOG[:30] + b"x" + LOG[31:]], ids=["at the end", "in the first batch"]
)
def test_wrong_records_are_refused(data: bytes) -> None:
    assert listened(Leader(fetched(records=data)), (0, 0)) == ["unreadable-records"]


@pytest.mark.parametrize("release", ["3.6.0", "3.9.2", "4.3.1"])
def test_messages_are_what_kafka_itself_defines(release: str) -> None:
    if not versions.JARS.are_fetched(release):
        pytest.skip(f"the jars of {release} are not here")
    (jar,) = [one for one in versions.JARS.jars(release) if one.name == f"kafka-clients-{release}.jar"]
    with zipfile.ZipFile(jar) as archive:
        for api in APIS:
            for kind, ours in (("Request", api.request), ("Response", api.response)):
                check_versions(api, ours, definitions(archive, api, kind), kind)
