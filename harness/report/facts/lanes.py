"""What each node believed, as lanes: stretches in which it said the same, and the claims that were superseded.

A stretch is drawn from answers, so its ends are as sharp as the polling. An epoch has certainly begun at the earlier of
the first answer that claims it, the node's own log line and the first `ok` operation stamped with it. A claim of e is
shown as superseded only where a question that was asked after a later epoch had begun was answered with e; answers
whose question straddles that moment prove nothing. The counts that decide are the leadership checker's, not these.

Where nodes are asked about several subjects (KRaft's raft and controller layers), each has lanes of its own. There an
answer also tells whom a node is with: a broker names the controller that it is attached to. Naming the leader of an
epoch that was superseded is marked as a superseded claim is.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from fencepost.harness.history import BeliefEvent, Claim, EpochEvent, History, NodeChange, NodeEvent, OpEvent, Outcome

#: A node's log line may be read a little later than the claim it explains was answered.
_LOG_DELAY_NS: Final = 300_000_000
#: A line read so soon after a claim may still be of that claim: where it names another epoch, the claim's is not sure.
_LOG_DOUBT_NS: Final = 1_000_000_000
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
        found: set[int] = set()
        for lanes in self.every:
            found |= {s.epoch for lane in lanes.by_node.values() for s in lane if s.epoch is not None}
            found |= set(lanes.begins_ns)
        return sorted(found)

    def of(self, node: str) -> list[tuple[str, list[Stretch]]]:
        """A node's lanes by subject: those about which it was asked, or the first when it never was."""
        found = [(lanes.subject, lane) for lanes in self.every if (lane := lanes.by_node.get(node))]
        return found or [(self.subject, [])]

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
        found = [s for lane in self.by_node.values() for s in lane if s.state is LaneState.LEADER]
        return sorted(found, key=lambda s: s.from_ns)

    def superseded_ns(self, epoch: int) -> int | None:
        """When some later epoch had certainly begun."""
        return min((ns for later, ns in self.begins_ns.items() if later > epoch), default=None)


def lanes(history: History, nodes: Sequence[str]) -> Lanes:
    """The lanes of `nodes` (and of any other node that was asked), the subject that tells most first."""
    beliefs = [e for e in history.events if isinstance(e, BeliefEvent)]
    asked = Counter(b.subject for b in beliefs)
    # An answer that names its epoch for sure tells more than any number of those that do not.
    telling = Counter(
        b.subject for b in beliefs if b.claims is not Claim.SILENT and b.epoch is not None and b.epoch_exact
    )
    subjects = sorted(asked, key=lambda s: (telling[s], asked[s]), reverse=True) or ["leader"]
    logs: dict[str, list[EpochEvent]] = {}
    for event in history.events:
        if isinstance(event, EpochEvent):
            logs.setdefault(event.node, []).append(event)
    everyone = list(dict.fromkeys([*nodes, *(b.node for b in beliefs)]))
    made = [_of_subject(history, beliefs, subject, logs, everyone, several=len(subjects) > 1) for subject in subjects]
    for node in set(everyone) - {b.node for b in beliefs}:
        made[0].by_node[node] = _with_deaths([], _deaths(history, node), node)
    return msgspec.structs.replace(made[0], others=tuple(made[1:]))


def _of_subject(
    history: History,
    beliefs: list[BeliefEvent],
    subject: str,
    logs: dict[str, list[EpochEvent]],
    everyone: list[str],
    *,
    several: bool,
) -> Lanes:
    stamped = not several or subject == "leader"
    out = Lanes(subject=subject, by_node={}, begins_ns=_begins(history, beliefs, subject, stamped=stamped))
    for node in everyone:
        own = [b for b in beliefs if b.node == node and b.subject == subject]
        out.by_node[node] = _lane(history, own, logs.get(node, []), out, node, several=several) if own else []
    return out


def _begins(history: History, beliefs: list[BeliefEvent], subject: str, *, stamped: bool) -> dict[int, int]:
    """Of several subjects nobody knows of which the epochs are that operations are stamped with."""
    begins: dict[int, int] = {}

    def seen(epoch: int, ns: int) -> None:
        if ns < begins.get(epoch, ns + 1):
            begins[epoch] = ns

    for belief in beliefs:
        if belief.claims is Claim.YES and belief.epoch is not None and belief.subject == subject:
            seen(belief.epoch, belief.answered_ns)
    for event in history.events:
        if isinstance(event, EpochEvent) or (
            stamped and isinstance(event, OpEvent) and event.type is Outcome.OK and event.epoch is not None
        ):
            seen(event.epoch, event.time_ns)  # type: ignore[arg-type]  # not None in either branch
    return begins


def _lane(
    history: History, own: list[BeliefEvent], log: list[EpochEvent], all_: Lanes, node: str, *, several: bool
) -> list[Stretch]:
    stopped = history.stopped(node)
    points = sorted(own, key=_moment)
    out: list[Stretch] = []
    for belief in points:
        at = _moment(belief)
        state, epoch, exact = _state(belief, log)
        leader = belief.leader if several and state is LaneState.FOLLOWER else None
        last = out[-1] if out else None
        if last is not None:
            last.to_ns = at if at - last.last_ns < _GAP_NS else last.last_ns
        said = (state, epoch, belief.incarnation, leader)
        if last is None or (last.state, last.epoch, last.incarnation, last.leader) != said:
            last = Stretch(
                node=node,
                state=state,
                from_ns=at,
                to_ns=at,
                last_ns=at,
                incarnation=belief.incarnation,
                epoch=epoch,
                exact=exact,
                leader=leader,
            )
            out.append(last)
        last.samples += 1
        last.events.append(belief.index)
        last.last_ns = max(last.last_ns, belief.answered_ns)
        last.to_ns = max(last.to_ns, last.last_ns)
        if epoch is not None and exact and (leader is not None or _sure(belief, state, epoch, log)):
            _mark_superseded(last, belief.index, _window_start(belief, stopped), all_.superseded_ns(epoch))
    return _with_deaths(out, _deaths(history, node), node)


def _moment(belief: BeliefEvent) -> int:
    """Where an answer stands on the lane: silence began when the question was asked."""
    return belief.asked_ns if belief.claims is Claim.SILENT else belief.answered_ns


def _state(belief: BeliefEvent, log: list[EpochEvent]) -> tuple[LaneState, int | None, bool]:
    if belief.claims is Claim.SILENT:
        return LaneState.SILENT, None, True
    if belief.claims is Claim.NO:
        return LaneState.FOLLOWER, belief.epoch, belief.epoch_exact
    if belief.epoch_exact:
        return LaneState.LEADER, belief.epoch, belief.epoch is not None
    known = [
        e.epoch
        for e in log
        if e.incarnation == belief.incarnation
        and e.time_ns <= belief.answered_ns + _LOG_DELAY_NS
        and (belief.epoch is None or e.epoch >= belief.epoch)
    ]
    return (LaneState.LEADER, max(known), True) if known else (LaneState.LEADER, belief.epoch, False)


def _sure(belief: BeliefEvent, state: LaneState, epoch: int, log: list[EpochEvent]) -> bool:
    """Whether the claim is certainly of `epoch`: no line that may still be of it names another."""
    if state is not LaneState.LEADER or belief.epoch_exact:
        return state is LaneState.LEADER
    around = (e for e in log if belief.asked_ns < e.time_ns <= belief.answered_ns + _LOG_DOUBT_NS)
    return all(e.epoch == epoch for e in around if e.incarnation == belief.incarnation)


def _window_start(belief: BeliefEvent, stopped: list[tuple[int, int]]) -> int:
    """The earliest moment that the answer can speak of: a node that was proven stopped said nothing meanwhile."""
    start = belief.asked_ns
    for begin, end in stopped:
        if begin <= start < end:
            start = end
    return min(start, belief.answered_ns)


def _mark_superseded(stretch: Stretch, index: int, window_start_ns: int, since_ns: int | None) -> None:
    if since_ns is None or window_start_ns <= since_ns:
        return
    stretch.late.append(index)
    first = stretch.superseded[0] if stretch.superseded else max(since_ns, stretch.from_ns)
    stretch.superseded = (first, max(window_start_ns, first))


def _deaths(history: History, node: str) -> list[tuple[int, int, int]]:
    """(from, to, incarnation) of every time that the server process was gone."""
    out: list[tuple[int, int, int]] = []
    since: tuple[int, int] | None = None
    for event in history.events:
        if isinstance(event, NodeEvent) and event.node == node:
            if event.change is NodeChange.EXITED:
                since = (event.time_ns, event.incarnation)
            elif event.change is NodeChange.STARTED and since is not None:
                out.append((since[0], event.time_ns, since[1]))
                since = None
    if since is not None:
        out.append((since[0], history.end_ns, since[1]))
    return out


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
