"""Groups of members that share work, and the offsets that they commit (KIP-30's "group membership"; Kafka)."""

from typing import Protocol

import msgspec

from fencepost.harness.coordination.session import Session


class Joined(msgspec.Struct, frozen=True):
    """A place in a group: its `generation` grows with every change of members, and `share` is this member's work."""

    generation: int
    share: int


class CommittedAs(msgspec.Struct, frozen=True):
    """The generation in which an offset was committed."""

    generation: int


class Groups(Session, Protocol):
    """One session is at most one member of a group. `System.prepare` makes the groups from the keys, "g<i>" for each.

    What a member of an earlier generation may not do is refused with `Definite`: "illegal-generation" or
    "unknown-member-id"; "not-a-member" is said here, before anything is sent.
    """

    async def join(self, group: str) -> Joined:
        """Join the group, or take part in its next generation; returns once its leader has shared out the work."""
        ...

    async def leave(self, group: str) -> None:
        """Leave the group."""
        ...

    async def beat(self, group: str) -> None:
        """Say that this member lives; raises `Definite("rebalance-in-progress")` when it has to join again."""
        ...

    async def commit_offset(self, group: str, offset: int, *, late: bool = False) -> CommittedAs:
        """Commit an offset as a member of the generation that this session joined last.

        Args:
            late: as a member of the generation before that one, as a request that was under way for long would.
        """
        ...

    async def fetch_offset(self, group: str) -> int | None:
        """Read the group's committed offset from its coordinator; None when there is none."""
        ...
