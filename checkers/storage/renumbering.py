"""Reads that show a write at another position than it was acknowledged at, as findings."""

from collections.abc import Iterator
from typing import Final

from fencepost.checkers.facts.numbering import Views
from fencepost.checkers.facts.positions import write_position
from fencepost.checkers.findings.circumstances import answered_words
from fencepost.checkers.findings.finding import Finding, shown
from fencepost.harness.history import History, Operation

RENUMBERED: Final = "renumbered-write"


def renumbered(history: History, views: Views) -> Iterator[Finding]:
    """Each read that shows a write at another position than it was acknowledged at."""
    for read, write in views.renumbered:
        yield Finding(
            anomaly=RENUMBERED,
            operations=(write, read),
            steps=(
                f"{write.f} of {write.value!r} to {write.key} was acknowledged by {write.node}{epoch_words(write)}, at "
                f"position {shown(write_position(write))}; nobody else wrote that.",
                f"{answered_words(history, read, None)}: {read.result!r}, written at position "
                f"{shown(read.value_position)}{epoch_words(read)}.",
                "A write has one position: the two servers do not hold the same store.",
            ),
            nodes=tuple(dict.fromkeys((read.node, write.node))),
        )


def epoch_words(operation: Operation) -> str:
    return "" if operation.epoch is None else f" in epoch {operation.epoch}"
