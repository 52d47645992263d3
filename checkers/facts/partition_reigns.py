"""Who led a topic partition and when, by its polls: each poll asks one node, and only a leader answers, with its epoch.

So a poll is a sample of who leads. Beliefs about the partition, where nodes were asked, are samples too. Epochs are
leader epochs; an epoch has begun when a reply or a record first shows it.
"""

from collections.abc import Iterator
from typing import Final

from fencepost.checkers.facts.evidence import once, row
from fencepost.checkers.facts.partitions import PartitionView, partitions
from fencepost.checkers.facts.reigns import Begin, Reigns, Sample, sample_of, window
from fencepost.checkers.facts.servers import Incarnations, ends_of, stopped
from fencepost.harness.history import BeliefEvent, Claim, History, Outcome

#: What a node says when it is asked for a partition that it does not lead.
NOT_LEADER: Final = frozenset({"not-leader-or-follower", "not-leader", "replica-not-available"})
#: A client takes a node's word that it does not lead for so long, without asking again.
_WORD_KEPT_NS: Final = {"not-leader": 200_000_000}


@once
def reigns_of_partitions(history: History) -> dict[str, Reigns]:
    """Return who led each partition and when, by the partition's key."""
    incarnations = Incarnations(history)
    beliefs: dict[str, list[Sample]] = {}
    for belief in history.of(BeliefEvent):
        if belief.claims is not Claim.SILENT:
            beliefs.setdefault(belief.subject, []).append(sample_of(belief, stopped(history, belief.node)))
    return {
        view.key: _reigns(history, view, [*_claims_of_polls(view, history, incarnations), *beliefs.get(view.key, [])])
        for view in partitions(history)
    }


def _reigns(history: History, view: PartitionView, answers: list[Sample]) -> Reigns:
    """Return who led the partition and when, by its polls and by beliefs about it."""
    samples = sorted((s for s in answers if s.possible), key=lambda s: (s.asked_ns, s.index))
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
        ends=ends_of(history),
        stopped={node: stopped(history, node) for node in {s.node for s in samples}},
        stamps_exact=True,
        impossible=[s for s in answers if not s.possible],
    )


def _claims_of_polls(view: PartitionView, history: History, incarnations: Incarnations) -> Iterator[Sample]:
    for poll in view.attempts:
        leads = poll.type is Outcome.OK
        if poll.ended_ns is None or not (leads or poll.error in NOT_LEADER):
            continue
        asked_ns = max(0, poll.invoked_ns - (0 if leads else _WORD_KEPT_NS.get(poll.error or "", 0)))
        lo_ns, hi_ns = window(asked_ns, poll.ended_ns, stopped(history, poll.node))
        yield Sample(
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
