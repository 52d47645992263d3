"""The last step of an upgrade, for systems that keep the old release's ways until an operator ends it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract.system import System
from fencepost.harness.runtime.node import Place
from fencepost.harness.runtime.provider import Placement


@runtime_checkable
class RaisesFeatures(Protocol):
    """Its cluster keeps the features of the old release until an operator raises them."""

    async def raise_features(self, running: Sequence[Place], version: str) -> str:
        """Raise the cluster's features to those of a new cluster of this release, by way of one of these nodes.

        Returns what was raised, from which level to which. Raises `Definite` or `Indefinite`. The caller sets a limit.
        """
        ...


def with_features(placement: Placement, system: System) -> Placement:
    """Add to the placement whether an upgrade of this system has such a step."""
    if isinstance(system, RaisesFeatures):
        return placement
    refusal = Refusal(
        f"{system.profile.name} has no features that are raised after an upgrade",
        "choose a system with the ability raises-features (fencepost list abilities)",
    )
    return replace(placement, fixed_features=refusal)
