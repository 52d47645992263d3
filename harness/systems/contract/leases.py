"""Leases that end by time unless they are kept alive, for the systems that grant them (ZooKeeper: sessions)."""

from typing import Any, Protocol, runtime_checkable

from fencepost.harness.verdict import LeaseBound


@runtime_checkable
class BoundsLeases(Protocol):
    """It grants leases, and says when they are over."""

    def lease_bound(self, options: Any) -> LeaseBound:
        """How long a lease may outlive its time to live, with these settings of the system."""
        ...
