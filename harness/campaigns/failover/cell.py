"""A cell: one cluster of one system with a given number of topic partitions, whose controller is ended several times.

The conditions are the same for both systems: three nodes that are all brokers, two replicas of each partition, and
sessions of 2 s (a broker's ZooKeeper session, or its session with the KRaft controller). The controller is a broker as
well, so its end leaves a third of the partitions without a leader.
"""

from enum import StrEnum
from typing import Any, Final

import msgspec

NODES: Final = 3
REPLICAS: Final = 2
#: With more in one request, ZooKeeper mode is busy with one topic for many seconds.
PARTITIONS_PER_TOPIC: Final = 500


class Ending(StrEnum):
    """How the active controller ends: by SIGKILL, or by SIGTERM and an orderly shutdown."""

    KILL = "kill"
    STOP = "stop"


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster; its process may take `budget_s` in all and ends the controller `times` times in each way."""

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

    `load_s` is the exception: it is how long the new controller loaded its state, by two lines of its own log.
    `pushed_bytes` and `fetched_bytes` are what the new controller's node sent and received over all links until every
    partition had acknowledged a produce, the probes' requests included.
    `exit_s` is when the process of the old controller was gone.
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
    pushed_bytes: int | None = None
    fetched_bytes: int | None = None
    missing: tuple[str, ...] = ()
    refusals: dict[str, int] = {}


#: The times of a sample that are compared, each with its description.
MEASURES: Final = {
    "metadata_s": "first accepted metadata change",
    "produce_s": "first acknowledged produce on every partition",
    "load_s": "the new controller's own loading (its log)",
}
#: And the amounts.
AMOUNTS: Final = {
    "pushed_bytes": "sent by the new controller's node until then",
    "fetched_bytes": "received by the new controller's node until then",
}


def topics(partitions: int) -> dict[str, int]:
    """Split `partitions` into topics; returns the number of partitions by topic name."""
    sizes: dict[str, int] = {}
    while partitions > 0:
        sizes[f"load-{len(sizes)}"] = min(partitions, PARTITIONS_PER_TOPIC)
        partitions -= PARTITIONS_PER_TOPIC
    return sizes
