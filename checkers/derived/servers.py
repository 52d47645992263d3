"""What happened to nodes and their servers: runs, faults and their effects, cuts, lost quorums, catching up.

The tables say what faults certainly did: nodes that stood still, links that carried nothing. Of a quorum they say when
the voters that ran, and the links that carried packets, were certainly not full. Durability is put to the test only by
what something could have taken away, so `touches_others` and `Risk` say what a run disturbed.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence, Set
from itertools import pairwise
from typing import Any, Final, NamedTuple

import msgspec

from fencepost.checkers.derived.evidence import Intervals, grouped, merged, once, within
from fencepost.harness.base.errors import signal_of
from fencepost.harness.base.quorum import Damage, QuorumView, as_pair, majority, quorum_of
from fencepost.harness.history import (
    BeliefEvent,
    CatchUpEvent,
    Effects,
    FaultAction,
    FaultEvent,
    FaultOutcome,
    FaultSpan,
    FaultStage,
    History,
    NodeChange,
    NodeEvent,
    Operation,
    PhaseName,
)
from fencepost.harness.verdict import Facts
from fencepost.harness.verdict.fact_tables import CATCH_UPS, CUTS, FAULTS, QUORUM_LOSSES, SERVER_ENDS, STOPS

#: After the end of every run.
_NEVER_NS: Final = 1 << 62


@once
def ends_of(history: History) -> dict[tuple[str, int], int]:
    """Return when each incarnation of a node was over: at its death, or at the start of the next one."""
    ends: dict[tuple[str, int], int] = {}
    for event in history.of(NodeEvent):
        which = event.incarnation if event.change is NodeChange.EXITED else event.incarnation - 1
        if event.change is not NodeChange.READY and which >= 0:
            ends.setdefault((event.node, which), event.time_ns)
    return ends


#: A server started, serves or ended. Other modules use this name of the event.
ServerEvent = NodeEvent


def exits(history: History) -> list[ServerEvent]:
    """List the ends of all servers, in order."""
    return [e for e in history.of(NodeEvent) if e.change is NodeChange.EXITED]


def ended_by_themselves(history: History, at_ns: int) -> list[str]:
    """List the nodes whose last server ended by itself before `at_ns`, and was not followed by another one."""
    last = {e.node: e for e in history.of(NodeEvent) if e.time_ns <= at_ns and e.change is not NodeChange.READY}
    return [node for node, e in last.items() if e.change is NodeChange.EXITED and not e.expected]


class OwnEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a server that neither the harness nor a fault caused; `event` is its row.

    `started_ns` is when the node was started again, `served_ns` when it served again; None where that never came.
    `away_ns` counts until then, or until the end of the history.
    """

    node: str
    incarnation: int
    at_ns: int
    status: int | None
    event: int
    started_ns: int | None
    served_ns: int | None
    away_ns: int

    @property
    def until_ns(self) -> int:
        return self.at_ns + self.away_ns


@once
def unexplained_ends(history: History) -> list[OwnEnd]:
    """List the servers that ended although neither the harness ended them nor a fault explains it, in order.

    A fault explains the end of a server on one of its nodes while it may be in force, if its effects may stop or end
    servers.
    """
    return [
        _own_end(history, e)
        for e in history.of(NodeEvent)
        if e.change is NodeChange.EXITED and not e.expected and not _explained(history, e)
    ]


def _explained(history: History, end: NodeEvent) -> bool:
    stopping = (f for f in history.faults if (f.effects.may_stop or f.effects.ends) and end.node in f.nodes)
    spans = (history.possible(f) for f in stopping if f.outcome is not FaultOutcome.SKIPPED)
    return any(began_ns <= end.time_ns <= ended_ns for began_ns, ended_ns in spans)


def _own_end(history: History, end: NodeEvent) -> OwnEnd:
    later = [e for e in history.of(NodeEvent) if e.node == end.node and e.index > end.index]
    started = next((e.time_ns for e in later if e.change is NodeChange.STARTED), None)
    served = next((e.time_ns for e in later if e.change is NodeChange.READY), None)
    return OwnEnd(
        node=end.node,
        incarnation=end.incarnation,
        at_ns=end.time_ns,
        status=end.exit_status,
        event=end.index,
        started_ns=started,
        served_ns=served,
        away_ns=(history.end_ns if served is None else served) - end.time_ns,
    )


def away(history: History, from_ns: int, to_ns: int) -> int:
    """Return for how many ns of [`from_ns`, `to_ns`] some server was away that had ended by itself."""
    return within(merged([(end.at_ns, end.until_ns) for end in unexplained_ends(history)]), from_ns, to_ns)


def server_ends_table(history: History) -> Any:
    """Lay out the ends of servers that no fault explains (-> SERVER_ENDS)."""
    ends = unexplained_ends(history)
    status = [end.status for end in ends]
    return SERVER_ENDS.of(ends, exit_status=status, signal=list(map(signal_of, status)))


class Restarts(msgspec.Struct, frozen=True, kw_only=True):
    """The restarts of one node: `returned` are those after which it served, `failed` the last ones, if it never did.

    `served_ns` is when it began to serve last; `last_end` is how the server of the last failed start ended.
    """

    node: str
    returned: tuple[NodeEvent, ...]
    failed: tuple[NodeEvent, ...]
    served_ns: int | None
    last_end: NodeEvent | None


def restarts(history: History, since_ns: int) -> list[Restarts]:
    """Return the restarts of each node; `failed` only those from `since_ns` on, and none where the node runs now."""
    nodes = dict.fromkeys(e.node for e in history.of(NodeEvent))
    return [_restarts([e for e in history.of(NodeEvent) if e.node == node], since_ns) for node in nodes]


def _restarts(events: Sequence[NodeEvent], since_ns: int) -> Restarts:
    ready = [e for e in events if e.change is NodeChange.READY]
    failed = list[NodeEvent]()
    for e in events:
        if e.change is NodeChange.READY or (e.change is NodeChange.EXITED and e.expected):
            failed.clear()
        elif e.change is NodeChange.STARTED and e.time_ns >= since_ns:
            failed.append(e)
    last = events[-1]
    ended = last.change is NodeChange.EXITED and bool(failed)
    return Restarts(
        node=last.node,
        returned=tuple(e for e in ready if e.incarnation > 0),
        failed=tuple(failed) if ended else (),
        served_ns=ready[-1].time_ns if ready else None,
        last_end=last if ended else None,
    )


def refused_to_start(history: History, node: str, at_ns: int) -> bool:
    """Whether the server that the node had at `at_ns` ended by itself before it served."""
    own = [e for e in history.of(NodeEvent) if e.node == node]
    which = max((e.incarnation for e in own if e.time_ns <= at_ns), default=None)
    changes = {e.change: e for e in own if e.incarnation == which}
    return NodeChange.READY not in changes and NodeChange.EXITED in changes and not changes[NodeChange.EXITED].expected


def next_return(history: History, end: ServerEvent) -> ServerEvent | None:
    """Find when the node served again after this end; None where it never did."""
    later = (e for e in history.of(NodeEvent) if e.node == end.node and e.index > end.index)
    return next((e for e in later if e.change is NodeChange.READY), None)


def starts(history: History) -> dict[str, list[NodeEvent]]:
    """Map nodes to the starts of their servers, in order."""
    return grouped((e for e in history.of(NodeEvent) if e.change is NodeChange.STARTED), lambda e: e.node)


def changes_ns(history: History) -> list[int]:
    """Return every moment at which some server was started, became ready or ended, in order."""
    return [event.time_ns for event in history.of(NodeEvent)]


@once
def stopped(history: History, node: str) -> Intervals:
    """Return when `node` was proven not to run, as disjoint intervals in order."""
    return merged(history.stopped(node))


class Incarnations:
    """Which run of a node's server answered."""

    def __init__(self, history: History) -> None:
        self._starts: Final = starts(history)
        changes = grouped((e for e in history.of(NodeEvent) if e.change is not NodeChange.READY), lambda e: e.node)
        self._changes_ns: Final = {node: [e.time_ns for e in own] for node, own in changes.items()}

    def at(self, node: str, at_ns: int) -> int:
        """Return the incarnation that had been started last by `at_ns`; 0 before the first start."""
        own = self._starts.get(node, [])
        place = bisect_right(own, at_ns, key=lambda start: start.time_ns)
        return own[place - 1].incarnation if place else 0

    def of(self, operation: Operation) -> int | None:
        """Return a number that is the same within one run of the server; None if it was restarted in between."""
        assert operation.completed_ns is not None
        times = self._changes_ns.get(operation.node, [])
        before, after = (bisect_right(times, ns) for ns in (operation.invoked_ns, operation.completed_ns))
        return before if before == after else None

    def restarted(self, node: str, from_ns: int, to_ns: int) -> bool:
        """Whether the server of a node ended or began in this time."""
        return any(from_ns <= at_ns <= to_ns for at_ns in self._changes_ns.get(node, []))


Row = dict[str, Any]


def faults_table(history: History) -> Any:
    """Lay out every fault that was tried (-> FAULTS)."""
    return FAULTS.of_rows([_fault(fault) for fault in history.faults])


def _fault(fault: FaultSpan) -> Row:
    plain = msgspec.structs.asdict(fault)
    effects = msgspec.structs.asdict(plain.pop("effects"))
    details = msgspec.json.encode(plain.pop("details")).decode()
    outcome = plain.pop("outcome").value
    return {
        **plain,
        **effects,
        "stops": effects["stops"].value,
        "disk": effects["disk"].value,
        "details": details,
        "outcome": outcome,
    }


def stops_table(history: History, nodes: tuple[str, ...]) -> Any:
    """Lay out when each node was proven not to run (-> STOPS)."""
    return STOPS.of_rows(
        [{"node": node, "from_ns": start, "to_ns": end} for node in nodes for start, end in stopped(history, node)]
    )


def cuts_table(history: History) -> Any:
    """Lay out which links were proven to be cut (-> CUTS)."""
    return CUTS.of_rows(
        [
            {
                "fault_id": fault.fault_id,
                "source": link.partition(">")[0],
                "target": link.partition(">")[2],
                "from_ns": span[0],
                "to_ns": span[1],
            }
            for fault in history.faults
            if (span := history.certain(fault)) is not None and fault.effects.cuts
            for link in fault.severed
        ]
    )


Act = FaultEvent


def unproven_acts(history: History) -> list[Act]:
    """List the last attempt of each injection or healing of which nobody knows whether it took effect.

    The healing of a part counts as proven once the whole is proven to be healed.
    """
    last = {(e.fault_id, e.action): e for e in history.of(FaultEvent) if e.stage is FaultStage.END}
    return [e for e in last.values() if e.outcome is FaultOutcome.INDETERMINATE and not _healed_later(history, e)]


def _healed_later(history: History, act: FaultEvent) -> bool:
    whole = history.healing_of_whole(act.details) if act.action is FaultAction.HEAL else None
    return whole is not None and whole.index > act.index


class QuorumLoss(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of a run in which the quorum was provably less than `MUTUAL`, and the faults that caused it."""

    quorum: QuorumView
    from_ns: int
    to_ns: int
    fault_ids: tuple[int, ...]
    absent: tuple[str, ...]


def quorum_losses(history: History, voters: Sequence[str]) -> list[QuorumLoss]:
    """Find the stretches of a run in which the quorum was certainly less than mutual.

    Only proven cuts and stops count, and servers that were dead. The stretches may be too short: a restarted server
    counts as running before it serves.

    Returns:
        The stretches in order of time, in ns of the history; neighbours with the same state are joined.
    """
    cuts = [(*span, f) for f in history.faults if f.severed and (span := history.certain(f)) is not None]
    stops = [(start, end, voter) for voter in voters for start, end in stopped(history, voter)]
    times = sorted({t for start, end, _ in (*cuts, *stops) for t in (start, end)})
    losses: list[QuorumLoss] = []
    for start, end in pairwise(times):
        cutting = [f for from_ns, to_ns, f in cuts if from_ns <= start and end <= to_ns]
        absent = frozenset(voter for from_ns, to_ns, voter in stops if from_ns <= start and end <= to_ns)
        severed = frozenset(pair for f in cutting for pair in (as_pair(link) for link in f.severed))
        state = quorum_of(voters, Damage(absent=absent, severed=severed))
        if state is QuorumView.MUTUAL:
            continue
        stopping = [
            f.fault_id
            for f in history.faults
            if not f.severed and f.began_ns <= start and absent & set(f.nodes) and history.possible(f)[1] >= end
        ]
        loss = QuorumLoss(
            quorum=state,
            from_ns=start,
            to_ns=end,
            fault_ids=tuple(sorted({*(f.fault_id for f in cutting), *stopping})),
            absent=tuple(sorted(absent)),
        )
        _append(losses, loss)
    return losses


def _append(losses: list[QuorumLoss], loss: QuorumLoss) -> None:
    """Append a loss; join it to the last one when the state is the same and no time lies between."""
    if losses and losses[-1].to_ns == loss.from_ns and losses[-1].quorum is loss.quorum:
        last = losses.pop()
        loss = QuorumLoss(
            quorum=loss.quorum,
            from_ns=last.from_ns,
            to_ns=loss.to_ns,
            fault_ids=tuple(sorted({*last.fault_ids, *loss.fault_ids})),
            absent=tuple(sorted({*last.absent, *loss.absent})),
        )
    losses.append(loss)


def quorum_losses_table(history: History, voters: Sequence[str]) -> Any:
    """Lay out the losses (-> QUORUM_LOSSES)."""
    return QUORUM_LOSSES.of_rows(
        [{**msgspec.structs.asdict(loss), "quorum": loss.quorum.value} for loss in quorum_losses(history, voters)]
    )


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """From `from_ns` to `to_ns`, `node` certainly reached less than a majority, and less than a majority reached it."""

    node: str
    from_ns: int
    to_ns: int
    fault_ids: tuple[int, ...]


def cuts(history: History, nodes: Sequence[str], voters: Sequence[str] = ()) -> list[Cut]:
    """Return the times in which a node was certainly cut off from every majority of `voters`.

    Args:
        history: one run; a fault counts while it was certainly in force, and faults that overlap add up.
        nodes: the nodes to look at.
        voters: the nodes whose majority elects a leader; empty: `nodes`.

    Returns:
        The cuts, by beginning and node; times in nanoseconds since the run began.
    """
    voters = voters or nodes
    proven = [f for f in history.faults if f.severed and f.certain_from_ns is not None and f.certain_to_ns is not None]
    times = sorted({t for f in proven for t in (f.certain_from_ns, f.certain_to_ns) if t is not None})
    closed: list[Cut] = []
    open_cuts: dict[str, Cut] = {}
    for start_ns, end_ns in pairwise(times):
        active = [f for f in proven if _covers(f, start_ns, end_ns)]
        links = {link for fault in active for link in fault.severed}
        ids = tuple(f.fault_id for f in active)
        for node in nodes:
            if not _severed(node, voters, links):
                if node in open_cuts:
                    closed.append(open_cuts.pop(node))
                continue
            before = open_cuts.get(node)
            open_cuts[node] = Cut(
                node=node,
                from_ns=before.from_ns if before else start_ns,
                to_ns=end_ns,
                fault_ids=tuple(sorted({*(before.fault_ids if before else ()), *ids})),
            )
    return sorted([*closed, *open_cuts.values()], key=lambda c: (c.from_ns, c.node))


def _covers(fault: FaultSpan, start_ns: int, end_ns: int) -> bool:
    assert fault.certain_from_ns is not None
    assert fault.certain_to_ns is not None
    return fault.certain_from_ns <= start_ns and end_ns <= fault.certain_to_ns


def _severed(node: str, voters: Sequence[str], links: set[str]) -> bool:
    least = majority(voters)
    others = [n for n in voters if n != node]
    own = int(node in voters)
    out = own + sum(f"{node}>{other}" not in links for other in others)
    back = own + sum(f"{other}>{node}" not in links for other in others)
    return out < least and back < least


def severed(history: History, one: str, other: str) -> Intervals:
    """Return when nothing certainly passed between two nodes, in either direction."""
    ways = (_closed(history, f"{one}>{other}"), _closed(history, f"{other}>{one}"))
    shared = [(max(a, c), min(b, d)) for a, b in ways[0] for c, d in ways[1]]
    return [(start, end) for start, end in shared if start < end]


def _closed(history: History, link: str) -> Intervals:
    """Return when a link was certainly cut."""
    spans = (history.certain(fault) for fault in history.faults if link in fault.severed)
    return merged([span for span in spans if span is not None])


def possibly_stopped(history: History, node: str) -> Intervals:
    """Return when `node` may not have run: from before a fault stopped it until after the fault was undone."""
    tried = [
        history.possible(f)
        for f in history.faults
        if f.effects.may_stop and node in f.nodes and f.outcome is not FaultOutcome.SKIPPED
    ]
    return merged([*tried, *stopped(history, node)])


def possibly_away(history: History, node: str) -> Intervals:
    """Return when others may have missed a node: it may not have run, or a fault at it cut links or changed members."""
    cutting = (f for f in history.faults if (f.effects.cuts or f.effects.changes_members) and node in f.nodes)
    cut = [history.possible(f) for f in cutting if f.outcome is not FaultOutcome.SKIPPED]
    return merged([*possibly_stopped(history, node), *cut])


def catch_ups_table(history: History) -> Any:
    """How nodes caught up from the main phase on (-> CATCH_UPS): at a cluster's start there is nothing to catch up."""
    since_ns, _ = history.phases.get(PhaseName.MAIN, (0, 0))
    own = [e for e in history.of(CatchUpEvent) if e.time_ns >= since_ns]
    how, read_ns, event = [e.change.value for e in own], [e.time_ns for e in own], [e.index for e in own]
    return CATCH_UPS.of(own, how=how, read_ns=read_ns, event=event)


_QUORUM_OF_SIZE: Final = re.compile(r"(\d+) of (\d+)")


class SizedBelief(NamedTuple):
    """One answer that names a size, and the quorum of a group of that size."""

    event: BeliefEvent
    quorum: int
    size: int


def sized_beliefs(history: History, subject: str) -> list[SizedBelief]:
    """List the answers about this subject that name a quorum and a size, in the order of time."""
    own = ((e, _QUORUM_OF_SIZE.fullmatch(e.detail or "")) for e in history.of(BeliefEvent) if e.subject == subject)
    return [SizedBelief(event, int(match[1]), int(match[2])) for event, match in own if match is not None]


class Risk:
    """By when the last disturbance was over: what nothing could have taken away says nothing about durability.

    `changed_ns` is when the leader last changed. Faults count that stopped one of `nodes`, or cut one of their links.
    A run whose plan asks for no fault is judged by everything that it has.
    """

    def __init__(self, history: History, facts: Facts, nodes: Set[str], changed_ns: int = -1) -> None:
        plans_none = all(kind.split(":")[0].strip() in ("", "none") for kind in facts.nemesis)
        installed = (f for f in history.faults if f.outcome is FaultOutcome.INSTALLED and _touches(f, nodes))
        over_ns = max((history.possible(fault)[1] for fault in installed), default=-1)
        self._until_ns: Final = _NEVER_NS if plans_none else max(changed_ns, over_ns)

    def runs(self, operation: Operation, changed_ns: int = -1) -> bool:
        """Whether something that could take its effect away came after it was sent; `changed_ns`: its own leader."""
        return operation.invoked_ns < max(self._until_ns, changed_ns)


def touches_others(fault: FaultSpan, node: str) -> bool:
    """Whether it was tried, and may have cut a link or done anything to another node than this one."""
    return fault.outcome is not FaultOutcome.SKIPPED and _touches(fault, {*_touched(fault)} - {node})


def _touches(fault: FaultSpan, nodes: Set[str]) -> bool:
    """Whether it did anything to one of the nodes but set its clock."""
    if fault.effects in (Effects(), Effects(skews=True)):
        return False
    return not nodes.isdisjoint(_touched(fault))


def _touched(fault: FaultSpan) -> Set[str]:
    return {end for link in fault.severed for end in link.split(">")} or {*fault.nodes}
