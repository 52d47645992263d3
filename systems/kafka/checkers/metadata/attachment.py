"""How long a node without a vote stayed with a superseded controller, and how old its answers were meanwhile.

A broker passes on the question who leads the quorum, so its answer names the controller that it is attached to. While
that controller can commit nothing, the broker may not answer at all. So there are two figures for every epoch that
began: how long after that the broker certainly still named an older one, and when it first named the new or a later
one; the second includes silence.
"""

from collections.abc import Sequence
from typing import Final

from fencepost.checkers.derived.evidence import number_of
from fencepost.checkers.derived.reigns import EpochBegin, LeaderSample, Reign, Reigns, statements
from fencepost.checkers.violations.finding import duration
from fencepost.harness.history import Claim, History, Operation
from fencepost.harness.verdict import Facts
from fencepost.harness.verdict.figures import Figures, Traced, most, tally
from fencepost.systems.kafka.checkers.metadata.staleness import Staleness, age, missed
from fencepost.systems.kafka.figures import Attachment

#: A broker that follows within this time follows at once: it is asked 10 times a second, and answers take time.
AT_ONCE_NS: Final = 500_000_000


def attached_words(attachment: Attachment) -> str:
    """Return one sentence about an attachment for the report."""
    broker, leader, epoch = attachment.broker, attachment.leader, attachment.epoch.value
    if attachment.followed_ns is None:
        how = f"broker {broker} never followed in this run"
    else:
        how = f"broker {broker} followed after {duration(attachment.followed_ns.value)}"
    if attachment.named_ns.value:
        whom = f"{leader.value} (epoch {epoch})" if leader else f"epoch {epoch}"
        how += f", and named {whom} for at least {duration(attachment.named_ns.value)}"
    elif attachment.silent.value:
        how += f", and left {attachment.silent.value} questions unanswered"
    if stale := attachment.stale_describes.value:
        oldest = duration(attachment.stale_age_ns_max.value)
        least = "at least " if attachment.undecided_describes.value else ""
        how += f"; {least}{stale} configuration reads there were stale, the oldest by {oldest}"
    return f"Epoch {attachment.superseded_by.value} had begun: {how}."


def attachments(history: History, facts: Facts, reigns: Reigns, subject: str, stale: Staleness) -> list[Attachment]:
    """Return one attachment for each node without a vote and each epoch that began while it was asked, by time."""
    answers: dict[str, list[LeaderSample]] = {}
    for sample in statements(history):
        if sample.subject == subject and sample.node not in facts.voters:
            answers.setdefault(sample.node, []).append(sample)
    attached = []
    for broker, own in answers.items():
        of_broker = Staleness(
            stale=[s for s in stale.stale if s.read.node == broker],
            undecided=[read for read in stale.undecided if read.node == broker],
        )
        for begin in reigns.begins:
            one = _attachment(broker, own, begin, of_broker)
            if one is not None:
                attached.append(one)
    return sorted(attached, key=lambda a: (a.from_ns.value, a.broker))


def _attachment(broker: str, samples: list[LeaderSample], begin: EpochBegin, stale: Staleness) -> Attachment | None:
    """Return how long one broker stayed with an older epoch; None if it named no older epoch before."""
    epoch, from_ns = begin.epoch, begin.at_ns
    answers = sorted(
        (s for s in samples if s.claims is not Claim.SILENT and s.named is not None), key=lambda s: s.answered_ns
    )
    before = [s for s in answers if (s.named or 0) < epoch]
    if not before:
        return None
    follows = next((s for s in answers if (s.named or 0) >= epoch), None)
    until_ns = follows.answered_ns if follows is not None else max(s.answered_ns for s in samples)
    # Asked after the new epoch had begun, and still naming an older one.
    late = max((s for s in before if s.asked_ns > from_ns), key=lambda s: s.asked_ns, default=None)
    last = max((s for s in before if s.answered_ns <= until_ns), key=lambda s: s.answered_ns, default=before[0])
    own = [s for s in stale.stale if from_ns <= s.read.invoked_ns <= until_ns]
    undecided = [read for read in stale.undecided if from_ns <= read.invoked_ns <= until_ns]
    silent = [s for s in samples if s.claims is Claim.SILENT and from_ns < s.asked_ns < until_ns]
    return Attachment(
        broker=broker,
        epoch=Traced(last.named or 0, (last.index,)),
        leader=None if last.leader is None else Traced(last.leader, (last.index,)),
        superseded_by=Traced(epoch, (begin.event,)),
        from_ns=Traced(from_ns, (begin.event,)),
        named_ns=Traced(0) if late is None else Traced(late.asked_ns - from_ns, (begin.event, late.index)),
        followed_ns=None
        if follows is None
        else Traced(max(0, follows.answered_ns - from_ns), (begin.event, follows.index)),
        silent=tally(s.index for s in silent),
        stale_describes=number_of(s.read for s in own),
        undecided_describes=number_of(undecided),
        stale_age_ns_max=most(map(age, own)),
        missed=missed(own),
    )


def deposed_answers(reigns: Reigns, stale: Staleness, reads: Sequence[Operation]) -> list[Figures]:
    """Return what each superseded leader itself answered to reads of settings, until it led again.

    Undecided answers may be stale or not; the stale ones are a lower bound then.
    """
    answers = []
    for reign in reigns.reigns:
        begin = reign.superseded
        if begin is not None:
            again = [r.first_ns for r in reigns.reigns if r.node == reign.node and r.first_ns > begin.at_ns]
            until_ns = min(again, default=None)
            own = [read for read in reads if read.node == reign.node and _between(read, begin.at_ns, until_ns)]
            if own:
                answers.append(_deposed(reign, begin, own, stale))
    return answers


def _between(read: Operation, from_ns: int, until_ns: int | None) -> bool:
    return read.invoked_ns > from_ns and (until_ns is None or read.invoked_ns < until_ns)


def _deposed(reign: Reign, begin: EpochBegin, own: Sequence[Operation], stale: Staleness) -> Figures:
    indexes = {read.invoke_index for read in own}
    late = [s for s in stale.stale if s.read.invoke_index in indexes]
    undecided = [read for read in stale.undecided if read.invoke_index in indexes]
    return {
        "node": reign.node,
        "epoch": Traced(reign.epoch, (reign.samples[-1].index,)),
        "superseded_by": Traced(begin.epoch, (begin.event,)),
        "from_ns": Traced(begin.at_ns, (begin.event,)),
        "describes": number_of(own),
        "stale_describes": number_of(s.read for s in late),
        "undecided_describes": number_of(undecided),
        "stale_age_ns_max": most(map(age, late)),
        "missed": missed(late),
    }
