"""Append-only logs of several partitions (Kafka's data plane)."""

from typing import Protocol

import msgspec

from fencepost.harness.coordination.session import Session


class Appended(msgspec.Struct, frozen=True):
    """The offset of an acknowledged record, and the epoch of the partition's leader where the answer has it."""

    offset: int
    epoch: int | None = None


class Record(msgspec.Struct, frozen=True):
    """One record as a reader received it; `epoch` is the one in which it was appended."""

    offset: int
    value: bytes
    epoch: int | None = None


class Polled(msgspec.Struct, frozen=True):
    """The answer to one read of a partition.

    `records` are in the order of the reply, and all offsets below `high_watermark` are committed. `log_start` is the
    first offset that is kept. `epoch` is the one in which the node led when it answered.
    """

    records: tuple[Record, ...]
    high_watermark: int
    log_start: int
    epoch: int | None = None


class Log(Session, Protocol):
    """A log of several partitions; each is written and read through the node that leads it.

    `System.prepare` makes the log from the workload's keys: "p<i>" for each partition, and "min_isr=<n>" for the number
    of in-sync replicas that an append with acks=all needs. An `epoch` in a reply is exact or None.
    """

    def acknowledge(self, acks: str, *, idempotent: bool) -> None:
        """Choose how this session appends (acks "all" or "1"). Called once before its first request; sends nothing."""
        ...

    async def append(self, partition: int, value: bytes) -> Appended:
        """Append one record with one request."""
        ...

    async def poll(self, partition: int, offset: int) -> Polled:
        """Read the records from `offset` on, as many as one reply holds; none at the end of the log."""
        ...
