"""Runs of nodes' servers: when each began and ended, and which of them answered."""

from bisect import bisect_right
from typing import Any, Final

import msgspec

from fencepost.checkers.facts.evidence import once
from fencepost.checkers.facts.intervals import Intervals, merged, within
from fencepost.harness.base.exit_status import signal_of
from fencepost.harness.history import FaultOutcome, History, NodeChange, NodeEvent, Operation
from fencepost.harness.verdict.fact_tables import SERVER_ENDS


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a server's process; `event` is its row."""

    node: str
    incarnation: int
    at_ns: int
    status: int | None
    event: int


@once
def ends_of(history: History) -> dict[tuple[str, int], int]:
    """Return when each incarnation of a node was over: at its death, or at the start of the next one."""
    ends: dict[tuple[str, int], int] = {}
    for event in history.of(NodeEvent):
        which = event.incarnation if event.change is NodeChange.EXITED else event.incarnation - 1
        if event.change is not NodeChange.READY and which >= 0:
            ends.setdefault((event.node, which), event.time_ns)
    return ends


def exits(history: History) -> list[Exit]:
    """List the ends of all servers, in order."""
    return [
        Exit(node=e.node, incarnation=e.incarnation, at_ns=e.time_ns, status=e.exit_status, event=e.index)
        for e in history.of(NodeEvent)
        if e.change is NodeChange.EXITED
    ]


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
    return SERVER_ENDS.of_rows(
        [
            {
                "node": end.node,
                "incarnation": end.incarnation,
                "at_ns": end.at_ns,
                "exit_status": end.status,
                "signal": signal_of(end.status),
                "started_ns": end.started_ns,
                "served_ns": end.served_ns,
                "away_ns": end.away_ns,
                "event": end.event,
            }
            for end in unexplained_ends(history)
        ]
    )


class Return(msgspec.Struct, frozen=True, kw_only=True):
    """A server that serves after the end of the one before; `event` is its row."""

    at_ns: int
    event: int


def next_return(history: History, end: Exit) -> Return | None:
    """Find when the node served again after this end; None where it never did."""
    for e in history.of(NodeEvent):
        if e.change is NodeChange.READY and e.node == end.node and e.index > end.event:
            return Return(at_ns=e.time_ns, event=e.index)
    return None


def starts(history: History) -> dict[str, list[tuple[int, int]]]:
    """Map nodes to the starts of their servers: (when, incarnation), in order."""
    by_node: dict[str, list[tuple[int, int]]] = {}
    for event in history.of(NodeEvent):
        if event.change is NodeChange.STARTED:
            by_node.setdefault(event.node, []).append((event.time_ns, event.incarnation))
    return by_node


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
        self._changes_ns: Final[dict[str, list[int]]] = {}
        for event in history.of(NodeEvent):
            if event.change is not NodeChange.READY:
                self._changes_ns.setdefault(event.node, []).append(event.time_ns)

    def at(self, node: str, at_ns: int) -> int:
        """Return the incarnation that had been started last by `at_ns`; 0 before the first start."""
        own = self._starts.get(node, [])
        place = bisect_right(own, at_ns, key=lambda start: start[0])
        return own[place - 1][1] if place else 0

    def of(self, operation: Operation) -> int | None:
        """Return a number that is the same within one run of the server; None if it was restarted in between."""
        assert operation.completed_ns is not None
        times = self._changes_ns.get(operation.node, [])
        before, after = (bisect_right(times, ns) for ns in (operation.invoked_ns, operation.completed_ns))
        return before if before == after else None

    def restarted(self, node: str, from_ns: int, to_ns: int) -> bool:
        """Whether the server of a node ended or began in this time."""
        return any(from_ns <= at_ns <= to_ns for at_ns in self._changes_ns.get(node, []))
