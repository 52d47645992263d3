"""How long a new leader took to load its state, by two lines of its own log."""

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

_CLOCK: Final = re.compile(r"^(\d\d):(\d\d):(\d\d)\.(\d\d\d)\b")
_DAY_MS: Final = 24 * 3600 * 1000


def load_time_s(loading: tuple[str, str], logs: Mapping[str, str], ended: str | None) -> float | None:
    """Compute how long the leader that followed `ended` loaded its state.

    Args:
        loading: texts of the line that begins the loading and of the line that ends it.
        logs: the log of each node of a run that lasted less than twelve hours.
        ended: the node whose reign the fault ended; None: the last loading of the run counts.

    Returns:
        Seconds; None when no such loading both begins and ends in the logs.
    """
    loads = [(began, node, load_s) for node, log in logs.items() for began, load_s in _loads(loading, log)]
    if loads and max(loads)[0] - min(loads)[0] > _DAY_MS / 2:  # the logs have no date: it was midnight
        loads = [(began + _DAY_MS * (began < _DAY_MS / 2), node, load_s) for began, node, load_s in loads]
    loads.sort()
    if ended is None:
        return loads[-1][2] if loads else None
    return next((new[2] for old, new in reversed([*pairwise(loads)]) if old[1] == ended != new[1]), None)


def _loads(loading: tuple[str, str], log: str) -> Iterator[tuple[int, float]]:
    """Yield when each loading of a log began, in milliseconds of the day, and its seconds."""
    first, last = loading
    began: int | None = None
    for line in log.splitlines():
        if first in line:
            began = _clock_ms(line)
        elif last in line and began is not None:
            ended = _clock_ms(line)
            if ended is not None:
                yield began, (ended - began) % _DAY_MS / 1000
            began = None


def _clock_ms(line: str) -> int | None:
    """Read the time of day at the start of a line, in milliseconds; the log has no date."""
    clock = _CLOCK.match(line)
    if clock is None:
        return None
    hours, minutes, seconds, thousandths = map(int, clock.groups())
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + thousandths
