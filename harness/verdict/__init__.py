"""What a judge says: verdict, witness, guarantee, and how verdicts are merged. Does not know who judges.

A verdict is `valid`, `invalid` or `unknown`. Merged, `invalid` beats `unknown` beats `valid`. Only guarantees that
are promised, or that the plan requires by name, make a run `invalid` (docs/explanation/design.md, standing of a
guarantee); a violation of another one is reported with its count.

The facts of a run have the system's own words (its epochs, its subjects, how its positions are written) and the bounds
that it states: for leaders that are cut off, for leases, and for nodes that report to nobody.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any, assert_never

import msgspec

from fencepost.harness.history import Clock
from fencepost.harness.verdict.figures import Traced, values
from fencepost.harness.verdict.guarantee import (
    MINORITY_DAMAGED as MINORITY_DAMAGED,
    Choice as Choice,
    Condition as Condition,
    Guarantee as Guarantee,
    KnownIssue as KnownIssue,
    Mechanism as Mechanism,
    Standing as Standing,
    Unmet as Unmet,
    anomaly_count,
)


def judged_limit_ns(bound_ns: int) -> int:
    """Return the running time from which on a bound is judged to be broken: half as much again, and a second."""
    return bound_ns * 3 // 2 + 1_000_000_000


class SessionBound(msgspec.Struct, frozen=True, kw_only=True):
    """A node keeps a session (Kafka's brokers do); who holds it fences the node when the session ends.

    `nodes` are these nodes, by the ids that they have in the system. `session_ns` is the session's length.
    `held_by_leader`: the leader of the voters holds the sessions, and begins them again when it is elected; else
    the voters hold them.
    """

    nodes: dict[str, int]
    session_ns: int
    held_by_leader: bool
    source: str

    @property
    def limit_ns(self) -> int:
        """Running time from which on a broker should be fenced: half as much again as its session, and a second."""
        return judged_limit_ns(self.session_ns)


class Vocabulary(msgspec.Struct, frozen=True, kw_only=True):
    """A system's own words, for whoever writes about its runs."""

    #: A leader's reign.
    epoch: str = "epoch"
    #: What beliefs are about, by its name in the history, where users call it something else.
    subjects: dict[str, str] = {}
    #: Whether positions are written as hexadecimal numbers (zxids) or as decimal ones (revisions, offsets).
    hexadecimal: bool = False

    def subject(self, name: str) -> str:
        """What users call this subject."""
        return self.subjects.get(name, name)

    def position(self, number: int | None) -> str:
        """A store's position as users write it; empty where there is none."""
        if number is None:
            return ""
        return f"0x{number:x}" if self.hexadecimal else str(number)


Positive = Annotated[int, msgspec.Meta(ge=1)]
NotNegative = Annotated[int, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Validity(StrEnum):
    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"


class Cause(StrEnum):
    """Why a verdict is `unknown`; the reason says it in a sentence.

    `FAILED`: the checker raised, or parts of it contradict each other. `CUT_SHORT`: the run ended before the history
    was complete. `OUT_OF_BUDGET`: the search spent its steps, memory or time. `NO_EXPOSURE`: the guarantee was not
    tested, or too seldom. `STALLED`: the harness or the machine stood still, which explains what was seen as well.
    `UNDECIDED`: the record fits a guarantee that was kept as well as one that was violated. `NOT_APPLICABLE`: the
    system states nothing that could be judged.
    """

    FAILED = "failed"
    CUT_SHORT = "cut-short"
    OUT_OF_BUDGET = "out-of-budget"
    NO_EXPOSURE = "no-exposure"
    STALLED = "stalled"
    UNDECIDED = "undecided"
    NOT_APPLICABLE = "not-applicable"


class Stop(StrEnum):
    """What ended a search without an answer: a part of its `SearchBudget`, the user, or a defect of fencepost.

    `CONTRADICTED`: the native search and the check of its answer contradict each other.

    The native core uses the same values.
    """

    STEPS = "steps"
    MEMORY = "memory"
    DEADLINE = "deadline"
    INTERRUPTED = "interrupted"
    CONTRADICTED = "contradicted"

    @property
    def sentence(self) -> str:
        """Why the search ended, for a reason."""
        match self:
            case Stop.STEPS:
                return "the budget of steps is spent"
            case Stop.MEMORY:
                return "the memory budget is spent"
            case Stop.DEADLINE:
                return "the time limit of the search has passed"
            case Stop.INTERRUPTED:
                return "the search was interrupted"
            case Stop.CONTRADICTED:
                return "the native search and the check of its answer contradict each other, a defect of fencepost"
            case _:
                assert_never(self)


class VerdictProof(msgspec.Struct, frozen=True, kw_only=True):
    """Why a verdict holds, so that the history alone suffices to check it (`checkers.confirm`).

    Operations are named by the indexes of their invocations. What `rows` are depends on the `kind`:

      order      all operations of `key` in an order that explains them; those of unknown outcome may be missing
      window     operations of `key` that no order explains, or `zone-pair`, which a monitor of unique values found;
                 `checkers.storage.register_proofs` says what `since`, `until`, `may` and `shown` are
      cycle      transactions of which each would have to come before the next, and the last before the first; `name`
                 is the anomaly, each of `links` says of one step what `checkers.transactions.proof.CycleStep` does
      circle     the same of commits: behind its `Step`, a link has the read that shows it and the length of the path of
                 steps that follows (`checkers.transactions.weak_isolation.CommitStep`)
      sub-history  operations of the object `name` (a semaphore's with its permits) that no order explains, those of
                 `may` among them or not; `checkers.objects.sub_history` says what `since` and `about` are; an
                 `order` of an object has `name` and `about`, too
      exhaustion all transactions of a small history, of which every order that `name` speaks of was tried
      finding    transactions that show the anomaly `name`; `links` holds the rest of
                 `checkers.transactions.proof.NativeAnomaly`
    """

    kind: str
    rows: tuple[int, ...]
    key: str | None = None
    may: tuple[int, ...] = ()
    since: int | None = None
    until: int | None = None
    shown: tuple[tuple[int, int], ...] = ()
    name: str = ""
    links: tuple[tuple[int | str, ...], ...] = ()
    about: tuple[str, ...] | None = None


class EdgeKind(StrEnum):
    """Why one end of an edge comes before the other: Adya's dependencies, and orders that were seen.

    `WW`: it was overwritten; `WR`: it was read; `RW`: what it read was overwritten later. `BEFORE`: the ends are
    versions of one key, not transactions.
    """

    WW = "ww"
    WR = "wr"
    RW = "rw"
    PROCESS = "process"
    REALTIME = "realtime"
    BEFORE = "before"


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a cycle: `source` has to come before `target`, because of `text`.

    The ends are transactions, by their numbers, or the names of versions of `key`. `shown_by` are other transactions
    that bear witness.
    """

    source: int | str
    target: int | str
    kind: EdgeKind
    text: str
    key: str = ""
    shown_by: tuple[int, ...] = ()

    @property
    def sentence(self) -> str:
        """The edge as a step of its witness."""
        if self.kind is EdgeKind.BEFORE:
            return f"{self.key}: {self.source} before {self.target}: {self.text}"
        return f"T{self.source} < T{self.target} ({self.kind}): {self.text}"


class Witness(msgspec.Struct, frozen=True, kw_only=True):
    """The few events that show a violation.

    `events` are indexes into the history, in order; `steps` say in words, one sentence each, why no order explains
    them. `from_ns`..`to_ns` is the stretch of time to draw. `proof` is the smallest one that was found. `edges` are the
    steps of a cycle, each from where the one before it ends; they stand in `steps` as sentences, too.
    """

    anomaly: str
    events: tuple[int, ...]
    steps: tuple[str, ...]
    from_ns: int
    to_ns: int
    key: str | None = None
    nodes: tuple[str, ...] = ()
    proof: VerdictProof | None = None
    edges: tuple[Edge, ...] = ()


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule by which a checker can find its guarantee violated, and how often it could have fired in this run.

    `chances` counts the operations (or claims, or entries) to which the rule was applied: each of them would have been
    a violation had the system answered wrongly (of coverage, that nothing violates, the run would be `unknown`).
    `lacks` says what the run lacked, where there was no chance.
    """

    name: str
    chances: int
    lacks: str = ""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """One checker's word on one guarantee.

    `cause` is set when the verdict is `unknown`, and None otherwise.
    `exposure` counts how often the guarantee was tested (None: the checker has no such count); 0 makes the verdict
    `unknown`. `anomalies` counts violations by name, `witnesses` shows the first few of them; `figures` are what else
    the checker counted and measured, as `harness.verdict.figures` says. An `unknown` that
    does not weigh keeps nothing from being valid, since another verdict on the guarantee answers for it. `proofs` are
    those that belong to no witness. `complete`: this checker finds every violation of the guarantee, so its `valid`
    contradicts any other's `invalid`. `confirmed`: its proofs hold by the history alone. `subject` is the layer of the
    nodes whose leaders it is about. `allowed` names anomalies that the guarantee allows: they are reported and count
    as no violation. `cut_short` says where and by what the run was cut short, `remarks` what a reader must know of it.

    `rules` are those by which the checker could have found a violation, where it says so; where none of them
    had a chance to fire, the verdict is `unknown`.
    """

    checker: str
    guarantee: str
    validity: Validity
    reason: str = ""
    cause: Cause | None = None
    exposure: Traced[int] | None = None
    exposure_of: str = ""
    rules: tuple[Rule, ...] = ()
    anomalies: dict[str, Traced[int]] = {}
    witnesses: tuple[Witness, ...] = ()
    figures: dict[str, Any] = {}
    weighs: bool = True
    proofs: tuple[VerdictProof, ...] = ()
    complete: bool = False
    confirmed: bool = False
    subject: str | None = None
    allowed: tuple[str, ...] = ()
    cut_short: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def tested(self) -> int | None:
        """How often the guarantee was tested; None where the checker has no such count."""
        return None if self.exposure is None else self.exposure.value

    @property
    def counts(self) -> dict[str, int]:
        """The number of violations by name."""
        return {name: number.value for name, number in self.anomalies.items()}

    @property
    def violating_rows(self) -> tuple[int, ...]:
        """The rows of all violations, in order."""
        return tuple(sorted({row for number in self.anomalies.values() for row in number.rows}))


def without_rows(verdict: Verdict) -> Verdict:
    """Return a verdict on what has no history: exposure and anomalies name no rows, all figures are plain."""
    return msgspec.structs.replace(
        verdict,
        exposure=None if verdict.exposure is None else Traced(verdict.exposure.value),
        anomalies={name: Traced(number) for name, number in verdict.counts.items()},
        figures={name: values(figure) for name, figure in verdict.figures.items()},
    )


def merge(validities: Iterable[Validity]) -> Validity:
    """Merge validities: `invalid` beats `unknown` beats `valid`.

    Returns:
        The gravest; `unknown` for none at all, since nothing was judged.
    """
    seen = set(validities)
    for validity in (Validity.INVALID, Validity.UNKNOWN, Validity.VALID):
        if validity in seen:
            return validity
    return Validity.UNKNOWN


def merge_verdicts(verdicts: Iterable[Verdict]) -> Validity:
    """Merge several verdicts on one guarantee.

    Returns:
        As `merge`, without those `unknown` that do not weigh because another verdict answers for them.
    """
    return merge(v.validity for v in verdicts if v.weighs or v.validity is not Validity.UNKNOWN)


def anomalies_of(verdicts: Iterable[Verdict], *, allowed: bool = True) -> dict[str, int]:
    """Count each anomaly over all these verdicts, the most frequent first; also those that the guarantees allow?"""
    totals: Counter[str] = Counter()
    for verdict in verdicts:
        totals.update({name: n for name, n in verdict.counts.items() if allowed or name not in verdict.allowed})
    return dict(totals.most_common())


def violations_of(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """Count as `anomalies_of` does, without those that the guarantees allow."""
    return anomalies_of(verdicts, allowed=False)


def in_words(counts: Mapping[str, int]) -> str:
    """Say how often each anomaly happened: "2 stale reads, 1 lost write"."""
    return ", ".join(anomaly_count(count, name) for name, count in counts.items())


class LeadershipBound(msgspec.Struct, frozen=True, kw_only=True):
    """How long a leader that is cut off from every majority may go on claiming, by the system's own rules.

    `bound_ns` is B of docs/explanation/design.md in nanoseconds of running time; None when the system promises nothing.
    `one_leader_per_epoch` says that samples keep all assumptions, so that two leaders in one epoch may be judged.
    `watch_ns` is how long after the last fault was healed a superseded leader may still be found. `clocks` are those
    of the node by which the system may measure the bound: its running time counts by the slowest of them.
    `superseded_acknowledges_nothing`: the maker rules out that a superseded leader acknowledges a change, and a node
    that leads passes no change on to another one. `layers_ns` are the bounds of subjects that have their own.
    """

    bound_ns: int | None
    source: str
    standing: Standing
    one_leader_per_epoch: bool
    watch_ns: int = 2_000_000_000
    clocks: tuple[Clock, ...] = (Clock.WALL, Clock.MONOTONIC)
    superseded_acknowledges_nothing: bool = False
    layers_ns: dict[str, int] = {}

    def of(self, subject: str) -> "LeadershipBound":
        """Return the bound for claims about this subject."""
        own = self.layers_ns.get(subject)
        return self if own is None else msgspec.structs.replace(self, bound_ns=own)

    @property
    def limit_ns(self) -> int | None:
        """Running time in a cut from which on a claim counts: half as much again as the bound, and a second."""
        return None if self.bound_ns is None else judged_limit_ns(self.bound_ns)


class ResumeBound(msgspec.Struct, frozen=True, kw_only=True):
    """How long after the last fault was healed a leader leads and clients are served, by the system's time-outs."""

    bound_ns: int
    source: str

    @property
    def limit_ns(self) -> int:
        """Time from which on nobody waits any longer: half as much again as the bound, and a second."""
        return judged_limit_ns(self.bound_ns)


class LeaseBound(msgspec.Struct, frozen=True, kw_only=True):
    """How long a lease may outlive its time to live, by the system's own rules, while the cluster is undisturbed.

    It ends after `ttls` times its time to live and `extra_ns`; after an election, or anything else that disturbs the
    cluster, both count again. `clocks` are those of the nodes by which the system may count: a lease is certainly alive
    while the fastest of them has not counted its time to live, and certainly over when the slowest has counted all.
    `ends_with_node`: it may end at once where the node that granted it is taken for gone.
    """

    extra_ns: int
    source: str
    ttls: int = 1
    ends_with_node: bool = False
    clocks: tuple[Clock, ...] = (Clock.WALL, Clock.MONOTONIC)


class SearchBudget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the linearizability search may spend on the whole history. `wall_s` is only a backstop."""

    steps: Positive = 200_000_000
    memory_bytes: Positive = 1_000_000_000
    wall_s: Annotated[float, msgspec.Meta(gt=0)] = 60.0


class Thresholds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Outside of these, a `valid` is a vacuous pass and becomes `unknown`; they stand in the plan.

    `away_share_max`: the share of the main phase for which servers that ended by themselves may be away.
    """

    ok_operations_min: NotNegative = 100
    effective_faults_min: NotNegative = 1
    exposure_min: NotNegative = 1
    stall_ns_max: NotNegative = 500_000_000
    away_share_max: Share = 0.1


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a checker must know beside the history: the plan and the system's statements, as data.

    `read_guarantee` names the guarantee of the reads of this run; `options` are the workload's, as in the plan.
    `required` are the guarantees that the plan names by `--require`. `subjects` are what beliefs are about, first the
    one that the system's leaders are known by. `planned_ns` is the planned length of the main phase,
    `failure` what ended the harness before the history was complete. `scheduled` counts the faults of the schedule that
    the plan names; None where it names none.
    """

    system: str
    workload: str
    nodes: tuple[str, ...]
    #: The nodes whose majority elects; empty: all of them.
    electorate: tuple[str, ...] = ()
    guarantees: tuple[Guarantee, ...]
    required: tuple[str, ...] = ()
    read_guarantee: str = "linearizable"
    nemesis: tuple[str, ...] = ()
    options: dict[str, Any] = {}
    leadership: LeadershipBound | None = None
    leases: LeaseBound | None = None
    sessions: SessionBound | None = None
    resume: ResumeBound | None = None
    #: The workload's functions that change nothing; None where nobody says which.
    effect_free: tuple[str, ...] | None = None
    subjects: tuple[str, ...] = ()
    vocabulary: Vocabulary = Vocabulary()
    budget: SearchBudget = SearchBudget()
    thresholds: Thresholds = Thresholds()
    planned_ns: int | None = None
    failure: str | None = None
    scheduled: int | None = None
    #: What runs of the system can meet; met or not, each has a row in the table of mechanisms.
    mechanisms: tuple[Mechanism, ...] = ()

    @property
    def voters(self) -> tuple[str, ...]:
        """The nodes whose majority elects a leader."""
        return self.electorate or self.nodes

    def guarantee(self, name: str) -> Guarantee | None:
        """The system's statement about `name`, if it makes one."""
        return next((g for g in self.guarantees if g.name == name), None)

    def decides(self, name: str) -> bool:
        """Whether a violation of `name` makes the run invalid: promised, or required by the plan."""
        guarantee = self.guarantee(name)
        return name in self.required or (guarantee is not None and guarantee.standing is Standing.PROMISED)
