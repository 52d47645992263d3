"""Figures of Kafka's checkers, and the rows of their lists, as `harness.verdict.figures` has those of the others."""

from typing import ClassVar

import msgspec

from fencepost.harness.verdict.figures import Figures, Rows


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


class RejoinFigures(Figures, frozen=True, kw_only=True):
    """What each fault cost the quorum, and how long brokers stayed with a superseded controller."""

    in_own_place = frozenset({"faults", "attachments", "deposed", "told"})

    faults: tuple[FaultCost, ...] = ()
    leaderless_ns_max: int = 0
    epochs_used_max: int = 0
    attachments: tuple[Attachment, ...] = ()
    deposed: tuple[DeposedAnswers, ...] = ()
    attached_ns_max: int = 0
    sentences: tuple[str, ...] = msgspec.field(default=(), name="told")


class TopicNameFigures(Figures, frozen=True, kw_only=True):
    """Names that were asked for, and the answers that denied one that had been taken."""

    in_own_place = frozenset({"denied"})

    names: int = 0
    answers: int = 0
    denials: int = 0
    denial_late_ns_max: int = 0
    denials_from_ns: int | None = None
    denials_to_ns: int | None = None
    by_node: tuple[Denied, ...] = msgspec.field(default=(), name="denied")


class ControllerFigures(Figures, frozen=True, kw_only=True):
    """What superseded controllers tried to do as controllers, and what refused it."""

    controllers: int = 0
    elections: tuple[ControllerElection, ...] = ()
    attempted_but_fenced: int = 0
    fenced_by: dict[str, int] = msgspec.field(default_factory=dict)
    acted: int = 0
    attempts: tuple[ControllerAttempt, ...] = ()


class ClientChangeFigures(Figures, frozen=True, kw_only=True):
    """What superseded controllers did for clients."""

    attempted_but_fenced: int = 0
    unfenced_changes_for_clients: int = 0
    attempts: tuple[ControllerAttempt, ...] = ()


class HandoverFigures(Figures, frozen=True, kw_only=True):
    """What others than the controller asked ZooKeeper for after a claim; `writes` has the controller's, too."""

    in_own_place = frozenset({"writes"})

    refused: int = 0
    written: int = 0
    migration_state: int = 0
    partition_states: int = 0
    writes: tuple[WritesAfterClaim, ...] = ()
