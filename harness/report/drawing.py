"""Drawings of witnesses: what they show, and how a terminal draws it; the report draws the same scenes as SVG.

The scene of a witness: its operations in the order of their events, and the faults that were in force.

A scene needs only the witness and the history, so every witness that names operations has one. Of too many
operations the scene keeps those that the witness's sentences name, and the last ones. When a witness names only one
operation and those that overlap it, the scene adds the operations just before and beside it, marked as not named.

The cycle of a witness is nodes and arrows; the nodes are transactions or versions of one key. Transactions are numbered
in the order of invocation, or as in their table. A witness has no cycle when its edges do not form a cycle, or when its
transactions are not among its events.

A terminal lists the operations and the faults in force meanwhile, in the order of their events:

    - process 0: write 3 (events 0 and 1)
    - fault: pause n2 (proven at event 2, healed from event 5 on)
    > process 1: read = 1 (events 3 and 4)

`>` marks the operation that the witness is about. Operations in brackets are not named by the witness, but happened
just before or beside it. Text is measured in terminal cells: most characters take one cell, some take two, some none.
No text from a history may move the cursor or reverse the line, so unprintable characters become escapes.
"""

import codecs
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import click
import msgspec

from fencepost.harness.history import UNNAMED_NODE, History, Operation, Outcome
from fencepost.harness.report.words import text
from fencepost.harness.verdict import Edge, EdgeKind, Witness

#: Longer than any value that a drawing has room for.
_WHOLE: Final = 10_000


def cells(line: str) -> int:
    """Count the columns that a text takes."""
    if line.isascii():
        return len(line)
    return sum(_cell(character) for character in line)


def _cell(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def clipped(line: str, limit: int, more: str = "…") -> str:
    """Cut a text to `limit` cells; `more` marks the cut."""
    if cells(line) <= limit:
        return line
    if limit < len(more):
        return more[:limit]
    out, room = "", limit - len(more)
    for character in line:
        room -= _cell(character)
        if room < 0:
            break
        out += character
    return out + more


def wrapped(phrase: str, width: int, begin: str = "", then: str = "") -> list[str]:
    """Wrap a text into lines of at most `width` cells; the first starts with `begin`, the others with `then`."""
    lines, line, empty = [], begin, True
    for word in phrase.split(" "):
        while True:
            room = width - cells(line) - (0 if empty else 1)
            if cells(word) <= room:
                line += word if empty else f" {word}"
                empty = False
                break
            if empty:  # a word as long as a line is broken
                part = clipped(word, max(room, 2), "")
                lines.append(line + part)
                word = word[len(part) :]
            else:
                lines.append(line)
            line, empty = then, True
    return [*lines, line]


def plain(line: str, *, unicode: bool) -> str:
    """Remove from a text everything that a terminal would act on; without `unicode` the text becomes ASCII."""
    if line.isascii() and line.isprintable():
        return line
    return "".join(c if c.isprintable() and (unicode or c.isascii()) else _escape(c) for c in line)


def _escape(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def value_words(value: Any) -> str:
    """Show a value: `nothing` for null, lists as `[1 2]`, maps as `{a 1, b 2}`, others as in the report."""
    if value is None:
        return "nothing"
    if isinstance(value, list | tuple):
        return f"[{' '.join(_part(part) for part in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_part(key)} {_part(part)}' for key, part in value.items())}}}"
    return text(value, _WHOLE)


def _part(value: Any) -> str:
    return "nil" if value is None else value_words(value)


#: Nobody reads a list of more operations.
OPERATIONS_MAX: Final = 12
#: How sentences name an operation: `event 12`, or the name of a transaction.
_NAMED: Final = re.compile(r"\bevent (\d+)|\b(T\d+)\b")
#: The most earlier operations that a scene adds.
_BEFORE_MAX: Final = 6
_FAULTS_MAX: Final = 3
#: Functions that ask for a value: an answer without a value means that there was nothing.
_ASKS: Final = frozenset({"read", "dequeue"})


class ShownOperation(msgspec.Struct, frozen=True, kw_only=True):
    """An operation in words.

    `marked` says whether the witness is about it. `named` says whether the witness names it; the others came just
    before or beside the named ones.
    """

    operation: Operation
    phrase: str
    marked: bool
    named: bool = True


class Disturbance(msgspec.Struct, frozen=True, kw_only=True):
    """A fault from the event that proves it to the event that begins its healing; `end` is None if never healed."""

    phrase: str
    begin: int
    end: int | None


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """Operations in the order of invocation, how many more were left out, and the faults that were in force."""

    operations: tuple[ShownOperation, ...]
    left_out: int
    faults: tuple[Disturbance, ...] = ()


def witness_operations(witness: Witness, history: History) -> list[Operation]:
    """Return the operations that the witness's events belong to, in the order of invocation."""
    wanted = set(witness.events)
    return [o for o in history.operations if o.invoke_index in wanted or o.complete_index in wanted]


def marked(witness: Witness, operations: list[Operation], names: Mapping[int, str]) -> Operation | None:
    """Return the operation that the witness is about: the first in its sentences, else the last that succeeded."""
    for step in witness.steps:
        for number, name in _NAMED.findall(step):
            for op in operations:
                if (
                    (names.get(op.invoke_index) == name)
                    if name
                    else int(number) in (op.invoke_index, op.complete_index)
                ):
                    return op
    ok = [op for op in operations if op.type is Outcome.OK and op.complete_index is not None]
    return max(ok, key=lambda op: op.complete_index or 0, default=None)


def before(
    witness: Witness, history: History, operations: Sequence[Operation], about: Operation | None
) -> list[Operation]:
    """Return what came just before or beside `about` on its key; nothing if not all `operations` overlap it."""
    # Sentences on transactions need no context.
    if about is None or any(name for step in witness.steps for _, name in _NAMED.findall(step)):
        return []
    ended = about.complete_index
    for op in operations:
        over = op.type is Outcome.OK and op.complete_index is not None and op.complete_index < about.invoke_index
        if over or (ended is not None and op.invoke_index > ended):
            return []
    known = {op.invoke_index for op in operations}
    earlier = [
        op
        for op in history.operations
        if op.key == about.key
        and op.type is not Outcome.FAIL
        and op.invoke_index not in known
        and op.invoke_index < (about.invoke_index if ended is None else ended)
    ]
    latest = sorted(earlier, key=_last_seen)[-_BEFORE_MAX:]
    return sorted(latest, key=lambda op: op.invoke_index)


def _last_seen(op: Operation) -> int:
    """Return the last certain event: for an unknown outcome only the invocation is certain."""
    return op.invoke_index if op.type is Outcome.INFO or op.complete_index is None else op.complete_index


def transaction_names(history: History) -> dict[int, str]:
    """Return the checkers' name of each transaction, by the event of its invocation."""
    return {op.invoke_index: f"T{number}" for number, op in history.transactions.items()}


def scene(witness: Witness, history: History) -> Scene | None:
    """Make the scene of a witness; None when it names no operation."""
    everything = witness_operations(witness, history)
    if not everything:
        return None
    names = transaction_names(history) if any(op.f == "txn" for op in everything) else {}
    about = marked(witness, everything, names)
    named = _most_telling(witness, everything, about)
    known = {op.invoke_index for op in named}
    shown = sorted([*before(witness, history, named, about), *named], key=lambda op: op.invoke_index)
    one_key = len({op.key for op in shown}) == 1
    operations = []
    for op in shown:
        name = names.get(op.invoke_index, "")
        phrase = f"{name}: {operation_words(op)}" if name else operation_words(op, with_key=not one_key)
        operations.append(
            ShownOperation(operation=op, phrase=phrase, marked=op is about, named=op.invoke_index in known)
        )
    last = max(op.invoke_index if op.complete_index is None else op.complete_index for op in shown)
    return Scene(
        operations=tuple(operations),
        left_out=len(everything) - len(named),
        faults=_faults(history, shown[0].invoke_index, last),
    )


def _faults(history: History, first: int, last: int) -> tuple[Disturbance, ...]:
    """Return the last few faults that were certainly in force between two events."""
    disturbances = []
    for fault in history.faults:
        if fault.certain_from_ns is None:
            continue
        begin, end = fault.events[1], None if fault.certain_to_ns is None else fault.events[2]
        if begin < last and (end is None or end > first):
            phrase = f"{fault.fault} {','.join(fault.nodes) or fault.target}"
            disturbances.append(Disturbance(phrase=phrase, begin=begin, end=end))
    return tuple(disturbances[-_FAULTS_MAX:])


def _most_telling(witness: Witness, operations: list[Operation], about: Operation | None) -> list[Operation]:
    if len(operations) <= OPERATIONS_MAX:
        return operations
    named = {int(number) for step in witness.steps for number, _ in _NAMED.findall(step) if number}
    # A violation shows at its end, so the last operations tell most.
    order = sorted(
        operations,
        key=lambda op: (op is about, bool(named & {op.invoke_index, op.complete_index}), op.invoke_index),
        reverse=True,
    )
    kept = {op.invoke_index for op in order[:OPERATIONS_MAX]}
    return [op for op in operations if op.invoke_index in kept]


def operation_words(op: Operation, *, with_key: bool = True) -> str:
    """Describe an operation: `write 3`, `read = 1`, `cas 1 -> 2`, a transaction by its parts; on request its key."""
    if op.f == "txn":
        return "; ".join(micro_words(op)) or "nothing"
    # An import takes the read of a whole set for `members`; its file, and an export, say `read`.
    parts = ["read" if op.f == "members" else op.f, *([op.key] if with_key and op.key is not None else [])]
    if op.f == "cas" and isinstance(op.value, list | tuple) and len(op.value) == 2:
        parts.append(f"{value_words(op.value[0])} -> {value_words(op.value[1])}")
    elif op.value is not None:
        parts.append(value_words(op.value))
    phrase = " ".join(parts)
    # In Python True equals 1; here they differ.
    differs = op.result != op.value or type(op.result) is not type(op.value)
    if op.type is Outcome.OK and (differs if op.result is not None else op.f in _ASKS):
        phrase += f" = {value_words(op.result)}"
    return phrase


def outcome_words(op: Operation) -> str:
    """Describe an outcome: `ok`, `failed`, or that it may still happen; with the error."""
    outcome = {Outcome.OK: "ok", Outcome.FAIL: "failed"}.get(op.type, "unknown, may happen later")
    return f"{outcome} ({op.error})" if op.error and op.type is not Outcome.OK else outcome


def micro_words(op: Operation) -> list[str]:
    """Describe a transaction's micro-operations: `append x 1`, `r x = [1 2]`, `r x` for a read without an answer."""
    answered = op.type is Outcome.OK and op.result is not None
    given = op.result if answered else op.value
    if not isinstance(given, list):
        return [f"= {value_words(given)}"]
    return [_micro(micro, answered) for micro in given]


def _micro(micro: object, answered: bool) -> str:
    if not isinstance(micro, list) or len(micro) != 3:
        return value_words(micro)
    f, key, value = micro
    f = str(f).removeprefix(":")
    if f != "r":
        return f"{f} {value_words(key)} {value_words(value)}"
    return f"r {value_words(key)} = {value_words(value)}" if answered else f"r {value_words(key)}"


class DrawnNode(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction or a version: its name, its process and events, and its micro-operations."""

    name: str
    about: str
    lines: tuple[str, ...] = ()


class DrawnCycle(msgspec.Struct, frozen=True, kw_only=True):
    """A cycle: edge i leads from node i to the next node, the last edge to the first; `others` only prove edges."""

    nodes: tuple[DrawnNode, ...]
    edges: tuple[Edge, ...]
    others: tuple[DrawnNode, ...] = ()


def cycle_of(witness: Witness, history: History) -> DrawnCycle | None:
    """Return the cycle of a witness, or None when its edges form none."""
    edges = witness.edges
    if not _closed(edges):
        return None
    if edges[0].kind is EdgeKind.BEFORE:
        nodes = (DrawnNode(name=str(edge.source), about=f"a version of {edge.key}") for edge in edges)
        return DrawnCycle(nodes=tuple(nodes), edges=edges, others=_others(edges, history))
    wanted = set(witness.events)
    transactions = _transactions((edge.source for edge in edges), history)
    if len(transactions) < len(edges) or any(op.invoke_index not in wanted for op in transactions.values()):
        return None
    drawn = tuple(_node(number, op) for number, op in transactions.items())
    return DrawnCycle(nodes=drawn, edges=edges, others=_others(edges, history))


def _transactions(numbers: Iterable[int | str], history: History) -> dict[int, Operation]:
    """Return the transactions with these numbers that the history has."""
    operations = ((number, history.transactions.get(number)) for number in numbers if isinstance(number, int))
    return {number: op for number, op in operations if op is not None}


def _others(edges: Sequence[Edge], history: History) -> tuple[DrawnNode, ...]:
    """Return the transactions that prove an edge without being part of the cycle, as a read that shows an order."""
    ends = {edge.source for edge in edges}
    numbers = dict.fromkeys(number for edge in edges for number in edge.shown_by if number not in ends)
    return tuple(_node(number, op) for number, op in _transactions(numbers, history).items())


def _node(number: int, op: Operation) -> DrawnNode:
    where = "" if op.node == UNNAMED_NODE else f" on {op.node}"
    about = f"process {op.process}{where}, {events_words(op)}"
    if op.type is not Outcome.OK:
        about += f", {outcome_words(op)}"
    return DrawnNode(name=f"T{number}", about=about, lines=tuple(micro_words(op)))


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


#: Nobody reads wider lines as one picture.
WIDTH_MAX: Final = 100
#: A narrower terminal has no room for a drawing; its lines may be longer than the terminal.
WIDTH_MIN: Final = 20
_COLOURS: Final = {"marked": "red", "unknown": "yellow", "kind": "cyan", "soft": "bright_black"}


class Terminal(msgspec.Struct, frozen=True, kw_only=True):
    """A terminal: `width` in columns; with `unicode`, lines and arrows may use characters beyond ASCII."""

    width: int = WIDTH_MAX
    unicode: bool = True
    colour: bool = False

    def narrower(self, indent: int) -> "Terminal":
        """Return this terminal without the columns of an indent; a minimum width always remains."""
        return msgspec.structs.replace(self, width=max(self.width - indent, WIDTH_MIN))

    def painted(self, phrase: str, what: str) -> str:
        """Colour a text by its kind, if colours are wanted."""
        if not self.colour or not what:
            return phrase
        return click.style(phrase, fg=_COLOURS[what], bold=what == "marked")


def of_stdout() -> Terminal:
    """Describe standard output; COLUMNS and NO_COLOR are honoured."""
    out = sys.stdout
    try:
        known = codecs.lookup(out.encoding or "ascii").name
    except LookupError:
        known = "ascii"
    wide = shutil.get_terminal_size((WIDTH_MAX, 24)).columns
    return Terminal(
        width=min(wide, WIDTH_MAX),
        unicode=known.startswith("utf"),
        colour=out.isatty() and not os.environ.get("NO_COLOR"),
    )


#: The limit of one operation's words, in cells.
_WORDS_MAX: Final = 120


def listing(witness: Witness, history: History, terminal: Terminal) -> list[str]:
    """List what the witness shows, no line wider than the terminal; no lines if it names no operation."""
    shown = scene(witness, history)
    if shown is None:
        return []
    entries = [(each.operation.invoke_index, _operation(each, terminal)) for each in shown.operations]
    entries += [(fault.begin, _fault(fault, terminal)) for fault in shown.faults]
    lines = [line for _, own in sorted(entries) for line in own]
    if shown.left_out:
        lines += wrapped(f"{shown.left_out} more left out.", terminal.width)
    return lines


def _fault(fault: Disturbance, terminal: Terminal) -> list[str]:
    until = "never healed" if fault.end is None else f"healed from event {fault.end} on"
    line = f"- fault: {fault.phrase} (proven at event {fault.begin}, {until})"
    return wrapped(plain(line, unicode=terminal.unicode), terminal.width, "", "  ")


def _operation(shown: ShownOperation, terminal: Terminal) -> list[str]:
    operation = shown.operation
    more = "…" if terminal.unicode else "..."
    phrase = clipped(plain(shown.phrase, unicode=terminal.unicode), _WORDS_MAX, more)
    node = "" if operation.node == UNNAMED_NODE else f" on {operation.node}"
    outcome = "" if operation.type is Outcome.OK else f", {outcome_words(operation)}"
    text = f"{phrase if shown.named else f'({phrase})'}{node} ({events_words(operation)})"
    line = f"{text}{plain(outcome, unicode=terminal.unicode)}"
    begin = f"{'>' if shown.marked else '-'} process {operation.process}: "
    lines = wrapped(line, terminal.width, begin, "  ")
    return [terminal.painted(line, "marked") for line in lines] if shown.marked else lines
