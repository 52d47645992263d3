"""The cycle of a witness as nodes and arrows; the nodes are transactions or versions of one key.

Transactions are numbered in the order of invocation, or as in their table. A witness has no cycle when its
edges do not form a cycle, or when its transactions are not among its events.
"""

from collections.abc import Iterable, Sequence

import msgspec

from fencepost.harness.history import UNNAMED_NODE, History, Operation, Outcome
from fencepost.harness.report.drawing.scene import micro_words, outcome_words
from fencepost.harness.verdict import Edge, EdgeKind, Witness


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction or a version: its name, its process and events, and its micro-operations."""

    name: str
    about: str
    lines: tuple[str, ...] = ()


class Cycle(msgspec.Struct, frozen=True, kw_only=True):
    """A cycle: edge i leads from node i to the next node, the last edge to the first; `others` only prove edges."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    others: tuple[Node, ...] = ()


def cycle_of(witness: Witness, history: History) -> Cycle | None:
    """Return the cycle of a witness, or None when its edges form none."""
    edges = witness.edges
    if not _closed(edges):
        return None
    if edges[0].kind is EdgeKind.BEFORE:
        nodes = (Node(name=str(edge.source), about=f"a version of {edge.key}") for edge in edges)
        return Cycle(nodes=tuple(nodes), edges=edges, others=_others(edges, history))
    wanted = set(witness.events)
    transactions = _transactions((edge.source for edge in edges), history)
    if len(transactions) < len(edges) or any(op.invoke_index not in wanted for op in transactions.values()):
        return None
    drawn = tuple(_node(number, op) for number, op in transactions.items())
    return Cycle(nodes=drawn, edges=edges, others=_others(edges, history))


def _transactions(numbers: Iterable[int | str], history: History) -> dict[int, Operation]:
    """Return the transactions with these numbers that the history has."""
    operations = ((number, history.transactions.get(number)) for number in numbers if isinstance(number, int))
    return {number: op for number, op in operations if op is not None}


def _others(edges: Sequence[Edge], history: History) -> tuple[Node, ...]:
    """Return the transactions that prove an edge without being part of the cycle, as a read that shows an order."""
    ends = {edge.source for edge in edges}
    numbers = dict.fromkeys(number for edge in edges for number in edge.shown_by if number not in ends)
    return tuple(_node(number, op) for number, op in _transactions(numbers, history).items())


def _node(number: int, op: Operation) -> Node:
    where = "" if op.node == UNNAMED_NODE else f" on {op.node}"
    about = f"process {op.process}{where}, {events_words(op)}"
    if op.type is not Outcome.OK:
        about += f", {outcome_words(op)}"
    return Node(name=f"T{number}", about=about, lines=tuple(micro_words(op)))


def events_words(op: Operation) -> str:
    """Name an operation's events: `events 4 and 7`, or `event 4` when it never ended."""
    if op.complete_index is None:
        return f"event {op.invoke_index}"
    return f"events {op.invoke_index} and {op.complete_index}"


def _closed(edges: Sequence[Edge]) -> bool:
    """Say whether the edges form one cycle: each begins where the edge before it ended, and no two begin together."""
    return (
        len(edges) > 1
        and len({edge.source for edge in edges}) == len(edges)
        and len({(edge.kind is EdgeKind.BEFORE, edge.key) for edge in edges}) == 1
        and all(edge.target == edges[(place + 1) % len(edges)].source for place, edge in enumerate(edges))
    )
