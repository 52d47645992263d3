"""A scene as lines of text: a lane for each process, a bar for each operation, moments in order and not to scale.

    process 0   |- write 3 -|
    process 1                 |= read = 1 =|
                              ^^^^^^^^^^^^^^ stale-read

Words stand in the bars where there is room; else a letter does, and the words below. Where not even letters have room,
the operations are listed.
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

#: How long the words in a bar may be, tried in turn.
_LIMITS: Final = (44, 28)
#: How long they may be below the picture.
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
    """The words of each bar and fault by its first event, the column of each moment, and where the lanes end."""

    words: dict[int, str]
    lettered: bool
    columns: dict[int, int]
    end: int


def lanes_text(scene: Scene, terminal: Terminal) -> list[str]:
    """The drawing, no line wider than the terminal."""
    signs = _UNICODE if terminal.unicode else _ASCII
    for long in (True, False):
        names = [plain(_lane_name(lane, long), unicode=terminal.unicode) for lane in scene.lanes]
        left = max(cells(name) for name in (*names, _AXIS, _FAULT)) + 2
        for words, lettered in _choices(scene, terminal, signs, lettered=not long):
            layout = _laid_out(scene, words, left, lettered=lettered)
            if layout.end <= terminal.width:
                return _drawn(scene, layout, names, terminal, signs)
    return _listed(scene, terminal, signs)


def _lane_name(lane: Lane, long: bool) -> str:
    if not long:
        return f"p{lane.process}"
    return f"process {lane.process}" + (f" on {lane.node}" if lane.node else "")


def _names(scene: Scene) -> dict[int, str]:
    """A short name for each operation: what the checker calls it, else a letter."""
    return {bar.begin: bar.name or letter for bar, letter in zip(scene.bars, string.ascii_letters, strict=False)}


def _choices(scene: Scene, terminal: Terminal, signs: _Signs, *, lettered: bool) -> list[tuple[dict[int, str], bool]]:
    """Words for the bars, the fullest first; the short names last, for all lanes that could be named shortly too.

    With each choice: whether it is short names, whose words stand below.
    """
    faults = {
        fault.begin: clipped(plain(fault.said, unicode=terminal.unicode), _FAULT_MAX, signs.more)
        for fault in scene.faults
    }
    # A transaction that is cut says less than its name, below which it stands in full.
    named = any(bar.name for bar in scene.bars)
    found: list[tuple[dict[int, str], bool]] = []
    for limit in _LIMITS[: 1 if named else None]:
        words = {}
        for bar in scene.bars:
            said = plain(bar.said, unicode=terminal.unicode)
            failed = " (failed)" if bar.operation.type is Outcome.FAIL else ""
            said = clipped(said, limit - len(failed), signs.more) + failed
            words[bar.begin] = said if bar.named else f"({said})"
        if not named or all(cells(bar.said) <= limit for bar in scene.bars):
            found.append((words | faults, False))
    return [*found, (_names(scene) | faults, True)] if lettered or named else found


def _laid_out(scene: Scene, words: Mapping[int, str], left: int, *, lettered: bool) -> _Layout:
    """The narrowest columns in which every bar has room for its words."""
    around = 2 if lettered else 6
    spans = [(bar.begin, bar.end) for bar in scene.bars] + [(fault.begin, fault.end) for fault in scene.faults]
    columns: dict[int, int] = {}
    at = left - 2
    for moment in scene.moments:
        at += 2
        for begin, end in spans:
            if end == moment:
                at = max(at, columns[begin] + cells(words[begin]) + around - 1)
        columns[moment] = at
    last = at + 1
    for begin, end in spans:
        if end is None:
            last = max(last, columns[begin] + cells(words[begin]) + around + 4)
    return _Layout(dict(words), lettered, columns, last)


class _Row:
    """One line, written at columns from left to right; each piece may have a colour."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._said = ""
        self.at = 0

    def write(self, column: int, said: str, what: str = "") -> None:
        """At `column`, or right behind what stands there."""
        self._said += " " * (column - self.at)
        self.at = max(column, self.at) + cells(said)
        self._said += self._terminal.painted(said, what)

    @property
    def said(self) -> str:
        return self._said.rstrip(" ")


def _drawn(scene: Scene, layout: _Layout, names: list[str], terminal: Terminal, signs: _Signs) -> list[str]:
    lines = [_fault(fault, layout, terminal, signs) for fault in scene.faults]
    for lane, name in zip(scene.lanes, names, strict=True):
        row = _Row(terminal)
        row.write(0, name)
        mark: _Row | None = None
        for bar in lane.bars:
            x0 = layout.columns[bar.begin]
            x1 = layout.end - 1 if bar.end is None else layout.columns[bar.end]
            row.write(x0, _bar(bar, layout.words[bar.begin], x1 - x0 + 1, signs), _colour(bar))
            if bar.marked:
                mark = _mark(x0, x1, scene.anomaly, terminal, signs)
        lines.append(row.said)
        if mark is not None:
            lines.append(mark.said)
    lines.append(_axis(scene, layout, terminal))
    lines.append("")
    lines += _notes(scene, terminal, signs)
    if layout.lettered:
        lines += _legend(scene, layout, terminal, signs)
    return lines


def _fault(fault: Disturbance, layout: _Layout, terminal: Terminal, signs: _Signs) -> str:
    """A lane of its own: `|~ pause n2 ~|`."""
    x0, words = layout.columns[fault.begin], layout.words[fault.begin]
    width = (layout.end - 1 if fault.end is None else layout.columns[fault.end]) - x0 + 1
    said = f" {words} " if width - 2 - cells(words) >= 4 else words
    lines = width - 1 - cells(said) - (fault.end is not None)
    end = "" if fault.end is None else signs.end
    row = _Row(terminal)
    row.write(0, _FAULT)
    row.write(
        x0, f"{signs.begin}{_FAULT_LINE * (lines // 2)}{said}{_FAULT_LINE * (lines - lines // 2)}{end}", "unknown"
    )
    return row.said


def _colour(bar: Bar) -> str:
    if bar.marked:
        return "marked"
    return "unknown" if bar.operation.type is Outcome.INFO else "" if bar.named else "soft"


def _bar(bar: Bar, words: str, width: int, signs: _Signs) -> str:
    """`|- write 3 -|`; an unknown outcome runs on in dots."""
    begin, line, end = signs.begin, signs.line, signs.end
    if bar.marked:
        begin, line, end = signs.marked_begin, signs.marked_line, signs.marked_end
    if bar.operation.type is Outcome.FAIL:
        line = signs.failed
    room = width - 2 - cells(words)
    said = f" {words} " if room >= 4 else words
    if bar.end is None:
        said = f"{begin}{line}{said}"
        return said + signs.endless * (width - cells(said))
    lines = width - 2 - cells(said)
    return f"{begin}{line * (lines // 2)}{said}{line * (lines - lines // 2)}{end}"


def _mark(x0: int, x1: int, anomaly: str, terminal: Terminal, signs: _Signs) -> _Row:
    """The line below the operation that the witness is about; its words stand where there is room."""
    row = _Row(terminal)
    right = x1 + 2 + len(anomaly) <= terminal.width
    if not right and x0 - len(anomaly) - 1 >= 0:
        row.write(x0 - len(anomaly) - 1, anomaly, "marked")
    row.write(x0, signs.mark * (x1 - x0 + 1), "marked")
    if right:
        row.write(x1 + 2, anomaly, "marked")
    return row


def _axis(scene: Scene, layout: _Layout, terminal: Terminal) -> str:
    """The number of each event below its moment, where there is room; first of the one that the witness is about."""
    taken: list[tuple[int, int, str]] = []
    about = {moment for bar in scene.bars if bar.marked for moment in (bar.begin, bar.end)}
    for moment in sorted(scene.moments, key=lambda m: (m not in about, m)):
        x0, said = layout.columns[moment], str(moment)
        x1 = x0 + len(said)
        if x1 <= terminal.width and all(x1 < other0 or x0 > other1 for other0, other1, _ in taken):
            taken.append((x0, x1, said))
    row = _Row(terminal)
    row.write(0, _AXIS, "soft")
    for x0, _, said in sorted(taken):
        row.write(x0, said, "soft")
    return row.said


def _notes(scene: Scene, terminal: Terminal, signs: _Signs) -> list[str]:
    said = ["Events in order, not to scale."]
    if any(bar.end is None for bar in scene.bars):
        said.append(f"{signs.endless * 3} outcome unknown: it may take effect at any later time, or never.")
    if not all(bar.named for bar in scene.bars):
        said.append("In brackets: not named by the witness, but just before or beside it.")
    if scene.left_out:
        said.append(f"{scene.left_out} more operation{'' if scene.left_out == 1 else 's'} of this witness left out.")
    return wrapped(" ".join(said), terminal.width)


def _legend(scene: Scene, layout: _Layout, terminal: Terminal, signs: _Signs) -> list[str]:
    wide = max(cells(layout.words[bar.begin]) for bar in scene.bars) + 2
    lines = []
    for bar in scene.bars:
        name = layout.words[bar.begin]
        lines += _told(bar, terminal, signs, name.ljust(wide), " " * wide)
    return lines


def _listed(scene: Scene, terminal: Terminal, signs: _Signs) -> list[str]:
    """For a terminal too narrow for a picture: one operation after the other, as they were invoked."""
    processes = [(bar, lane.process) for lane in scene.lanes for bar in lane.bars]
    lines = []
    for bar, process in sorted(processes, key=lambda found: found[0].begin):
        begin = "> " if bar.marked else "- "
        lines += _told(bar, terminal, signs, f"{begin}process {process}: ", "  ")
    for fault in scene.faults:
        until = "never healed" if fault.end is None else f"healed from event {fault.end} on"
        said = f"- {_FAULT}: {fault.said} (proven at event {fault.begin}, {until})"
        lines += wrapped(plain(said, unicode=terminal.unicode), terminal.width, "", "  ")
    if scene.left_out:
        lines += wrapped(f"{scene.left_out} more left out.", terminal.width)
    return lines


def _told(bar: Bar, terminal: Terminal, signs: _Signs, begin: str, then: str) -> list[str]:
    """An operation in words: what it did, its events and its outcome."""
    said = clipped(plain(bar.said.removeprefix(f"{bar.name}: "), unicode=terminal.unicode), _WHOLE, signs.more)
    outcome = (
        "" if bar.operation.type is Outcome.OK else f", {plain(outcome_words(bar.operation), unicode=terminal.unicode)}"
    )
    node = "" if bar.operation.node == UNNAMED_NODE else f" on {bar.operation.node}"
    said = said if bar.named else f"({said})"
    lines = wrapped(f"{said}{node} ({events_words(bar.operation)}){outcome}", terminal.width, begin, then)
    return [terminal.painted(line, "marked") for line in lines] if bar.marked else lines
