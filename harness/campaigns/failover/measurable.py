"""The systems whose failover can be measured: each declares it itself."""

from typing import Any

from fencepost.harness.base.errors import unknown_choice
from fencepost.harness.plugins import registry
from fencepost.harness.systems.contract.failover import Failover, MeasuresFailover


def measurable() -> dict[str, Failover[Any]]:
    """How each system's failover is measured, by the system's name."""
    systems = registry.systems()
    return {name: system.failover for name, system in systems.items() if isinstance(system, MeasuresFailover)}


def failover_of(name: str) -> Failover[Any]:
    """How this system's failover is measured; raises UsageError for a system without partitions."""
    known = measurable()
    if name not in known:
        raise unknown_choice("system with a controller and partitions", name, list(known))
    return known[name]
