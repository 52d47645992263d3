"""The story of a deposed leader: who led, who led next, how long it went on claiming, who stayed with it.

The figures are `claimed`, `cuts` and `claims_in_cuts` of the leadership checker, and `attachments` and `deposed` of the
rejoin checker.
"""

from typing import Final

from fencepost.harness.report.facts.case import ReportCase
from fencepost.harness.report.facts.figures import Story, some
from fencepost.harness.report.facts.lanes import Lanes, LaneState
from fencepost.harness.report.words.evidence import Traced, rows_of
from fencepost.harness.report.words.wording import clock, count, length
from fencepost.harness.verdict.figure_rows import Attachment, ClaimedSpan, Cut, CutClaim
from fencepost.harness.verdict.figures import ClaimFigures, RejoinFigures, SelfFencingFigures
from fencepost.harness.verdict.reading import figures_of

_CHECKER: Final = "leadership"
#: A story leaves out a shorter stop of a node, and a shorter time until a broker follows.
_SHORT_NS: Final = 500_000_000


def reigns(case: ReportCase, lanes: Lanes, word: str) -> list[Story]:
    """Tell one story for each reign that outlived its epoch; all layers of the node share the story."""
    if not lanes.others:
        # With one subject the tables hold everything that a story would say.
        return []
    claims: dict[tuple[str, int, int], dict[str, ClaimedSpan]] = {}
    for verdict in case.verdicts:
        for span in verdict.figures.claimed if isinstance(verdict.figures, ClaimFigures) else ():
            of_reign = claims.setdefault((span.node, span.incarnation, span.epoch), {})
            of_reign[verdict.subject or lanes.subject] = span
    return [_story(case, lanes, word, spans) for spans in claims.values()]


def _story(case: ReportCase, lanes: Lanes, word: str, spans: dict[str, ClaimedSpan]) -> Story:
    subject = lanes.subject if lanes.subject in spans else next(iter(spans))
    span = spans[subject]
    cut = _cut(case, span)
    clauses = [
        Traced(f"{span.node} led {word} {span.epoch}", rows_of(span, "epoch")),
        _superseded(lanes, word, span, cut),
        *_claimed(span, "" if subject == lanes.subject else case.facts.vocabulary.subject(subject)),
        *_bound(case, subject, span, cut),
        *_resigned(span, case.facts.vocabulary.subject(subject) if len(spans) > 1 else ""),
    ]
    for other in lanes.every:
        if other.subject != subject:
            clauses += _other(case.facts.vocabulary.subject(other.subject), other, spans.get(other.subject), span)
    clauses += _answered(case, span)
    for attachment in (a for f in figures_of(case.verdicts, RejoinFigures) for a in f.attachments):
        clauses += _stayed(attachment, span, lanes)
    return Story(checker=_CHECKER, node=span.node, from_ns=span.from_ns, to_ns=span.to_ns, clauses=tuple(clauses))


def _superseded(lanes: Lanes, word: str, span: ClaimedSpan, cut: Cut | None) -> Traced:
    since, rows = "", rows_of(span, "superseded_by")[:1]
    if cut is not None and cut.from_ns <= span.from_ns:
        since = f", {length(span.from_ns - cut.from_ns)} after it was cut off,"
        rows = (*rows_of(cut, "from_ns"), *rows)
    leader = lanes.led_by(span.superseded_by)
    if leader is None:
        return Traced(f"from {clock(span.from_ns)}{since} {word} {span.superseded_by} had begun", rows)
    return Traced(f"from {clock(span.from_ns)}{since} {leader} led {word} {span.superseded_by}", rows)


def _claimed(span: ClaimedSpan, layer: str) -> list[Traced]:
    """Say for how long the node claimed; `layer` is empty for the layer that claimed longest."""
    where = f" by its {layer}" if layer else ""
    clause = f"{span.node} went on claiming{where} for at least {length(span.length_ns)}"
    clauses = [Traced(clause, rows_of(span, "length_ns"))]
    if span.length_ns - span.running_ns >= _SHORT_NS:
        clauses.append(Traced(f", {length(span.running_ns)} of them running", rows_of(span, "running_ns")))
    return clauses


def _resigned(span: ClaimedSpan, layer: str) -> list[Traced]:
    """Say when it fenced itself, by its own log."""
    if span.resigned_ns is None:
        return []
    whose = f" in its {layer}" if layer else ""
    after = length(span.resigned_ns - span.from_ns)
    clause = f"by its own log it resigned{whose} at {clock(span.resigned_ns)}, {after} after it was superseded"
    clauses = [Traced(clause, rows_of(span, "resigned_ns"))]
    if span.reverted_to is not None:
        back = f" and went back to offset {span.reverted_to} of the metadata log, the last stable one"
        clauses.append(Traced(back, rows_of(span, "reverted_to")))
    return clauses


def _cut(case: ReportCase, span: ClaimedSpan) -> Cut | None:
    """Return the cut from every majority that overlaps the claim, as the self-fencing checker computed it."""
    about = (
        cut
        for cut in (c for f in figures_of(case.verdicts, SelfFencingFigures) for c in f.cuts)
        if cut.node == span.node and cut.from_ns <= span.to_ns and cut.to_ns >= span.from_ns
    )
    return next(about, None)


def _bound(case: ReportCase, subject: str, span: ClaimedSpan, cut: Cut | None) -> list[Traced]:
    """Compare the claim with the bound, which counts running time since the cut; say nothing without a claim in it."""
    bound = None if case.facts.leadership is None else case.facts.leadership.of(subject)
    claim = None if cut is None else _claim_in(case, subject, span, cut)
    if bound is None or bound.bound_ns is None or cut is None or claim is None:
        return []
    rows = rows_of(claim, "ran_ns")
    after = []
    if cut.to_ns < span.to_ns:
        late = f", and until {length(span.to_ns - cut.to_ns)} after the cut was healed"
        after = [Traced(late, (*rows_of(cut, "to_ns"), *rows_of(span, "to_ns")))]
    if claim.ran_ns <= bound.bound_ns:
        return [Traced(f", within the {length(bound.bound_ns)} after which it must resign", rows), *after]
    judged_ns = bound.limit_ns or 0
    if claim.ran_ns > judged_ns:
        return [Traced(f", beyond the {length(bound.bound_ns)} after which it should have resigned", rows), *after]
    return [
        Traced(f", until {length(claim.ran_ns)} after it was cut off", rows),
        Traced(
            f"it should have resigned after {length(bound.bound_ns)}, but a violation counts only from "
            f"{length(judged_ns)} on",
            (),
        ),
    ]


def _claim_in(case: ReportCase, subject: str, span: ClaimedSpan, cut: Cut) -> CutClaim | None:
    """Return the last claim of this reign in the cut; None if it claimed nothing then."""
    of_subject = (v for v in case.verdicts if v.subject in (None, subject))
    claims = (claim for f in figures_of(of_subject, SelfFencingFigures) for claim in f.claims_in_cuts)
    which = span.node, span.incarnation, span.epoch, cut.from_ns
    return next((c for c in claims if (c.node, c.incarnation, c.epoch, c.cut_from_ns) == which), None)


def _other(layer: str, other: Lanes, claimed: ClaimedSpan | None, span: ClaimedSpan) -> list[Traced]:
    """Say what another layer of the same node claimed in the same time."""
    its = f"its {layer}"
    if claimed is not None:
        going_on = Traced(f"{its} claimed for at least {length(claimed.length_ns)}", rows_of(claimed, "length_ns"))
        return [going_on, *_resigned(claimed, layer)]
    meanwhile = [s for s in other.by_node.get(span.node, ()) if s.to_ns > span.from_ns and s.from_ns < span.to_ns]
    states = {s.state for s in meanwhile}
    rows = [i for s in meanwhile for i in s.events]
    if not states or LaneState.LEADER in states:
        return []
    if states == {LaneState.SILENT}:
        return [Traced(f"{its} answered nothing in that time", rows)]
    return [Traced(f"{its} claimed nothing in that time", rows)]


def _answered(case: ReportCase, span: ClaimedSpan) -> list[Traced]:
    """Say how many of its own answers were stale, until it led again."""
    for own in (d for f in figures_of(case.verdicts, RejoinFigures) for d in f.deposed):
        if (own.node, own.epoch) == (span.node, span.epoch) and own.stale_describes:
            least = "at least " if own.undecided_describes else ""
            read = some(own.stale_describes, "configuration read", "configuration reads", count(own.stale_describes))
            clause = f"{span.node} itself gave {least}{read} that lacked a newer change"
            oldest = f", the oldest by {length(own.stale_age_ns_max)}"
            return [
                Traced(clause, rows_of(own, "stale_describes")),
                Traced(oldest, rows_of(own, "stale_age_ns_max")),
            ]
    return []


def _stayed(attachment: Attachment, span: ClaimedSpan, lanes: Lanes) -> list[Traced]:
    """Say how long another broker stayed with the deposed leader, and how old its answers were."""
    if attachment.broker == span.node:
        return []
    if attachment.superseded_by != span.superseded_by or attachment.leader not in (None, span.node):
        return []
    broker, followed = attachment.broker, attachment.followed_ns
    follows = "never followed" if followed is None else f"followed after {length(followed)}"
    after = rows_of(attachment, "followed_ns")
    if attachment.named_ns:
        stayed = f"broker {broker} stayed with it for at least {length(attachment.named_ns)}"
        clauses = [Traced(stayed, rows_of(attachment, "named_ns")), Traced(f" and {follows}", after)]
    elif followed is not None and followed < _SHORT_NS:
        clauses = [Traced(f"broker {broker} followed {lanes.led_by(span.superseded_by) or 'the next'} at once", after)]
    else:
        clauses = [Traced(f"broker {broker} {follows}", after)]
        if silent := attachment.silent:
            clause = f", and left {some(silent, 'question', 'questions', count(silent))} unanswered"
            clauses.append(Traced(clause, rows_of(attachment, "silent")))
    if stale := attachment.stale_describes:
        least = "at least " if attachment.undecided_describes else ""
        one, more = f"configuration read at {broker} was", f"configuration reads at {broker} were"
        reads = least + some(stale, one, more, count(stale))
        clauses.append(Traced(f"{reads} stale", rows_of(attachment, "stale_describes")))
        oldest = f" by up to {length(attachment.stale_age_ns_max)}"
        clauses.append(Traced(oldest, rows_of(attachment, "stale_age_ns_max")))
    return clauses
