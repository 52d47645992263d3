"""What a metadata quorum keeps (Kafka's control plane): names, settings, and blocks of producer ids."""

from typing import Protocol

from fencepost.harness.coordination.session import Session
from fencepost.harness.coordination.storage import Reply


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

    async def create_name(self, name: str) -> Reply:
        """Take the name; raises `Definite("exists")` when it is taken."""
        ...

    async def name_taken(self, name: str) -> Reply:
        """Ask whether the name is taken: `Reply.value` is b"1" when it is, else None."""
        ...


class ProducerIds(Session, Protocol):
    """Ids that are given out once: with the same id, two producers could be mistaken for each other."""

    async def allocate(self) -> int:
        """Get a new producer id."""
        ...
