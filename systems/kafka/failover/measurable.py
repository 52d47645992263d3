"""The systems whose failover can be measured, and in which deployments: each declares it itself."""

from typing import Any, Final

from fencepost.harness.base.errors import unknown_choice
from fencepost.harness.contract.system import System
from fencepost.harness.plugins import registry
from fencepost.systems.kafka.contract.failover import Failover, MeasuresFailover
from fencepost.systems.kafka.failover.cell import ENDS, PHASES, FailoverEnding

#: Between a system's name and that of a deployment.
_PLUS: Final = "+"


def measurable() -> dict[str, Failover[Any]]:
    """How failover is measured, by the system's name, and by "SYSTEM+DEPLOYMENT" for each other deployment."""
    known: dict[str, Failover[Any]] = {}
    for name, system in registry.systems().items():
        if isinstance(system, MeasuresFailover):
            others = {f"{name}{_PLUS}{other}": one for other, one in system.failover.deployments.items()}
            known |= {name: system.failover, **others}
    return known


def failover_of(name: str) -> Failover[Any]:
    """How this system's failover is measured; raises UsageError for a system without partitions."""
    known = measurable()
    if name not in known:
        raise unknown_choice("system with a controller and partitions", name, list(known))
    return known[name]


def endings_of(name: str) -> tuple[FailoverEnding, ...]:
    """The endings, or the phases of a migration, that are measured on this system."""
    return PHASES if failover_of(name).migrates else ENDS


def system_of(name: str) -> System:
    """The system of this name, whatever its deployment."""
    return registry.system(name.partition(_PLUS)[0])
