"""How long a new controller took to load its state, by two lines of its own log.

KRaft: QuorumController claims the lead and later activates its periodic tasks. ZooKeeper mode: KafkaController is
elected and later starts its scheduler, which comes after reading every topic from ZooKeeper and telling every broker.
"""

import re
from typing import Final

#: By system: what is written when it begins, and when it is done.
_LINES: Final = {
    "kraft": ("Becoming the active controller", "Activated periodic tasks"),
    "kafka-zk": ("successfully elected as the controller", "Starting the controller scheduler"),
}
_CLOCK: Final = re.compile(r"^(\d\d):(\d\d):(\d\d)\.(\d\d\d)\b")
_DAY_MS: Final = 24 * 3600 * 1000


def load_time_s(system: str, log: str) -> float | None:
    """Of the last reign that this piece of a log tells of from its beginning; None when it tells of none whole."""
    first, last = _LINES[system]
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
