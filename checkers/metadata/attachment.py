"""How long a node without a vote stayed with a superseded controller, and how old its answers were meanwhile.

A broker that is asked who leads the quorum hands the question on, so its answer names whom it is attached to. While the
controller that it is attached to can commit nothing, it may not answer at all. So two figures are given for every
epoch that began: how long after that it certainly still named an older one, and when it first named the new one (or a
later one), silence included.
"""

from typing import Final

from fencepost.checkers.facts.evidence import row, rows
from fencepost.checkers.facts.reigns import Begin, Reigns, subjects
from fencepost.checkers.findings.words import duration
from fencepost.checkers.metadata.staleness import Staleness
from fencepost.harness.history import BeliefEvent, Claim, History
from fencepost.harness.verdict import Facts
from fencepost.harness.verdict.figures import Attachment

#: Shorter than this a broker is told to follow at once: questions come 10 times a second, and answers take their time.
AT_ONCE_NS: Final = 500_000_000


def attached_words(attachment: Attachment) -> str:
    """One sentence for the report."""
    broker, leader, epoch = attachment.broker, attachment.leader, attachment.epoch
    if attachment.followed_ns is None:
        how = f"broker {broker} never followed in this run"
    else:
        how = f"broker {broker} followed after {duration(attachment.followed_ns)}"
    if attachment.named_ns:
        whom = f"{leader} (epoch {epoch})" if leader else f"epoch {epoch}"
        how += f", and named {whom} for at least {duration(attachment.named_ns)}"
    elif attachment.silent:
        how += f", and left {attachment.silent} questions unanswered"
    if attachment.stale_describes:
        oldest = duration(attachment.stale_age_ns_max)
        least = "at least " if attachment.undecided_describes else ""
        how += f"; {least}{attachment.stale_describes} configuration reads there were stale, the oldest by {oldest}"
    return f"Epoch {attachment.superseded_by} had begun: {how}."


def epoch_subject(history: History) -> str | None:
    """The subject whose claims name their epochs; None when none does."""
    told = {e.subject for e in history.events if type(e) is BeliefEvent and e.epoch is not None}
    return next((subject for subject in subjects(history) if subject in told), None)


def attachments(history: History, facts: Facts, reigns: Reigns, subject: str, stale: Staleness) -> list[Attachment]:
    """One for each node without a vote and each epoch that began while it was asked; in the order of time."""
    asked: dict[str, list[BeliefEvent]] = {}
    for event in history.events:
        if type(event) is BeliefEvent and event.subject == subject and event.node not in facts.voters:
            asked.setdefault(event.node, []).append(event)
    found = []
    for broker, beliefs in asked.items():
        of_broker = Staleness(
            stale=[s for s in stale.stale if s.read.node == broker],
            undecided=[read for read in stale.undecided if read.node == broker],
        )
        for begin in reigns.begins:
            one = _attachment(broker, beliefs, begin, of_broker)
            if one is not None:
                found.append(one)
    return sorted(found, key=lambda a: (a.from_ns, a.broker))


def _attachment(broker: str, beliefs: list[BeliefEvent], begin: Begin, stale: Staleness) -> Attachment | None:
    """None when the broker named no older epoch before: there was nothing to be attached to."""
    epoch, from_ns = begin.epoch, begin.at_ns
    answers = sorted(
        (b for b in beliefs if b.claims is not Claim.SILENT and b.epoch is not None), key=lambda b: b.answered_ns
    )
    before = [b for b in answers if (b.epoch or 0) < epoch]
    if not before:
        return None
    follows = next((b for b in answers if (b.epoch or 0) >= epoch), None)
    until_ns = follows.answered_ns if follows is not None else max(b.answered_ns for b in beliefs)
    # Asked after the new epoch had begun, and still naming an older one.
    late = max((b for b in before if b.asked_ns > from_ns), key=lambda b: b.asked_ns, default=None)
    last = max((b for b in before if b.answered_ns <= until_ns), key=lambda b: b.answered_ns, default=before[0])
    own = [s for s in stale.stale if from_ns <= s.read.invoked_ns <= until_ns]
    undecided = [read for read in stale.undecided if from_ns <= read.invoked_ns <= until_ns]
    oldest = max(own, key=lambda s: s.age_ns, default=None)
    silent = [b for b in beliefs if b.claims is Claim.SILENT and from_ns < b.asked_ns < until_ns]
    return Attachment(
        broker=broker,
        epoch=last.epoch or 0,
        leader=last.leader,
        superseded_by=epoch,
        from_ns=from_ns,
        named_ns=0 if late is None else late.asked_ns - from_ns,
        followed_ns=None if follows is None else max(0, follows.answered_ns - from_ns),
        silent=len(silent),
        stale_describes=len(own),
        undecided_describes=len(undecided),
        stale_age_ns_max=0 if oldest is None else oldest.age_ns,
        events={
            "epoch": (last.index,),
            "leader": (last.index,),
            "superseded_by": (begin.event,),
            "from_ns": (begin.event,),
            "named_ns": () if late is None else (begin.event, late.index),
            "followed_ns": () if follows is None else (begin.event, follows.index),
            "silent": tuple(b.index for b in silent),
            "stale_describes": rows(s.read for s in own),
            "undecided_describes": rows(undecided),
            "stale_age_ns_max": () if oldest is None else (row(oldest.missed), oldest.read.invoke_index),
            "missed": tuple(dict.fromkeys(rows(s.missed for s in own))),
        },
    )
