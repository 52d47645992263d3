"""A deposed leader's story: who led, who led next, how long it went on claiming, who stayed with it.

The figures are `claimed` and `cuts` of leadership, and `attachments` of rejoin.
"""

from collections.abc import Mapping
from typing import Any, Final

from fencepost.harness.report.facts.case import ReportCase
from fencepost.harness.report.facts.figures import Story, figures, some
from fencepost.harness.report.facts.lanes import Lanes, LaneState
from fencepost.harness.report.words.evidence import Traced, rows_of
from fencepost.harness.report.words.wording import clock, count, length
from fencepost.harness.verdict import Verdict
from fencepost.harness.verdict.figures import Attachment, rows_among

_CHECKER: Final = "leadership"
#: A shorter stop of a node, or a shorter time until a broker follows, is not worth telling.
_SHORT_NS: Final = 500_000_000


def reigns(case: ReportCase, lanes: Lanes, word: str) -> list[Story]:
    """One for each reign that outlived its epoch, whatever layers of the node claimed it."""
    if not lanes.others:
        # With one subject the tables say it all.
        return []
    claims: dict[tuple[str, int, int], dict[str, Mapping[str, Any]]] = {}
    for verdict in _leadership(case):
        for span in verdict.figures.get("claimed", ()):
            of_reign = claims.setdefault((span["node"], span["incarnation"], span["epoch"]), {})
            of_reign[str(verdict.figures.get("subject", lanes.subject))] = span
    return [_story(case, lanes, word, spans) for spans in claims.values()]


def _leadership(case: ReportCase) -> list[Verdict]:
    return [v for v in case.verdicts if _CHECKER in v.checker]


def _story(case: ReportCase, lanes: Lanes, word: str, spans: dict[str, Mapping[str, Any]]) -> Story:
    subject = lanes.subject if lanes.subject in spans else next(iter(spans))
    span = spans[subject]
    cut = _cut(case, span)
    clauses = [
        Traced(f"{span['node']} led {word} {span['epoch']}", rows_of(span, "epoch")),
        _superseded(lanes, word, span, cut),
        *_claimed(span, "" if subject == lanes.subject else case.facts.vocabulary.subject(subject)),
        *_bound(case, span, cut),
    ]
    for other in lanes.every:
        if other.subject != subject:
            clauses += _other(case.facts.vocabulary.subject(other.subject), other, spans.get(other.subject), span)
    for attachment in rows_among(case.verdicts, Attachment):
        clauses += _stayed(attachment, span, lanes)
    return Story(
        checker=_CHECKER, node=span["node"], from_ns=span["from_ns"], to_ns=span["to_ns"], clauses=tuple(clauses)
    )


def _superseded(lanes: Lanes, word: str, span: Mapping[str, Any], cut: Mapping[str, Any] | None) -> Traced:
    since, rows = "", rows_of(span, "superseded_by")[:1]
    if cut is not None and cut["from_ns"] <= span["from_ns"]:
        since = f", {length(span['from_ns'] - cut['from_ns'])} after it was cut off,"
        rows = (*rows_of(cut, "from_ns"), *rows)
    leader = lanes.led_by(span["superseded_by"])
    if leader is None:
        return Traced(f"from {clock(span['from_ns'])}{since} {word} {span['superseded_by']} had begun", rows)
    return Traced(f"from {clock(span['from_ns'])}{since} {leader} led {word} {span['superseded_by']}", rows)


def _claimed(span: Mapping[str, Any], layer: str) -> list[Traced]:
    """`layer` is named where it is not the one that tells most, since only it claimed then."""
    where = f" by its {layer}" if layer else ""
    said = f"{span['node']} went on claiming{where} for at least {length(span['length_ns'])}"
    clauses = [Traced(said, rows_of(span, "length_ns"))]
    if span["length_ns"] - span["running_ns"] >= _SHORT_NS:
        clauses.append(Traced(f", {length(span['running_ns'])} of them running", rows_of(span, "running_ns")))
    return clauses


def _cut(case: ReportCase, span: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """When the claiming node was cut off from every majority, as the self-fencing checker found it."""
    about = (
        cut
        for cut in figures(case, _CHECKER, "cuts")
        if cut["node"] == span["node"] and cut["from_ns"] <= span["to_ns"] and cut["to_ns"] >= span["from_ns"]
    )
    return next(about, None)


def _bound(case: ReportCase, span: Mapping[str, Any], cut: Mapping[str, Any] | None) -> list[Traced]:
    """How the claim compares with the bound, which counts running time since the cut; nothing where it was not cut."""
    bound = case.facts.leadership
    if bound is None or bound.bound_ns is None or cut is None:
        return []
    until_ns = min(span["to_ns"], cut["to_ns"])
    stopped = case.history.stopped(span["node"])
    lost = sum(max(0, min(end, until_ns) - max(start, cut["from_ns"])) for start, end in stopped)
    ran_ns = until_ns - cut["from_ns"] - lost
    last = rows_of(span, "to_ns") if until_ns == span["to_ns"] else rows_of(cut, "to_ns")
    rows = (*rows_of(cut, "from_ns"), *last, *(rows_of(span, "running_ns")[2:] if lost else ()))
    if until_ns < span["to_ns"]:
        late = f", and until {length(span['to_ns'] - until_ns)} after it was healed"
        after = [Traced(late, (*rows_of(cut, "to_ns"), *rows_of(span, "to_ns")))]
    else:
        after = []
    if ran_ns <= bound.bound_ns:
        return [Traced(f", within the {length(bound.bound_ns)} after which it has to resign", rows), *after]
    judged_ns = max((v.figures.get("limit_running_ns", 0) for v in _leadership(case)), default=0)
    if ran_ns > judged_ns:
        return [Traced(f", beyond the {length(bound.bound_ns)} after which it should have resigned", rows), *after]
    return [
        Traced(f", until {length(ran_ns)} after it was cut off", rows),
        Traced(
            f"it should have resigned after {length(bound.bound_ns)}, but is judged only from {length(judged_ns)} on",
            (),
        ),
    ]


def _other(layer: str, other: Lanes, claimed: Mapping[str, Any] | None, span: Mapping[str, Any]) -> list[Traced]:
    """What another layer of the same node said meanwhile."""
    its = f"its {layer}"
    if claimed is not None:
        return [Traced(f"{its} claimed for at least {length(claimed['length_ns'])}", rows_of(claimed, "length_ns"))]
    meanwhile = [
        s for s in other.by_node.get(span["node"], ()) if s.to_ns > span["from_ns"] and s.from_ns < span["to_ns"]
    ]
    states = {s.state for s in meanwhile}
    rows = [i for s in meanwhile for i in s.events]
    if not states or LaneState.LEADER in states:
        return []
    if states == {LaneState.SILENT}:
        return [Traced(f"{its} answered nothing meanwhile", rows)]
    return [Traced(f"{its} claimed nothing meanwhile", rows)]


def _stayed(attachment: Attachment, span: Mapping[str, Any], lanes: Lanes) -> list[Traced]:
    """How long another broker stayed with the deposed leader, and how old its answers were."""
    if attachment.broker == span["node"]:
        return []
    if attachment.superseded_by != span["superseded_by"] or attachment.leader not in (None, span["node"]):
        return []
    broker, followed = attachment.broker, attachment.followed_ns
    follows = "never followed" if followed is None else f"followed after {length(followed)}"
    after = rows_of(attachment, "followed_ns")
    if attachment.named_ns:
        stayed = f"broker {broker} stayed with it for at least {length(attachment.named_ns)}"
        clauses = [Traced(stayed, rows_of(attachment, "named_ns")), Traced(f" and {follows}", after)]
    elif followed is not None and followed < _SHORT_NS:
        clauses = [
            Traced(f"broker {broker} followed {lanes.led_by(span['superseded_by']) or 'the next'} at once", after)
        ]
    else:
        clauses = [Traced(f"broker {broker} {follows}", after)]
        if silent := attachment.silent:
            said = f", and left {some(silent, 'question', 'questions', count(silent))} unanswered"
            clauses.append(Traced(said, rows_of(attachment, "silent")))
    if stale := attachment.stale_describes:
        least = "at least " if attachment.undecided_describes else ""
        reads = least + some(stale, "configuration read there was", "configuration reads there were", count(stale))
        clauses.append(Traced(f"{reads} stale", rows_of(attachment, "stale_describes")))
        oldest = f", the oldest by {length(attachment.stale_age_ns_max)}"
        clauses.append(Traced(oldest, rows_of(attachment, "stale_age_ns_max")))
    return clauses
