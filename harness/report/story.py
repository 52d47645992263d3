"""A deposed leader's story in a sentence: who led, who led next, how long it went on claiming, who stayed with it.

Every figure is a checker's own (`claimed` and `cuts` of leadership, `attachments` of rejoin); lengths are the least
that is certain. The indexes at the end are the events that prove when the later epoch had begun, and the last claim.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from harness.report.case import ReportCase
from harness.report.lanes import Lanes, LaneState
from harness.report.wording import clock, count, length, subject_words
from harness.verdict import Verdict, Witness

#: A shorter stop of a node, or a shorter time until a broker follows, is not worth telling.
_SHORT_NS: Final = 500_000_000
_STORIES_MAX: Final = 20


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """`node` claimed `epoch` from `from_ns`, when a later one had begun, to `to_ns`; `said` tells it."""

    node: str
    epoch: int
    from_ns: int
    to_ns: int
    said: str


def stories(case: ReportCase, lanes: Lanes, word: str) -> list[Story]:
    """One for each reign that outlived its epoch, whatever layers of the node claimed it; in the order of time."""
    claims: dict[tuple[str, int, int], dict[str, Mapping[str, Any]]] = {}
    for verdict in _leadership(case):
        for span in verdict.figures.get("claimed", ()):
            of_reign = claims.setdefault((span["node"], span["incarnation"], span["epoch"]), {})
            of_reign[str(verdict.figures.get("subject", lanes.subject))] = span
    told = [_story(case, lanes, word, spans) for spans in claims.values()]
    return sorted(told, key=lambda s: s.from_ns)[:_STORIES_MAX]


def of_witness(witness: Witness, verdict: Verdict, found: list[Story]) -> str:
    """The story that a witness about leaders belongs to; empty when there is none."""
    if "leadership" not in verdict.checker:
        return ""
    about = [
        s for s in found if s.node in witness.nodes[:1] and s.from_ns <= witness.to_ns and s.to_ns >= witness.from_ns
    ]
    return about[0].said if about else ""


def _leadership(case: ReportCase) -> list[Verdict]:
    return [v for v in case.verdicts if "leadership" in v.checker]


def _story(case: ReportCase, lanes: Lanes, word: str, spans: dict[str, Mapping[str, Any]]) -> Story:
    subject = lanes.subject if lanes.subject in spans else next(iter(spans))
    span = spans[subject]
    node, cut = span["node"], _cut(case, span)
    parts = [
        f"{node} led {word} {span['epoch']}",
        _superseded(lanes, word, span, cut),
        f"{_claimed(span, node, '' if subject == lanes.subject else subject)}{_bound(case, span, cut)}",
    ]
    for other in lanes.every:
        if other.subject != subject:
            said = _other(other, spans.get(other.subject), span)
            parts += [f"its {subject_words(other.subject)} {said}"] if said else []
    parts += [said for a in _attachments(case) if (said := _stayed(a, span, lanes))]
    proof = ", ".join(str(i) for i in span.get("indexes", ()))
    return Story(
        node=node,
        epoch=span["epoch"],
        from_ns=span["from_ns"],
        to_ns=span["to_ns"],
        said="; ".join(parts) + "." + (f" Events {proof}." if proof else ""),
    )


def _superseded(lanes: Lanes, word: str, span: Mapping[str, Any], cut: Mapping[str, Any] | None) -> str:
    since = ""
    if cut is not None and cut["from_ns"] <= span["from_ns"]:
        since = f", {length(span['from_ns'] - cut['from_ns'])} after it was cut off,"
    leader = lanes.led_by(span["superseded_by"])
    if leader is None:
        return f"from {clock(span['from_ns'])}{since} {word} {span['superseded_by']} had begun"
    return f"from {clock(span['from_ns'])}{since} {leader} led {word} {span['superseded_by']}"


def _claimed(span: Mapping[str, Any], node: str, layer: str) -> str:
    """`layer` is named where it is not the one that tells most, since only it claimed then."""
    where = f" by its {subject_words(layer)}" if layer else ""
    said = f"{node} went on claiming{where} for at least {length(span['length_ns'])}"
    if span["length_ns"] - span["running_ns"] >= _SHORT_NS:
        said += f", {length(span['running_ns'])} of them running"
    return said


def _cut(case: ReportCase, span: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """When the claiming node was cut off from every majority, as the self-fencing checker found it."""
    for verdict in _leadership(case):
        for cut in verdict.figures.get("cuts", ()):
            if cut["node"] == span["node"] and cut["from_ns"] <= span["to_ns"] and cut["to_ns"] >= span["from_ns"]:
                found: Mapping[str, Any] = cut
                return found
    return None


def _bound(case: ReportCase, span: Mapping[str, Any], cut: Mapping[str, Any] | None) -> str:
    """How the claim compares with the bound, which counts running time since the cut; nothing where it was not cut."""
    bound = case.facts.leadership
    if bound is None or bound.bound_ns is None or cut is None:
        return ""
    until_ns = min(span["to_ns"], cut["to_ns"])
    stopped = case.history.stopped(span["node"])
    lost = sum(max(0, min(end, until_ns) - max(start, cut["from_ns"])) for start, end in stopped)
    ran_ns = until_ns - cut["from_ns"] - lost
    if ran_ns <= bound.bound_ns:
        return f", within the {length(bound.bound_ns)} after which it has to resign"
    judged_ns = max((v.figures.get("limit_running_ns", 0) for v in _leadership(case)), default=0)
    if ran_ns > judged_ns:
        return f", beyond the {length(bound.bound_ns)} after which it should have resigned"
    late = f", until {length(ran_ns)} after it was cut off; it should have resigned after {length(bound.bound_ns)}"
    return f"{late}, but is judged only from {length(judged_ns)} on"


def _other(other: Lanes, claimed: Mapping[str, Any] | None, span: Mapping[str, Any]) -> str:
    """What another layer of the same node said meanwhile."""
    if claimed is not None:
        return f"claimed for at least {length(claimed['length_ns'])}"
    meanwhile = [
        s for s in other.by_node.get(span["node"], ()) if s.to_ns > span["from_ns"] and s.from_ns < span["to_ns"]
    ]
    states = {s.state for s in meanwhile}
    if not states:
        return ""
    if states == {LaneState.SILENT}:
        return "answered nothing meanwhile"
    return "" if LaneState.LEADER in states else "claimed nothing meanwhile"


def _attachments(case: ReportCase) -> list[Mapping[str, Any]]:
    return [a for v in case.verdicts for a in v.figures.get("attachments", ()) if isinstance(a, Mapping)]


def _stayed(attachment: Mapping[str, Any], span: Mapping[str, Any], lanes: Lanes) -> str:
    """How long a broker stayed with the deposed leader, and how old its answers were."""
    if attachment["superseded_by"] != span["superseded_by"] or attachment["leader"] not in (None, span["node"]):
        return ""
    broker, followed = attachment["broker"], attachment["followed_ns"]
    follows = "never followed" if followed is None else f"followed after {length(followed)}"
    if attachment["named_ns"]:
        said = f"broker {broker} stayed with it for at least {length(attachment['named_ns'])} and {follows}"
    elif followed is not None and followed < _SHORT_NS:
        said = f"broker {broker} followed {lanes.led_by(span['superseded_by']) or 'the next'} at once"
    else:
        said = f"broker {broker} {follows}"
        said += f", and left {attachment['silent']} questions unanswered" if attachment["silent"] else ""
    if stale := attachment["stale_describes"]:
        reads = "1 configuration read there was" if stale == 1 else f"{count(stale)} configuration reads there were"
        said += f"; {reads} stale, the oldest by {length(attachment['stale_age_ns_max'])}"
    return said
