"""What the report shows of leaders: deposed ones that went on, who claimed to lead, and when there was no quorum.

The zombie table says what deposed leaders did, in the rows claimed, served, attempted, self-fencing failed, acted. Its
counts come from `figures` and `anomalies` of the leadership checker, and of those of leaves that count attempts of
superseded leaders by other means, such as the logs on disk. A kind that no checker counted says so. Episodes, times
with two leaders and lost quorums come from the fact tables; who claimed to lead, and which leader the other nodes
named, from the nodes' own answers.

Topic partitions as lanes: which broker led each in which leader epoch, and when a superseded broker still served.

The zombie-brokers checker computes the reigns from the polls that brokers answered as leaders. A partition has a lane
for each broker that led it. Partitions with a superseded leader come first; partitions that kept one leader in one
epoch are only counted.

Tables beside it say what superseded leaders did, which brokers were cut off, and who led which partition.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from markupsafe import Markup

from fencepost.harness.base.quorum import QuorumView
from fencepost.harness.history import History
from fencepost.harness.report.overview import Lanes, LaneState, Stretch, lane_bars, said_inside
from fencepost.harness.report.section import (
    Column,
    ReportCase,
    TextTable,
    counts,
    generic,
    reigns_by_partition,
    tabulated,
)
from fencepost.harness.report.svg import LANE, LEFT, RIGHT, LanesPicture, TimeAxis, element, label
from fencepost.harness.report.words import clock, count, length, text, traced
from fencepost.harness.verdict import Verdict, Vocabulary
from fencepost.harness.verdict.by_guarantee import all_figures, listed
from fencepost.harness.verdict.fact_tables import OVERLAPS, QUORUM_LOSSES, ZOMBIE_EPISODES
from fencepost.harness.verdict.figures import (
    ACTED,
    ASKED,
    CLAIMED,
    CLAIMED_COUNT,
    CUT_LEADERS,
    DEEDS,
    FENCED,
    PARTITIONS,
    PARTITIONS_QUIET,
    POSSIBLE_CLAIMS,
    REIGNS,
    SERVED,
    UNKNOWN,
    Figures,
    LeaderDeeds,
    PolledReign,
    Traced,
)

_CHECKER: Final = "leadership"


class _Kind(msgspec.Struct, frozen=True):
    """A row of the table: the figure that counts it, or the anomalies that do."""

    name: str
    meaning: str
    figure: str = ""
    anomalies: tuple[str, ...] = ()


_KINDS: Final = (
    _Kind("claimed", "claimed to lead after a later epoch had certainly begun", CLAIMED_COUNT),
    _Kind("possibly claimed", "polled before the new epoch began, answered after: not counted", POSSIBLE_CLAIMS),
    _Kind("asked", "operations sent to it while it was superseded", ASKED),
    _Kind("served", "of these, answered while it still led its old epoch", SERVED),
    _Kind("attempted but fenced", "refused because of its epoch or role, without effect", FENCED),
    _Kind("attempted, outcome unknown", "timed out, or the connection broke", UNKNOWN),
    _Kind(
        "self-fencing failed",
        "claimed to lead for longer than the bound after it was cut off from every majority",
        anomalies=("self-fencing-failed",),
    ),
    _Kind(
        "acted",
        "gave a stale answer although the guarantee forbids it, or acknowledged a write that was lost",
        ACTED,
        ("stale-answer-by-superseded-leader", "lost-acknowledgement", "stamped-effect"),
    ),
)


def zombies(case: ReportCase) -> tuple[TextTable, TextTable | None, list[TextTable]] | None:
    """Tabulate the counts, the claims that outlived their epoch, and all figures; None without a leadership verdict."""
    verdicts = [v for v in case.verdicts if _CHECKER in v.checker or FENCED in v.figures]
    if not verdicts:
        return None
    # The subject of a figure matters only if the nodes report on several subjects.
    subjects = sorted({v.subject for v in verdicts if v.subject is not None})
    groups = {s: [v for v in verdicts if (v.subject or subjects[0]) == s] for s in subjects}
    by_subject = [_Subject("", verdicts)] if len(subjects) < 2 else [_Subject(s, own) for s, own in groups.items()]
    rows = tuple((kind.name, *(_counted(one, kind) for one in by_subject), kind.meaning) for kind in _KINDS)
    counts = tuple(one.name or "count" for one in by_subject)
    table = TextTable(caption="What deposed leaders did", columns=("kind", *counts, "meaning"), rows=rows)
    claims = [
        ({"subject": one.name} if one.name else {}) | span
        for one in by_subject
        for span in one.figures.get(CLAIMED, ())
    ]
    claimed = (
        generic("Leaders that still claimed to lead after a newer epoch began (minimum time)", claims)[0]
        if claims
        else None
    )
    details: list[TextTable] = []
    for one in by_subject:
        figures = {key: value for key, value in one.figures.items() if key != CLAIMED}
        name = "figures of the leadership checker" + (f", {one.name}" if one.name else "")
        details += generic(name, figures) if figures else []
    return table, claimed, details


class _Subject:
    """The combined figures and anomalies of all verdicts about one subject."""

    def __init__(self, name: str, verdicts: list[Verdict]) -> None:
        self.name = name
        self.figures: dict[str, Any] = {}
        self.anomalies: dict[str, Traced[int]] = {}
        for verdict in verdicts:
            _add(self.figures, all_figures(verdict))
            _add(self.anomalies, verdict.anomalies)


def _add(to: dict[str, Any], figures: Figures) -> None:
    """Add counts and join lists of several verdicts; keep the first of anything else."""
    for name, figure in figures.items():
        match to.get(name), figure:
            case None, _:
                to[name] = figure
            case Traced(value=int() as before, rows=rows), Traced(value=int() as value):
                to[name] = Traced(before + value, (*rows, *figure.rows))
            case (tuple() as before, tuple()) | (int() as before, int()):
                to[name] = before + figure


def _counted(one: _Subject, kind: _Kind) -> str:
    own = [one.figures[kind.figure]] if kind.figure in one.figures else []
    own = own or [one.anomalies[name] for name in kind.anomalies if name in one.anomalies]
    if not own:
        return "0" if kind.anomalies else "not counted"
    return traced(count(sum(number.value for number in own)), [row for number in own for row in number.rows])


def episodes(case: ReportCase, word: str) -> list[TextTable]:
    """Tabulate episodes of superseded leaders, and times in which several nodes led; nothing without facts."""
    if not case.derived:
        return []
    episode: tuple[Column, ...] = (
        ("node", "node"),
        ("of", "subject"),
        (word, "epoch"),
        ("superseded by", lambda row: str(row["superseded_by"])),
        ("since", lambda row: traced(clock(row["superseded_ns"]), row["evidence"][:1])),
        ("claimed from", "claimed_from_ns"),
        ("to", "claimed_to_ns"),
        ("awake for", "running_ns"),
        *counts("claims", "asked", "reached", "served", "fenced", "unknown"),
        ("acted", lambda row: traced(count(row["acted"]), row["evidence"][1:] if row["acted"] else ())),
        ("by", lambda row: ", ".join(row["anomalies"]) or "–"),
    )
    overlap: tuple[Column, ...] = (
        ("of", "subject"),
        ("from", "from_ns"),
        ("to", "to_ns"),
        ("for", lambda row: length(row["to_ns"] - row["from_ns"])),
        ("all awake for", "running_ns"),
        (
            f"nodes and their {word}s",
            lambda row: ", ".join(f"{n}: {epoch}" for n, epoch in zip(row["nodes"], row["epochs"], strict=True)),
        ),
    )
    return [
        tabulated("Superseded leaders that went on", episode, case.rows(ZOMBIE_EPISODES.name)),
        tabulated("Two leaders at once, certainly", overlap, case.rows(OVERLAPS.name)),
    ]


def reigns(lanes: Lanes, vocabulary: Vocabulary) -> list[TextTable]:
    """Tabulate who claimed to lead; one table for each subject."""
    if not lanes.others:
        return [_reigns(lanes, vocabulary.epoch, f"Who claimed to be {lanes.subject}, by each node's own answers")]
    return [
        _reigns(
            one, vocabulary.epoch, f"Who claimed to lead, by each node's own answers: {vocabulary.subject(one.subject)}"
        )
        for one in lanes.every
    ]


def attached(lanes: Lanes, word: str) -> TextTable | None:
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
    named: tuple[Column, ...] = (("node", lambda s: s.node), ("with", lambda s: s.leader), (word, _epoch), *_ANSWERS)
    return tabulated("Whom the others named, by their own answers", named, stretches)


def _reigns(lanes: Lanes, word: str, caption: str) -> TextTable:
    lasted = ("for", lambda s: traced(length(s.last_ns - s.from_ns), [*s.events[:1], *s.events[-1:]]))
    return tabulated(
        caption, ((word, _epoch), ("node", lambda s: s.node), *_ANSWERS[:2], lasted, *_ANSWERS[2:]), lanes.claims()
    )


def _epoch(stretch: Stretch) -> str:
    return stretch.epoch_text or "unknown"


def _superseded(stretch: Stretch) -> str:
    """Show the least time for which the leader was superseded; its rows are the outdated answers."""
    if stretch.superseded is None:
        return ""
    return traced(f"≥ {length(stretch.superseded[1] - stretch.superseded[0])}", stretch.late)


_ANSWERS: Final[tuple[Column, ...]] = (
    ("first answer", lambda s: traced(clock(s.from_ns), s.events[:1])),
    ("last answer", lambda s: traced(clock(s.last_ns), s.events[-1:])),
    ("answers", lambda s: traced(count(s.samples), s.events)),
    ("superseded for", _superseded),
)
_WORDS: Final = {
    QuorumView.STAR.value: "one voter reached a majority, whose members did not reach each other",
    QuorumView.NONE.value: "lost: no voter reached a majority",
}


def quorum_document(case: ReportCase) -> dict[str, Any]:
    """Return the quorum's part of `verdict.json`: the plan's demand, and the proven intervals."""
    losses = case.rows(QUORUM_LOSSES.name)
    return {
        "asked": _planned(case).get("asked"),
        "lost_ns": _lost_ns(losses) if _derived(case) else None,
        "spans": [{column.name: loss[column.name] for column in QUORUM_LOSSES.columns} for loss in losses],
    }


def quorum_table(case: ReportCase) -> TextTable:
    """Tabulate each proven interval; the note says whether the plan keeps the quorum."""
    faults = case.history.faults
    number = {fault.fault_id: at for at, fault in enumerate(faults, 1)}

    def lasted(loss: Mapping[str, Any]) -> str:
        rows = [i for fault in faults if fault.fault_id in loss["fault_ids"] for i in fault.events]
        return traced(length(loss["to_ns"] - loss["from_ns"]), rows)

    columns: tuple[Column, ...] = (
        ("from", "from_ns"),
        ("to", "to_ns"),
        ("for", lasted),
        ("what", lambda loss: _WORDS[loss["quorum"]]),
        ("voters down", lambda loss: ", ".join(loss["absent"]) or "none"),
        ("faults", lambda loss: ", ".join(f"#{number[fault_id]}" for fault_id in loss["fault_ids"]) or "none"),
    )
    return tabulated("Quorum lost", columns, case.rows(QUORUM_LOSSES.name), _kept(case), _unknown(case))


def _derived(case: ReportCase) -> bool:
    return QUORUM_LOSSES.name in case.derived


def _unknown(case: ReportCase) -> str:
    if _derived(case):
        return ""
    return "The facts of this run could not be derived, so when the quorum was lost is not known."


def _lost_ns(losses: Sequence[Mapping[str, Any]]) -> int:
    return sum(loss["to_ns"] - loss["from_ns"] for loss in losses if loss["quorum"] == QuorumView.NONE)


def _kept(case: ReportCase) -> str:
    """Say that the plan keeps the quorum; empty where it does not."""
    kept = _planned(case).get("asked") == "keep"
    return "The plan keeps the quorum: faults that would have stopped it were skipped." if kept else ""


def _planned(case: ReportCase) -> Mapping[str, Any]:
    nemesis = case.run.get("nemesis")
    quorum = nemesis.get("quorum") if isinstance(nemesis, Mapping) else None
    return quorum if isinstance(quorum, Mapping) else {}


def left_out_table(case: ReportCase) -> TextTable | None:
    """List what `all` had to leave out, with the reason; None where nothing was left out."""
    nemesis = case.run.get("nemesis")
    if not isinstance(nemesis, Mapping):
        return None
    rows = [(str(item["fault"]), str(item["why"])) for item in nemesis.get("left_out", ())]
    rows += [(str(kind), "the main phase was too short for it") for kind in nemesis.get("without_time", ())]
    return TextTable(caption="Faults left out", columns=("fault", "why"), rows=tuple(rows)) if rows else None


#: The most partitions drawn; the table below the picture has more.
_DRAWN_MAX: Final = 12
#: Room for the word "superseded" before what the leader did.
_WORD: Final = 74
#: Lists of figures that stand in tables of their own.
PARTITION_LISTS: Final = frozenset({DEEDS, CUT_LEADERS, REIGNS})


class _Partitions(msgspec.Struct, frozen=True, kw_only=True):
    """The picture, and a sentence on what it leaves out."""

    picture: Markup
    folded: str


def partitions(case: ReportCase) -> _Partitions | None:
    """Draw the partitions; None when no log of topic partitions was judged."""
    whole = next((v.figures for v in case.verdicts if PARTITIONS_QUIET in v.figures), None)
    if whole is None:
        return None
    deeds = listed(case.verdicts, LeaderDeeds)
    by_partition = reigns_by_partition(case)
    drawn = dict(list(by_partition.items())[:_DRAWN_MAX])
    return _Partitions(
        picture=_picture(case.history, drawn, deeds) if drawn else Markup(""), folded=_folded(whole, len(drawn))
    )


def _folded(whole: Figures, drawn: int) -> str:
    number, quiet = whole[PARTITIONS].value, whole[PARTITIONS_QUIET].value
    summary = f"{count(number - quiet)} of {count(number)} topic partitions changed leader or leader epoch"
    summary += f", {count(drawn)} of them are drawn" if drawn < number - quiet else ""
    return f"{summary}; {count(quiet)} kept one leader in one epoch."


def _picture(history: History, drawn: Mapping[str, list[PolledReign]], deeds: list[LeaderDeeds]) -> Markup:
    epochs = sorted({reign.epoch.value for reigns in drawn.values() for reign in reigns})
    lanes = [(name, node) for name, reigns in drawn.items() for node in dict.fromkeys(r.node for r in reigns)]
    made = LanesPicture(history, len(lanes))
    axis, parts = made.axis, made.parts
    described = []
    for number, (name, node) in enumerate(lanes):
        y = made.first + number * LANE
        if number == 0 or lanes[number - 1][0] != name:
            parts.append(label(4, y + 21, text(name, 6), "lane-name"))
            if number:
                parts.append(element("line", x1=LEFT, x2=RIGHT, y1=y - 1, y2=y - 1, class_="lane-line"))
        parts.append(label(LEFT - 8, y + 21, text(node, 6), "lane-text", "end"))
        own = [r for r in drawn[name] if r.node == node]
        parts.append(lane_bars([_stretch(r) for r in own], axis, y, epochs, "leader epoch"))
        parts += [_did(deed, own, axis, y) for deed in deeds if (deed.partition, deed.node) == (name, node)]
        described += [f"{node} led {name} in epoch {r.epoch.value}" for r in own]
    return made.drawn("Who led each topic partition", described[:24], "partitions-lanes")


def _stretch(reign: PolledReign) -> Stretch:
    late_ns = reign.superseded_ns if reign.claimed_samples.value else None
    return Stretch(
        node=reign.node,
        state=LaneState.LEADER,
        from_ns=reign.from_ns.value,
        to_ns=max(reign.to_ns.value, reign.from_ns.value),
        last_ns=reign.to_ns.value,
        incarnation=reign.incarnation,
        epoch=reign.epoch.value,
        samples=reign.samples.value,
        superseded=None if late_ns is None else (late_ns.value, reign.to_ns.value),
    )


def _did(deed: LeaderDeeds, reigns: list[PolledReign], axis: TimeAxis, y: float) -> Markup:
    """Say beside its lane what a superseded leader acknowledged and answered."""
    reign = next((r for r in reigns if r.epoch == deed.epoch and r.incarnation == deed.incarnation), None)
    if reign is None:
        return Markup("")
    took = f"{count(deed.acknowledged.value)} appends acknowledged, {count(deed.lost.value)} lost"
    reads = f"{took}; {count(deed.stale_reads.value)} stale reads"
    end_ns = max(reign.to_ns.value, deed.superseded_ns.value)
    x = axis.x(end_ns) + 6 + (0 if said_inside(_stretch(reign), axis) else _WORD)
    if x + len(reads) * 6 > RIGHT:
        return Markup("")
    return label(x, y + 18, reads, "lane-text")


def partition_tables(case: ReportCase) -> list[TextTable]:
    """Make one table for each kind of figure that the verdicts contain."""
    by_caption = {
        "what superseded partition leaders did": listed(case.verdicts, LeaderDeeds),
        "brokers that were cut off from the nodes that hold the metadata": [
            leader for v in case.verdicts for leader in v.figures.get(CUT_LEADERS, ())
        ],
        "who led each topic partition that changed its leader": [
            reign for own in reigns_by_partition(case).values() for reign in own
        ],
    }
    return [table for caption, rows in by_caption.items() if rows for table in generic(caption, rows)]
