"""A scene drawn as lines of text: a lane per process, a bar per operation; moments in order, not to scale.

    process 0   |- write 3 -|
    process 1                 |= read = 1 =|
                              ^^^^^^^^^^^^^^ stale-read

A bar holds its words if there is room; else it holds a letter and the words stand below. Without room for letters the
operations are listed.
"""

import string
from collections.abc import Mapping
from typing import Final

import msgspec

from fencepost.harness.history import Outcome
from fencepost.harness.interchange.formats.imported import UNNAMED_NODE
from fencepost.harness.report.drawing.cells import cells, clipped, plain, wrapped
from fencepost.harness.report.drawing.cycle import events_words
from fencepost.harness.report.drawing.scene import Bar, Disturbance, Lane, Scene, outcome_words
from fencepost.harness.report.drawing.terminal import Terminal

#: Limits of the words in a bar, in cells; the first one that fits is used.
_LIMITS: Final = (44, 28)
#: The limit of the words below the picture, in cells.
_WHOLE: Final = 120
_AXIS: Final = "event"
_FAULT: Final = "fault"
_FAULT_LINE: Final = "~"
_FAULT_MAX: Final = 20


class _Signs(msgspec.Struct, frozen=True):
    begin: str
    line: str
    end: str
    marked_begin: str
    marked_line: str
    marked_end: str
    failed: str
    endless: str
    mark: str
    more: str


_ASCII: Final = _Signs("|", "-", "|", "|", "=", "|", "x", ".", "^", "...")
_UNICODE: Final = _Signs("├", "─", "┤", "┝", "━", "┥", "╌", "┄", "▲", "…")


class _Layout(msgspec.Struct, frozen=True):
    """A layout: the words of each bar and fault by its first event, the column of each moment, the lanes' end."""

    names: dict[int, str]
    lettered: bool
    columns: dict[int, int]
    end: int


def lanes_text(scene: Scene, terminal: Terminal) -> list[str]:
    """Draw the scene; no line is wider than the terminal."""
    signs = _UNICODE if terminal.unicode else _ASCII
    for long in (True, False):
        labels = [plain(_lane_name(lane, long), unicode=terminal.unicode) for lane in scene.lanes]
        left = max(cells(name) for name in (*labels, _AXIS, _FAULT)) + 2
        for names, lettered in _choices(scene, terminal, signs, lettered=not long):
            layout = _laid_out(scene, names, left, lettered=lettered)
            if layout.end <= terminal.width:
                return _drawn(scene, layout, labels, terminal, signs)
    return _listed(scene, terminal, signs)


def _lane_name(lane: Lane, long: bool) -> str:
    if not long:
        return f"p{lane.process}"
    return f"process {lane.process}" + (f" on {lane.node}" if lane.node else "")


def _names(scene: Scene) -> dict[int, str]:
    """Give each operation a short name: the checker's name for it, else a letter."""
    return {bar.begin: bar.name or letter for bar, letter in zip(scene.bars, string.ascii_letters, strict=False)}


def _choices(scene: Scene, terminal: Terminal, signs: _Signs, *, lettered: bool) -> list[tuple[dict[int, str], bool]]:
    """List the choices of words for the bars: the longest first, the short names last.

    Each choice says whether it uses short names: their words then stand below the picture.
    """
    faults = {
        fault.begin: clipped(plain(fault.phrase, unicode=terminal.unicode), _FAULT_MAX, signs.more)
        for fault in scene.faults
    }
    # A cut transaction says less than its name, and the full text stands below the picture.
    named = any(bar.name for bar in scene.bars)
    choices: list[tuple[dict[int, str], bool]] = []
    for limit in _LIMITS[: 1 if named else None]:
        names = {}
        for bar in scene.bars:
            name = plain(bar.phrase, unicode=terminal.unicode)
            failed = " (failed)" if bar.operation.type is Outcome.FAIL else ""
            name = clipped(name, limit - len(failed), signs.more) + failed
            names[bar.begin] = name if bar.named else f"({name})"
        if not named or all(cells(bar.phrase) <= limit for bar in scene.bars):
            choices.append((names | faults, False))
    return [*choices, (_names(scene) | faults, True)] if lettered or named else choices


def _laid_out(scene: Scene, names: Mapping[int, str], left: int, *, lettered: bool) -> _Layout:
    """Choose the narrowest columns in which every bar has room for its words."""
    around = 2 if lettered else 6
    spans = [(bar.begin, bar.end) for bar in scene.bars] + [(fault.begin, fault.end) for fault in scene.faults]
    columns: dict[int, int] = {}
    at = left - 2
    for moment in scene.moments:
        at += 2
        for begin, end in spans:
            if end == moment:
                at = max(at, columns[begin] + cells(names[begin]) + around - 1)
        columns[moment] = at
    last = at + 1
    for begin, end in spans:
        if end is None:
            last = max(last, columns[begin] + cells(names[begin]) + around + 4)
    return _Layout(dict(names), lettered, columns, last)


class _Row:
    """One line, written at columns from left to right; each piece may have a colour."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._text = ""
        self.at = 0

    def write(self, column: int, line: str, what: str = "") -> None:
        """Write at `column`, or directly after the text that stands there already."""
        self._text += " " * (column - self.at)
        self.at = max(column, self.at) + cells(line)
        self._text += self._terminal.painted(line, what)

    @property
    def text(self) -> str:
        return self._text.rstrip(" ")


def _drawn(scene: Scene, layout: _Layout, names: list[str], terminal: Terminal, signs: _Signs) -> list[str]:
    lines = [_fault(fault, layout, terminal, signs) for fault in scene.faults]
    for lane, name in zip(scene.lanes, names, strict=True):
        row = _Row(terminal)
        row.write(0, name)
        mark: _Row | None = None
        for bar in lane.bars:
            x0 = layout.columns[bar.begin]
            x1 = layout.end - 1 if bar.end is None else layout.columns[bar.end]
            row.write(x0, _bar(bar, layout.names[bar.begin], x1 - x0 + 1, signs), _colour(bar))
            if bar.marked:
                mark = _mark(x0, x1, scene.anomaly, terminal, signs)
        lines.append(row.text)
        if mark is not None:
            lines.append(mark.text)
    lines.append(_axis(scene, layout, terminal))
    lines.append("")
    lines += _notes(scene, terminal, signs)
    if layout.lettered:
        lines += _legend(scene, layout, terminal, signs)
    return lines


def _fault(fault: Disturbance, layout: _Layout, terminal: Terminal, signs: _Signs) -> str:
    """Draw a fault as a lane of its own: `|~ pause n2 ~|`."""
    x0, name = layout.columns[fault.begin], layout.names[fault.begin]
    width = (layout.end - 1 if fault.end is None else layout.columns[fault.end]) - x0 + 1
    inner = f" {name} " if width - 2 - cells(name) >= 4 else name
    lines = width - 1 - cells(inner) - (fault.end is not None)
    end = "" if fault.end is None else signs.end
    row = _Row(terminal)
    row.write(0, _FAULT)
    row.write(
        x0, f"{signs.begin}{_FAULT_LINE * (lines // 2)}{inner}{_FAULT_LINE * (lines - lines // 2)}{end}", "unknown"
    )
    return row.text


def _colour(bar: Bar) -> str:
    if bar.marked:
        return "marked"
    return "unknown" if bar.operation.type is Outcome.INFO else "" if bar.named else "soft"


def _bar(bar: Bar, name: str, width: int, signs: _Signs) -> str:
    """Draw a bar: `|- write 3 -|`; dots follow an unknown outcome."""
    begin, line, end = signs.begin, signs.line, signs.end
    if bar.marked:
        begin, line, end = signs.marked_begin, signs.marked_line, signs.marked_end
    if bar.operation.type is Outcome.FAIL:
        line = signs.failed
    room = width - 2 - cells(name)
    drawn = f" {name} " if room >= 4 else name
    if bar.end is None:
        drawn = f"{begin}{line}{drawn}"
        return drawn + signs.endless * (width - cells(drawn))
    lines = width - 2 - cells(drawn)
    return f"{begin}{line * (lines // 2)}{drawn}{line * (lines - lines // 2)}{end}"


def _mark(x0: int, x1: int, anomaly: str, terminal: Terminal, signs: _Signs) -> _Row:
    """Draw the mark below the operation that the witness is about; its words stand where there is room."""
    row = _Row(terminal)
    right = x1 + 2 + len(anomaly) <= terminal.width
    if not right and x0 - len(anomaly) - 1 >= 0:
        row.write(x0 - len(anomaly) - 1, anomaly, "marked")
    row.write(x0, signs.mark * (x1 - x0 + 1), "marked")
    if right:
        row.write(x1 + 2, anomaly, "marked")
    return row


def _axis(scene: Scene, layout: _Layout, terminal: Terminal) -> str:
    """Put the number of each event below its moment, if there is room; the marked operation goes first."""
    labels: list[tuple[int, int, str]] = []
    about = {moment for bar in scene.bars if bar.marked for moment in (bar.begin, bar.end)}
    for moment in sorted(scene.moments, key=lambda m: (m not in about, m)):
        x0, number = layout.columns[moment], str(moment)
        x1 = x0 + len(number)
        if x1 <= terminal.width and all(x1 < other0 or x0 > other1 for other0, other1, _ in labels):
            labels.append((x0, x1, number))
    row = _Row(terminal)
    row.write(0, _AXIS, "soft")
    for x0, _, number in sorted(labels):
        row.write(x0, number, "soft")
    return row.text


def _notes(scene: Scene, terminal: Terminal, signs: _Signs) -> list[str]:
    notes = ["Events in order, not to scale."]
    if any(bar.end is None for bar in scene.bars):
        notes.append(f"{signs.endless * 3} outcome unknown: it may take effect at any later time, or never.")
    if not all(bar.named for bar in scene.bars):
        notes.append("In brackets: not named by the witness, but just before or beside it.")
    if scene.left_out:
        notes.append(f"{scene.left_out} more operation{'' if scene.left_out == 1 else 's'} of this witness left out.")
    return wrapped(" ".join(notes), terminal.width)


def _legend(scene: Scene, layout: _Layout, terminal: Terminal, signs: _Signs) -> list[str]:
    wide = max(cells(layout.names[bar.begin]) for bar in scene.bars) + 2
    lines = []
    for bar in scene.bars:
        name = layout.names[bar.begin]
        lines += _listed_bar(bar, terminal, signs, name.ljust(wide), " " * wide)
    return lines


def _listed(scene: Scene, terminal: Terminal, signs: _Signs) -> list[str]:
    """List the operations in the order of invocation, for a terminal too narrow for a picture."""
    processes = [(bar, lane.process) for lane in scene.lanes for bar in lane.bars]
    lines = []
    for bar, process in sorted(processes, key=lambda item: item[0].begin):
        begin = "> " if bar.marked else "- "
        lines += _listed_bar(bar, terminal, signs, f"{begin}process {process}: ", "  ")
    for fault in scene.faults:
        until = "never healed" if fault.end is None else f"healed from event {fault.end} on"
        line = f"- {_FAULT}: {fault.phrase} (proven at event {fault.begin}, {until})"
        lines += wrapped(plain(line, unicode=terminal.unicode), terminal.width, "", "  ")
    if scene.left_out:
        lines += wrapped(f"{scene.left_out} more left out.", terminal.width)
    return lines


def _listed_bar(bar: Bar, terminal: Terminal, signs: _Signs, begin: str, then: str) -> list[str]:
    """Describe an operation: what it did, its events and its outcome."""
    full_name = clipped(plain(bar.phrase.removeprefix(f"{bar.name}: "), unicode=terminal.unicode), _WHOLE, signs.more)
    outcome = (
        "" if bar.operation.type is Outcome.OK else f", {plain(outcome_words(bar.operation), unicode=terminal.unicode)}"
    )
    node = "" if bar.operation.node == UNNAMED_NODE else f" on {bar.operation.node}"
    full_name = full_name if bar.named else f"({full_name})"
    lines = wrapped(f"{full_name}{node} ({events_words(bar.operation)}){outcome}", terminal.width, begin, then)
    return [terminal.painted(line, "marked") for line in lines] if bar.marked else lines
