"""Tables from the nodes' own answers: who claimed to lead, and which leader the other nodes named."""

from fencepost.harness.report.facts.lanes import Lanes, Stretch
from fencepost.harness.report.tables.table import ROWS_MAX, Table, cut_note
from fencepost.harness.report.words.evidence import traced
from fencepost.harness.report.words.wording import clock, count, length
from fencepost.harness.verdict import Vocabulary


def reigns(lanes: Lanes, vocabulary: Vocabulary) -> list[Table]:
    """Tabulate who claimed to lead; one table for each subject."""
    if not lanes.others:
        return [_reigns(lanes, vocabulary.epoch, f"Who claimed to be {lanes.subject}, by each node's own answers")]
    return [
        _reigns(
            one,
            vocabulary.epoch,
            f"Who claimed to lead, by each node's own answers: {vocabulary.subject(one.subject)}",
        )
        for one in lanes.every
    ]


def attached(lanes: Lanes, word: str) -> Table | None:
    """Tabulate the leaders named by nodes that claimed nothing themselves; None when no answer names a leader."""
    claiming = {s.node for one in lanes.every for s in one.claims()}
    stretches = [
        s
        for one in lanes.every
        for node, lane in one.by_node.items()
        if node not in claiming
        for s in lane
        if s.leader is not None
    ]
    if not stretches:
        return None
    stretches.sort(key=lambda s: (s.from_ns, s.node))
    rows = [
        (
            s.node,
            s.leader or "",
            s.epoch_text or "unknown",
            traced(clock(s.from_ns), s.events[:1]),
            traced(clock(s.last_ns), s.events[-1:]),
            traced(count(s.samples), s.events),
            _superseded(s),
        )
        for s in stretches[:ROWS_MAX]
    ]
    return Table(
        caption="Whom the others named, by their own answers",
        columns=("node", "with", word, "first answer", "last answer", "answers", "superseded for"),
        rows=tuple(rows),
        note=cut_note(len(stretches)),
    )


def _reigns(lanes: Lanes, word: str, caption: str) -> Table:
    claims = lanes.claims()
    rows = [
        (
            s.epoch_text or "unknown",
            s.node,
            traced(clock(s.from_ns), s.events[:1]),
            traced(clock(s.last_ns), s.events[-1:]),
            traced(length(s.last_ns - s.from_ns), [*s.events[:1], *s.events[-1:]]),
            traced(count(s.samples), s.events),
            _superseded(s),
        )
        for s in claims[:ROWS_MAX]
    ]
    return Table(
        caption=caption,
        columns=(word, "node", "first answer", "last answer", "for", "answers", "superseded for"),
        rows=tuple(rows),
        note=cut_note(len(claims)),
    )


def _superseded(stretch: Stretch) -> str:
    """Show the least time for which the leader was superseded; its rows are the outdated answers."""
    if stretch.superseded is None:
        return ""
    return traced(f"≥ {length(stretch.superseded[1] - stretch.superseded[0])}", stretch.late)
