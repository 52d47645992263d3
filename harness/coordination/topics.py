"""Topics that are made, written, dropped and made again under the same names (Kafka)."""

from typing import Protocol

from fencepost.harness.coordination.log import Appended, Polled
from fencepost.harness.coordination.session import Session


class Topics(Session, Protocol):
    """Topics of one partition each, which is written and read through the node that leads it."""

    async def make_topic(self, name: str) -> str | None:
        """Create the topic, with a replica on every node and at least two in sync for each append.

        Returns its id, by which it differs from an earlier topic of that name; None where nobody tells it.
        Raises `Definite("exists")` when the name is taken.
        """
        ...

    async def drop_topic(self, name: str) -> None:
        """Delete the topic; raises `Definite("unknown-topic-or-partition")` when there is none of this name."""
        ...

    async def list_topics(self) -> tuple[str, ...]:
        """The names of all topics that this node knows, sorted."""
        ...

    async def put_record(self, name: str, value: bytes) -> Appended:
        """Append one record, acknowledged by all replicas in sync."""
        ...

    async def read_topic(self, name: str, offset: int) -> Polled:
        """Read the records from `offset` on, as many as one reply holds."""
        ...
