"""The requests about the logs of topic partitions: produce, fetch and offsets.

Each is one request of one node, with one answer and one outcome, as in `client`.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from fencepost.systems.kafka.wire.codec import MalformedMessage
from fencepost.systems.kafka.wire.connection import KafkaConnection
from fencepost.systems.kafka.wire.errors import (
    NO_ACKNOWLEDGEMENT,
    UNREADABLE_RECORDS,
    RequestKind,
    only_item,
    raise_error,
    refused,
)
from fencepost.systems.kafka.wire.messages import FETCH, LIST_OFFSETS, PRODUCE
from fencepost.systems.kafka.wire.records import BatchRecord, Producer, read_batches, write_batch
from fencepost.systems.kafka.wire.values import AppendedBatch, Fetched, LogPosition

if TYPE_CHECKING:
    from kafka.protocol.consumer.fetch import FetchResponse

ACKS_ALL: Final = -1
#: For `position`: the end of the log as a consumer sees it, and its beginning.
LATEST: Final = -1
EARLIEST: Final = -2
#: No epoch is asserted.
ANY_EPOCH: Final = -1

_TIMEOUT_MS: Final = 10_000
_PRODUCE: Final = PRODUCE.within(PRODUCE.versions[0], 10)
#: From this version on a partition is added to the transaction that the batch belongs to.
_PRODUCE_ADDING: Final = PRODUCE.within(12, 12)
_FETCH_BYTES_MAX: Final = 1 << 20
#: The kind of a control record, after two bytes of version in its key.
_ABORT_MARKER: Final = b"\0\0"


class PartitionLogs:
    """The logs of topic partitions, as the node of this connection serves them."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection

    async def produce(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes],
        *,
        acks: int = ACKS_ALL,
        producer: Producer | None = None,
        timeout_ms: int = _TIMEOUT_MS,
        timestamp_ms: int | None = None,
    ) -> AppendedBatch:
        """Append one batch.

        Args:
            acks: who must have the batch before the answer. With 0 there is no answer, so that a sent batch raises
                `Indefinite("no-acknowledgement")`.
            producer: makes the append idempotent, with `acks` of all: a batch whose id, epoch and sequence are already
                in the log is not appended again and gets the first answer. A producer with a transactional id appends
                to its transaction, which must have the partition already (`transactions.add_partition`), unless the
                producer `adds` it.
            timeout_ms: the node's own time limit.
        """
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000  # for retention only
        batch = write_batch(values, timestamp_ms=timestamp_ms, producer=producer)
        transactional_id = None if producer is None else producer.transactional_id
        data = PRODUCE.request.TopicProduceData.PartitionProduceData(index=partition, records=batch)
        request = PRODUCE.request(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[PRODUCE.request.TopicProduceData(name=topic, partition_data=[data])],
        )
        if acks == 0:
            self._connection.post(_PRODUCE, request)
            raise refused(NO_ACKNOWLEDGEMENT)
        answer = await self._connection.request(
            _PRODUCE_ADDING if producer is not None and producer.adds else _PRODUCE, request
        )
        result = only_item(only_item(answer.responses).partition_responses)
        raise_error(RequestKind.PRODUCE, result.error_code, result.error_message)
        return AppendedBatch(result.base_offset, result.log_start_offset)

    async def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        leader_epoch: int = ANY_EPOCH,
        committed: bool = False,
        max_wait_ms: int = 0,
    ) -> Fetched:
        """Read from `offset` up to the high watermark, as a consumer does.

        Args:
            leader_epoch: the leader epoch that the caller expects; a node in another epoch refuses (74, 75).
            committed: leave out records of aborted transactions, and end before the first open transaction.
            max_wait_ms: how long the node waits for the first record.
        """
        wanted = FETCH.request.FetchTopic.FetchPartition(
            partition=partition,
            current_leader_epoch=leader_epoch,
            fetch_offset=offset,
            last_fetched_epoch=ANY_EPOCH,
            log_start_offset=-1,
            partition_max_bytes=_FETCH_BYTES_MAX,
        )
        request = FETCH.request(
            replica_id=-1,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=_FETCH_BYTES_MAX,
            isolation_level=int(committed),
            topics=[FETCH.request.FetchTopic(topic=topic, partitions=[wanted])],
        )
        answer = await self._connection.request(FETCH, request)
        raise_error(RequestKind.READ, answer.error_code)
        result = only_item(only_item(answer.responses).partitions)
        raise_error(RequestKind.READ, result.error_code)
        records = result.records or b""
        assert isinstance(records, bytes)  # what is read is
        try:
            batches = read_batches(records, offset, control=committed)
        except MalformedMessage as error:
            raise refused(UNREADABLE_RECORDS, str(error)) from None
        return Fetched(
            _committed(batches.records, result.aborted_transactions or ()) if committed else batches.records,
            batches.next_offset,
            result.high_watermark,
            result.last_stable_offset,
            result.log_start_offset,
        )

    async def position(
        self, topic: str, partition: int, at: int = LATEST, *, leader_epoch: int = ANY_EPOCH, committed: bool = False
    ) -> LogPosition:
        """The offset where the log ends (`LATEST`: the high watermark), begins (`EARLIEST`) or was at a time in ms."""
        of_topic = LIST_OFFSETS.request.ListOffsetsTopic
        wanted = of_topic.ListOffsetsPartition(
            partition_index=partition, current_leader_epoch=leader_epoch, timestamp=at
        )
        request = LIST_OFFSETS.request(
            replica_id=-1,
            isolation_level=int(committed),
            topics=[of_topic(name=topic, partitions=[wanted])],
        )
        answer = await self._connection.request(LIST_OFFSETS, request)
        result = only_item(only_item(answer.topics).partitions)
        raise_error(RequestKind.READ, result.error_code)
        return LogPosition(result.offset, result.leader_epoch)


def _committed(
    records: Sequence[BatchRecord],
    aborted: "Sequence[FetchResponse.FetchableTopicResponse.PartitionData.AbortedTransaction]",
) -> tuple[BatchRecord, ...]:
    """Leave out the records of aborted transactions, as consumers do (KIP-98, "Reading committed messages").

    An aborted transaction lasts from its first offset to the next abort marker of its producer.
    """
    waiting = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    aborting: set[int] = set()
    kept = []
    for record in records:
        while waiting and waiting[-1].first_offset <= record.offset:
            aborting.add(waiting.pop().producer_id)
        if record.control:
            if record.key is not None and record.key[2:4] == _ABORT_MARKER:
                aborting.discard(record.producer_id)
        elif record.producer_id not in aborting:
            kept.append(record)
    return tuple(kept)
