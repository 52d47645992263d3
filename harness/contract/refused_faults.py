"""Which faults the clusters of a system refuse, whatever the plan asks of them."""

from dataclasses import replace

from fencepost.harness.contract.features import with_features
from fencepost.harness.contract.leadership import with_leader
from fencepost.harness.contract.membership import with_members
from fencepost.harness.contract.options import SystemOptions
from fencepost.harness.contract.system import System
from fencepost.harness.runtime.provider import Placement


def with_refusals(placement: Placement, system: System, version: str, options: SystemOptions) -> Placement:
    """Add to the placement what each part of the contract says of the faults that need it."""
    placement = with_features(with_leader(placement, system), system)
    others = tuple(system.profile.other_leaders)
    placement = replace(placement, system=system, system_options=options, other_leaders=others)
    return with_members(placement, system, version, options)
