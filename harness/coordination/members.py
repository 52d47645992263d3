"""Members of groups: a member is a key with data, bound to a lease or session, which vanishes when that ends.

`recipes.py` puts the interface that applications see on these requests.
"""

from typing import Protocol

import msgspec

from fencepost.harness.coordination.membership import Leases
from fencepost.harness.coordination.storage import ReadMode, Reply


class Member(msgspec.Struct, frozen=True, gc=False):
    """One member as a node lists it; `token` is the position of its join, where the store has one."""

    id: str
    data: bytes
    token: int | None = None


class Roster(msgspec.Struct, frozen=True):
    """The members of a group in the order of their ids, with the position and epoch of the reply (see `Reply`)."""

    members: tuple[Member, ...]
    position: int | None = None
    epoch: int | None = None

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(member.id for member in self.members)


class Memberships(Leases, Protocol):
    """Groups whose members are bound to leases; only `keep_alive` keeps a member, and `revoke` ends its membership."""

    async def enter(self, group: str, member: str, data: bytes, handle: str) -> Reply:
        """Become a member with this id; the membership ends with the lease `handle`.

        Raises `Definite("exists")` when a member has this id, `Definite("lease-expired")` when the lease has ended.
        """
        ...

    async def roster(self, group: str, mode: ReadMode) -> Roster:
        """List all members with their data by a read of this mode."""
        ...

    async def watch_roster(self, group: str) -> Roster:
        """List all members by the node's own copy, and watch for changes after that list; ends an earlier watch."""
        ...

    async def roster_changed(self, wait_s: float) -> bool:
        """Wait until the watched list may have changed, at most `wait_s` seconds; False when the time is over.

        Raises `Definite` or `Indefinite` when the watch is broken.
        """
        ...
