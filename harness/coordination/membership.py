"""Group membership (KIP-30): keys that live as long as the lease or session that they are bound to."""

from typing import Final, Protocol

import msgspec

from fencepost.harness.coordination.session import Session
from fencepost.harness.coordination.storage import Members, ReadMode, Reply

#: The key by which `System.prepare` learns that keys are going to be bound to leases.
BOUND: Final = "bound"


class Granted(msgspec.Struct, frozen=True):
    """A lease that was granted or kept alive: for `ttl_ms` from some instant between the request and its answer.

    `handle` names it to every node; whoever knows the handle can keep it alive, bind keys to it and end it.
    """

    handle: str
    ttl_ms: int
    position: int | None = None
    epoch: int | None = None


class Leases(Session, Protocol):
    """Keys bound to a lease (etcd) or a session (ZooKeeper), which vanish when it ends.

    A lease belongs to no connection: any node can be asked about it, by one request and one answer. Only `keep_alive`
    keeps it alive.
    """

    async def grant(self, ttl_ms: int) -> Granted:
        """Make a new lease; the server may grant another time to live than the one that was asked for."""
        ...

    async def keep_alive(self, handle: str) -> Granted:
        """Renew the lease; raises `Definite("lease-expired")` when the server says that it ended, or never began."""
        ...

    async def attach(self, name: str, element: int, handle: str) -> Reply:
        """Add to the set, bound to the lease; raises `Definite("lease-expired")` as `keep_alive` does."""
        ...

    async def revoke(self, handle: str) -> Reply:
        """End the lease at once; raises `Definite("lease-expired")` as `keep_alive` does."""
        ...

    async def members(self, name: str, mode: ReadMode) -> Members:
        """Read the whole set in one request of this mode."""
        ...
