"""The few events that structure a run (phases, faults, servers' starts and deaths, elections), taken to the driver.

They are a few hundred at most, and what is derived from them (which fault was in force when, when a node was proven
stopped) is already defined by `harness.history.history`. So they are collected once and become a small History, rather
than being defined a second time as DataFrame steps.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from fencepost.harness.history import (
    EpochEvent,
    Event,
    FaultEvent,
    FaultSpan,
    History,
    NodeChange,
    NodeEvent,
    NoteEvent,
    PhaseEvent,
)

_TYPES: Final[dict[str, type[Event]]] = {
    "phase": PhaseEvent,
    "fault": FaultEvent,
    "node": NodeEvent,
    "epoch": EpochEvent,
}


class Landmarks:
    """The landmarks of one run; `history` holds them alone, under indexes of its own. `count`: events of the whole."""

    def __init__(self, events: Sequence[Event], *, end_ns: int, count: int, subjects: Sequence[str]) -> None:
        renumbered = [msgspec.structs.replace(event, index=index) for index, event in enumerate(events)]
        # The end of the run bounds what was never healed.
        end = NoteEvent(index=len(renumbered), time_ns=end_ns, topic="end", text="")
        self.history: Final = History([*renumbered, end], source="landmarks")
        self.end_ns: Final = end_ns
        self.count: Final = count
        self.subjects: Final = tuple(sorted(subjects))

    @property
    def faults(self) -> list[FaultSpan]:
        return self.history.faults

    def backgrounds(self) -> list[dict[str, Any]]:
        """The rows of BACKGROUNDS: one for every incarnation that the history names."""
        started = {(e.node, e.incarnation) for e in self.history.events if isinstance(e, NodeEvent | EpochEvent)}
        # A history may hold no server's start at all; every node then has its first incarnation.
        started |= {(node, 0) for fault in self.faults for node in fault.nodes}
        return [self._background(node, incarnation) for node, incarnation in sorted(started)]

    def _background(self, node: str, incarnation: int) -> dict[str, Any]:
        stops = [{"from_ns": start, "to_ns": end} for start, end in _merged(self.history.stopped(node))]
        elections = [
            {"epoch": e.epoch, "read_ns": e.time_ns}
            for e in self.history.events
            if isinstance(e, EpochEvent) and (e.node, e.incarnation) == (node, incarnation)
        ]
        return {"node": node, "incarnation": incarnation, "stops": stops, "elections": elections}

    def started_ns(self, node: str, incarnation: int) -> int:
        """When this incarnation of the node was started; 0 if the history does not say."""
        for event in self.history.events:
            if (
                isinstance(event, NodeEvent)
                and event.change is NodeChange.STARTED
                and (event.node, event.incarnation) == (node, incarnation)
            ):
                return event.time_ns
        return 0

    def cuts_ns(self) -> list[int]:
        """Every moment at which an interval of interest begins or ends."""
        moments = {start for start, _ in self.history.phases.values()}
        for fault in self.faults:
            moments |= {fault.began_ns} | ({fault.ended_ns} if fault.ended_ns is not None else set())
        return sorted(moments)


def landmarks(history: DataFrame) -> Landmarks:
    """Collect the landmarks of a history: one row of one action."""
    columns = sorted({field for kind in _TYPES.values() for field in kind.__struct_fields__})
    wanted = F.col("kind").isin(*_TYPES)
    row = history.agg(
        F.max("time_ns").alias("end_ns"),
        F.count("*").alias("count"),
        F.collect_set("subject").alias("subjects"),
        F.collect_list(F.when(wanted, F.struct("kind", *columns))).alias("events"),
    ).collect()[0]
    events = sorted((_event(event) for event in row["events"]), key=lambda event: event.index)
    return Landmarks(events, end_ns=row["end_ns"] or 0, count=row["count"], subjects=row["subjects"])


def _event(row: Row) -> Event:
    kind = _TYPES[row["kind"]]
    present: dict[str, Any] = {name: row[name] for name in kind.__struct_fields__ if row[name] is not None}
    if "details" in present:
        # JSON text in the table.
        present["details"] = msgspec.json.decode(present["details"])
    if "effects" in present:
        present["effects"] = present["effects"].asDict()
    return msgspec.convert(present, kind)


def _merged(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
