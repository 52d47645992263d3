"""Rows of the lists among checkers' figures (`harness.verdict.figures`): a checker makes them, the report reads them.

`checker` is the name of the checker whose figures have the list. `events` are the rows of the history behind each
field, by the field's name.
"""

from typing import ClassVar

import msgspec

Rows = tuple[int, ...]


class FaultCost(msgspec.Struct, frozen=True, kw_only=True):
    """One fault's. Times are since it certainly held (`from_ns`) or, for `deposed_*`, since it was healed (`to_ns`).

    `leaderless_ns`: until a new leader was known, when the fault took the leader; None when it did not or none came.
    `changes_resumed_ns`: until the first change that was asked for after the fault was acknowledged. For a number of
    epochs, `events` name the first and the last of them.
    """

    checker: ClassVar = "rejoin"

    fault_id: int
    fault: str
    target: str
    nodes: tuple[str, ...]
    from_ns: int
    to_ns: int
    leader: str | None
    epoch_before: int | None
    epoch_when_healed: int | None
    epoch_after: int | None
    leaderless_ns: int | None
    changes_resumed_ns: int | None
    came_back: tuple[str, ...]
    healthy_leader: str | None
    deposed_after_ns: int | None
    deposed_leaderless_ns: int | None
    deposed_epochs: int
    stalled: bool
    events: dict[str, Rows] = {}


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """`broker` and the beginning of epoch `superseded_by`, at `from_ns`.

    `named_ns`: so long after that it certainly still named `epoch`, which `leader` led; 0 when it did not.
    `followed_ns`: so long after that it first named the new epoch or a later one; None when it never did. "missed"
    among `events`: the acknowledged change that each stale answer lacks. Of `undecided_describes` nobody knows whether
    they are stale: with any of them, the others are a lower bound.
    """

    checker: ClassVar = "rejoin"

    broker: str
    epoch: int
    leader: str | None
    superseded_by: int
    from_ns: int
    named_ns: int
    followed_ns: int | None
    silent: int
    stale_describes: int
    undecided_describes: int = 0
    stale_age_ns_max: int
    events: dict[str, Rows] = {}

    @property
    def length_ns(self) -> int:
        """How long it was not yet with the new controller, as far as its own answers tell."""
        return self.named_ns if self.followed_ns is None else self.followed_ns


class DeposedAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """What a node answered itself from `from_ns` on, when `superseded_by` had begun and it had led `epoch`.

    It counts until the node leads again. `undecided_describes` may be stale or not; then the others are a lower bound.
    """

    checker: ClassVar = "rejoin"

    node: str
    epoch: int
    superseded_by: int
    from_ns: int
    describes: int
    stale_describes: int
    undecided_describes: int
    stale_age_ns_max: int
    events: dict[str, Rows] = {}


class Denied(msgspec.Struct, frozen=True, kw_only=True):
    """How often one node denied a name that was taken, from when to when, and how long after it was taken at most."""

    checker: ClassVar = "topic-names"

    node: str
    denials: int
    from_ns: int
    to_ns: int
    late_ns_max: int
    events: dict[str, Rows] = {}


class ControllerElection(msgspec.Struct, frozen=True, kw_only=True):
    """ZooKeeper's transaction `zxid` made `node` the controller of `epoch`; `indexes` are lines of its own log."""

    checker: ClassVar = "zombie-controllers"

    node: str
    epoch: int
    zxid: str
    indexes: Rows = ()


class ControllerAttempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`node`, controller of `epoch`, did `what` when `superseded_by` had begun: `refused_by` something, or it stands.

    `zxid` is where ZooKeeper's log has it; `indexes` are the rows of the history that tell of it.
    """

    checker: ClassVar = "zombie-controllers"

    indexes: Rows
    node: str
    epoch: int
    superseded_by: int
    what: str
    refused_by: str | None = None
    zxid: str | None = None


class WritesAfterClaim(msgspec.Struct, frozen=True, kw_only=True):
    """How many transactions of one kind a node asked ZooKeeper for while a claim stood, the first of them `first`.

    `claim` says whose it was. `guard` is what the transaction checked. Of a refused one the log keeps neither.
    """

    checker: ClassVar = "handover"

    claim: str
    node: str
    what: str
    guard: str
    transactions: int
    first: str


class BrokerDeeds(msgspec.Struct, frozen=True, kw_only=True):
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


class CutBroker(msgspec.Struct, frozen=True, kw_only=True):
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


FigureRow = (
    FaultCost
    | Attachment
    | DeposedAnswers
    | Denied
    | ControllerElection
    | ControllerAttempt
    | BrokerDeeds
    | CutBroker
    | PartitionReign
    | ClaimedSpan
    | Cut
    | CutClaim
)
