"""Runs of nodes' servers: when each began and ended, and which of them answered."""

from bisect import bisect_right
from typing import Final

import msgspec

from fencepost.checkers.facts.intervals import Intervals, merged
from fencepost.checkers.facts.once import once
from fencepost.harness.history import History, NodeChange, NodeEvent, Operation


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
