"""Leases that end by time unless they are kept alive, for systems that grant them (ZooKeeper: sessions)."""

from typing import Protocol, runtime_checkable

from fencepost.harness.contract.options import S_contra
from fencepost.harness.verdict import LeaseBound


@runtime_checkable
class BoundsLeases(Protocol[S_contra]):
    """It grants leases, and states by when they end."""

    def lease_bound(self, options: S_contra) -> LeaseBound:
        """How much longer than its time to live a lease may last with these options, and the source."""
        ...
