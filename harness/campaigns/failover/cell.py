"""What is measured: one cell is one cluster of one system with so many topic partitions, its controller ended often.

The conditions are the same for both systems: three nodes that are brokers, two replicas of each partition, sessions of
2 s (the ZooKeeper session of a broker; the broker session of KRaft), so that the controller is a broker as well and its
end leaves a third of the partitions without their leader.
"""

from enum import StrEnum
from typing import Any, Final

import msgspec

NODES: Final = 3
REPLICAS: Final = 2
#: More in one request than this, and ZooKeeper mode is busy for many seconds with one topic.
PARTITIONS_PER_TOPIC: Final = 500


class Ending(StrEnum):
    """How the active controller ends: SIGKILL, or SIGTERM and its own orderly shutdown."""

    KILL = "kill"
    STOP = "stop"


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster; `budget_s` is what its process may take in all, `serial` its number in this curve."""

    system: str
    version: str
    partitions: int
    times: int
    budget_s: float
    artifacts: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.system}-{self.partitions}"


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One ending of one active controller. Times are seconds since the signal was sent; None: not seen, see `missing`.

    `load_s` is no such time: it is how long the new controller took to load its state, by two lines of its own log.
    `exit_s` is when the process of the old one was gone.
    """

    system: str
    partitions: int
    ending: Ending
    ended: str
    successor: str | None = None
    metadata_s: float | None = None
    produce_s: float | None = None
    load_s: float | None = None
    exit_s: float | None = None
    missing: tuple[str, ...] = ()
    refusals: dict[str, int] = {}


#: The figures of a sample that are compared, with what they are.
MEASURES: Final = {
    "metadata_s": "first accepted metadata change",
    "produce_s": "first acknowledged produce on every partition",
    "load_s": "the new controller's own loading (its log)",
}


def topics(partitions: int) -> dict[str, int]:
    """The topics that together have so many partitions."""
    found: dict[str, int] = {}
    while partitions > 0:
        found[f"load-{len(found)}"] = min(partitions, PARTITIONS_PER_TOPIC)
        partitions -= PARTITIONS_PER_TOPIC
    return found
