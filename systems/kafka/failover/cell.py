"""A cell: one cluster of one system with a given number of topic partitions, whose controller is ended several times.

The cell of a system that migrates has several clusters, one after another; the metadata of each moves to another store.

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


class FailoverEnding(StrEnum):
    """Why no controller may act for a while: it ends by SIGKILL or in order, or a migration goes on to this phase."""

    KILL = "kill"
    STOP = "stop"
    PROVISIONED = "provisioned"
    HYBRID = "hybrid"
    DUAL_WRITE = "dual-write"
    FINAL = "final"


#: The endings of an active controller.
ENDS: Final = (FailoverEnding.KILL, FailoverEnding.STOP)
#: The phases of a migration; the copy belongs to the steps before `hybrid`.
PHASES: Final = (FailoverEnding.PROVISIONED, FailoverEnding.HYBRID, FailoverEnding.DUAL_WRITE, FailoverEnding.FINAL)


class FailoverCell(msgspec.Struct, frozen=True, kw_only=True):
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


class FailoverSample(msgspec.Struct, frozen=True, kw_only=True):
    """One ending of one active controller, or one phase of one migration.

    Times are seconds since the signal was sent; None: not seen, see `missing`.

    `load_s` is the exception: it is how long the new controller loaded its state, by two lines of its own log.
    `pushed_bytes` and `fetched_bytes` are what the new controller's node sent and received over all links until every
    partition had acknowledged a produce, the probes' requests included.
    `exit_s` is when the process of the old controller was gone.

    Of a phase there are `gap_s`, the longest time without an accepted metadata change in the steps up to it, `phase_s`,
    from its first step until it holds and every server serves, and for `hybrid` `load_s`, the copy.
    """

    system: str
    partitions: int
    ending: FailoverEnding
    ended: str
    successor: str | None = None
    metadata_s: float | None = None
    produce_s: float | None = None
    load_s: float | None = None
    exit_s: float | None = None
    gap_s: float | None = None
    phase_s: float | None = None
    pushed_bytes: int | None = None
    fetched_bytes: int | None = None
    missing: tuple[str, ...] = ()
    refusals: dict[str, int] = {}


#: The times of a sample that are compared, each with its description.
MEASURES: Final = {
    "metadata_s": "first accepted metadata change",
    "produce_s": "first acknowledged produce on every partition",
    "load_s": "the new controller's own loading, or its copy (its log)",
    "gap_s": "longest time without an accepted metadata change",
    "phase_s": "all steps up to the phase",
}
#: And the amounts.
AMOUNTS: Final = {
    "pushed_bytes": "sent by the new controller's node until then",
    "fetched_bytes": "received by the new controller's node until then",
}


def measured(ending: FailoverEnding) -> tuple[str, ...]:
    """The times of a sample that are measured there."""
    if ending in ENDS:
        return ("metadata_s", "produce_s", "load_s")
    return ("gap_s", "phase_s", "load_s") if ending is FailoverEnding.HYBRID else ("gap_s", "phase_s")


def topics(partitions: int) -> dict[str, int]:
    """Split `partitions` into topics; returns the number of partitions by topic name."""
    sizes: dict[str, int] = {}
    while partitions > 0:
        sizes[f"load-{len(sizes)}"] = min(partitions, PARTITIONS_PER_TOPIC)
        partitions -= PARTITIONS_PER_TOPIC
    return sizes
