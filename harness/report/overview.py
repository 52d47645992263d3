"""The whole run as one still picture: phases, fault rows, and a lane per node that shows its view of the leader.

It needs neither colour nor JavaScript: a leader's bar is tall and carries its epoch and a pattern, a follower's is a
thin line, silence is dotted, a dead process is crossed, and a superseded claim is framed and marked "superseded".

What each node believed stands in lanes: stretches in which it said the same, and the claims that were superseded.
Claims, reigns and epochs are rows of the facts' tables (`claims`, `reigns`, `epochs`), so the picture shows what the
tables and the checkers count. The other answers (another node leads, no answer) come from the history. A stretch is
drawn from answers, so its ends are as sharp as the polling. A claim of an epoch is marked as superseded where the first
moment that the answer can speak of lies behind the moment by which its reign was superseded.

Where nodes are asked about several subjects (KRaft's raft and controller layers), each has lanes of its own. There an
answer also tells whom a node is with: a broker names the controller that it is attached to. Naming the leader of an
epoch that was superseded is marked as a superseded claim is.

A migration has a band for each phase, and one lane that says who was the controller at each moment.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec
from markupsafe import Markup

from fencepost.harness.history import BeliefEvent, Claim, History, MigrationEvent
from fencepost.harness.report.svg import (
    FAULT_ROW,
    LANE,
    LEFT,
    LETTER,
    RIGHT,
    TimeAxis,
    box,
    element,
    epoch_class,
    fault_bands,
    fitting,
    joined,
    label,
    picture,
    title,
)
from fencepost.harness.report.words import clock, length, text
from fencepost.harness.verdict.fact_tables import CLAIMS, EPOCHS, REIGNS, FactTables

#: Without an answer for so long, a stretch ends: nobody asked.
_GAP_NS: Final = 2_000_000_000


class LaneState(StrEnum):
    LEADER = "leader"
    FOLLOWER = "follower"
    SILENT = "silent"
    DOWN = "down"


class Stretch(msgspec.Struct, kw_only=True):
    """A node said the same from `from_ns` to `to_ns`; `superseded` is the part that was certainly out of date."""

    node: str
    state: LaneState
    from_ns: int
    to_ns: int
    last_ns: int
    incarnation: int = 0
    epoch: int | None = None
    exact: bool = True
    samples: int = 0
    leader: str | None = None
    superseded: tuple[int, int] | None = None
    #: The answers that say so, and of these the ones that were certainly out of date.
    events: list[int] = []
    late: list[int] = []

    @property
    def epoch_text(self) -> str:
        if self.epoch is None:
            return ""
        return str(self.epoch) if self.exact else f"≥{self.epoch}"


class LaneRow(msgspec.Struct, frozen=True, kw_only=True):
    """One node's lane about one subject; `title` is the subject, empty where there is only one."""

    node: str
    title: str
    lane: list[Stretch]
    first: bool = True
    last: bool = True


class Lanes(msgspec.Struct, frozen=True, kw_only=True):
    """Stretches by node, when each epoch had certainly begun, and what all this is about.

    `others` are the lanes of the other subjects, in which nodes that were never asked about them are missing.
    """

    subject: str
    by_node: dict[str, list[Stretch]]
    begins_ns: dict[int, int]
    others: tuple["Lanes", ...] = ()

    @property
    def every(self) -> tuple["Lanes", ...]:
        """This and the other subjects' lanes."""
        return (self, *self.others)

    @property
    def epochs(self) -> list[int]:
        """Every epoch that is shown, in order."""
        epochs: set[int] = set()
        for lanes in self.every:
            epochs |= {s.epoch for lane in lanes.by_node.values() for s in lane if s.epoch is not None}
            epochs |= set(lanes.begins_ns)
        return sorted(epochs)

    def of(self, node: str) -> list[tuple[str, list[Stretch]]]:
        """A node's lanes by subject: those about which it was asked, or the first when it never was."""
        own = [(lanes.subject, lane) for lanes in self.every if (lane := lanes.by_node.get(node))]
        return own or [(self.subject, [])]

    def rows(self) -> Iterator[LaneRow]:
        """All lanes in the order in which they are drawn: by node, below each other by subject."""
        for node in self.by_node:
            own = self.of(node)
            for number, (subject, lane) in enumerate(own):
                title = subject if self.others and lane else ""
                yield LaneRow(node=node, title=title, lane=lane, first=number == 0, last=number == len(own) - 1)

    def led_by(self, epoch: int) -> str | None:
        """Who said, about any subject, that it led `epoch`; None when nobody did."""
        return next((s.node for lanes in self.every for s in lanes.claims() if s.epoch == epoch and s.exact), None)

    def claims(self) -> list[Stretch]:
        """Every stretch of leadership, in order of time."""
        leading = [s for lane in self.by_node.values() for s in lane if s.state is LaneState.LEADER]
        return sorted(leading, key=lambda s: s.from_ns)

    def superseded_ns(self, epoch: int) -> int | None:
        """When some later epoch had certainly begun."""
        return min((ns for later, ns in self.begins_ns.items() if later > epoch), default=None)


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer, or none in time: `lo_ns` is the first moment that it can speak of."""

    belief: BeliefEvent
    state: LaneState
    epoch: int | None
    exact: bool
    lo_ns: int

    @property
    def at_ns(self) -> int:
        """Where it stands on the lane: silence began when the question was asked."""
        return self.belief.asked_ns if self.state is LaneState.SILENT else self.belief.answered_ns


class _Tables:
    """The rows of the facts' tables that lanes are drawn from, by what they are looked up by."""

    def __init__(self, tables: FactTables) -> None:
        self._claims = {row["index"]: row for row in _rows(tables, CLAIMS.name)}
        self._derived = CLAIMS.name in tables
        reigns = _rows(tables, REIGNS.name)
        self._reigns = {tuple(row[name] for name in _REIGN): row["superseded_ns"] for row in reigns}
        self._begins: dict[str, dict[int, int]] = {}
        for row in _rows(tables, EPOCHS.name):
            self._begins.setdefault(row["subject"], {})[row["epoch"]] = row["begun_ns"]

    def begins_ns(self, subject: str) -> dict[int, int]:
        """When each epoch had certainly begun."""
        return self._begins.get(subject, {})

    def superseded_ns(self, belief: BeliefEvent, epoch: int) -> int | None:
        """When the reign that a claim is of was certainly over for the others; None if it never was."""
        ns: int | None = self._reigns.get((belief.subject, belief.node, belief.incarnation, epoch))
        return ns

    def answer(self, belief: BeliefEvent) -> _Answer | None:
        """The answer as the tables have it; None for a claim that came while the node was proven stopped."""
        if belief.claims is not Claim.YES:
            state = LaneState.SILENT if belief.claims is Claim.SILENT else LaneState.FOLLOWER
            epoch = None if state is LaneState.SILENT else belief.epoch
            return _Answer(belief=belief, state=state, epoch=epoch, exact=belief.epoch_exact, lo_ns=belief.asked_ns)
        if not self._derived:
            epoch, exact, lo_ns = belief.epoch, False, belief.asked_ns
        elif (row := self._claims.get(belief.index)) is None:
            return None
        else:
            exact, lo_ns = row["epoch"] is not None, row["lo_ns"]
            epoch = row["epoch"] if exact else row["epoch_low"]
        return _Answer(belief=belief, state=LaneState.LEADER, epoch=epoch, exact=exact, lo_ns=lo_ns)


#: What tells reigns apart.
_REIGN: Final = ("subject", "node", "incarnation", "epoch")


def _rows(tables: FactTables, name: str) -> list[dict[str, Any]]:
    table = tables.get(name)
    return [] if table is None else table.to_pylist()


def lanes(history: History, nodes: Sequence[str], tables: FactTables) -> Lanes:
    """Draw up the lanes of a run.

    Args:
        history: the run's events.
        nodes: the nodes of the plan, in its order; other nodes that were asked follow.
        tables: the facts of the run by name; without them no epoch is certain and nothing is superseded.

    Returns:
        The lanes of the subject that the most answers tell of for certain, with those of the others.
    """
    beliefs = history.of(BeliefEvent)
    questions = Counter(b.subject for b in beliefs)
    # An answer that names its epoch for sure tells more than any number of those that do not.
    telling = Counter(
        b.subject for b in beliefs if b.claims is not Claim.SILENT and b.epoch is not None and b.epoch_exact
    )
    subjects = sorted(questions, key=lambda s: (telling[s], questions[s]), reverse=True) or ["leader"]
    everyone = list(dict.fromkeys([*nodes, *(b.node for b in beliefs)]))
    facts = _Tables(tables)
    made = []
    for subject in subjects:
        of_subject = Lanes(subject=subject, by_node={}, begins_ns=facts.begins_ns(subject))
        for node in everyone:
            own = [b for b in beliefs if b.node == node and b.subject == subject]
            answers = [answer for belief in own if (answer := facts.answer(belief)) is not None]
            lane = _lane(answers, of_subject, facts, several=len(subjects) > 1)
            of_subject.by_node[node] = _with_deaths(lane, history.dead(node), node) if own else []
        made.append(of_subject)
    for node in set(everyone) - {b.node for b in beliefs}:
        made[0].by_node[node] = _with_deaths([], history.dead(node), node)
    return msgspec.structs.replace(made[0], others=tuple(made[1:]))


def _lane(answers: list[_Answer], of_subject: Lanes, facts: _Tables, *, several: bool) -> list[Stretch]:
    """Join a node's answers to stretches; where there are several subjects, also by whom it named."""
    out: list[Stretch] = []
    for answer in sorted(answers, key=lambda a: a.at_ns):
        at_ns, belief = answer.at_ns, answer.belief
        leader = belief.leader if several and answer.state is LaneState.FOLLOWER else None
        last = out[-1] if out else None
        if last is not None:
            last.to_ns = at_ns if at_ns - last.last_ns < _GAP_NS else last.last_ns
        same = (answer.state, answer.epoch, belief.incarnation, leader)
        if last is None or (last.state, last.epoch, last.incarnation, last.leader) != same:
            last = Stretch(
                node=belief.node,
                state=answer.state,
                from_ns=at_ns,
                to_ns=at_ns,
                last_ns=at_ns,
                incarnation=belief.incarnation,
                epoch=answer.epoch,
                exact=answer.exact,
                leader=leader,
            )
            out.append(last)
        last.samples += 1
        last.events.append(belief.index)
        last.last_ns = max(last.last_ns, belief.answered_ns)
        last.to_ns = max(last.to_ns, last.last_ns)
        leads = answer.state is LaneState.LEADER
        if answer.epoch is not None and answer.exact and (leads or leader is not None):
            epoch = answer.epoch
            since_ns = facts.superseded_ns(belief, epoch) if leads else of_subject.superseded_ns(epoch)
            _mark_superseded(last, belief.index, answer.lo_ns, since_ns)
    return out


def _mark_superseded(stretch: Stretch, index: int, lo_ns: int, since_ns: int | None) -> None:
    if since_ns is None or lo_ns <= since_ns:
        return
    stretch.late.append(index)
    first = stretch.superseded[0] if stretch.superseded else max(since_ns, stretch.from_ns)
    stretch.superseded = (first, max(lo_ns, first))


def _with_deaths(lane: list[Stretch], deaths: list[tuple[int, int, int]], node: str) -> list[Stretch]:
    """Cut each stretch where the process was gone, and say so there."""
    for begin, end, incarnation in deaths:
        kept: list[Stretch] = []
        for stretch in lane:
            if stretch.state is LaneState.SILENT and begin <= stretch.from_ns and stretch.to_ns <= end:
                continue
            if stretch.from_ns < begin < stretch.to_ns:
                stretch.to_ns = begin
            elif begin <= stretch.from_ns < end < stretch.to_ns:
                stretch.from_ns = end
            kept.append(stretch)
        down = Stretch(node=node, state=LaneState.DOWN, from_ns=begin, to_ns=end, last_ns=end, incarnation=incarnation)
        lane = sorted([*kept, down], key=lambda s: s.from_ns)
    return lane


def migration_bands(history: History, axis: TimeAxis, y: float) -> list[Markup]:
    """Draw each phase of a migration from its beginning to that of the next one; nothing without a migration."""
    events = history.of(MigrationEvent)
    if not events:
        return []
    ends = [event.time_ns for event in events[1:]] + [history.end_ns]
    out = [label(LEFT - 8, y + 12, "migration", "lane-name", "end")]
    for number, (event, end_ns) in enumerate(zip(events, ends, strict=True)):
        x0, x1 = axis.x(event.time_ns), axis.x(end_ns)
        about = title(f"{event.phase} from {clock(event.time_ns)} to {clock(end_ns)}: {event.text}")
        out.append(box(x0, x1, y + 1, FAULT_ROW - 3, f"migration m{number % 2}", about, least=2))
        if len(event.phase) * LETTER + 4 <= x1 - x0:
            out.append(label(x0 + 3, y + 12, event.phase, "phase"))
    return out


def who_controls(lanes: Lanes, axis: TimeAxis, y: float) -> list[Markup]:
    """Draw who claimed to lead, of all nodes in one lane, with the epochs of both layers; a later claim lies above."""
    out = [label(LEFT - 8, y + 21, lanes.subject, "lane-name", "end")]
    for claim in lanes.claims():
        below = _below(claim, lanes)
        epochs = [f"{lanes.subject} epoch {claim.epoch_text}"] if claim.epoch is not None else []
        epochs += [f"{subject} epoch {epoch}" for subject, epoch in below]
        x0, x1 = axis.x(claim.from_ns), axis.x(claim.to_ns)
        about = title(", ".join([f"{claim.node} leads", *epochs, f"{clock(claim.from_ns)} to {clock(claim.to_ns)}"]))
        epochs_text = " / ".join([claim.epoch_text or "-", *(f"{subject} {epoch}" for subject, epoch in below)])
        colour = epoch_class(claim.epoch, lanes.epochs)
        out.append(box(x0, x1, y + 6, 22, f"leader {colour}", about, least=3))
        out.append(box(x0, x1, y + 6, 22, f"texture t-{colour}", about, least=3))
        out.append(fitting(x0 + 2, x1, y + 21, f"{claim.node}: {epochs_text}", "on-leader", claim.node))
    return [*out, element("line", x1=LEFT, x2=RIGHT, y1=y + LANE - 1, y2=y + LANE - 1, class_="lane-line")]


def _below(claim: Stretch, lanes: Lanes) -> list[tuple[str, str]]:
    """The epochs that this node led meanwhile in the layers below, with the layers' names."""
    return [
        (other.subject, ", ".join(epochs))
        for other in lanes.others
        if (
            epochs := list(
                dict.fromkeys(
                    own.epoch_text
                    for own in other.claims()
                    if own.node == claim.node and own.from_ns <= claim.to_ns and own.to_ns >= claim.from_ns
                )
            )
        )
    ]


#: In a lane with more stretches than this, those thinner than half a pixel are left out.
_STRETCHES_MAX: Final = 1500
_SUPERSEDED: Final = 84


def overview(history: History, lanes: Lanes, word: str) -> Markup:
    """Draw the phases, faults and lanes of the whole run."""
    axis = TimeAxis(0, max(history.end_ns, 1))
    epochs = lanes.epochs
    top = 20.0
    shown = list(lanes.rows())
    faults = history.faults
    _, rows = fault_bands(faults, axis, top, top, history.end_ns)
    band_y = top + rows * FAULT_ROW
    migrating = migration_bands(history, axis, band_y)
    if migrating:
        migrating += who_controls(lanes, axis, band_y + FAULT_ROW)
    lanes_top = band_y + (FAULT_ROW + LANE if migrating else 0) + 8
    bottom = lanes_top + LANE * len(shown) + 4
    bands, _ = fault_bands(faults, axis, top, bottom, history.end_ns)
    parts = [axis.drawn(top, bottom), _phases(history, axis, bottom), bands, *migrating]
    if rows:
        parts.append(label(LEFT - 8, top + 12, "faults", "lane-name", "end"))
    for number, row in enumerate(shown):
        y = lanes_top + number * LANE
        parts.append(_names(row, y))
        if not row.lane:
            parts.append(label(LEFT + 4, y + 21, "never asked", "lane-text"))
        if row.last:
            parts.append(element("line", x1=LEFT, x2=RIGHT, y1=y + LANE - 1, y2=y + LANE - 1, class_="lane-line"))
        parts.append(lane_bars(row.lane, axis, y, epochs, word))
    parts.append(_epoch_marks(lanes, axis, lanes_top, bottom, word))
    return picture(
        bottom + 20, *parts, name="Who led when, and the faults", description=_in_words(lanes, word), id_="overview"
    )


def _names(row: LaneRow, y: float) -> Markup:
    """Draw the node's name and, if the lanes have several subjects, the lane's subject below it."""
    if not row.title:
        return label(LEFT - 8, y + 21, text(row.node, 11), "lane-name", "end")
    subject = label(LEFT - 8, y + 21, text(row.title, 12), "lane-text", "end")
    return joined([label(4, y + 21, text(row.node, 4), "lane-name"), subject] if row.first else [subject])


def lane_bars(lane: list[Stretch], axis: TimeAxis, y: float, epochs: list[int], word: str) -> Markup:
    """Draw one node's stretches within the axis; leaders come last so that nothing hides them."""
    seen = [s for s in lane if s.to_ns >= axis.from_ns and s.from_ns <= axis.to_ns]
    if len(seen) > _STRETCHES_MAX:
        least = (axis.to_ns - axis.from_ns) // (2 * (RIGHT - LEFT))
        seen = [s for s in seen if s.to_ns - s.from_ns >= least or s.state is LaneState.LEADER][:_STRETCHES_MAX]
    seen.sort(key=lambda s: s.state is LaneState.LEADER)
    occupied = [axis.x(s.superseded[1]) for s in seen if s.superseded and not said_inside(s, axis)]
    return joined(_bar(stretch, axis, y, epochs, word, occupied) for stretch in seen)


def _bar(stretch: Stretch, axis: TimeAxis, y: float, epochs: list[int], word: str, occupied: list[float]) -> Markup:
    x0, x1 = axis.x(stretch.from_ns), axis.x(stretch.to_ns)
    # The next bar's text must not cover the word "superseded" beside a claim.
    text_x = max([x0, *(end + _SUPERSEDED for end in occupied if end - 4 <= x0 <= end + _SUPERSEDED)])
    about = title(stretch_title(stretch, word))
    colour = epoch_class(stretch.epoch, epochs)
    match stretch.state:
        case LaneState.FOLLOWER:
            bars = [box(x0, x1, y + 22, 5, f"follower {colour}", about)]
            bars.append(fitting(text_x, x1, y + 19, follows(stretch), short=stretch.leader or ""))
            if stretch.superseded:
                s0, s1 = axis.x(stretch.superseded[0]), axis.x(stretch.superseded[1])
                bars.append(box(s0, s1, y + 19, 11, "superseded", about, least=4))
            return joined(bars)
        case LaneState.SILENT:
            return joined([box(x0, x1, y + 20, 8, "silent", about), fitting(text_x, x1, y + 17, "silent")])
        case LaneState.DOWN:
            return joined([box(x0, x1, y + 6, 22, "down", about), fitting(x0, x1, y + 21, "down", "on-down")])
    bars = [
        box(x0, x1, y + 6, 22, f"leader {colour}", about, least=3),
        box(x0, x1, y + 6, 22, f"texture t-{colour}", about, least=3),
        fitting(x0 + 2, x1, y + 21, f"leads {stretch.epoch_text}", "on-leader", f"{stretch.epoch_text}"),
    ]
    if stretch.superseded:
        s0, s1 = axis.x(stretch.superseded[0]), axis.x(stretch.superseded[1])
        bars.append(box(s0, s1, y + 4, 26, "superseded", about, least=4))
        if said_inside(stretch, axis):
            bars.append(label(s1 - 6, y + 21, "superseded", "on-leader", "end"))
        else:
            bars.append(label(min(s1 + 4, RIGHT - 70), y + 18, "superseded", "warn-name"))
    return joined(bars)


def said_inside(stretch: Stretch, axis: TimeAxis) -> bool:
    """Say whether a leader's bar has room for the word "superseded" after its text."""
    if stretch.superseded is None or stretch.state is not LaneState.LEADER:
        return False
    x0, s0, s1 = (axis.x(ns) for ns in (stretch.from_ns, *stretch.superseded))
    return s1 - s0 > _SUPERSEDED and (s0 - x0 > 60 or s1 - s0 > 150)


def follows(stretch: Stretch) -> str:
    """Describe a follower: `follows 3`, or with the leader that it named: `with n1 (3)`."""
    if stretch.leader is not None:
        return f"with {stretch.leader}" + (f" ({stretch.epoch_text})" if stretch.epoch is not None else "")
    return f"follows {stretch.epoch_text}" if stretch.epoch is not None else "follows"


def stretch_title(stretch: Stretch, word: str) -> str:
    about = f"{stretch.node}: {stretch.state}"
    if stretch.leader is not None:
        about += f", with {stretch.leader}"
    if stretch.epoch is not None:
        about += f" of {word} {stretch.epoch_text}"
    about += f", {clock(stretch.from_ns)} to {clock(stretch.to_ns)}"
    if stretch.superseded:
        since, until = stretch.superseded
        about += f"; certainly superseded for at least {length(until - since)}"
    return about


def _epoch_marks(lanes: Lanes, axis: TimeAxis, top: float, bottom: float, word: str) -> Markup:
    marks = []
    for epoch, ns in sorted(lanes.begins_ns.items()):
        if axis.from_ns < ns < axis.to_ns and ns > 0:
            x = axis.x(ns)
            about = title(f"{word} {epoch} has certainly begun by {clock(ns)}")
            marks.append(element("line", about, x1=x, x2=x, y1=top - 2, y2=bottom, class_="epoch-mark"))
    return joined(marks[:200])


def _phases(history: History, axis: TimeAxis, bottom: float) -> Markup:
    out = []
    for phase, (start, end) in history.phases.items():
        x0, x1 = axis.x(start), axis.x(end)
        out.append(element("line", x1=x0, x2=x0, y1=2, y2=bottom, class_="phase-line"))
        if len(phase) * 6.4 + 4 <= x1 - x0:
            out.append(label(x0 + 3, 11, phase, "phase"))
    return joined(out)


def _in_words(lanes: Lanes, word: str) -> str:
    reigns = [
        f"{s.node} led {word} {s.epoch_text or 'unknown'} from {clock(s.from_ns)} to {clock(s.to_ns)}"
        for s in lanes.claims()[:12]
    ]
    return "; ".join(reigns) if reigns else "No node was seen to claim the lead."
