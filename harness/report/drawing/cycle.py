"""The cycle that a witness tells of, as nodes and edges: transactions, or versions of one key.

The checkers of transactions write a sentence for each edge, `T3 < T5 (wr): T5 read 1 from key x, ...`, and number the
transactions in the order of invocation, or as a table does. A witness whose sentences are no such cycle has none; it
is drawn as lanes.
"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from fencepost.harness.history import History, Operation, Outcome
from fencepost.harness.interchange.formats.imported import UNNAMED_NODE
from fencepost.harness.report.drawing.scene import micro_words, outcome_words
from fencepost.harness.verdict import Witness

_EDGE: Final = re.compile(r"T(\d+) < T(\d+) \((ww|wr|rw|process|realtime)\): (.+)", re.DOTALL)
_VERSIONS: Final = re.compile(r"key (.*): (.+?) before (.+?): ([^:]+)", re.DOTALL)

#: A transaction in the reason of an edge, and what the sentence says of it.
_NAMED: Final = re.compile(r"\b(T\d+) (?=shows|met|read|was)")


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction or a version: its name, where it is found, and its micro-operations."""

    name: str
    about: str
    lines: tuple[str, ...] = ()


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    """From one node to the next: of which kind, and why."""

    kind: str
    words: str


class Cycle(msgspec.Struct, frozen=True, kw_only=True):
    """Edge i runs from node i to the one after it, the last one to the first; `others` only bear witness to edges."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    others: tuple[Node, ...] = ()


def cycle_of(witness: Witness, history: History) -> Cycle | None:
    """The cycle of a witness, or None."""
    found = _of_transactions(witness, history) or _of_versions(witness)
    return None if found is None else msgspec.structs.replace(found, others=_others(found, history))


def is_edge(step: str) -> bool:
    """Whether a witness's sentence is an edge of a cycle, and so told by its drawing."""
    return bool(_EDGE.fullmatch(step) or _VERSIONS.fullmatch(step))


def _of_transactions(witness: Witness, history: History) -> Cycle | None:
    found = [match for step in witness.steps if (match := _EDGE.fullmatch(step))]
    names = [(int(match[1]), int(match[2])) for match in found]
    if not _closed(names):
        return None
    wanted = set(witness.events)
    nodes = []
    for number, _ in names:
        op = history.transactions.get(number)
        if op is None or op.invoke_index not in wanted:
            return None
        nodes.append(_node(f"T{number}", op))
    return Cycle(nodes=tuple(nodes), edges=tuple(Edge(kind=match[3], words=match[4]) for match in found))


def _node(name: str, op: Operation) -> Node:
    where = "" if op.node == UNNAMED_NODE else f" on {op.node}"
    about = f"process {op.process}{where}, {events_words(op)}"
    if op.type is not Outcome.OK:
        about += f", {outcome_words(op)}"
    return Node(name=name, about=about, lines=tuple(micro_words(op)))


def events_words(op: Operation) -> str:
    """`events 4 and 7`, or `event 4` of an operation that never ended."""
    if op.complete_index is None:
        return f"event {op.invoke_index}"
    return f"events {op.invoke_index} and {op.complete_index}"


def _others(cycle: Cycle, history: History) -> tuple[Node, ...]:
    """The transactions that bear witness to an edge, such as the one whose read shows an order."""
    names = dict.fromkeys(name for edge in cycle.edges for name in _NAMED.findall(edge.words))
    wanted = [name for name in names if name not in {node.name for node in cycle.nodes}]
    if not wanted:
        return ()
    found = ((name, history.transactions.get(int(name[1:]))) for name in wanted)
    return tuple(_node(name, op) for name, op in found if op is not None)


def _of_versions(witness: Witness) -> Cycle | None:
    found = [match for step in witness.steps if (match := _VERSIONS.fullmatch(step))]
    if not _closed([(match[2], match[3]) for match in found]) or len({match[1] for match in found}) != 1:
        return None
    nodes = tuple(Node(name=match[2], about=f"a version of key {match[1]}") for match in found)
    return Cycle(nodes=nodes, edges=tuple(Edge(kind="before", words=match[4]) for match in found))


def _closed(steps: Sequence[tuple[object, object]]) -> bool:
    """Whether each step begins where the one before it ended, the first where the last did; and none begins twice."""
    return (
        len(steps) > 1
        and len({before for before, _ in steps}) == len(steps)
        and all(after == steps[(place + 1) % len(steps)][0] for place, (_, after) in enumerate(steps))
    )
