"""Rows of the lists among checkers' figures (`harness.verdict.figures`): a checker makes them, the report reads them.

`checker` is the name of the checker whose figures have the list. `events` are the rows of the history behind each
field, by the field's name.
"""

from typing import ClassVar

import msgspec

Rows = tuple[int, ...]


class LeaderDeeds(msgspec.Struct, frozen=True, kw_only=True):
    """What a superseded leader of a partition was asked from then on, and what became of it."""

    checker: ClassVar = "zombie-brokers"

    partition: str
    node: str
    incarnation: int
    epoch: int
    superseded_by: int
    superseded_ns: int
    claimed_for_ns: int
    requests: int = msgspec.field(name="asked")
    acknowledged: int
    survived: int
    lost: int
    fenced: int
    unknown: int
    reads: int
    stale_reads: int
    vanished_reads: int
    stale_ns_max: int
    events: dict[str, Rows] = {}


class CutLeader(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that was cut off from every majority of voters for `cut_ns`; other times are since the cut began."""

    checker: ClassVar = "zombie-brokers"

    node: str
    cut_from_ns: int
    cut_ns: int
    partitions_led: int
    superseded_after_ns: int | None
    appends_acknowledged: int
    appends_lost: int
    last_append_after_ns: int | None
    last_read_after_ns: int | None
    stopped_leading_after_ns: int | None
    events: dict[str, Rows] = {}


class PartitionReign(msgspec.Struct, frozen=True, kw_only=True):
    """A broker led a partition in one leader epoch, by the polls that it answered as its leader."""

    checker: ClassVar = "zombie-brokers"

    partition: str
    node: str
    incarnation: int
    epoch: int
    from_ns: int
    to_ns: int
    samples: int
    superseded_by: int | None
    superseded_ns: int | None
    claimed_samples: int
    events: dict[str, Rows] = {}


class ClaimedSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A superseded claim: `node` claimed `epoch` from `from_ns`, when a higher epoch had begun, to `to_ns` at least.

    `resigned_ns` is when its own log said that it resigned, and `reverted_to` the offset to which it then gave up what
    it had not committed; None where no line says so. `running_ns` leaves out the time in which the node was proven
    stopped. `indexes` are the two events that prove the beginning and the end. Times are in nanoseconds since the run
    began. `partition` is set where a topic partition is led.
    """

    partition: str | msgspec.UnsetType = msgspec.UNSET
    node: str
    incarnation: int
    epoch: int
    superseded_by: int
    from_ns: int
    to_ns: int
    length_ns: int
    running_ns: int
    samples: int
    indexes: tuple[int, int]
    resigned_ns: int | None = None
    reverted_to: int | None = None
    events: dict[str, Rows] = {}


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """From `from_ns` to `to_ns`, `node` certainly reached less than a majority, and less than a majority reached it."""

    node: str
    from_ns: int
    to_ns: int
    fault_ids: tuple[int, ...]
    events: dict[str, Rows] = {}


class CutClaim(msgspec.Struct, frozen=True, kw_only=True):
    """`node`, cut off since `cut_from_ns`, still claimed `epoch` at `to_ns`, its last such moment in that cut.

    By its own clocks, and while it certainly ran, `ran_ns` had passed since the cut began.
    """

    node: str
    incarnation: int
    epoch: int
    cut_from_ns: int
    to_ns: int
    ran_ns: int
    events: dict[str, Rows] = {}
