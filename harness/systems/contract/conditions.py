"""Promises that hold only with certain settings of the servers: a guarantee stands as it does with those in force."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import msgspec

from fencepost.harness.systems.contract.server_settings import Settings
from fencepost.harness.systems.contract.system import System
from fencepost.harness.verdict import Guarantee, Standing


@runtime_checkable
class QualifiesPromises(Protocol):
    """Some of its promises hold only while its servers have certain settings."""

    def unpromised(self, settings: Settings) -> Mapping[str, str]:
        """The guarantees that nobody promises with these settings (`--set`), each with the setting and the reason."""
        ...


def promises_in_force(system: System, version: str, settings: Settings) -> tuple[Guarantee, ...]:
    """What this release is held to with these settings; what they take the promise from is only measured."""
    promises = system.promises(version)
    reasons = system.unpromised(settings) if isinstance(system, QualifiesPromises) else {}
    return tuple(
        msgspec.structs.replace(g, standing=Standing.MEASURED, source=f"not promised: {reasons[g.name]}")
        if g.name in reasons
        else g
        for g in promises
    )


def value_of(settings: Settings, *keys: str) -> str:
    """What one of these keys is set to, for whichever servers, in small letters; empty where none is set."""
    values = (str(own[key]).lower() for own in settings.values() for key in keys if key in own)
    return next(values, "")
