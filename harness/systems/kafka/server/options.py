"""The check of a plan's [system_options] against the defaults and ranges of a system."""

from collections.abc import Mapping
from typing import Any

from fencepost.harness.base.errors import UsageError, unknown_choice


def checked(
    system: str,
    options: Mapping[str, object],
    defaults: Mapping[str, Any],
    least: Mapping[str, int],
    *,
    most: Mapping[str, int],
) -> dict[str, Any]:
    """Names, types and ranges; numbers without a least value may be 0."""
    settings = dict(defaults)
    for name, value in options.items():
        if name not in settings:
            raise unknown_choice(f"{system} option", name, list(settings))
        if type(value) is not type(defaults[name]):
            raise UsageError(f"{system} option {name}: expected {type(defaults[name]).__name__}, got {value!r}")
        if isinstance(value, int) and not isinstance(value, bool):
            low, high = least.get(name, 0), most.get(name)
            if value < low or (high is not None and value > high):
                limits = f"{low} or more" if high is None else f"{low} to {high}"
                raise UsageError(f"{system} option {name}: expected {limits}, got {value}")
        settings[name] = value
    return settings
