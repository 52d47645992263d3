"""Durations with units, as they stand on command lines and in plans: `30s`, `250ms`, `2m`, `1h30m`, `2d`.

TOML and JSON that others wrote: whatever the text, parsing it gives a value or raises ValueError.
"""

import json
import re
import sys
import tomllib
from typing import Any, Final

from fencepost.harness.base.errors import UsageError

_TOO_DEEP: Final = "it is nested too deeply"


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML; raises ValueError with the reason, also for deep nesting and numbers that are too long."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError:
        # Python converts no longer integers, and does not say where the number stands.
        raise ValueError(f"a number of more than {sys.get_int_max_str_digits()} digits") from None


def parse_json(text: str) -> Any:
    """Parse JSON; raises ValueError with the reason, also for deep nesting."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


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
