"""False answers about names: who said that a name is free which had been taken, and whom it followed then."""

from typing import Final

from fencepost.harness.report.facts.case import ReportCase
from fencepost.harness.report.facts.figures import Story, figures, some
from fencepost.harness.report.words.evidence import Traced, rows_of
from fencepost.harness.report.words.wording import clock, count, length
from fencepost.harness.verdict.figures import Attachment, Denied, rows_among

_CHECKER: Final = Denied.checker


def denials(case: ReportCase, word: str) -> list[Story]:
    """One for each node that gave such answers (`denied` of topic-names)."""
    return [_story(case, word, row) for row in rows_among(case.verdicts, Denied)]


def _story(case: ReportCase, word: str, denied: Denied) -> Story:
    node, number = denied.node, denied.denials
    answers = some(number, "answer", "answers", count(number))
    clauses = [
        Traced(f"{answers} of {node} said that a name is free which had been taken", rows_of(denied, "denials")),
        Traced(f", asked up to {length(denied.late_ns_max)} after it was taken", rows_of(denied, "late_ns_max")),
        Traced(f", the first of them asked at {clock(denied.from_ns)}", rows_of(denied, "from_ns")),
        Traced(f", the last given at {clock(denied.to_ns)}", rows_of(denied, "to_ns")),
        *_led(case, word, denied),
        *_followed(case, word, denied),
    ]
    return Story(checker=_CHECKER, node=node, from_ns=denied.from_ns, to_ns=denied.to_ns, clauses=tuple(clauses))


def _led(case: ReportCase, word: str, denied: Denied) -> list[Traced]:
    """Whether the node was a superseded leader meanwhile."""
    for span in figures(case, "leadership", "claimed"):
        if span["node"] == denied.node and span["from_ns"] <= denied.to_ns and denied.from_ns <= span["to_ns"]:
            said = f"{word} {span['superseded_by']} had begun at {clock(span['from_ns'])}"
            claimed = f", and {span['node']} still claimed {word} {span['epoch']}"
            return [Traced(said, rows_of(span, "from_ns")), Traced(claimed, rows_of(span, "samples"))]
    return []


def _followed(case: ReportCase, word: str, denied: Denied) -> list[Traced]:
    """Whether the node was a broker that had not yet followed the new leader."""
    for row in rows_among(case.verdicts, Attachment):
        if row.broker != denied.node or not row.from_ns <= denied.to_ns:
            continue
        if denied.from_ns > row.from_ns + row.length_ns:
            continue
        said = f"{word} {row.superseded_by} had begun at {clock(row.from_ns)}"
        clauses = [Traced(said, rows_of(row, "from_ns"))]
        if row.named_ns:
            whom = f"{row.leader or 'the old leader'} ({word} {row.epoch})"
            named = f", and {denied.node} named {whom} for at least {length(row.named_ns)} more"
            clauses.append(Traced(named, rows_of(row, "named_ns")))
        if row.followed_ns is not None:
            followed = f", and followed after {length(row.followed_ns)}"
            clauses.append(Traced(followed, rows_of(row, "followed_ns")))
        return clauses
    return []
