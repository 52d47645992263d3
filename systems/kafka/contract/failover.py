"""How `fencepost failover` measures the time without an active controller."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, runtime_checkable

from fencepost.harness.contract.profile import S


@dataclass(frozen=True, slots=True, kw_only=True)
class Failover(Generic[S]):
    """What the measurement must know about a system whose nodes are brokers with topic partitions."""

    #: The options that it needs: thousands of partitions take memory and disk.
    options: S
    #: The listener at which a broker acts as the active controller, and forwards no change to another one.
    controller: str
    #: In a new controller's own log: the line when it begins to load its state, and the line when it is done.
    loading: tuple[str, str]
    #: One sentence for the page about the conditions of the measurement.
    about: str
    #: Its metadata moves to another store, phase by phase, instead of its controller being ended.
    migrates: bool = False
    #: Other deployments that are measured on request, by the name behind a plus: "kraft+controllers".
    deployments: Mapping[str, "Failover[S]"] = field(default_factory=dict)


@runtime_checkable
class MeasuresFailover(Protocol):
    """Its active controller can be killed, and the time without one measured for a number of partitions."""

    @property
    def failover(self) -> Failover[Any]: ...
