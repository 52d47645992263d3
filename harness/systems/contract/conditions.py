"""Promises that hold only with certain settings of the servers.

The standing of a guarantee is the one that it has with the settings in force.
"""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import msgspec

from fencepost.harness.systems.contract.server_settings import Settings
from fencepost.harness.systems.contract.system import System
from fencepost.harness.verdict import Guarantee, Standing


@runtime_checkable
class QualifiesPromises(Protocol):
    """Some of its promises hold only with certain settings of its servers."""

    def unpromised(self, settings: Settings) -> Mapping[str, str]:
        """Name the guarantees that do not hold with these settings (`--set`).

        Returns:
            By guarantee: the setting and why it takes the promise away, in one sentence.
        """
        ...


def promises_in_force(system: System, version: str, settings: Settings) -> tuple[Guarantee, ...]:
    """The guarantees that this release is held to with these settings.

    A guarantee that the settings take away is only measured; its source then says why.
    """
    promises = system.promises(version)
    reasons = system.unpromised(settings) if isinstance(system, QualifiesPromises) else {}
    return tuple(
        msgspec.structs.replace(g, standing=Standing.MEASURED, source=f"not promised: {reasons[g.name]}")
        if g.name in reasons
        else g
        for g in promises
    )


def value_of(settings: Settings, *keys: str) -> str:
    """The value of the first of these keys that is set for any server, in lower case; "" where none is set."""
    values = (str(own[key]).lower() for own in settings.values() for key in keys if key in own)
    return next(values, "")
