"""Leader election and group membership (KIP-30): locks, terms of leaders, keys that live as long as a session.

A member of a group is a key with data, bound to a lease or session, which vanishes when that ends. `recipes.py` puts
the interface that applications see on these requests.
"""

from typing import Final, Protocol

import msgspec

from fencepost.harness.coordination.session import ClientSession
from fencepost.harness.coordination.storage import KeyValue, Members, ReadMode, Reply

#: The trail of the one election of a run: the `Keys` of an election.
TRAIL: Final = "trail"


class Held(msgspec.Struct, frozen=True):
    """A lock or term that was granted.

    `token` is the fencing token, which grows with every grant; `handle` names the grant to the store.
    """

    token: int
    handle: str
    epoch: int | None = None
    position: int | None = None


class Locks(KeyValue, Protocol):
    """A lock that is bound to a lease (etcd) or session (ZooKeeper), which ends by time unless it is renewed."""

    async def acquire(self, name: str) -> Held:
        """Take the lock in one attempt, without queueing; raises `Definite("held")` when another client holds it."""
        ...

    async def renew(self) -> Reply:
        """Keep the lease or session alive by one round trip; nothing else renews it.

        Raises `Definite("lease-expired")` when the server says that it ended, or never began.
        """
        ...

    async def release(self, name: str, held: Held) -> Reply:
        """Release the lock."""
        ...

    async def guarded_write(self, key: str, value: bytes, name: str, held: Held) -> Reply:
        """Write in one transaction that also checks that the lock is still held (a fenced write).

        Raises `Definite("fenced")` when the lock was lost.
        """
        ...


class Leading(msgspec.Struct, frozen=True):
    """Who leads according to one node: the token of the present term; None when nobody leads."""

    token: int | None
    position: int | None = None
    epoch: int | None = None


class Deeds(msgspec.Struct, frozen=True):
    """Every act on a trail, in the store's own order."""

    deeds: tuple[str, ...]
    position: int | None = None
    epoch: int | None = None


class Elections(ClientSession, Protocol):
    """Leader election with terms that last; `Held.token` is the term, and tokens grow.

    Where a term is a lock, the holder leads, and the token is the position of the grant in the store's order of
    changes. `Reply.position` is the position of an act in the same order, so positions alone show whether the term had
    ended when the act took effect. Elsewhere a grant has no position; then the order of the trail shows it, together
    with the times of requests and answers. A campaign may supersede a leader that is alive.
    """

    async def acquire(self, name: str) -> Held:
        """Begin a term in one attempt; raises `Definite` when another term lasts and cannot be superseded."""
        ...

    async def renew(self) -> Reply:
        """Keep the lease or session that this connection's term depends on alive, by one round trip.

        Raises `Definite("lease-expired")` when the server says that it ended, or never began.
        """
        ...

    async def release(self, name: str, held: Held) -> Reply:
        """End the term; raises `Definite("not-held")` when it had ended before."""
        ...

    async def leader(self, name: str, mode: ReadMode) -> Leading:
        """Ask who leads, with one read of this mode."""
        ...

    async def act(self, trail: str, deed: str, name: str, held: Held, *, guarded: bool) -> Reply:
        """Append `deed` (an ASCII word without "/", used once) to the trail, which keeps every act.

        With `guarded` one transaction appends and checks that the term has not ended; it raises `Definite("fenced")`
        when the term has ended.
        """
        ...

    async def deeds(self, trail: str, mode: ReadMode) -> Deeds:
        """Read the whole trail, with one read of this mode."""
        ...


class Granted(msgspec.Struct, frozen=True):
    """A lease that was granted or kept alive, for `ttl_ms` from some instant between the request and its answer.

    `handle` names the lease to every node; whoever knows it can keep the lease alive, bind keys to it and end it.
    """

    handle: str
    ttl_ms: int
    position: int | None = None
    epoch: int | None = None


class Leases(ClientSession, Protocol):
    """Keys bound to a lease (etcd) or a session (ZooKeeper), which vanish when it ends.

    A lease belongs to no connection, so any node can be asked about it. Only `keep_alive` keeps it alive.
    """

    async def grant(self, ttl_ms: int) -> Granted:
        """Make a new lease; the server may grant another time to live than the requested one."""
        ...

    async def keep_alive(self, handle: str) -> Granted:
        """Renew the lease; raises `Definite("lease-expired")` when the server says that it ended or never began."""
        ...

    async def attach(self, name: str, element: int, handle: str) -> Reply:
        """Add an element that is bound to the lease; raises `Definite("lease-expired")` as `keep_alive` does."""
        ...

    async def revoke(self, handle: str) -> Reply:
        """End the lease at once; raises `Definite("lease-expired")` as `keep_alive` does."""
        ...

    async def members(self, name: str, mode: ReadMode) -> Members:
        """Read the whole set with one request of this mode."""
        ...


class ListedMember(msgspec.Struct, frozen=True, gc=False):
    """One member as a node lists it; `token` is the position of its join, where the store has one."""

    id: str
    data: bytes
    token: int | None = None


class Roster(msgspec.Struct, frozen=True):
    """The members of a group in the order of their ids, with the position and epoch of the reply (see `Reply`)."""

    members: tuple[ListedMember, ...]
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
