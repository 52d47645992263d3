"""Figures of the checkers: numbers, strings and lists that a verdict carries beside its answer, for the report.

A checker whose figures others read by name has a struct of its own here, so that renaming a figure is a type error and
not a story that silently vanishes. A field is named as in verdict.json unless it says otherwise. Figures that nobody
reads by name stay a mapping (`others`): the page lists them under whatever names they have, and a struct for each of
some thirty such sets of counts would only repeat these names.

Rows of the lists among checkers' figures (`harness.verdict.figures`): a checker makes them, the report reads them.

`checker` is the name of the checker whose figures have the list. `events` are the rows of the history behind each
field, by the field's name.
"""

from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, UnsetType

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


class PolledReign(msgspec.Struct, frozen=True, kw_only=True):
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


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one verdict; `others` are those that no reader asks for by name, with units last in their names.

    `in_own_place` names figures that the page shows in tables made for them: the general table of a
    checker's figures leaves them out.
    """

    in_own_place: ClassVar[frozenset[str]] = frozenset()

    others: dict[str, Any] = {}

    def plain(self) -> dict[str, Any]:
        """Return all figures as plain data, by their names in verdict.json; a struct's own come first."""
        own: dict[str, Any] = msgspec.to_builtins(self)
        others: dict[str, Any] = own.pop("others")
        return {name: list(value) if isinstance(value, tuple) else value for name, value in own.items()} | others


class CoverageFigures(Figures, frozen=True, kw_only=True):
    """How much was done in the run. `missing` are sentences; `loop_lag_ns_max`: how late the harness's timer was.

    `watched` says how long nodes were watched after the last healing, and why no longer; `stalled_by` whether the
    harness or the machine stalled in the main phase.
    """

    missing: tuple[str, ...] = ()
    operations: dict[str, int] = {}
    main_ok: dict[str, int] = {}
    main_invoked: dict[str, int] = {}
    faults_by_outcome: dict[str, int] = {}
    faults_installed: dict[str, int] = {}
    final_reads: int = 0
    loop_lag_ns_max: int = 0
    watched: str = ""
    stalled_by: str = ""


class ClaimFigures(Figures, frozen=True, kw_only=True):
    """Claims to a superseded epoch: the longest of them in order of time, their number, and overlaps of leaders."""

    claimed: tuple[ClaimedSpan, ...] = ()
    claimed_count: int = 0
    claimed_ns_max: int = 0
    claimed_running_ns_max: int = 0
    possible_claims: int = 0
    two_leaders_ns: int = 0
    two_leaders_running_ns: int = 0
    epochs: int = 0
    samples_unattributed: int = 0
    samples_impossible: int = 0


class LeadershipFigures(ClaimFigures, frozen=True, kw_only=True):
    """Claims of superseded leaders, and the number of operations that were sent to them, by how they ended."""

    asked_of_superseded_leader: int = 0
    writes_asked_of_superseded_leader: int = 0
    writes_that_reached_superseded_leader: int = 0
    served_by_superseded_leader: int = 0
    attempted_but_fenced: int = 0
    attempted_outcome_unknown: int = 0
    failed_for_other_reasons: int = 0
    fresh_reads_answered: int = 0
    stale_answers: int = 0
    acted: int = 0


class SelfFencingFigures(Figures, frozen=True, kw_only=True):
    """Leaders that were cut off from every majority: the bound, the cuts, and for how long their claims went on."""

    bound_ns: int | None
    bound_source: str = ""
    limit_running_ns: int
    cuts_from_every_majority: int = 0
    cuts: tuple[Cut, ...] = ()
    claims_in_cuts: tuple[CutClaim, ...] = ()
    samples_beyond_bound: int = 0
    observed_beyond_bound_ns: int = 0
    running_ns_max_when_claimed: int = 0
    claims_in_doubt: int = 0


class ZombieLeaderFigures(Figures, frozen=True, kw_only=True):
    """What superseded leaders of topic partitions did, and who led which partition."""

    in_own_place = frozenset({"deeds", "cut_brokers", "reigns"})

    acks: str = "all"
    superseded_leaders: int = 0
    superseded_for_ns_max: int = 0
    two_leaders_ns: int = 0
    claimed: tuple[ClaimedSpan, ...] = ()
    appends_acknowledged: int = 0
    appends_survived: int = 0
    appends_lost: int = 0
    appends_fenced: int = 0
    appends_unknown: int = 0
    reads_answered: int = 0
    reads_stale: int = 0
    reads_vanished: int = 0
    reads_stale_ns_max: int = 0
    deeds: tuple[LeaderDeeds, ...] = ()
    cut_leaders: tuple[CutLeader, ...] = msgspec.field(default=(), name="cut_brokers")
    partitions: int = 0
    partitions_quiet: int = 0
    partitions_shown: int = 0
    reigns: tuple[PolledReign, ...] = ()


class OperationTableFigures(Figures, frozen=True, kw_only=True):
    """What a table of operations held, and the `engine` that judged it."""

    keys: int
    operations: int
    info_operations: int = 0
    steps: int = 0
    engine: str

    @property
    def rows(self) -> int:
        """How many operations the table holds."""
        return self.operations


class TransactionFigures(Figures, frozen=True, kw_only=True):
    """Transactions, and the consistency models that they rule out; `engine` and `keys` are a table's.

    `unfinished` names the searches that the budget ended; `certificate` says in words what shows the model.
    """

    engine: str | UnsetType = UNSET
    transactions: int = 0
    micro_operations: int = 0
    info_transactions: int = 0
    edges: int | UnsetType = UNSET
    components: int | UnsetType = UNSET
    largest_component: int | UnsetType = UNSET
    steps: int | UnsetType = UNSET
    keys: int | UnsetType = UNSET
    ruled_out: tuple[str, ...] = ()
    weakest_ruled_out: tuple[str, ...] = ()
    unfinished: tuple[str, ...] | UnsetType = UNSET
    certificate: str | UnsetType = UNSET


class TransactionTableFigures(TransactionFigures, frozen=True, kw_only=True):
    """What a table of transactions held, what it rules out, and the `engine` that judged it."""

    engine: str
    keys: int

    @property
    def rows(self) -> int:
        """How many transactions the table holds."""
        return self.transactions
