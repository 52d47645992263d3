"""A listener of the metadata log: what the log's leader answers to whoever fetches it as an observer does.

A fetch names no replica, so the leader counts it neither as a voter nor as an observer, and answers with what is not
committed too. It names the leader's epoch, as this node last told it. The node refuses another one (74, 75), and the
next fetch names the right one. It also names the offset and the epoch of the listener's last record. A leader whose log
differs there answers where the two logs part. One that no longer has the records answers with the snapshot that stands
for them, which is then fetched piece by piece (KIP-630).

Source: KafkaRaftClient.handleFetchRequest, handleFetchSnapshotRequest and LeaderState.updateReplicaState of Kafka 3.6
to 4.3; KIP-595, "Fetch".
"""

from typing import Final

from fencepost.harness.coordination import Definite
from fencepost.systems.kafka.client.client import ListenerRole
from fencepost.systems.kafka.client.session import KafkaSession
from fencepost.systems.kafka.protocols import LogPiece, LogSnapshot
from fencepost.systems.kafka.wire import messages
from fencepost.systems.kafka.wire.codec import MalformedMessage
from fencepost.systems.kafka.wire.errors import UNREADABLE_RECORDS, RequestKind, only_item, raise_error, refused
from fencepost.systems.kafka.wire.metadata_entries import entry_of, read_entries
from fencepost.systems.kafka.wire.records import read_batches

NO_METADATA_LOG: Final = "no-metadata-log"
_BYTES_MAX: Final = 1 << 20
#: A longer snapshot is refused here: those of a test are some kilobytes.
_SNAPSHOT_BYTES_MAX: Final = 64 << 20


class KafkaLogListener(KafkaSession):
    """The metadata log as this node serves it."""

    _epoch = 0

    async def listen(self, offset: int, last_epoch: int, wait_s: float) -> LogPiece:
        """`systems.kafka.protocols.LogListener.listen`."""
        if self.node.role is not ListenerRole.CONTROLLER:
            raise Definite(NO_METADATA_LOG, "only controllers serve the metadata log")
        # No leader's epoch is below that of an entry.
        self._epoch = max(self._epoch, last_epoch)
        wanted = messages.FETCH_LOG.request.FetchTopic.FetchPartition(
            partition=0,
            current_leader_epoch=self._epoch,
            fetch_offset=offset,
            last_fetched_epoch=last_epoch,
            log_start_offset=-1,
            partition_max_bytes=_BYTES_MAX,
        )
        request = messages.FETCH_LOG.request(
            max_wait_ms=round(wait_s * 1000),
            min_bytes=1,
            max_bytes=_BYTES_MAX,
            topics=[messages.FETCH_LOG.request.FetchTopic(topic_id=messages.METADATA_TOPIC_ID, partitions=[wanted])],
        )
        answer = await self.node.connection.request(messages.FETCH_LOG, request)
        raise_error(RequestKind.READ, answer.error_code)
        result = only_item(only_item(answer.responses).partitions)
        leader = result.current_leader
        self._epoch = max(0, leader.leader_epoch) if leader is not None else 0
        raise_error(RequestKind.READ, result.error_code)
        snapshot, diverging = result.snapshot_id, result.diverging_epoch
        data = result.records or b""
        assert isinstance(data, bytes)  # what is read is
        try:
            entries = tuple(map(entry_of, read_batches(data, offset, control=True).records))
        except MalformedMessage as error:
            raise refused(UNREADABLE_RECORDS, str(error)) from None
        return LogPiece(
            epoch=self._epoch,
            high_watermark=result.high_watermark,
            entries=entries,
            parts_at=(
                (diverging.epoch, diverging.end_offset) if diverging is not None and diverging.end_offset >= 0 else None
            ),
            snapshot=(
                await self._fetch_snapshot(snapshot.end_offset, snapshot.epoch)
                if snapshot is not None and snapshot.end_offset >= 0
                else None
            ),
        )

    async def _fetch_snapshot(self, end_offset: int, epoch: int) -> LogSnapshot:
        data, size = b"", 1
        of_topic = messages.FETCH_SNAPSHOT.request.SnapshotTopic
        while len(data) < size:
            wanted = of_topic.SnapshotPartition(
                partition=0,
                current_leader_epoch=self._epoch,
                snapshot_id=of_topic.SnapshotPartition.SnapshotId(end_offset=end_offset, epoch=epoch),
                position=len(data),
            )
            request = messages.FETCH_SNAPSHOT.request(
                max_bytes=_BYTES_MAX, topics=[of_topic(name=messages.METADATA_TOPIC, partitions=[wanted])]
            )
            answer = await self.node.connection.request(messages.FETCH_SNAPSHOT, request)
            raise_error(RequestKind.READ, answer.error_code)
            result = only_item(only_item(answer.topics).partitions)
            raise_error(RequestKind.READ, result.error_code)
            size = result.size
            if result.position != len(data) or not result.unaligned_records or size > _SNAPSHOT_BYTES_MAX:
                what = f"{len(result.unaligned_records)} bytes at {result.position} of {size}, {len(data)} were known"
                raise refused(UNREADABLE_RECORDS, f"a piece of a snapshot: {what}")
            data += result.unaligned_records
        try:
            entries, _ = read_entries(data, "the snapshot", may_be_torn=False)
        except MalformedMessage as error:
            raise refused(UNREADABLE_RECORDS, str(error)) from None
        return LogSnapshot(end_offset=end_offset, epoch=epoch, entries=tuple(entries))
