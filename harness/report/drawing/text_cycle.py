"""A cycle drawn as lines of text: nodes below each other, arrows with their reasons between them, and the way back.

+-> T0  append x 1; r y = nothing
|   |
|   | rw  T0 read [] from key y, without 2, which T1 appended: it did so later
|   v
|   T1  append y 2; r x = nothing
|   |
|   | rw  T1 read [] from key x, without 1, which T0 appended: it did so later
+---+
"""

from typing import Final

import msgspec

from fencepost.harness.report.drawing.cells import cells, clipped, plain, wrapped
from fencepost.harness.report.drawing.cycle import Cycle
from fencepost.harness.report.drawing.terminal import Terminal

#: The most cells of one micro-operation, and the most lines of micro-operations of one node.
_MICRO: Final = 60
_LINES: Final = 4
#: On narrower terminals the lines begin at the left edge; the last number is the least width of a line of words.
_RAILED: Final = 44
_SMALLEST: Final = 10


class _Signs(msgspec.Struct, frozen=True):
    top: str
    rail: str
    bottom: str
    line: str
    arrow: str
    more: str


_ASCII: Final = _Signs("+-> ", "|", "+---+", "|", "v", "...")
_UNICODE: Final = _Signs("┌─▶ ", "│", "└───┘", "│", "▼", "…")


def cycle_text(cycle: Cycle, terminal: Terminal) -> list[str]:
    """Draw the cycle; no line is wider than the terminal."""
    signs = _UNICODE if terminal.unicode else _ASCII
    # With hardly any room for words, the drawing leaves out the way back.
    wide = terminal.width >= _RAILED
    rail, top, bottom = (f"{signs.rail}   ", signs.top, signs.bottom) if wide else ("", "", "")
    kinds = max(len(edge.kind) for edge in cycle.edges)
    lines: list[str] = []
    for place, (node, edge) in enumerate(zip(cycle.nodes, cycle.edges, strict=True)):
        name = plain(node.name, unicode=terminal.unicode)
        indent = " " * (cells(name) + 2 if wide else 2)
        about = _wrapped(plain(node.about, unicode=terminal.unicode), terminal, rail + indent)
        if not wide:
            about = ["", *about]
        lines.append(f"{rail if place else top}{terminal.painted(name, 'marked')}  {about[0]}")
        lines += [f"{rail}{indent}{line}" for line in [*about[1:], *_micro(node.lines, terminal, signs, rail + indent)]]
        lines.append(f"{rail}{signs.line}")
        indent = f"{signs.line} {' ' * kinds}  "
        label = f"{signs.line} {terminal.painted(edge.kind.ljust(kinds), 'kind')}  "
        reasons = _wrapped(plain(edge.text, unicode=terminal.unicode), terminal, rail + indent)
        lines += [f"{rail}{indent if number else label}{line}" for number, line in enumerate(reasons)]
        if edge is not cycle.edges[-1]:
            lines.append(f"{rail}{signs.arrow}")
        else:
            lines.append(bottom or f"{signs.arrow} {plain(cycle.nodes[0].name, unicode=terminal.unicode)} again")
    lines += [""] * bool(cycle.others)
    for node in cycle.others:
        transaction = f"{node.name}  {node.about}: {'; '.join(_short(node.lines, terminal, signs))}"
        lines += wrapped(plain(transaction, unicode=terminal.unicode), terminal.width, "", "    ")
    return [line.rstrip() for line in lines]


def _wrapped(line: str, terminal: Terminal, before: str) -> list[str]:
    return wrapped(line, max(terminal.width - cells(before), _SMALLEST))


def _micro(lines: tuple[str, ...], terminal: Terminal, signs: _Signs, before: str) -> list[str]:
    """Put as many micro-operations on each line as there is room for."""
    if not lines:
        return []
    out = _wrapped("; ".join(_short(lines, terminal, signs)), terminal, before)
    # Narrow lines hold few micro-operations, so more lines are allowed.
    most = _LINES * max(_MICRO // terminal.width, 1)
    if len(out) <= most:
        return out
    return [*out[: most - 1], *_wrapped(f"{signs.more} {len(lines)} micro-operations in all", terminal, before)]


def _short(lines: tuple[str, ...], terminal: Terminal, signs: _Signs) -> list[str]:
    return [clipped(plain(line, unicode=terminal.unicode), _MICRO, signs.more) for line in lines]
