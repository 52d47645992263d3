"""The drawing of a witness for a terminal: its cycle if it has one, else its operations in lanes."""

import msgspec

from fencepost.harness.history import History
from fencepost.harness.report.drawing.cycle import cycle_of
from fencepost.harness.report.drawing.scene import scene
from fencepost.harness.report.drawing.terminal import Terminal
from fencepost.harness.report.drawing.text_cycle import cycle_text
from fencepost.harness.report.drawing.text_lanes import lanes_text
from fencepost.harness.verdict import Witness


class Drawing(msgspec.Struct, frozen=True):
    """A drawing: lines no wider than the terminal (none without operations), and the sentences that they replace."""

    lines: list[str]
    sentences: frozenset[str] = frozenset()


def drawing(witness: Witness, history: History, terminal: Terminal) -> Drawing:
    """Draw one witness of this history."""
    cycle = cycle_of(witness, history)
    if cycle is not None:
        return Drawing(cycle_text(cycle, terminal), frozenset(edge.sentence for edge in witness.edges))
    shown = scene(witness, history)
    return Drawing([] if shown is None else lanes_text(shown, terminal))
