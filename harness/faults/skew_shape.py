"""The options of `clock-skew` and what they do to a clock: an offset, a rate, a strobe.

When none of them is given, an offset between 0.1 s and one day is drawn: software breaks at quite different sizes (a
time-out, a lease, a certificate, a day's log file).
"""

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from msgspec import UNSET, UnsetType

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import Duration, about, seconds
from fencepost.harness.base.quantities import SignedDuration
from fencepost.harness.faults.fault_options import FaultOptions
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
_PERIOD: Final = seconds(0.1)
_DRAWN_NS: Final = (_S // 10, _S, 10 * _S, 120 * _S, 3600 * _S, _DAY_NS)
#: A monotonic clock that jumps by more ends every lease and session at once, which hides all else.
_DRAWN_MONOTONIC_NS: Final = (_S // 10, _S, 10 * _S)


class SkewOptions(FaultOptions, frozen=True, kw_only=True):
    offset: Annotated[
        SignedDuration | UnsetType,
        about(
            "how far ahead (5s) or behind (-2m); drawn unless a rate or a strobe is given",
            least=-_LARGEST_NS,
            most=_LARGEST_NS,
        ),
    ] = UNSET
    rate: Annotated[
        float | UnsetType, about("seconds that the clock counts in a true second, such as 1.05", least=0.01, most=100)
    ] = UNSET
    strobe: Annotated[
        SignedDuration | UnsetType,
        about("how far it jumps forth and back, such as 2s", least=-_LARGEST_NS, most=_LARGEST_NS),
    ] = UNSET
    # A thread may be held up for less.
    period: Annotated[
        Duration | UnsetType, about("time between two jumps of strobe=; 100ms unless given", least=seconds(0.0001))
    ] = UNSET
    length: Annotated[Duration | UnsetType, about("how long it jumps; as long as the fault lasts, unless given")] = (
        UNSET
    )
    clock: Annotated[Literal["wall", "monotonic", "both"], about("which clocks are wrong")] = "wall"
    back: Annotated[bool, about("whether healing may set a monotonic clock back")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewShape:
    """What is added to each of the chosen clocks. `may_step_back`: healing may set a monotonic clock back."""

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
        details: dict[str, str | int | float | bool] = {"clock": name}
        if self.offset_ns:
            details["offset_ns"] = self.offset_ns
        if self.extra_rate:
            details["rate"] = 1 + self.extra_rate / RATE_ONE
        if self.period_ns:
            details |= {
                "strobe_delta_ns": self.delta_ns,
                "strobe_period_ns": self.period_ns,
                "strobe_length_ns": self.length_ns,
            }
        if self.may_step_back:
            details["may_step_back"] = True
        return details

    def applied(self, before: Settings, now_ns: Mapping[Clock, int]) -> Settings:
        """Add the shape to these settings, from `now_ns` on, each clock's own true time."""
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
        """Return true time for a wall clock; a monotonic clock goes on from where it is, unless it may step back."""
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


def why_senseless(options: SkewOptions) -> Refusal | None:
    """Why these options make no sense together, or on this machine; None when they do."""
    if options.back and options.clock == "wall":
        return Refusal("back=yes concerns the monotonic clock only", "add clock=monotonic or clock=both")
    for name, far in (("offset", options.offset), ("strobe", options.strobe)):
        if far is not UNSET and not far:
            return Refusal(f"{name}={far} does nothing", f"give a duration, such as {name}=5s or {name}=-2m")
    if options.rate is not UNSET and not _extra_rate(options.rate):
        return Refusal(f"rate={options.rate:g} is the rate of a correct clock", "give another, such as rate=1.05")
    return _senseless_strobe(options) or _before_boot(shape_of(options, random.Random(0)))


def _senseless_strobe(options: SkewOptions) -> Refusal | None:
    if options.strobe is UNSET:
        parts = {"period": options.period, "length": options.length}
        alone = next((name for name, value in parts.items() if value is not UNSET), None)
        return (
            Refusal(f"{alone}= needs a strobe", f"add strobe=DELTA, such as strobe=2s:{alone}=...") if alone else None
        )
    period, length = _rhythm(options)
    if length < period:
        return Refusal(
            f"a strobe of {length} ends within its first period of {period}",
            "give a longer length= (or for=), or a shorter period=",
        )
    return None


def shape_of(options: SkewOptions, draw: random.Random) -> SkewShape:
    """Turn options into a shape; `draw` chooses what they leave open."""
    clocks = CLOCKS[options.clock]
    is_open = options.offset is UNSET and options.rate is UNSET and options.strobe is UNSET
    strobes = options.strobe is not UNSET
    period, length = _rhythm(options)
    return SkewShape(
        clocks=clocks,
        offset_ns=_drawn(clocks, draw) if is_open else int(options.offset or 0),
        extra_rate=_extra_rate(options.rate or 1.0),
        delta_ns=int(options.strobe or 0),
        period_ns=int(period) if strobes else 0,
        length_ns=int(length) if strobes else 0,
        may_step_back=options.back,
    )


def _rhythm(options: SkewOptions) -> tuple[Duration, Duration]:
    """The period and the length of a strobe."""
    period = _PERIOD if options.period is UNSET else options.period
    return period, options.for_ if options.length is UNSET else options.length


def _extra_rate(rate: float) -> int:
    return round((rate - 1) * RATE_ONE)


def _drawn(clocks: tuple[Clock, ...], draw: random.Random) -> int:
    """Draw an offset. Always draws twice, so that later draws stay the same; a monotonic clock only goes forward."""
    ahead, place = draw.random() < 0.5, draw.random()
    if Clock.MONOTONIC in clocks:
        return _DRAWN_MONOTONIC_NS[int(place * len(_DRAWN_MONOTONIC_NS))]
    size_ns = _DRAWN_NS[int(place * len(_DRAWN_NS))]
    return size_ns if ahead else -size_ns


def _before_boot(shape: SkewShape) -> Refusal | None:
    """Refuse an offset that would make a monotonic clock negative."""
    lowest_ns = min(shape.offset_ns, shape.offset_ns + shape.delta_ns)
    uptime_ns = time.monotonic_ns()
    if Clock.MONOTONIC not in shape.clocks or -lowest_ns < uptime_ns:
        return None
    return Refusal(
        f"the monotonic clock of this machine shows {uptime_ns // _S} s, so it cannot go back by {-lowest_ns / _S:g} s",
        "give a smaller offset, or clock=wall",
    )
