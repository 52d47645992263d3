"""Leader election (KIP-30): locks that are held for a moment, and terms of leaders that last."""

from typing import Final, Protocol

import msgspec

from fencepost.harness.coordination.session import Session
from fencepost.harness.coordination.storage import KeyValue, ReadMode, Reply

#: The key by which `System.prepare` learns that an election needs its trail.
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


class Elections(Session, Protocol):
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
