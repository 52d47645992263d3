"""The abilities that a system may have beside the eight members of `System`.

An ability is a Protocol. Code that needs one tests `isinstance(system, Ability)` and does without it where it is
missing. `fencepost list abilities` prints the first sentence of each docstring, with the systems that have the ability.
"""

from collections.abc import Mapping
from typing import Final

from fencepost.harness.systems.contract.brokers import BoundsBrokers
from fencepost.harness.systems.contract.catching_up import LogsCatchUps
from fencepost.harness.systems.contract.conditions import QualifiesPromises
from fencepost.harness.systems.contract.deposing import DeposesController
from fencepost.harness.systems.contract.failover import MeasuresFailover
from fencepost.harness.systems.contract.features import RaisesFeatures
from fencepost.harness.systems.contract.fenced_attempts import TellsAttempts
from fencepost.harness.systems.contract.kip_rows import FillsColumn
from fencepost.harness.systems.contract.leadership import (
    BoundsLeadership,
    LeadsPartitions,
    LogsClaims,
    LogsReigns,
    MovesLeadership,
)
from fencepost.harness.systems.contract.leases import BoundsLeases
from fencepost.harness.systems.contract.listeners import OffersWatches
from fencepost.harness.systems.contract.logged_changes import LogsChanges
from fencepost.harness.systems.contract.membership import ChangesMembers
from fencepost.harness.systems.contract.migration import MigratesMetadata
from fencepost.harness.systems.contract.replicas import PlacesReplicas
from fencepost.harness.systems.contract.reported_version import TellsVersion
from fencepost.harness.systems.contract.server_clock import TellsTime
from fencepost.harness.systems.contract.server_settings import SamplesSettings, TakesSettings
from fencepost.harness.systems.contract.servers import (
    ArrangesMembers,
    LogsFailures,
    PreparesKeys,
    ReadsLogs,
    StartsFromArchive,
)
from fencepost.harness.systems.contract.starting import WaitsToStart
from fencepost.harness.systems.contract.system import System

#: By the name that `fencepost list` prints.
ABILITIES: Final[Mapping[str, type]] = {
    "arranges-members": ArrangesMembers,
    "bounds-brokers": BoundsBrokers,
    "bounds-leadership": BoundsLeadership,
    "bounds-leases": BoundsLeases,
    "changes-members": ChangesMembers,
    "deposes-controller": DeposesController,
    "fills-column": FillsColumn,
    "leads-partitions": LeadsPartitions,
    "logs-catch-ups": LogsCatchUps,
    "logs-changes": LogsChanges,
    "logs-claims": LogsClaims,
    "logs-failures": LogsFailures,
    "logs-reigns": LogsReigns,
    "measures-failover": MeasuresFailover,
    "migrates-metadata": MigratesMetadata,
    "moves-leadership": MovesLeadership,
    "offers-watches": OffersWatches,
    "places-replicas": PlacesReplicas,
    "prepares-keys": PreparesKeys,
    "qualifies-promises": QualifiesPromises,
    "raises-features": RaisesFeatures,
    "reads-logs": ReadsLogs,
    "samples-settings": SamplesSettings,
    "starts-from-archive": StartsFromArchive,
    "takes-settings": TakesSettings,
    "tells-attempts": TellsAttempts,
    "tells-time": TellsTime,
    "tells-version": TellsVersion,
    "waits-to-start": WaitsToStart,
}


def abilities_of(system: System) -> tuple[str, ...]:
    """The names of the abilities that this system has."""
    return tuple(word for word, ability in ABILITIES.items() if isinstance(system, ability))


def meaning(word: str) -> str:
    """What the ability of this name is, in one sentence."""
    return (ABILITIES[word].__doc__ or "").strip().partition("\n")[0]
