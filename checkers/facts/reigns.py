"""Samples, reigns, and when an epoch has certainly begun: the base of every verdict about leaders.

A *sample* is one answer of one node. Its window [lo, hi] is the time from question to answer, less the intervals in
which the node was proven not to run; the answer describes some instant of it. `Begin` is the earliest proof that an
epoch has begun; by it, every lower epoch is superseded.

Assumptions: a reply shows role and epoch as they were at one instant of the window; all times are of one clock; epochs
are ordered, each with at most one leader, who leads in one contiguous interval per incarnation.

Where a source breaks the first (etcd's Status: its term is that of the last applied entry, its leader is read
separately), its epoch is a lower bound, and the epoch comes from the node's own log ("became leader at term N"):
  - A line read at t was written at or before t, and not before t - delay (`logged_elections.log_delay_ns`). It is
    written before the node can claim.
  - So the claim of a sample is of the last line read by lo, or of a line read in (lo, hi + delay]. Only when these are
    one epoch, and not below the sample's own lower bound, is the epoch of the sample known. Else it is not: taking too
    low an epoch would make a false claim.

Proofs that an epoch has begun: a sample that claims it (a lower bound serves too, since an entry of that term was
applied); the completion of an ok operation stamped with it (a stamp is the term or epoch of an entry that the node
applied); a log line of it, by the time it was read.

A node's own log may say that it ceased to lead ("Resigned"). By the time that the line was read the reign was over, and
a later claim is of a later epoch. The line was not there when the log was read before, so until then the node led.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import msgspec

from fencepost.checkers.facts.evidence import once
from fencepost.checkers.facts.intervals import Intervals
from fencepost.checkers.facts.logged_elections import log_delay_ns, logged_elections
from fencepost.checkers.facts.positions import PARTITION_STAMPED
from fencepost.checkers.facts.resignations import NO_RESIGNATIONS, Resignations, resignations_of
from fencepost.checkers.facts.servers import ends_of, stopped
from fencepost.harness.history import (
    BeliefEvent,
    Claim,
    EpochEvent,
    History,
    LogEvent,
    Operation,
    Outcome,
)
from fencepost.harness.verdict import Facts

#: The subject whose epochs operations are stamped with, when beliefs are about several.
_STAMPED_SUBJECT: Final = "leader"


class Sample(msgspec.Struct, frozen=True, kw_only=True):
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


class Begin(msgspec.Struct, frozen=True, kw_only=True):
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
    samples: tuple[Sample, ...]
    first_ns: int
    last_ns: int
    superseded: Begin | None
    over_ns: int | None
    resigned: LogEvent | None = None

    @property
    def until_ns(self) -> int:
        """Until when it led at least: its last claim, or the moment before its log says that it resigned."""
        return self.last_ns if self.resigned is None else max(self.last_ns, self.resigned.asked_ns)

    @property
    def claimed(self) -> tuple[Sample, ...]:
        """List the samples that certainly claim this epoch after a higher one had begun."""
        begin = self.superseded
        return () if begin is None else tuple(s for s in self.samples if begin.at_ns < s.lo_ns)


class Reigns:
    """Everything known about who led what, for one subject."""

    def __init__(
        self,
        samples: list[Sample],
        begins: list[Begin],
        *,
        ends: dict[tuple[str, int], int],
        resignations: Resignations = NO_RESIGNATIONS,
        stopped: dict[str, Intervals],
        stamps_exact: bool,
        impossible: Sequence[Sample],
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

    def superseded(self, epoch: int) -> Begin | None:
        """Return the earliest proof that an epoch above `epoch` has begun; None if there is none."""
        return self._earliest[bisect_right(self._epochs, epoch)]

    def _build(self, ends: dict[tuple[str, int], int]) -> list[Reign]:
        claims: dict[tuple[str, int, int], list[Sample]] = {}
        denials: dict[tuple[str, int], list[Sample]] = {}
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
        own: list[Sample],
        denials: list[Sample],
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


def sample_of(belief: BeliefEvent, stopped: Intervals, lines: Sequence[EpochEvent] = (), delay_ns: int = 0) -> Sample:
    """Read an answer by its node's stops and the elections in its log."""
    lo_ns, hi_ns = window(belief.asked_ns, belief.answered_ns, stopped)
    if belief.claims is Claim.SILENT:
        hi_ns = max(lo_ns, hi_ns)
    epoch, low = _attribute(belief, lo_ns, hi_ns, lines, delay_ns)
    return Sample(
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
    history: History, samples: list[Sample], lines: dict[tuple[str, int], list[EpochEvent]], *, stamped: bool
) -> list[Begin]:
    """Return the earliest proof of each epoch, ordered by epoch."""
    earliest: dict[int, Begin] = {}

    def offer(epoch: int, at_ns: int, event: int, how: str) -> None:
        if epoch not in earliest or at_ns < earliest[epoch].at_ns:
            earliest[epoch] = Begin(epoch=epoch, at_ns=at_ns, event=event, how=how)

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


def _earliest_from(begins: list[Begin]) -> list[Begin | None]:
    """Return, for each index of `begins`, the earliest proof from there to the end; a last entry is None."""
    earliest: list[Begin | None] = [None]
    for begin in reversed(begins):
        best = earliest[-1]
        earliest.append(begin if best is None or begin.at_ns < best.at_ns else best)
    return earliest[::-1]
