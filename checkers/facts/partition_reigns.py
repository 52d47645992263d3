"""Who led a topic partition and when, by its polls: each poll asks one node, and only a leader answers, with its epoch.

So a poll is a sample of who leads. Beliefs about the partition, where nodes were asked, are samples too. Epochs are
leader epochs; an epoch has begun when a reply or a record first shows it.
"""

from bisect import bisect_right
from typing import Final

import msgspec

from fencepost.checkers.facts.evidence import row
from fencepost.checkers.facts.once import once
from fencepost.checkers.facts.partitions import PartitionView, partitions
from fencepost.checkers.facts.reigns import Begin, Intervals, Reigns, Sample, ends_of, merged, window
from fencepost.harness.history import BeliefEvent, Claim, History, NodeChange, NodeEvent, Outcome

#: What a node says when it is asked for a partition that it does not lead.
NOT_LEADER: Final = frozenset({"not-leader-or-follower", "not-leader", "replica-not-available"})
#: A client takes a node's word that it does not lead for so long, without asking again.
_WORD_KEPT_NS: Final = {"not-leader": 200_000_000}


class NodeFacts:
    """When each node was proven stopped, which incarnation of it ran when, and what was said of each subject."""

    def __init__(self, history: History) -> None:
        self._history: Final = history
        self._starts: dict[str, list[tuple[int, int]]] = {}
        self.beliefs: Final[dict[str, list[BeliefEvent]]] = {}
        for event in history.of(NodeEvent):
            if event.change is NodeChange.STARTED:
                self._starts.setdefault(event.node, []).append((event.time_ns, event.incarnation))
        for belief in history.of(BeliefEvent):
            if belief.claims is not Claim.SILENT:
                self.beliefs.setdefault(belief.subject, []).append(belief)
        self.ends: Final = ends_of(history)
        self._stopped: dict[str, Intervals] = {}

    def stopped(self, node: str) -> Intervals:
        if node not in self._stopped:
            self._stopped[node] = merged(self._history.stopped(node))
        return self._stopped[node]

    def incarnation(self, node: str, at_ns: int) -> int:
        starts = self._starts.get(node, [])
        at = bisect_right(starts, at_ns, key=lambda start: start[0])
        return starts[at - 1][1] if at else 0


@once
def reigns_of_partitions(history: History) -> dict[str, Reigns]:
    """Return who led each partition and when, by the partition's key."""
    nodes = NodeFacts(history)
    return {view.key: reigns_of_partition(view, nodes) for view in partitions(history)}


def reigns_of_partition(view: PartitionView, nodes: NodeFacts) -> Reigns:
    """Return who led the partition and when, by its polls and by beliefs about it."""
    samples: list[Sample] = []
    impossible: list[int] = []
    for claim in (*_claims_of_polls(view, nodes), *_claims_of_beliefs(nodes.beliefs.get(view.key, []))):
        lo_ns, hi_ns = window(claim.asked_ns, claim.answered_ns, nodes.stopped(claim.node))
        if hi_ns < lo_ns:
            impossible.append(claim.index)
        else:
            samples.append(msgspec.structs.replace(claim, lo_ns=lo_ns, hi_ns=hi_ns))
    samples.sort(key=lambda s: (s.asked_ns, s.index))
    begins = [
        Begin(
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
        ends=nodes.ends,
        stopped={node: nodes.stopped(node) for node in {s.node for s in samples}},
        stamps_exact=True,
        impossible=tuple(impossible),
    )


def _claims_of_polls(view: PartitionView, nodes: NodeFacts) -> list[Sample]:
    samples: list[Sample] = []
    for poll in view.attempts:
        leads = poll.type is Outcome.OK
        if poll.ended_ns is None or not (leads or poll.error in NOT_LEADER):
            continue
        asked_ns = max(0, poll.invoked_ns - (0 if leads else _WORD_KEPT_NS.get(poll.error or "", 0)))
        samples.append(
            Sample(
                index=row(poll),
                node=poll.node,
                incarnation=nodes.incarnation(poll.node, poll.invoked_ns),
                claims=Claim.YES if leads else Claim.NO,
                asked_ns=asked_ns,
                answered_ns=poll.ended_ns,
                lo_ns=asked_ns,
                hi_ns=poll.ended_ns,
                epoch=poll.epoch,
                epoch_low=poll.epoch,
            )
        )
    return samples


def _claims_of_beliefs(beliefs: list[BeliefEvent]) -> list[Sample]:
    return [
        Sample(
            index=belief.index,
            node=belief.node,
            incarnation=belief.incarnation,
            claims=belief.claims,
            asked_ns=belief.asked_ns,
            answered_ns=belief.answered_ns,
            lo_ns=belief.asked_ns,
            hi_ns=belief.answered_ns,
            epoch=belief.epoch if belief.epoch_exact else None,
            epoch_low=belief.epoch,
        )
        for belief in beliefs
    ]
