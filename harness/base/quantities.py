"""Values with a unit or a form of their own, as options have them: `250ms`, `-5s`, `10%`, `64KB/s`.

`read` parses what a person typed, `str` writes it back. To whoever computes with them, these are plain numbers.

Durations with units, as they stand on command lines and in plans: `30s`, `250ms`, `2m`, `1h30m`, `2d`.
"""

import functools
import json
import re
import sys
import time
import tomllib
from typing import Any, ClassVar, Final, Self

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


@functools.lru_cache
def parse_duration_ns(text: str, *, what: str = "duration") -> int:
    """Read a text such as `30s` as nanoseconds; raises UsageError for anything else, also for a bare number."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UsageError(
            f"{what}: {text!r} is not a duration", hint="give a number with a unit, such as 30s, 250ms or 2m"
        )
    return round(sum(float(number) * _UNITS_NS[unit] for number, unit in parts))


def parse_budget_s(text: str) -> float:
    """Read the value of `--budget` as seconds; raises UsageError for what is no duration, and for none at all."""
    budget_ns = parse_duration_ns(text, what="--budget")
    if not budget_ns:
        raise UsageError(f"--budget {text} leaves no time for a run", hint="give minutes or hours, such as 2h")
    return budget_ns / 1e9


def format_duration(ns: int) -> str:
    """The shortest text that parses back to `ns`."""
    for unit in ("h", "m", "s", "ms", "us"):
        if ns and ns % _UNITS_NS[unit] == 0:
            return f"{ns // _UNITS_NS[unit]}{unit}"
    return f"{ns:d}ns" if ns else "0s"


def counted(number: int, one: str, many: str = "") -> str:
    """ "1 run", "2,000 runs", "2 processes"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def lasting(seconds: float) -> str:
    """A length of time for a person who waits: "45 s", "4 min 30 s", "12 min", "3 h 05 min"."""
    if seconds < 100:
        return f"{max(seconds, 0):.0f} s"
    if seconds < 600:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def utc_stamp() -> str:
    """The time now, to the second, as 2026-11-28T12:00:00Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


_NUMBER: Final = re.compile(r"\d*\.?\d+", re.ASCII)
_BYTES: Final = {"MB/s": 10**6, "KB/s": 10**3}


class Quantity:
    """The base of every such value."""

    __slots__ = ()

    #: What it is, with an article: shown where any value will do.
    kind: ClassVar[str]

    @classmethod
    def read(cls, text: str, *, what: str) -> Self:
        """Parse what a person typed; raises UsageError, which names `what`."""
        raise NotImplementedError


class Duration(int, Quantity):
    """Nanoseconds; in a plan and on the command line a text with a unit, such as `250ms`."""

    __slots__ = ()

    kind = "a duration"

    @classmethod
    def read(cls, text: str, *, what: str) -> Self:
        return cls(parse_duration_ns(text, what=what))

    @property
    def seconds(self) -> float:
        return self / 1e9

    @property
    def ms(self) -> int:
        """Whole milliseconds."""
        return self // 1_000_000

    def __str__(self) -> str:
        # As a plain number: what formats it would come back here.
        return format_duration(int(self))


class SignedDuration(int, Quantity):
    """Nanoseconds, forward or back, such as `-5s`."""

    __slots__ = ()

    kind = "a duration, such as 2m or -5s"

    @classmethod
    def read(cls, text: str, *, what: str) -> Self:
        ns = parse_duration_ns(text.removeprefix("-"), what=what)
        return cls(-ns if text.startswith("-") else ns)

    def __str__(self) -> str:
        return f"{'-' if self < 0 else ''}{format_duration(abs(int(self)))}"


class Share(float, Quantity):
    """A part of the whole, from 0 to 1: `10%` or `0.1`."""

    __slots__ = ()

    kind = "a share, such as 10% or 0.1"

    @classmethod
    def read(cls, text: str, *, what: str) -> Self:
        number = text.removesuffix("%")
        if not _NUMBER.fullmatch(number):
            raise UsageError(f"{what}: {text!r} is not a share", hint=f"give {cls.kind}")
        return cls(float(number) / 100 if text.endswith("%") else float(number))

    def __str__(self) -> str:
        return f"{float(self) * 100:.6g}%"


class ByteRate(int, Quantity):
    """Bytes per second, such as `64KB/s` or `2MB/s`."""

    __slots__ = ()

    kind = "a rate, such as 64KB/s or 2MB/s"

    @classmethod
    def read(cls, text: str, *, what: str) -> Self:
        unit = next((unit for unit in _BYTES if text.endswith(unit)), "")
        number = text.removesuffix(unit)
        if not unit or not number.isascii() or not number.isdecimal():
            raise UsageError(f"{what}: {text!r} is not a rate", hint=f"give {cls.kind}")
        return cls(int(number) * _BYTES[unit])

    def __str__(self) -> str:
        unit = next((unit for unit, size in _BYTES.items() if self % size == 0), None)
        return f"{int(self)}B/s" if unit is None else f"{self // _BYTES[unit]}{unit}"
