"""How long a new controller took to load its state, by two lines of its own log."""

import re
from typing import Final

_CLOCK: Final = re.compile(r"^(\d\d):(\d\d):(\d\d)\.(\d\d\d)\b")
_DAY_MS: Final = 24 * 3600 * 1000


def load_time_s(loading: tuple[str, str], log: str) -> float | None:
    """Compute how long the last controller in this piece of a log loaded its state.

    Args:
        loading: texts of the line that begins the loading and of the line that ends it, from
            `systems.kafka.contract.failover.Failover`.
        log: a piece of the controller's log.

    Returns:
        Seconds; None when no loading both begins and ends in this piece.
    """
    first, last = loading
    began: int | None = None
    load_s: float | None = None
    for line in log.splitlines():
        if first in line:
            began = _clock_ms(line)
        elif last in line and began is not None:
            ended = _clock_ms(line)
            if ended is not None:
                load_s = (ended - began) % _DAY_MS / 1000
            began = None
    return load_s


def _clock_ms(line: str) -> int | None:
    """Read the time of day at the start of a line, in milliseconds; the log has no date."""
    clock = _CLOCK.match(line)
    if clock is None:
        return None
    hours, minutes, seconds, thousandths = map(int, clock.groups())
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + thousandths
