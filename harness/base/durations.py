"""Durations with units, as they stand on command lines and in plans: `30s`, `250ms`, `2m`, `1h30m`, `2d`."""

import re
from typing import Final

from fencepost.harness.base.errors import UsageError

#: Stands for "never" among times.
NEVER_NS: Final = 1 << 62
_UNITS_NS: Final = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86_400 * 10**9,
}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|ms|s|m|h|d)")


def parse_duration_ns(text: str, *, what: str = "duration") -> int:
    """Read a text such as `30s` as nanoseconds; raises UsageError for anything else, also for a bare number."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UsageError(
            f"{what}: {text!r} is not a duration", hint="give a number with a unit, such as 30s, 250ms or 2m"
        )
    return round(sum(float(number) * _UNITS_NS[unit] for number, unit in parts))


def format_duration(ns: int) -> str:
    """The shortest text that parses back to `ns`."""
    for unit in ("h", "m", "s", "ms", "us"):
        if ns and ns % _UNITS_NS[unit] == 0:
            return f"{ns // _UNITS_NS[unit]}{unit}"
    return f"{ns:d}ns" if ns else "0s"
