"""How `fencepost failover` measures the time without an active leader against the amount of metadata."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, runtime_checkable

from fencepost.harness.contract.profile import S


@dataclass(frozen=True, slots=True, kw_only=True)
class Failover(Generic[S]):
    """The run that shows one failover of a system, in one deployment."""

    #: The options that it needs: thousands of partitions take memory and disk.
    options: S
    workload: str
    workload_options: Mapping[str, str]
    #: The option of the workload that says how many partitions there are before the run begins.
    load: str
    #: The operation that only an active leader accepts.
    change: str
    #: In a new leader's own log: the line when it begins to load its state, and the line when it is done.
    loading: tuple[str, str]
    #: One sentence for the page about the conditions of the measurement.
    about: str
    #: The fault that leaves the system without a leader, and the main phase that has room for one of it.
    nemesis: str
    time_limit: str
    #: Other deployments that are measured on request, by the name behind a plus: "kraft+controllers".
    deployments: Mapping[str, "Failover[S]"] = field(default_factory=dict)


@runtime_checkable
class MeasuresFailover(Protocol):
    """Its leader can be ended, and the time without one measured for an amount of metadata."""

    @property
    def failover(self) -> Failover[Any]: ...
