"""What each node believed, as lanes: stretches in which it said the same, and the claims that were superseded.

Claims, reigns and epochs are rows of the facts' tables (`claims`, `reigns`, `epochs`), so the picture shows what the
tables and the checkers count. The other answers (another node leads, no answer) come from the history. A stretch is
drawn from answers, so its ends are as sharp as the polling. A claim of an epoch is marked as superseded where the first
moment that the answer can speak of lies behind the moment by which its reign was superseded.

Where nodes are asked about several subjects (KRaft's raft and controller layers), each has lanes of its own. There an
answer also tells whom a node is with: a broker names the controller that it is attached to. Naming the leader of an
epoch that was superseded is marked as a superseded claim is.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from fencepost.harness.history import BeliefEvent, Claim, History
from fencepost.harness.verdict.fact_table import FactTables
from fencepost.harness.verdict.fact_tables import CLAIMS, EPOCHS, REIGNS

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


class Row(msgspec.Struct, frozen=True, kw_only=True):
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

    def rows(self) -> Iterator[Row]:
        """All lanes in the order in which they are drawn: by node, below each other by subject."""
        for node in self.by_node:
            own = self.of(node)
            for number, (subject, lane) in enumerate(own):
                title = subject if self.others and lane else ""
                yield Row(node=node, title=title, lane=lane, first=number == 0, last=number == len(own) - 1)

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
