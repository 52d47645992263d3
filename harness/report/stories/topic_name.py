"""The story of false answers about names: who called a used name free, and whom that node followed then."""

from typing import Final

from fencepost.harness.report.facts.case import ReportCase
from fencepost.harness.report.facts.figures import Story, some
from fencepost.harness.report.words.evidence import Traced, rows_of
from fencepost.harness.report.words.wording import clock, count, length
from fencepost.harness.verdict.figure_rows import Denied
from fencepost.harness.verdict.figures import ClaimFigures, RejoinFigures, TopicNameFigures
from fencepost.harness.verdict.reading import figures_of

_CHECKER: Final = Denied.checker


def denials(case: ReportCase, word: str) -> list[Story]:
    """Tell one story for each node that gave such answers (`denied` of the topic-names checker)."""
    return [_story(case, word, row) for f in figures_of(case.verdicts, TopicNameFigures) for row in f.by_node]


def _story(case: ReportCase, word: str, denied: Denied) -> Story:
    node, number = denied.node, denied.denials
    answers = some(number, "answer", "answers", count(number))
    clauses = [
        Traced(f"{answers} of {node} called a name free although it was in use", rows_of(denied, "denials")),
        Traced(f", for up to {length(denied.late_ns_max)} when the request left", rows_of(denied, "late_ns_max")),
        Traced(f"the first request left at {clock(denied.from_ns)}", rows_of(denied, "from_ns")),
        Traced(f", the last answer came at {clock(denied.to_ns)}", rows_of(denied, "to_ns")),
        *_led(case, word, denied),
        *_followed(case, word, denied),
    ]
    return Story(checker=_CHECKER, node=node, from_ns=denied.from_ns, to_ns=denied.to_ns, clauses=tuple(clauses))


def _led(case: ReportCase, word: str, denied: Denied) -> list[Traced]:
    """Say whether the node was a superseded leader in that time."""
    for span in (s for f in figures_of(case.verdicts, ClaimFigures) for s in f.claimed):
        if span.node == denied.node and span.from_ns <= denied.to_ns and denied.from_ns <= span.to_ns:
            clause = f"{word} {span.superseded_by} had begun at {clock(span.from_ns)}"
            claimed = f", and {span.node} still claimed {word} {span.epoch}"
            return [Traced(clause, rows_of(span, "from_ns")), Traced(claimed, rows_of(span, "samples"))]
    return []


def _followed(case: ReportCase, word: str, denied: Denied) -> list[Traced]:
    """Say whether the node was a broker that did not yet follow the new leader."""
    for row in (a for f in figures_of(case.verdicts, RejoinFigures) for a in f.attachments):
        if row.broker != denied.node or not row.from_ns <= denied.to_ns:
            continue
        if denied.from_ns > row.from_ns + row.length_ns:
            continue
        clause = f"{word} {row.superseded_by} had begun at {clock(row.from_ns)}"
        clauses = [Traced(clause, rows_of(row, "from_ns"))]
        if row.named_ns:
            whom = f"{row.leader or 'the old leader'} ({word} {row.epoch})"
            named = f", and {denied.node} named {whom} for at least {length(row.named_ns)} more"
            clauses.append(Traced(named, rows_of(row, "named_ns")))
        if row.followed_ns is not None:
            followed = f", and followed after {length(row.followed_ns)}"
            clauses.append(Traced(followed, rows_of(row, "followed_ns")))
        return clauses
    return []
