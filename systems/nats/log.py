"""Streams as logs: one stream for each partition, whose sequence numbers less one are the offsets.

An append is acknowledged once a quorum of the stream's replicas has it, whatever `acks` says. Nothing is sent twice, so
no message id is needed for that. A poll asks the leader where the stream ends and then for the messages, all at once.
A sequence that has no message is left out, as an offset of Kafka that holds a control record is.
"""

import asyncio
import base64
import json
from typing import Any, Final

from fencepost.harness.coordination import Appended, Definite, Partitions, Polled, Record
from fencepost.systems.nats.stream import NatsSession, partition_stream, partition_subject
from fencepost.systems.nats.wire.connection import answer_of
from fencepost.systems.nats.wire.errors import NO_MESSAGE

#: As many messages as one poll asks for at the same time.
_WINDOW: Final = 100


class StreamLog(NatsSession):
    """`harness.coordination.Log` on streams, over one connection."""

    async def prepare(self, needs: Partitions) -> None:
        """Create a stream for each partition; how many replicas have an append is the stream's own rule."""
        for partition in range(needs.count):
            await self.make_stream(partition_stream(partition), {"subjects": [partition_subject(partition)]})

    def acknowledge(self, acks: str, *, idempotent: bool) -> None:
        """Refuse what a stream cannot do: there is no acknowledgement by one replica alone."""
        if acks != "all":
            raise ValueError(f"NATS has no acks={acks}: a quorum of the stream's replicas has what it acknowledges")

    async def append(self, partition: int, value: bytes) -> Appended:
        answer = answer_of(await self._connection.request(partition_subject(partition), value))
        return Appended(offset=answer["seq"] - 1)

    async def poll(self, partition: int, offset: int) -> Polled:
        """Read the next messages; those behind a run of lost ones where nothing is left before them."""
        stream = partition_stream(partition)
        state = answer_of(await self._connection.request(f"$JS.API.STREAM.INFO.{stream}"))["state"]
        last, start = int(state["last_seq"]), offset + 1
        records: list[Record] = []
        while start <= last and not records:
            window = range(start, min(start + _WINDOW, last + 1))
            answers = await asyncio.gather(*(self._record(stream, at) for at in window), return_exceptions=True)
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
                if answer is not None:
                    records.append(answer)
            start += _WINDOW
        return Polled(records=tuple(records), high_watermark=last, log_start=max(int(state["first_seq"]) - 1, 0))

    async def _record(self, stream: str, sequence: int) -> Record | None:
        """The message at this sequence; None where the stream has none."""
        request = json.dumps({"seq": sequence}).encode()
        try:
            message: dict[str, Any] = answer_of(
                await self._connection.request(f"$JS.API.STREAM.MSG.GET.{stream}", request)
            )["message"]
        except Definite as refused:
            if refused.code == NO_MESSAGE:
                return None
            raise
        return Record(offset=message["seq"] - 1, value=base64.b64decode(message.get("data", "")))
