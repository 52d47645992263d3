"""What superseded leaders of a topic partition were asked, and what became of it.

A request counts if it was invoked after a higher leader epoch had certainly begun, at a node that certainly still led,
or that answered it under its old epoch. It is sorted into:

  acknowledged   an append that a superseded leader acknowledged, and whether it survived in the final content
  fenced         an append that it refused
  read           a poll that it answered; stale if it lacks a record acknowledged under a newer leader; and whether the
                 records in it vanished

A superseded leader *acted* if what it acknowledged, or showed as committed, is gone.
"""

from bisect import bisect_left, bisect_right
from typing import Final

import msgspec

from fencepost.checkers.facts.acts import LOST
from fencepost.checkers.facts.evidence import once
from fencepost.checkers.facts.partition_reigns import reigns_of_partitions
from fencepost.checkers.facts.partitions import PartitionView, partitions
from fencepost.checkers.facts.reigns import Reign, Reigns
from fencepost.harness.history import History, Operation, Outcome, Value

VANISHED: Final = "vanished-read"


class Stale(msgspec.Struct, frozen=True, kw_only=True):
    """`read` lacks `missed`, which had been acknowledged under a newer leader `age_ns` before it was sent."""

    read: Operation
    missed: Operation
    age_ns: int


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """`operation` shows the anomaly: the final content lacks `value`, which it had acknowledged or read."""

    anomaly: str
    operation: Operation
    value: Value


class Deeds(msgspec.Struct, kw_only=True):
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
    acts: list[Act] = []

    def acted(self, anomaly: str) -> list[Operation]:
        """List the operations that show this anomaly."""
        return [act.operation for act in self.acts if act.anomaly == anomaly]


@once
def deeds_of_partitions(history: History) -> tuple[Deeds, ...]:
    """Return what the superseded leaders of all partitions did, partition by partition and reign by reign."""
    reigns = reigns_of_partitions(history)
    return tuple(deeds for view in partitions(history) for deeds in _deeds(history, view, reigns[view.key]))


def _deeds(history: History, view: PartitionView, reigns: Reigns) -> list[Deeds]:
    of_node: dict[str, list[Operation]] = {}
    for operation in sorted((*view.appends, *view.attempts), key=lambda o: o.invoked_ns):
        of_node.setdefault(operation.node, []).append(operation)
    newer = _NewerAppends(view)
    of_reigns = []
    for reign in reigns.reigns:
        begin, own = reign.superseded, of_node.get(reign.node, [])
        if begin is None:
            continue
        deeds = Deeds(view=view, reign=reign)
        end_ns = reign.over_ns if reign.over_ns is not None else history.end_ns
        first = bisect_right(own, begin.at_ns, key=lambda o: o.invoked_ns)
        last = bisect_right(own, max(end_ns, reign.last_ns), key=lambda o: o.invoked_ns)
        for operation in own[first:last]:
            _judge(deeds, view, operation, newer)
        of_reigns.append(deeds)
    return of_reigns


def _judge(deeds: Deeds, view: PartitionView, op: Operation, newer: "_NewerAppends") -> None:
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


def _judge_append(deeds: Deeds, view: PartitionView, append: Operation, *, served: bool) -> None:
    if append.type is Outcome.INFO:
        deeds.unknown.append(append)
    elif not served:
        deeds.fenced.append(append)
    else:
        deeds.acknowledged.append(append)
        if append.value in view.final_values:
            deeds.survived.append(append)
        elif view.scans and (view.complete or (append.position or 0) < view.covered_to):
            deeds.acts.append(Act(anomaly=LOST, operation=append, value=append.value))


def _judge_read(deeds: Deeds, view: PartitionView, read: Operation, newer: "_NewerAppends") -> None:
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
        deeds.acts.append(Act(anomaly=VANISHED, operation=read, value=gone[0].value))


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
