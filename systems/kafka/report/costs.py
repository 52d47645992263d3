"""Tables of what faults cost a quorum and its followers: leaderless time, epochs, late brokers, false answers.

The figures are `FaultCost`, `Attachment` and `Denied` of `systems.kafka.figures`.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec

from fencepost.harness.report.section import CLAIMS, ROWS_MAX, AddedTables, ReportCase, TextTable, cut_note
from fencepost.harness.report.words import Traced, clock, count, length, rows_of, traced
from fencepost.harness.verdict.by_guarantee import figures_of
from fencepost.systems.kafka.figures import Attachment, Denied, FaultCost, RejoinFigures, TopicNameFigures

R = TypeVar("R", bound=msgspec.Struct)
#: Makes a cell from any row that has the field; a row without it fails when the page is made.
_Cell = Callable[[msgspec.Struct], str]


def costs(case: ReportCase) -> list[TextTable]:
    """Make one table for each kind of figure that the verdicts contain."""
    word = case.facts.vocabulary.epoch
    rejoin = figures_of(case.verdicts, RejoinFigures)
    faults, stays = [c for f in rejoin for c in f.faults], [a for f in rejoin for a in f.attachments]
    denied = [d for f in figures_of(case.verdicts, TopicNameFigures) for d in f.by_node]
    made = (
        _table("What each fault cost the quorum", faults, _FAULTS, word),
        _table("How long brokers stayed with a superseded controller", stays, _STAYS, word),
        _table("Nodes that called a name free although it was in use", denied, _DENIED, word),
    )
    return [table for table in made if table is not None]


def _table(caption: str, rows: list[R], columns: Mapping[str, Callable[[R], str]], word: str) -> TextTable | None:
    if not rows:
        return None
    return TextTable(
        caption=caption,
        columns=tuple(name.format(word=word) for name in columns),
        rows=tuple(tuple(cell(row) for cell in columns.values()) for row in rows[:ROWS_MAX]),
        note=cut_note(len(rows)),
    )


def _lasting(key: str) -> _Cell:
    return lambda row: "–" if getattr(row, key) is None else traced(length(getattr(row, key)), rows_of(row, key))


def _moment(key: str) -> _Cell:
    return lambda row: traced(clock(getattr(row, key)), rows_of(row, key))


def _counted(key: str) -> _Cell:
    return lambda row: traced(count(getattr(row, key)), rows_of(row, key))


def _value(key: str) -> _Cell:
    return lambda row: "–" if getattr(row, key) is None else traced(str(getattr(row, key)), rows_of(row, key))


def _in_force(row: FaultCost) -> str:
    rows = (*rows_of(row, "from_ns"), *rows_of(row, "to_ns"))
    return traced(f"{clock(row.from_ns)} – {clock(row.to_ns)}", rows)


def _epochs(row: FaultCost) -> str:
    """Show the epoch before the fault, at its healing, and when the next fault began or the run ended."""
    epochs = {
        "epoch_before": row.epoch_before,
        "epoch_when_healed": row.epoch_when_healed,
        "epoch_after": row.epoch_after,
    }
    joined = " → ".join("?" if epoch is None else str(epoch) for epoch in epochs.values())
    return traced(joined, [i for name in epochs for i in rows_of(row, name)])


def _back(row: FaultCost) -> str:
    if not row.came_back:
        return "–"
    healthy = f", {row.healthy_leader} led" if row.healthy_leader else ""
    rows = (*rows_of(row, "came_back"), *rows_of(row, "healthy_leader"))
    return traced(f"{', '.join(row.came_back)}{healthy}", rows)


def _deposed(row: FaultCost) -> str:
    if row.deposed_after_ns is None:
        return "no" if row.healthy_leader else "–"
    doubt = ", but the machine stalled" if row.stalled else ""
    return Traced(f"after {length(row.deposed_after_ns)}{doubt}", rows_of(row, "deposed_after_ns"))


def _stale(row: Attachment) -> str:
    least = "at least " if row.undecided_describes else ""
    return traced(f"{least}{count(row.stale_describes)}", rows_of(row, "stale_describes"))


_FAULTS: Final[dict[str, Callable[[FaultCost], str]]] = {
    "fault": lambda row: f"{row.fault} {', '.join(row.nodes)}",
    "certainly in force": _in_force,
    "led then": _value("leader"),
    "{word} before, healed, after": _epochs,
    "leaderless for": _lasting("leaderless_ns"),
    "first change accepted after": _lasting("changes_resumed_ns"),
    "came back": _back,
    "deposed it": _deposed,
    "then leaderless for": _lasting("deposed_leaderless_ns"),
}
_STAYS: Final[dict[str, Callable[[Attachment], str]]] = {
    "broker": lambda row: row.broker,
    "with": _value("leader"),
    "{word}": _value("epoch"),
    "superseded by": _value("superseded_by"),
    "at": _moment("from_ns"),
    "still named it for": _lasting("named_ns"),
    "followed after": _lasting("followed_ns"),
    "questions unanswered": _counted("silent"),
    "stale configuration reads": _stale,
    "oldest by": _lasting("stale_age_ns_max"),
}
_DENIED: Final[dict[str, Callable[[Denied], str]]] = {
    "node": lambda row: row.node,
    "false answers": _counted("denials"),
    "first asked": _moment("from_ns"),
    "last given": _moment("to_ns"),
    "in use for up to": _lasting("late_ns_max"),
}

TABLES: Final = AddedTables(within=CLAIMS, make=costs)
