"""The operations of a witness and the faults in force meanwhile, listed for a terminal in the order of their events.

    - process 0: write 3 (events 0 and 1)
    - fault: pause n2 (proven at event 2, healed from event 5 on)
    > process 1: read = 1 (events 3 and 4)

`>` marks the operation that the witness is about. Operations in brackets are not named by the witness, but happened
just before or beside it.
"""

from typing import Final

from fencepost.harness.history import UNNAMED_NODE, History, Outcome
from fencepost.harness.report.drawing.cells import clipped, plain, wrapped
from fencepost.harness.report.drawing.cycle import events_words
from fencepost.harness.report.drawing.scene import Disturbance, ShownOperation, outcome_words, scene
from fencepost.harness.report.drawing.terminal import Terminal
from fencepost.harness.verdict import Witness

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
