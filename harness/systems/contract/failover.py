"""How the end of a system's active controller is measured, for `fencepost failover`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class Failover:
    """What the measurement must know of one system whose nodes are brokers with topic partitions."""

    #: What it needs of [system_options] beyond the defaults; thousands of partitions need memory and room.
    options: Mapping[str, Any]
    #: The listener at which a broker that may be the active controller takes changes as such, and forwards none.
    controller: str
    #: Of a new controller's own log: what is written when it begins to load its state, and when it is done.
    loading: tuple[str, str]
    #: One sentence for the page, on what its figures rest on.
    about: str


@runtime_checkable
class MeasuresFailover(Protocol):
    """Its active controller can be ended, and the time without one measured by the number of partitions."""

    @property
    def failover(self) -> Failover: ...
