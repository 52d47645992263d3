"""What a metadata quorum keeps (Kafka's control plane): names, settings, blocks of producer ids, and their log."""

from typing import Protocol

import msgspec

from fencepost.harness.coordination.session import Session
from fencepost.harness.coordination.storage import Reply
from fencepost.harness.history.history import LogEntry


class Metadata(Session, Protocol):
    """Names that are taken (topics), and settings by key (dynamic configurations).

    A key of the form "kind/name" means metadata of another kind, such as a user's quota ("quota/alice").

    `describe` reads the node's own copy, which may lag on every system that offers this protocol. `name_taken` goes
    through the leader's queue of changes and changes nothing.
    """

    async def alter(self, key: str, value: bytes | None) -> Reply:
        """Set the setting `key` unconditionally; None removes it."""
        ...

    async def describe(self, key: str) -> Reply:
        """Read the setting as this node knows it; `Reply.value` is None when it is not set."""
        ...

    async def create_name(self, name: str, partitions: int = 1) -> Reply:
        """Take the name for something in so many parts; raises `Definite("exists")` when it is taken."""
        ...

    async def name_taken(self, name: str) -> Reply:
        """Ask whether the name is taken: `Reply.value` is b"1" when it is, else None."""
        ...


class LogSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state that stands for all entries below `end_offset`; `epoch` is that of the last of them."""

    end_offset: int
    epoch: int
    entries: tuple[LogEntry, ...] = ()


class LogPiece(msgspec.Struct, frozen=True, kw_only=True):
    """What the leader of `epoch` answered a listener.

    Entries from `high_watermark` on are not committed and may be withdrawn (-1: the leader does not know it yet).
    `parts_at` is an epoch and an offset, and comes without entries: in the leader's log that epoch ends there, and none
    between it and the listener's own follows. The listener drops what it has behind it.
    """

    epoch: int
    high_watermark: int
    entries: tuple[LogEntry, ...] = ()
    parts_at: tuple[int, int] | None = None
    snapshot: LogSnapshot | None = None


class LogListener(Session, Protocol):
    """A session with a node that may lead the metadata log, and then serves it to listeners."""

    async def listen(self, offset: int, last_epoch: int, wait_s: float) -> LogPiece:
        """Get the entries from `offset` on; `last_epoch` is that of the entry before it (0 at the beginning).

        Waits at most `wait_s` for the first one. Raises `Definite` when the node does not lead.
        """
        ...


class ProducerIds(Session, Protocol):
    """Ids that are given out once: with the same id, two producers could be mistaken for each other."""

    async def allocate(self) -> int:
        """Get a new producer id."""
        ...
