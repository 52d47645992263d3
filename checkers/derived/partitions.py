"""One topic partition in a history: its records, who led it, and what superseded leaders were asked.

Records: who appended what, which record was read where, and what stands at the end. All reads are believed. Offsets may
have gaps (control records, compaction), so "next to each other" means next in the final content, never one higher. The
final content is what the scans read after healing, joined from offset 0 on as far as they reach without a gap;
`complete` when that is their highest high watermark.

Reigns: each poll asks one node, and only a leader answers, with its epoch. So a poll is a sample of who leads. Beliefs
about the partition, where nodes were asked, are samples too. Epochs are leader epochs; an epoch has begun when a reply
or a record first shows it.

A request counts if it was invoked after a higher leader epoch had certainly begun, at a node that certainly still led,
or that answered it under its old epoch. It is sorted into:

  acknowledged   an append that a superseded leader acknowledged, and whether it survived in the final content
  fenced         an append that it refused
  read           a poll that it answered; stale if it lacks a record acknowledged under a newer leader; and whether the
                 records in it vanished

A superseded leader *acted* if what it acknowledged, or showed as committed, is gone.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

import msgspec

from fencepost.checkers.derived.acts import LOST
from fencepost.checkers.derived.evidence import grouped, once, row
from fencepost.checkers.derived.positions import LOG_READS, by_name
from fencepost.checkers.derived.reigns import EpochBegin, LeaderSample, Reign, Reigns, sample_of, window
from fencepost.checkers.derived.servers import Incarnations, ends_of, stopped
from fencepost.harness.history import BeliefEvent, Claim, History, Operation, Outcome, Value

_APPEND: Final = "append"
_SCAN: Final = "scan"


class PartitionRow(msgspec.Struct, frozen=True, gc=False):
    """One record in a reply."""

    offset: int
    value: int
    epoch: int | None


class _Begun(msgspec.Struct, frozen=True, kw_only=True):
    """By `at_ns` the partition's `epoch` had certainly begun; `proof` shows it."""

    epoch: int
    at_ns: int
    proof: Operation


class PartitionView:
    """All appends, polls and scans of one partition. Cost of making it: O(records read)."""

    def __init__(self, history: History, key: str, operations: list[Operation]) -> None:
        healed = history.healed_ns
        self.key: Final = key
        self.first: Final = operations[0]
        self.appends: Final = [o for o in operations if o.f == _APPEND]
        self.acknowledged: Final = [o for o in self.appends if o.type is Outcome.OK and o.position is not None]
        self.attempts: Final = [o for o in operations if o.f in LOG_READS]
        self.reads: Final = [o for o in self.attempts if o.type is Outcome.OK]
        self.scans: Final = [o for o in self.reads if o.f == _SCAN and healed is not None and o.invoked_ns >= healed]
        self.rows: Final = {o.invoke_index: rows_of(o) for o in self.reads}
        #: The first read that showed a value at an offset, and the record's epoch.
        self.shown: Final[dict[tuple[int, int], Operation]] = {}
        self.epochs: Final[dict[tuple[int, int], int]] = {}
        self.offsets_of: Final[dict[int, list[int]]] = {}
        self.values_at: Final[dict[int, list[int]]] = {}
        for read in self.reads:
            self._remember(read)
        self.final: dict[int, PartitionRow] = {}
        self.final_values: dict[int, int] = {}
        self.covered_to = 0
        self.complete = False
        self._join_scans()
        self.final_order: Final = sorted(self.final)
        self.begun: Final = self._begun()
        #: When its leader last changed.
        self.changed_ns: Final = self.begun[-1].at_ns if len(self.begun) > 1 else -1

    def epoch_of(self, append: Operation) -> int | None:
        """Return the epoch in which an acknowledged append was made: the record's own, else that of the reply."""
        if append.position is not None and (append.position, append.value) in self.epochs:
            return self.epochs[append.position, append.value]
        return append.epoch

    def scan_over(self, offset: int) -> Operation | None:
        """Return the scan that passed over `offset`, or that ended before it at the end of the log."""
        best: Operation | None = None
        for scan in self.scans:
            if scan.value <= offset:
                best = scan if best is None or scan.value >= best.value else best
        return best

    def _remember(self, read: Operation) -> None:
        for record in self.rows[read.invoke_index]:
            at = (record.offset, record.value)
            if at not in self.shown:
                self.shown[at] = read
                self.offsets_of.setdefault(record.value, []).append(record.offset)
                self.values_at.setdefault(record.offset, []).append(record.value)
            if record.epoch is not None:
                self.epochs.setdefault(at, record.epoch)

    def _join_scans(self) -> None:
        end = max((o.position or 0 for o in self.scans), default=0)
        for scan in sorted(self.scans, key=lambda o: (o.value, o.invoke_index)):
            if scan.value > self.covered_to:
                break
            for record in self.rows[scan.invoke_index]:
                self.final.setdefault(record.offset, record)
                self.final_values.setdefault(record.value, record.offset)
                self.covered_to = max(self.covered_to, record.offset + 1)
        self.complete = bool(self.scans) and self.covered_to >= end

    def _begun(self) -> list[_Begun]:
        """Return the earliest proof of each epoch that is higher than all before it, in the order of time."""
        proofs: list[tuple[int, int, Operation]] = []
        seen: set[int] = set()
        answered = [o for o in (*self.reads, *self.acknowledged) if o.completed_ns is not None]
        for operation in sorted(answered, key=lambda o: o.completed_ns or 0):
            for epoch in self._epochs_in(operation):
                if epoch not in seen:
                    seen.add(epoch)
                    proofs.append((operation.completed_ns or 0, epoch, operation))
        rising: list[_Begun] = []
        for at_ns, epoch, proof in proofs:
            if not rising or epoch > rising[-1].epoch:
                rising.append(_Begun(epoch=epoch, at_ns=at_ns, proof=proof))
        return rising

    def _epochs_in(self, operation: Operation) -> Iterator[int]:
        if operation.epoch is not None:
            yield operation.epoch
        last: int | None = None
        for record in self.rows.get(operation.invoke_index, ()) if operation.f in LOG_READS else ():
            if record.epoch is not None and record.epoch != last:
                last = record.epoch
                yield record.epoch


def rows_of(read: Operation) -> list[PartitionRow]:
    """Return the records of a reply; a row without an epoch has the epoch of the row before it."""
    rows: list[PartitionRow] = []
    epoch: int | None = None
    for offset, value, *stamped in read.result or ():
        epoch = stamped[0] if stamped else epoch
        rows.append(PartitionRow(offset, value, epoch))
    return rows


@once
def partitions(history: History) -> list[PartitionView]:
    """List every partition that was appended to or read, by number."""
    own = by_name(history, {_APPEND, *LOG_READS})
    return [PartitionView(history, key, own[key]) for key in sorted(own, key=lambda k: (len(k), k))]


#: What a node says when it is asked for a partition that it does not lead.
NOT_LEADER: Final = frozenset({"not-leader-or-follower", "not-leader", "replica-not-available"})
#: A client takes a node's word that it does not lead for so long, without asking again.
_WORD_KEPT_NS: Final = {"not-leader": 200_000_000}


@once
def reigns_of_partitions(history: History) -> dict[str, Reigns]:
    """Return who led each partition and when, by the partition's key."""
    views = {view.key: view for view in partitions(history)}
    incarnations = Incarnations(history)
    answers = {key: list(_claims_of_polls(view, history, incarnations)) for key, view in views.items()}
    for belief in history.of(BeliefEvent):
        if belief.claims is not Claim.SILENT and belief.subject in views:
            answers[belief.subject].append(sample_of(belief, stopped(history, belief.node)))
    return {key: _reigns(history, view, answers[key]) for key, view in views.items()}


def _reigns(history: History, view: PartitionView, answers: list[LeaderSample]) -> Reigns:
    """Return who led the partition and when, by its polls and by beliefs about it."""
    samples = sorted((s for s in answers if s.possible), key=lambda s: (s.asked_ns, s.index))
    begins = [
        EpochBegin(
            epoch=begun.epoch,
            at_ns=begun.at_ns,
            event=row(begun.proof),
            how=f"{begun.proof.node} answered a {begun.proof.f} that shows it",
        )
        for begun in view.begun
    ]
    return Reigns(
        samples,
        begins,
        ends=ends_of(history),
        stopped={node: stopped(history, node) for node in {s.node for s in samples}},
        stamps_exact=True,
        impossible=[s for s in answers if not s.possible],
    )


def _claims_of_polls(view: PartitionView, history: History, incarnations: Incarnations) -> Iterator[LeaderSample]:
    for poll in view.attempts:
        leads = poll.type is Outcome.OK
        if poll.ended_ns is None or not (leads or poll.error in NOT_LEADER):
            continue
        asked_ns = max(0, poll.invoked_ns - (0 if leads else _WORD_KEPT_NS.get(poll.error or "", 0)))
        lo_ns, hi_ns = window(asked_ns, poll.ended_ns, stopped(history, poll.node))
        yield LeaderSample(
            index=row(poll),
            subject=view.key,
            node=poll.node,
            incarnation=incarnations.at(poll.node, poll.invoked_ns),
            claims=Claim.YES if leads else Claim.NO,
            asked_ns=asked_ns,
            answered_ns=poll.ended_ns,
            lo_ns=lo_ns,
            hi_ns=hi_ns,
            epoch=poll.epoch,
            epoch_low=poll.epoch,
        )


VANISHED: Final = "vanished-read"


class Stale(msgspec.Struct, frozen=True, kw_only=True):
    """`read` lacks `missed`, which had been acknowledged under a newer leader `age_ns` before it was sent."""

    read: Operation
    missed: Operation
    age_ns: int


class PartitionAct(msgspec.Struct, frozen=True, kw_only=True):
    """`operation` shows the anomaly: the final content lacks `value`, which it had acknowledged or read."""

    anomaly: str
    operation: Operation
    value: Value


class PartitionDeeds(msgspec.Struct, kw_only=True):
    """The requests that one superseded leader of a partition got, and what it did with them."""

    view: PartitionView
    reign: Reign
    requests: list[Operation] = []
    acknowledged: list[Operation] = []
    survived: list[Operation] = []
    fenced: list[Operation] = []
    unknown: list[Operation] = []
    reads: list[Operation] = []
    stale: list[Stale] = []
    acts: list[PartitionAct] = []

    def acted(self, anomaly: str) -> list[Operation]:
        """List the operations that show this anomaly."""
        return [act.operation for act in self.acts if act.anomaly == anomaly]


@once
def deeds_of_partitions(history: History) -> tuple[PartitionDeeds, ...]:
    """Return what the superseded leaders of all partitions did, partition by partition and reign by reign."""
    reigns = reigns_of_partitions(history)
    return tuple(deeds for view in partitions(history) for deeds in _deeds(history, view, reigns[view.key]))


def _deeds(history: History, view: PartitionView, reigns: Reigns) -> list[PartitionDeeds]:
    of_node = grouped(sorted((*view.appends, *view.attempts), key=lambda o: o.invoked_ns), lambda o: o.node)
    newer = _NewerAppends(view)
    of_reigns = []
    for reign in reigns.reigns:
        begin, own = reign.superseded, of_node.get(reign.node, [])
        if begin is None:
            continue
        deeds = PartitionDeeds(view=view, reign=reign)
        end_ns = reign.over_ns if reign.over_ns is not None else history.end_ns
        first = bisect_right(own, begin.at_ns, key=lambda o: o.invoked_ns)
        last = bisect_right(own, max(end_ns, reign.last_ns), key=lambda o: o.invoked_ns)
        for operation in own[first:last]:
            _judge(deeds, view, operation, newer)
        of_reigns.append(deeds)
    return of_reigns


def _judge(deeds: PartitionDeeds, view: PartitionView, op: Operation, newer: "_NewerAppends") -> None:
    reign = deeds.reign
    in_reign = op.invoked_ns <= reign.last_ns
    epoch = view.epoch_of(op) if op.f == "append" else op.epoch
    done_ns = op.completed_ns
    served = op.type is Outcome.OK and done_ns is not None
    # A stamp says it exactly; without one, a later claim of the same epoch does.
    served = served and (epoch == reign.epoch or (epoch is None and done_ns is not None and done_ns < reign.last_ns))
    if not (in_reign or served) or (op.type is Outcome.OK and not served):
        return
    deeds.requests.append(op)
    if op.f == "append":
        _judge_append(deeds, view, op, served=served)
    elif served:
        _judge_read(deeds, view, op, newer)


def _judge_append(deeds: PartitionDeeds, view: PartitionView, append: Operation, *, served: bool) -> None:
    if append.type is Outcome.INFO:
        deeds.unknown.append(append)
    elif not served:
        deeds.fenced.append(append)
    else:
        deeds.acknowledged.append(append)
        if append.value in view.final_values:
            deeds.survived.append(append)
        elif view.scans and (view.complete or (append.position or 0) < view.covered_to):
            deeds.acts.append(PartitionAct(anomaly=LOST, operation=append, value=append.value))


def _judge_read(deeds: PartitionDeeds, view: PartitionView, read: Operation, newer: "_NewerAppends") -> None:
    deeds.reads.append(read)
    missed = newer.missed(deeds.reign.epoch, read)
    if missed is not None:
        deeds.stale.append(Stale(read=read, missed=missed, age_ns=read.invoked_ns - (missed.completed_ns or 0)))
    gone = [
        own
        for own in view.rows[read.invoke_index]
        if own.offset < view.covered_to and own.value not in view.final_values
    ]
    if gone:
        deeds.acts.append(PartitionAct(anomaly=VANISHED, operation=read, value=gone[0].value))


class _NewerAppends:
    """The acknowledged appends above an epoch, by offset, with the earliest completion from each offset on."""

    def __init__(self, view: PartitionView) -> None:
        self._view = view
        self._tables: dict[int, tuple[list[int], list[Operation]]] = {}

    def missed(self, epoch: int, read: Operation) -> Operation | None:
        """Return the first record behind `read`'s high watermark that was acknowledged before `read` was sent."""
        if read.position is None:
            return None
        if epoch not in self._tables:
            self._tables[epoch] = self._table(epoch)
        offsets, earliest = self._tables[epoch]
        at = bisect_left(offsets, read.position)
        if at == len(offsets) or (earliest[at].completed_ns or 0) >= read.invoked_ns:
            return None
        return earliest[at]

    def _table(self, epoch: int) -> tuple[list[int], list[Operation]]:
        newer = sorted((a for a in self._view.acknowledged if self._above(a, epoch)), key=lambda a: a.position or 0)
        earliest: list[Operation] = []
        for append in reversed(newer):
            best = earliest[-1] if earliest else append
            earliest.append(min(append, best, key=lambda a: a.completed_ns or 0))
        return [append.position or 0 for append in newer], earliest[::-1]

    def _above(self, append: Operation, epoch: int) -> bool:
        own = self._view.epoch_of(append)
        return own is not None and own > epoch
