"""Tables of what faults cost a quorum and its followers: leaderless time, epochs, late brokers, false answers.

The figures are `FaultCost`, `Attachment` and `Denied` of `systems.kafka.figures`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from fencepost.harness.report.section import CLAIMS, AddedTables, ReportCase, TextTable, tabulated
from fencepost.harness.report.words import clock, count, length, traced
from fencepost.harness.verdict.by_guarantee import listed
from fencepost.harness.verdict.figures import Traced
from fencepost.systems.kafka.figures import COSTS, Attachment, Denied, FaultCost

R = TypeVar("R", bound=msgspec.Struct)


def costs(case: ReportCase) -> list[TextTable]:
    """Make one table for each kind of figure that the verdicts contain."""
    word = case.facts.vocabulary.epoch
    made = (
        _table("What each fault cost the quorum", listed(case.verdicts, FaultCost), _FAULTS, word),
        _table("How long brokers stayed with a superseded controller", listed(case.verdicts, Attachment), _STAYS, word),
        _table("Nodes that called a name free although it was in use", listed(case.verdicts, Denied), _DENIED, word),
    )
    return [table for table in made if table is not None]


def _table(caption: str, rows: list[R], columns: Mapping[str, Callable[[R], str]], word: str) -> TextTable | None:
    named = [(name.format(word=word), of) for name, of in columns.items()]
    return tabulated(caption, named, rows) if rows else None


def _lasting(figure: Traced[int] | None) -> str:
    return "–" if figure is None else traced(length(figure.value), figure.rows)


def _moment(figure: Traced[int]) -> str:
    return traced(clock(figure.value), figure.rows)


def _counted(figure: Traced[int]) -> str:
    return traced(count(figure.value), figure.rows)


def _value(figure: Traced[Any] | None) -> str:
    return "–" if figure is None else traced(str(figure.value), figure.rows)


def _in_force(row: FaultCost) -> str:
    return traced(f"{clock(row.from_ns.value)} – {clock(row.to_ns.value)}", (*row.from_ns.rows, *row.to_ns.rows))


def _epochs(row: FaultCost) -> str:
    """Show the epoch before the fault, at its healing, and when the next fault began or the run ended."""
    epochs = (row.epoch_before, row.epoch_when_healed, row.epoch_after)
    joined = " → ".join("?" if epoch is None else str(epoch.value) for epoch in epochs)
    return traced(joined, [i for epoch in epochs if epoch is not None for i in epoch.rows])


def _back(row: FaultCost) -> str:
    if not row.came_back.value:
        return "–"
    healthy = Traced("") if row.healthy_leader is None else row.healthy_leader
    led = f", {healthy.value} led" if healthy.value else ""
    return traced(f"{', '.join(row.came_back.value)}{led}", (*row.came_back.rows, *healthy.rows))


def _deposed(row: FaultCost) -> str:
    if row.deposed_after_ns is None:
        return "no" if row.healthy_leader else "–"
    doubt = ", but the machine stalled" if row.stalled else ""
    return traced(f"after {length(row.deposed_after_ns.value)}{doubt}", row.deposed_after_ns.rows)


def _stale(row: Attachment) -> str:
    least = "at least " if row.undecided_describes.value else ""
    return traced(f"{least}{count(row.stale_describes.value)}", row.stale_describes.rows)


_FAULTS: Final[dict[str, Callable[[FaultCost], str]]] = {
    "fault": lambda row: f"{row.fault} {', '.join(row.nodes)}",
    "certainly in force": _in_force,
    "led then": lambda row: _value(row.leader),
    "{word} before, healed, after": _epochs,
    "leaderless for": lambda row: _lasting(row.leaderless_ns),
    "first change accepted after": lambda row: _lasting(row.changes_resumed_ns),
    "came back": _back,
    "deposed it": _deposed,
    "then leaderless for": lambda row: _lasting(row.deposed_leaderless_ns),
}
_STAYS: Final[dict[str, Callable[[Attachment], str]]] = {
    "broker": lambda row: row.broker,
    "with": lambda row: _value(row.leader),
    "{word}": lambda row: _value(row.epoch),
    "superseded by": lambda row: _value(row.superseded_by),
    "at": lambda row: _moment(row.from_ns),
    "still named it for": lambda row: _lasting(row.named_ns),
    "followed after": lambda row: _lasting(row.followed_ns),
    "questions unanswered": lambda row: _counted(row.silent),
    "stale configuration reads": _stale,
    "oldest by": lambda row: _lasting(row.stale_age_ns_max),
}
_DENIED: Final[dict[str, Callable[[Denied], str]]] = {
    "node": lambda row: row.node,
    "false answers": lambda row: _counted(row.denials),
    "first asked": lambda row: _moment(row.from_ns),
    "last given": lambda row: _moment(row.to_ns),
    "in use for up to": lambda row: _lasting(row.late_ns_max),
}

TABLES: Final = AddedTables(within=CLAIMS, make=costs, shows=COSTS)
