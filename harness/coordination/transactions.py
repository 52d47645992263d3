"""Transactions over several partitions of a log, and over what their producer had read (Kafka)."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from fencepost.harness.coordination.session import Session


class Begun(msgspec.Struct, frozen=True):
    """A producer that has begun: its `token` is greater than that of every producer of the same name before it.

    `version` is that of the transactions that it plays (Kafka's `transaction.version`; 1 for every one before 2).
    """

    token: int
    version: int


class Put(msgspec.Struct, frozen=True):
    """Where the records of a transaction stand: for each its partition and offset."""

    records: tuple[tuple[int, int], ...]


class Transformed(msgspec.Struct, frozen=True):
    """A transaction that read `count` records from the offset `at` on, and put one record for each of them."""

    records: tuple[tuple[int, int], ...]
    at: int
    count: int


class TransactionRecord(msgspec.Struct, frozen=True):
    """A record as a reader gets it: the number of its transaction and, where one was read for it, that offset."""

    offset: int
    number: int
    read: int | None = None


class Piece(msgspec.Struct, frozen=True):
    """The answer to one read: `following` is where to go on, and all below `stable` belongs to ended transactions."""

    records: tuple[TransactionRecord, ...]
    following: int
    stable: int
    high_watermark: int


class Transactions(Session, Protocol):
    """One session plays any number of producers, each with one transaction at a time.

    `System.prepare` makes from the keys "p<i>" the partitions, and from the keys "c<i>" and "m<i>" what producers of
    that name read; "x<i>" are producers that read nothing. Those named "m<i>" are members of a group, and a later
    generation of it fences them. A producer whose transaction did not end as asked plays no other one
    until it has begun again: whatever fails is refused from then on ("no-producer"). `Definite` means that the
    transaction was not committed and never will be; "fenced" that a later producer of the same name has begun.
    """

    def use_version(self, version: int | None) -> None:
        """Choose the version of transactions, None for the highest. Called once before the first request."""
        ...

    async def begin(self, producer: str) -> Begun:
        """Begin as the next producer of this name, which fences the one before and ends its transaction."""
        ...

    async def transact(
        self, producer: str, number: int, partitions: Sequence[int], *, commit: bool, wait_s: float
    ) -> Put:
        """Put one record into each partition in one transaction; wait; commit or abort."""
        ...

    async def put_late(self, producer: str, number: int, partition: int) -> Put:
        """Put a record into the transaction that this producer aborted last, as a delayed request would.

        The producer is left after that, whatever came of it.
        """
        ...

    async def transform(self, producer: str, number: int, most: int, *, commit: bool, wait_s: float) -> Transformed:
        """As `transact`: read up to `most` records, put one for each, and send the new offset in the transaction.

        Raises `Definite("no-input")` where nothing is left to read; the producer may go on then.
        """
        ...

    async def read(self, partition: int, offset: int, *, committed: bool) -> Piece:
        """Read from `offset` on: what is committed and stable, or everything that is in the log."""
        ...

    async def consumed(self, producer: str) -> int:
        """Read how far the producers of this name have read, by transactions that are committed."""
        ...
