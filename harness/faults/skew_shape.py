"""What a `clock-skew` asks for: which clocks, an offset, a rate, a strobe; read from its options, with their limits.

Offsets are drawn where nothing is asked for, from milliseconds to a day: software breaks at quite different sizes
(a time-out, a lease, a certificate, a day's log file).
"""

import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from fencepost.harness.base.durations import format_duration, parse_duration_ns
from fencepost.harness.base.errors import UsageError
from fencepost.harness.history import Clock
from fencepost.harness.runtime.clocks.setting import RATE_ONE, ClockSetting, Settings

CLOCKS: Final[Mapping[str, tuple[Clock, ...]]] = {
    "wall": (Clock.WALL,),
    "monotonic": (Clock.MONOTONIC,),
    "both": (Clock.WALL, Clock.MONOTONIC),
}
_S: Final = 10**9
_DAY_NS: Final = 86_400 * _S
_LARGEST_NS: Final = 3650 * _DAY_NS
_RATES: Final = (0.01, 100.0)
_SHORTEST_PERIOD_NS: Final = 10**5
_DEFAULT_PERIOD: Final = "100ms"
_DRAWN_NS: Final = (_S // 10, _S, 10 * _S, 120 * _S, 3600 * _S, _DAY_NS)
#: A monotonic clock that jumps by more ends every lease and session at once, which hides all else.
_DRAWN_MONOTONIC_NS: Final = (_S // 10, _S, 10 * _S)
_STROBE_OPTIONS: Final = ("period", "length")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is added to each of the chosen clocks. `may_step_back`: healing may put a monotonic clock back."""

    clocks: tuple[Clock, ...]
    offset_ns: int = 0
    extra_rate: int = 0
    delta_ns: int = 0
    period_ns: int = 0
    length_ns: int = 0
    may_step_back: bool = False

    @property
    def details(self) -> dict[str, str | int | float | bool]:
        """As the history and the schedule record them."""
        name = next(name for name, clocks in CLOCKS.items() if clocks == self.clocks)
        found: dict[str, str | int | float | bool] = {"clock": name}
        if self.offset_ns:
            found["offset_ns"] = self.offset_ns
        if self.extra_rate:
            found["rate"] = 1 + self.extra_rate / RATE_ONE
        if self.period_ns:
            found |= {
                "strobe_delta_ns": self.delta_ns,
                "strobe_period_ns": self.period_ns,
                "strobe_length_ns": self.length_ns,
            }
        if self.may_step_back:
            found["may_step_back"] = True
        return found

    def applied(self, before: Settings, now_ns: Mapping[Clock, int]) -> Settings:
        """These settings with the shape put on top, from `now_ns` on, which is each clock's own true time."""
        return Settings(*(self._applied(clock, setting, now_ns) for clock, setting in pairs(before)))

    def _applied(self, clock: Clock, before: ClockSetting, now_ns: Mapping[Clock, int]) -> ClockSetting:
        if clock not in self.clocks:
            return before
        now = now_ns[clock]
        return ClockSetting(
            base_ns=now,
            offset_ns=before.skew_ns(now) + self.offset_ns,
            extra_rate=self.extra_rate,
            period_ns=self.period_ns,
            delta_ns=self.delta_ns,
            length_ns=self.length_ns,
        )

    def healed(self, before: Settings, now_ns: Mapping[Clock, int], margin_ns: int) -> Settings:
        """True time for a wall clock; a monotonic one goes on from where it is, unless it may step back."""
        wall, monotonic = before
        if Clock.WALL in self.clocks:
            wall = ClockSetting()
        if Clock.MONOTONIC in self.clocks:
            settled = monotonic.settled(now_ns[Clock.MONOTONIC], margin_ns)
            monotonic = ClockSetting() if self.may_step_back else settled
        return Settings(wall, monotonic)


def pairs(settings: Settings) -> tuple[tuple[Clock, ClockSetting], ...]:
    """Each clock with its setting."""
    return (Clock.WALL, settings.wall), (Clock.MONOTONIC, settings.monotonic)


def read_shape(options: Mapping[str, str], *, duration_ns: int, draw: random.Random | None = None) -> Shape:
    """What the options ask for; `draw` gives what they leave open. Raises UsageError where they make no sense."""
    clocks = CLOCKS[options.get("clock", "wall")]
    shape = Shape(clocks=clocks, may_step_back=options.get("back") == "yes")
    if shape.may_step_back and Clock.MONOTONIC not in clocks:
        raise UsageError("back=yes is about the monotonic clock alone", hint="add clock=monotonic or clock=both")
    if "offset" in options:
        shape = replace(shape, offset_ns=_signed_ns("offset", options["offset"]))
    if "rate" in options:
        shape = replace(shape, extra_rate=_extra_rate(options["rate"]))
    shape = _with_strobe(shape, options, duration_ns)
    if not (shape.offset_ns or shape.extra_rate or shape.period_ns):
        shape = replace(shape, offset_ns=_drawn(shape.clocks, draw or random.Random(0)))
    _refuse_before_boot(shape)
    return shape


def _with_strobe(shape: Shape, options: Mapping[str, str], duration_ns: int) -> Shape:
    if "strobe" not in options:
        alone = [name for name in _STROBE_OPTIONS if name in options]
        if alone:
            raise UsageError(f"{alone[0]}= is a strobe's", hint=f"add strobe=DELTA, such as strobe=2s:{alone[0]}=...")
        return shape
    delta_ns = _signed_ns("strobe", options["strobe"])
    period_ns = parse_duration_ns(options.get("period", _DEFAULT_PERIOD), what="period")
    length_ns = parse_duration_ns(options["length"], what="length") if "length" in options else duration_ns
    if period_ns < _SHORTEST_PERIOD_NS:
        raise UsageError(
            f"period={options['period']} is shorter than a thread may be held up",
            hint=f"give at least {format_duration(_SHORTEST_PERIOD_NS)}",
        )
    if length_ns < period_ns:
        raise UsageError(
            f"a strobe of {format_duration(length_ns)} ends within its first period of {format_duration(period_ns)}",
            hint="give a longer length= (or for=), or a shorter period=",
        )
    return replace(shape, delta_ns=delta_ns, period_ns=period_ns, length_ns=length_ns)


def _signed_ns(name: str, text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    size_ns = parse_duration_ns(text.removeprefix("-"), what=f"{name}=")
    if not size_ns:
        raise UsageError(f"{name}={text} does nothing", hint=f"give how far, such as {name}=5s or {name}=-2m")
    if size_ns > _LARGEST_NS:
        raise UsageError(f"{name}={text} is more than ten years", hint="give at most 3650d")
    return sign * size_ns


def _extra_rate(text: str) -> int:
    number = float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else 0.0
    if not _RATES[0] <= number <= _RATES[1]:
        raise UsageError(
            f"rate={text!r} is no rate of a clock",
            hint=f"give {_RATES[0]:g} to {_RATES[1]:g}; 1.05 gains three seconds a minute",
        )
    extra = round((number - 1) * RATE_ONE)
    if not extra:
        raise UsageError(f"rate={text} is the rate of every good clock", hint="give another one, such as rate=1.05")
    return extra


def _drawn(clocks: tuple[Clock, ...], draw: random.Random) -> int:
    """Two draws, whatever the clocks. A monotonic clock never goes back unless a person asks for it."""
    ahead, place = draw.random() < 0.5, draw.random()
    if Clock.MONOTONIC in clocks:
        return _DRAWN_MONOTONIC_NS[int(place * len(_DRAWN_MONOTONIC_NS))]
    size_ns = _DRAWN_NS[int(place * len(_DRAWN_NS))]
    return size_ns if ahead else -size_ns


def _refuse_before_boot(shape: Shape) -> None:
    """A monotonic clock shows no time before zero."""
    lowest_ns = min(shape.offset_ns, shape.offset_ns + shape.delta_ns)
    uptime_ns = time.monotonic_ns()
    if Clock.MONOTONIC in shape.clocks and -lowest_ns >= uptime_ns:
        raise UsageError(
            f"the monotonic clock shows {uptime_ns // _S} s here, and cannot be put back by {-lowest_ns / _S:g} s",
            hint="give a smaller offset, or clock=wall",
        )
