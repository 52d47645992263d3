"""Promises that hold only with certain settings of the servers, or with certain options of the system.

The standing of a guarantee is the one that it has with the settings and options in force.
"""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import msgspec

from fencepost.harness.systems.contract.options import S_contra, SystemOptions
from fencepost.harness.systems.contract.server_settings import Settings
from fencepost.harness.systems.contract.system import System
from fencepost.harness.verdict import Guarantee, Standing


@runtime_checkable
class QualifiesPromises(Protocol[S_contra]):
    """Some of its promises hold only with certain settings of its servers, or certain options."""

    def unpromised(self, settings: Settings, options: S_contra) -> Mapping[str, str]:
        """Name the guarantees that do not hold with these settings (`--set`) and options (`-O`).

        Returns:
            By guarantee: the setting or option and why it takes the promise away, in one sentence.
        """
        ...


def promises_in_force(
    system: System, version: str, settings: Settings, options: SystemOptions
) -> tuple[Guarantee, ...]:
    """The guarantees that this release is held to with these settings and options.

    A guarantee that they take away is only measured; its source then says why.
    """
    promises = system.promises(version)
    reasons = system.unpromised(settings, options) if isinstance(system, QualifiesPromises) else {}
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
