"""What nodes said about who leads: every answer, about whatever subject, in the order of the history."""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

from fencepost.checkers.facts.evidence import once
from fencepost.checkers.facts.reigns import Sample, reigns_of, subjects
from fencepost.harness.history import Claim, History


@once
def statements(history: History) -> tuple[Sample, ...]:
    """List all answers. What a node said stands, even where the time of its answer contradicts a proof."""
    reigns = [reigns_of(history, subject) for subject in subjects(history)]
    answers = [sample for one in reigns for sample in (*one.samples, *one.impossible)]
    return tuple(sorted(answers, key=lambda sample: sample.index))


def exact_claims(history: History) -> dict[tuple[str, str, int], list[Sample]]:
    """Map (subject, node, incarnation) to the claims that name their epoch exactly, in the order of the answers."""
    claims: dict[tuple[str, str, int], list[Sample]] = {}
    for sample in statements(history):
        if sample.claims is Claim.YES and sample.named is not None and sample.named_exactly:
            claims.setdefault((sample.subject, sample.node, sample.incarnation), []).append(sample)
    return claims


def epoch_subject(history: History) -> str | None:
    """Return the first subject about which some answer names an epoch; None if no answer does."""
    named = {sample.subject for sample in statements(history) if sample.named is not None}
    return min(named, default=None)


class NamedEpochs:
    """The epochs that are named in these answers, whether the nodes led themselves or not."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._of: Final[dict[str, list[Sample]]] = {}
        #: When an answer first named each epoch.
        self.first_ns: Final[dict[int, int]] = {}
        for sample in samples:
            if sample.named is not None:
                self._of.setdefault(sample.node, []).append(sample)
                self.first_ns.setdefault(sample.named, sample.answered_ns)

    def last(self, node: str, by_ns: int) -> Sample | None:
        """Return the last answer of a node by then that named an epoch."""
        own = self._of.get(node, [])
        place = bisect_right(own, by_ns, key=lambda sample: sample.answered_ns)
        return own[place - 1] if place else None
