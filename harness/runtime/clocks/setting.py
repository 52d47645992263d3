"""The setting of one clock of a process: a formula of true time for offset, drift and strobe.

    skew(t) = offset + (t - base) * rate + (delta if 0 <= t - base < length and (t - base) / period is even)

All numbers are the same integers as in the machine code (`x86_64/functions.S`), so that both give the same nanosecond.
t and base are the kernel's true times of the same clock (CLOCK_REALTIME or CLOCK_MONOTONIC).
"""

import struct
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

#: A rate is a signed fixed-point number: 2**32 of these are one nanosecond per nanosecond.
RATE_ONE: Final = 1 << 32

_FAMILY: Final = struct.Struct("<QqqQqQ")
FAMILY_BYTES: Final = _FAMILY.size


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSetting:
    """One clock's setting; the default is true time. `extra_rate` is the clock's gain, in units of 1 / RATE_ONE."""

    base_ns: int = 0
    offset_ns: int = 0
    extra_rate: int = 0
    period_ns: int = 0
    delta_ns: int = 0
    length_ns: int = 0

    def skew_ns(self, at_ns: int) -> int:
        """Return the time that the clock shows at true time `at_ns`, minus `at_ns`."""
        since = at_ns - self.base_ns
        on = self.period_ns and 0 <= since < self.length_ns and since // self.period_ns % 2 == 0
        return self.offset_ns + (since * self.extra_rate >> 32) + (self.delta_ns if on else 0)

    @property
    def rate(self) -> float:
        """Return the exact rate: a double can hold every fixed-point rate between 0 and 1000."""
        return 1 + self.extra_rate / RATE_ONE

    @property
    def slowness(self) -> int:
        """Return 1 / rate - 1 in units of 1 / RATE_ONE: how much longer a wait takes than this clock shows."""
        return round((1 / self.rate - 1) * RATE_ONE)

    @property
    def is_true(self) -> bool:
        """Say whether the clock shows true time, for any base."""
        return not (self.offset_ns or self.extra_rate or self.period_ns)

    def settled(self, at_ns: int, margin_ns: int) -> "ClockSetting":
        """Return a setting with normal rate and no strobe that is not behind this one when it comes into force.

        Its offset is the largest skew of this setting from `at_ns` to `at_ns + margin_ns`. So the clock makes no step
        back if the new setting comes into force within that time.
        """
        plain = replace(self, period_ns=0, delta_ns=0, length_ns=0)
        strobing = self.period_ns and at_ns - self.base_ns < self.length_ns
        ahead = max(self.delta_ns, 0) if strobing else 0
        offset = max(plain.skew_ns(at_ns), plain.skew_ns(at_ns + margin_ns)) + ahead
        return ClockSetting(base_ns=at_ns if offset else 0, offset_ns=offset)

    def pack(self) -> bytes:
        return _FAMILY.pack(
            self.base_ns, self.offset_ns, self.extra_rate, self.period_ns, self.delta_ns, self.length_ns
        )

    @classmethod
    def unpack(cls, raw: bytes) -> "ClockSetting":
        base, offset, rate, period, delta, length = _FAMILY.unpack(raw)
        return cls(base_ns=base, offset_ns=offset, extra_rate=rate, period_ns=period, delta_ns=delta, length_ns=length)


TRUE_TIME: Final = ClockSetting()


class Settings(NamedTuple):
    """The settings of both clocks of a process."""

    wall: ClockSetting = TRUE_TIME
    monotonic: ClockSetting = TRUE_TIME

    @property
    def are_true(self) -> bool:
        return self.wall.is_true and self.monotonic.is_true

    def pack(self) -> bytes:
        return self.wall.pack() + self.monotonic.pack()

    @classmethod
    def unpack(cls, raw: bytes) -> "Settings":
        return cls(ClockSetting.unpack(raw[:FAMILY_BYTES]), ClockSetting.unpack(raw[FAMILY_BYTES:]))
