"""The abilities that a system may have beside the eight members of `System`.

An ability is a Protocol. Code that needs one tests `isinstance(system, Ability)` and does without it where it is
missing. `fencepost list abilities` prints the first sentence of each docstring, with the systems that have the ability,
and those of leaves beside these (their table ABILITIES).
"""

from collections.abc import Mapping
from typing import Final

from fencepost.harness.contract.conditions import QualifiesPromises
from fencepost.harness.contract.leadership import (
    BoundsLeadership,
    BoundsLeases,
    BoundsSessions,
    LogsClaims,
    LogsReigns,
    MovesLeadership,
    TellsAttempts,
)
from fencepost.harness.contract.listeners import OffersWatches
from fencepost.harness.contract.membership import ChangesMembers, RaisesFeatures
from fencepost.harness.contract.reported_version import TellsVersion
from fencepost.harness.contract.server_settings import TakesSettings
from fencepost.harness.contract.servers import (
    ArrangesMembers,
    LogsCatchUps,
    LogsChanges,
    LogsFailures,
    ReadsLogs,
    StartsFromArchive,
    TellsTime,
    WaitsToStart,
)

#: By the name that `fencepost list` prints.
ABILITIES: Final[Mapping[str, type]] = {
    "arranges-members": ArrangesMembers,
    "bounds-leadership": BoundsLeadership,
    "bounds-leases": BoundsLeases,
    "bounds-sessions": BoundsSessions,
    "changes-members": ChangesMembers,
    "logs-catch-ups": LogsCatchUps,
    "logs-changes": LogsChanges,
    "logs-claims": LogsClaims,
    "logs-failures": LogsFailures,
    "logs-reigns": LogsReigns,
    "moves-leadership": MovesLeadership,
    "offers-watches": OffersWatches,
    "qualifies-promises": QualifiesPromises,
    "raises-features": RaisesFeatures,
    "reads-logs": ReadsLogs,
    "starts-from-archive": StartsFromArchive,
    "takes-settings": TakesSettings,
    "tells-attempts": TellsAttempts,
    "tells-time": TellsTime,
    "tells-version": TellsVersion,
    "waits-to-start": WaitsToStart,
}
