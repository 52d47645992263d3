"""Samples, reigns, and when an epoch has certainly begun: the base of every verdict about leaders.

A *sample* is one answer of one node. Its window [lo, hi] is the time from question to answer, less the intervals in
which the node was proven not to run; the answer describes some instant of it. `EpochBegin` is the earliest proof that
an epoch has begun; by it, every lower epoch is superseded.

Assumptions: a reply shows role and epoch as they were at one instant of the window; all times are of one clock; epochs
are ordered, each with at most one leader, who leads in one contiguous interval per incarnation.

Where a source breaks the first (etcd's Status: its term is that of the last applied entry, its leader is read
separately), its epoch is a lower bound, and the epoch comes from the node's own log ("became leader at term N"):
  - A line read at t was written at or before t, and not before t - delay (`log_delay_ns`). It is
    written before the node can claim.
  - So the claim of a sample is of the last line read by lo, or of a line read in (lo, hi + delay]. Only when these are
    one epoch, and not below the sample's own lower bound, is the epoch of the sample known. Else it is not: taking too
    low an epoch would make a false claim.

Proofs that an epoch has begun: a sample that claims it (a lower bound serves too, since an entry of that term was
applied); the completion of an ok operation stamped with it (a stamp is the term or epoch of an entry that the node
applied); a log line of it, by the time it was read.

A node's own log may say that it ceased to lead ("Resigned"). By the time that the line was read the reign was over, and
a later claim is of a later epoch. The line was not there when the log was read before, so until then the node led.

Which nodes led an epoch, by their claims and by the lines of their own logs: where a node's log has lines about its
reigns, a claim counts only when the log names that epoch too. A node that is about to lead may, for a moment, say that
it leads while its state still stands in the epoch before.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fencepost.checkers.derived.clocks import worst_sample
from fencepost.checkers.derived.evidence import Intervals, grouped, once
from fencepost.checkers.derived.positions import PARTITION_STAMPED
from fencepost.checkers.derived.servers import ends_of, stopped
from fencepost.harness.history import (
    BeliefEvent,
    Claim,
    EpochEvent,
    History,
    LogEvent,
    Logged,
    Operation,
    Outcome,
)
from fencepost.harness.verdict import Facts
from fencepost.harness.verdict.fact_tables import CLAIMS, EPOCHS, REIGNS

#: Nodes by name and incarnation.
_Which = tuple[str, int]


class Resignations:
    """The lines about one subject, each with the epoch that ended: its own, else the last that the log had begun."""

    def __init__(self, resigned: Sequence[LogEvent], lines: Mapping[_Which, Sequence[EpochEvent]]) -> None:
        self._of: Final[dict[_Which, list[tuple[int, LogEvent]]]] = {}
        for event in resigned:
            which = event.node, event.incarnation
            epoch = event.epoch if event.epoch is not None else _begun(lines.get(which, ()), event)
            # A node that did not lead may say so, too.
            if epoch is not None:
                self._of.setdefault(which, []).append((epoch, event))

    def of(self, node: str, incarnation: int, epoch: int, since_ns: int) -> LogEvent | None:
        """The first line by which the reign of `epoch`, which had begun at `since_ns`, was over."""
        own = self._of.get((node, incarnation), ())
        return next((line for ended, line in own if ended == epoch and line.time_ns > since_ns), None)

    def left(self, lines: Sequence[EpochEvent], belief: BeliefEvent) -> list[EpochEvent]:
        """The elections in the log of an answer's node that it can be of: none that was over before it was asked."""
        over = {e for e, line in self._of.get((belief.node, belief.incarnation), ()) if line.time_ns <= belief.asked_ns}
        return [line for line in lines if line.epoch not in over] if over else list(lines)


#: For leaders of which no log tells.
NO_RESIGNATIONS: Final = Resignations((), {})


def resignations_of(history: History, subject: str, lines: Mapping[_Which, Sequence[EpochEvent]]) -> Resignations:
    """Read the lines about `subject`; `lines` are the elections in each log."""
    logged = history.of(LogEvent)
    return Resignations([e for e in logged if e.change is Logged.RESIGNED and e.subject == subject], lines)


def _begun(lines: Sequence[EpochEvent], line: LogEvent) -> int | None:
    """The last epoch that the same log had begun before this line."""
    return next((begun.epoch for begun in reversed(lines) if begun.index < line.index), None)


#: How long after it was written a log line may be read, besides the harness's own lateness.
_LOG_DELAY_NS: Final = 1_000_000_000


class LoggedElections:
    """The lines of one history about reigns that began."""

    def __init__(self, history: History) -> None:
        self.lines: Final[list[EpochEvent]] = history.of(EpochEvent)
        #: The lines in the log of each incarnation of a node.
        self.by_server: Final = grouped(self.lines, lambda line: (line.node, line.incarnation))
        self._delay_ns: Final = log_delay_ns(history)

    def own_epoch(self, node: str, index: int) -> int | None:
        """Return the last epoch that the node's own log had named before the event `index`; None if it named none."""
        own = [line.epoch for line in self.lines if line.node == node and line.index < index]
        return own[-1] if own else None

    def had_begun(self, epoch: int, read_ns: int) -> bool:
        """Whether this epoch or a later one had certainly begun when a line was written that was read at `read_ns`."""
        return any(line.epoch >= epoch and line.time_ns <= read_ns - self._delay_ns for line in self.lines)

    def rows(self, node: str, epoch: int) -> tuple[int, ...]:
        """Return the lines of the node's own log that tell of its election."""
        return tuple(line.index for line in self.lines if (line.node, line.epoch) == (node, epoch))


@once
def logged_elections(history: History) -> LoggedElections:
    """Read the lines once for each history."""
    return LoggedElections(history)


@once
def log_delay_ns(history: History) -> int:
    """How late at most a line of a log was read in this run."""
    worst = worst_sample(history)
    return _LOG_DELAY_NS + (0 if worst is None else worst.loop_lag_ns_max)


#: The subject whose epochs operations are stamped with, when beliefs are about several.
_STAMPED_SUBJECT: Final = "leader"


class LeaderSample(msgspec.Struct, frozen=True, kw_only=True):
    """One answer. `epoch` is None when not certain; `epoch_low` is the least that a claim can be of.

    `named` is the epoch that the answer itself names, exactly or as a lower bound; `leader` is whom it names.
    """

    index: int
    subject: str
    node: str
    incarnation: int
    claims: Claim
    asked_ns: int
    answered_ns: int
    lo_ns: int
    hi_ns: int
    epoch: int | None
    epoch_low: int | None
    named: int | None = None
    named_exactly: bool = False
    leader: str | None = None

    @property
    def possible(self) -> bool:
        """Whether its node may have run at some time between the question and the answer."""
        return self.lo_ns <= self.hi_ns


class EpochBegin(msgspec.Struct, frozen=True, kw_only=True):
    """By `at_ns`, `epoch` had certainly begun; `event` proves it, and `how` says so in words."""

    epoch: int
    at_ns: int
    event: int
    how: str


class Reign(msgspec.Struct, frozen=True, kw_only=True):
    """A node's claims to one epoch in one incarnation, in the order of their questions.

    `superseded` is the earliest proof of a higher epoch. The node certainly led from before `first_ns` (the earliest
    hi) until after `last_ns` (the latest lo). `over_ns` is when it was certainly no longer leading, or None. `resigned`
    is the line of its own log that ends the reign.
    """

    node: str
    incarnation: int
    epoch: int
    samples: tuple[LeaderSample, ...]
    first_ns: int
    last_ns: int
    superseded: EpochBegin | None
    over_ns: int | None
    resigned: LogEvent | None = None

    @property
    def until_ns(self) -> int:
        """Until when it led at least: its last claim, or the moment before its log says that it resigned."""
        return self.last_ns if self.resigned is None else max(self.last_ns, self.resigned.asked_ns)

    @property
    def claimed(self) -> tuple[LeaderSample, ...]:
        """List the samples that certainly claim this epoch after a higher one had begun."""
        begin = self.superseded
        return () if begin is None else tuple(s for s in self.samples if begin.at_ns < s.lo_ns)


class Reigns:
    """Everything known about who led what, for one subject."""

    def __init__(
        self,
        samples: list[LeaderSample],
        begins: list[EpochBegin],
        *,
        ends: dict[tuple[str, int], int],
        resignations: Resignations = NO_RESIGNATIONS,
        stopped: dict[str, Intervals],
        stamps_exact: bool,
        impossible: Sequence[LeaderSample],
    ) -> None:
        self.samples: Final = samples
        self.begins: Final = begins
        #: Whether a reply's epoch is exactly that of the node's state: so where its answers about itself are exact.
        self.stamps_exact: Final = stamps_exact
        #: When each node was proven not to run.
        self.stopped: Final = stopped
        #: Answers that came wholly while the node was proven stopped: they contradict the proof, so nothing is derived
        #: from them.
        self.impossible: Final = impossible
        self._epochs = [b.epoch for b in begins]
        self._earliest = _earliest_from(begins)
        self._resignations = resignations
        self.reigns: Final = self._build(ends)

    def superseded(self, epoch: int) -> EpochBegin | None:
        """Return the earliest proof that an epoch above `epoch` has begun; None if there is none."""
        return self._earliest[bisect_right(self._epochs, epoch)]

    def _build(self, ends: dict[tuple[str, int], int]) -> list[Reign]:
        claims: dict[tuple[str, int, int], list[LeaderSample]] = {}
        denials: dict[tuple[str, int], list[LeaderSample]] = {}
        for sample in self.samples:
            if sample.claims is Claim.YES and sample.epoch is not None:
                claims.setdefault((sample.node, sample.incarnation, sample.epoch), []).append(sample)
            elif sample.claims is Claim.NO:
                denials.setdefault((sample.node, sample.incarnation), []).append(sample)
        return [
            self._reign(node, incarnation, epoch, own, denials.get((node, incarnation), []), ends)
            for (node, incarnation, epoch), own in sorted(claims.items(), key=lambda item: item[1][0].asked_ns)
        ]

    def _reign(
        self,
        node: str,
        incarnation: int,
        epoch: int,
        own: list[LeaderSample],
        denials: list[LeaderSample],
        ends: dict[tuple[str, int], int],
    ) -> Reign:
        first_ns = min(s.hi_ns for s in own)
        over = [s.hi_ns for s in denials if s.lo_ns > first_ns]
        if (node, incarnation) in ends:
            over.append(ends[node, incarnation])
        resigned = self._resignations.of(node, incarnation, epoch, first_ns)
        if resigned is not None:
            over.append(resigned.time_ns)
        return Reign(
            node=node,
            incarnation=incarnation,
            epoch=epoch,
            samples=tuple(own),
            first_ns=first_ns,
            last_ns=max(s.lo_ns for s in own),
            superseded=self.superseded(epoch),
            over_ns=min(over, default=None),
            resigned=resigned,
        )


def subjects(history: History) -> list[str]:
    """List the subjects that nodes were asked about, such as "leader"; only "leader" if no node was asked."""
    return sorted({e.subject for e in history.of(BeliefEvent)}) or [_STAMPED_SUBJECT]


def first_subject(history: History, facts: Facts) -> str:
    """Return the subject that the system's leaders are known by, among those that nodes were asked about."""
    known = subjects(history)
    return next((subject for subject in facts.subjects if subject in known), known[0])


@once
def reigns_of(history: History, subject: str) -> Reigns:
    """Read the beliefs about `subject`, the logs and the stamps of a history. Cost: O(events)."""
    beliefs = [e for e in history.of(BeliefEvent) if e.subject == subject]
    lines = logged_elections(history).by_server
    resignations = resignations_of(history, subject, lines)
    delay_ns = log_delay_ns(history)
    stops = {node: stopped(history, node) for node in {b.node for b in beliefs}}
    answers = [
        sample_of(b, stops[b.node], resignations.left(lines.get((b.node, b.incarnation), []), b), delay_ns)
        for b in beliefs
    ]
    samples = sorted((s for s in answers if s.possible), key=lambda s: (s.asked_ns, s.index))
    stamped = subject == _STAMPED_SUBJECT or len(subjects(history)) == 1
    begins = _begins(history, samples, lines, stamped=stamped)
    exactness = {b.epoch_exact for b in beliefs if b.claims is Claim.YES}
    return Reigns(
        samples,
        begins,
        ends=ends_of(history),
        resignations=resignations,
        stopped=stops,
        stamps_exact=stamped and exactness == {True},
        impossible=[s for s in answers if not s.possible],
    )


def leader_of(reigns: Reigns, operation: Operation) -> Reign | None:
    """The reign that `operation`'s node held, or had held last, when it answered; None when it never led before."""
    at_ns = operation.completed_ns if operation.completed_ns is not None else operation.invoked_ns
    # In the order of questions `lo_ns` never decreases.
    held = [r for r in reigns.reigns if r.node == operation.node and r.samples[0].lo_ns <= at_ns]
    return max(held, key=lambda r: r.epoch, default=None)


def sample_of(
    belief: BeliefEvent, stopped: Intervals, lines: Sequence[EpochEvent] = (), delay_ns: int = 0
) -> LeaderSample:
    """Read an answer by its node's stops and the elections in its log."""
    lo_ns, hi_ns = window(belief.asked_ns, belief.answered_ns, stopped)
    if belief.claims is Claim.SILENT:
        hi_ns = max(lo_ns, hi_ns)
    epoch, low = _attribute(belief, lo_ns, hi_ns, lines, delay_ns)
    return LeaderSample(
        index=belief.index,
        subject=belief.subject,
        node=belief.node,
        incarnation=belief.incarnation,
        claims=belief.claims,
        asked_ns=belief.asked_ns,
        answered_ns=belief.answered_ns,
        lo_ns=lo_ns,
        hi_ns=hi_ns,
        epoch=epoch,
        epoch_low=low,
        named=belief.epoch,
        named_exactly=belief.epoch_exact,
        leader=belief.leader,
    )


def window(asked_ns: int, answered_ns: int, stopped: Intervals) -> tuple[int, int]:
    """[lo, hi]; hi below lo when the node never ran in between. In the order of questions lo never decreases."""
    lo_ns, hi_ns = asked_ns, answered_ns
    for start, end in stopped:
        if start <= lo_ns < end:
            lo_ns = end
    for start, end in reversed(stopped):
        if start < hi_ns <= end:
            hi_ns = start
    return lo_ns, hi_ns


def _attribute(
    belief: BeliefEvent, lo_ns: int, hi_ns: int, lines: Sequence[EpochEvent], delay_ns: int
) -> tuple[int | None, int | None]:
    """The epoch of a claim and its lower bound, as the module's docstring argues."""
    if belief.claims is not Claim.YES or belief.epoch_exact:
        return belief.epoch, belief.epoch
    certain = [line.epoch for line in lines if line.time_ns <= lo_ns]
    candidates = {line.epoch for line in lines if lo_ns < line.time_ns <= hi_ns + delay_ns}
    candidates |= set(certain[-1:])
    low = belief.epoch if belief.epoch is not None else (certain[-1] if certain else None)
    if len(candidates) != 1:
        return None, low
    epoch = candidates.pop()
    return (epoch, epoch) if belief.epoch is None or belief.epoch <= epoch else (None, low)


def _begins(
    history: History, samples: list[LeaderSample], lines: dict[tuple[str, int], list[EpochEvent]], *, stamped: bool
) -> list[EpochBegin]:
    """Return the earliest proof of each epoch, ordered by epoch."""
    earliest: dict[int, EpochBegin] = {}

    def offer(epoch: int, at_ns: int, event: int, how: str) -> None:
        if epoch not in earliest or at_ns < earliest[epoch].at_ns:
            earliest[epoch] = EpochBegin(epoch=epoch, at_ns=at_ns, event=event, how=how)

    for sample in samples:
        if sample.claims is Claim.YES and sample.epoch_low is not None:
            offer(sample.epoch_low, sample.answered_ns, sample.index, f"{sample.node} said that it led it")
    for own in lines.values():
        for line in own:
            offer(line.epoch, line.time_ns, line.index, f"{line.node}'s log said that it became its leader")
    if stamped:
        seen: set[int] = set()
        done = [
            o
            for o in history.operations
            if o.type is Outcome.OK and o.epoch is not None and o.f not in PARTITION_STAMPED
        ]
        for op in sorted(done, key=lambda o: o.completed_ns or 0):
            if op.epoch is not None and op.epoch not in seen and op.completed_ns is not None:
                seen.add(op.epoch)
                event = op.complete_index if op.complete_index is not None else op.invoke_index
                offer(op.epoch, op.completed_ns, event, f"{op.node} answered a {op.f} stamped with it")
    return [earliest[epoch] for epoch in sorted(earliest)]


def _earliest_from(begins: list[EpochBegin]) -> list[EpochBegin | None]:
    """Return, for each index of `begins`, the earliest proof from there to the end; a last entry is None."""
    earliest: list[EpochBegin | None] = [None]
    for begin in reversed(begins):
        best = earliest[-1]
        earliest.append(begin if best is None or begin.at_ns < best.at_ns else best)
    return earliest[::-1]


class FirstClaim(msgspec.Struct, frozen=True):
    """The first event that says so: a line of the node's own log if `logged`, else its answer."""

    event: int
    logged: bool


def leaders_by_epoch(history: History, reigns: Reigns) -> dict[int, dict[str, FirstClaim]]:
    """Map each epoch to the nodes that led it, each with what says so."""
    elections = logged_elections(history)
    leaders: dict[int, dict[str, FirstClaim]] = {}
    for line in elections.lines:
        leaders.setdefault(line.epoch, {}).setdefault(line.node, FirstClaim(line.index, logged=True))
    for reign in reigns.reigns:
        own = elections.by_server.get((reign.node, reign.incarnation))
        if own is None or any(line.epoch == reign.epoch for line in own):
            by_node = leaders.setdefault(reign.epoch, {})
            by_node.setdefault(reign.node, FirstClaim(reign.samples[0].index, logged=False))
    return leaders


#: Who led what, by subject.
BySubject = Mapping[str, Reigns]


def claims_table(reigns: BySubject) -> Any:
    """Lay out every answer "I lead" (-> CLAIMS)."""
    return CLAIMS.of([s for one in reigns.values() for s in one.samples if s.claims is Claim.YES])


def epochs_table(reigns: BySubject) -> Any:
    """Lay out when each epoch had certainly begun (-> EPOCHS)."""
    own = [(subject, begin) for subject, one in reigns.items() for begin in one.begins]
    return EPOCHS.of_rows(
        [{"subject": s, "epoch": b.epoch, "begun_ns": b.at_ns, "event": b.event, "how": b.how} for s, b in own]
    )


def reigns_table(reigns: BySubject) -> Any:
    """Lay out who led each epoch, and from when to when (-> REIGNS)."""
    return REIGNS.of_rows([_reign(subject, reign) for subject, one in reigns.items() for reign in one.reigns])


def _reign(subject: str, reign: Reign) -> dict[str, Any]:
    begin = reign.superseded
    return {
        "subject": subject,
        "node": reign.node,
        "incarnation": reign.incarnation,
        "epoch": reign.epoch,
        "first_ns": reign.first_ns,
        "last_ns": reign.last_ns,
        "over_ns": reign.over_ns,
        "samples": len(reign.samples),
        "superseded_by": None if begin is None else begin.epoch,
        "superseded_ns": None if begin is None else begin.at_ns,
        "claimed_samples": len(reign.claimed),
    }


@once
def statements(history: History) -> tuple[LeaderSample, ...]:
    """List all answers. What a node said stands, even where the time of its answer contradicts a proof."""
    reigns = [reigns_of(history, subject) for subject in subjects(history)]
    answers = [sample for one in reigns for sample in (*one.samples, *one.impossible)]
    return tuple(sorted(answers, key=lambda sample: sample.index))


def exact_claims(history: History) -> dict[tuple[str, str, int], list[LeaderSample]]:
    """Map (subject, node, incarnation) to the claims that name their epoch exactly, in the order of the answers."""
    claims = (s for s in statements(history) if s.claims is Claim.YES and s.named is not None and s.named_exactly)
    return grouped(claims, lambda s: (s.subject, s.node, s.incarnation))


def epoch_subject(history: History) -> str | None:
    """Return the first subject about which some answer names an epoch; None if no answer does."""
    named = {sample.subject for sample in statements(history) if sample.named is not None}
    return min(named, default=None)


class NamedEpochs:
    """The epochs that are named in these answers, whether the nodes led themselves or not."""

    def __init__(self, samples: Iterable[LeaderSample]) -> None:
        self._of: Final[dict[str, list[LeaderSample]]] = {}
        #: When an answer first named each epoch.
        self.first_ns: Final[dict[int, int]] = {}
        for sample in samples:
            if sample.named is not None:
                self._of.setdefault(sample.node, []).append(sample)
                self.first_ns.setdefault(sample.named, sample.answered_ns)

    def last(self, node: str, by_ns: int) -> LeaderSample | None:
        """Return the last answer of a node by then that named an epoch."""
        own = self._of.get(node, [])
        place = bisect_right(own, by_ns, key=lambda sample: sample.answered_ns)
        return own[place - 1] if place else None
