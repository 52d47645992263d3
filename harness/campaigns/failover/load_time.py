"""How long a new controller took to load its state, by two lines of its own log."""

import re
from typing import Final

_CLOCK: Final = re.compile(r"^(\d\d):(\d\d):(\d\d)\.(\d\d\d)\b")
_DAY_MS: Final = 24 * 3600 * 1000


def load_time_s(loading: tuple[str, str], log: str) -> float | None:
    """Of the last reign that this piece of a log tells of from its beginning; None when it tells of none whole.

    `loading` are the two lines, as `harness.systems.contract.failover.Failover` has them.
    """
    first, last = loading
    began: int | None = None
    found: float | None = None
    for line in log.splitlines():
        if first in line:
            began = _clock_ms(line)
        elif last in line and began is not None:
            ended = _clock_ms(line)
            if ended is not None:
                found = (ended - began) % _DAY_MS / 1000
            began = None
    return found


def _clock_ms(line: str) -> int | None:
    """Lines name the time of day only; a reign may begin before midnight."""
    clock = _CLOCK.match(line)
    if clock is None:
        return None
    hours, minutes, seconds, thousandths = map(int, clock.groups())
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + thousandths
