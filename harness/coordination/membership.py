"""Group membership (KIP-30): keys that live as long as their lease or session."""

from typing import Final, Protocol

import msgspec

from fencepost.harness.coordination.session import Session
from fencepost.harness.coordination.storage import Members, ReadMode, Reply

#: The key by which `System.prepare` learns that keys will be bound to leases.
BOUND: Final = "bound"


class Granted(msgspec.Struct, frozen=True):
    """A lease that was granted or kept alive, for `ttl_ms` from some instant between the request and its answer.

    `handle` names the lease to every node; whoever knows it can keep the lease alive, bind keys to it and end it.
    """

    handle: str
    ttl_ms: int
    position: int | None = None
    epoch: int | None = None


class Leases(Session, Protocol):
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
