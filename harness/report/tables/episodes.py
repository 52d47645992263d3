"""Tables of episodes in which a superseded leader went on, and of times with two leaders; from the fact tables."""

from collections.abc import Mapping
from typing import Any

from fencepost.harness.report.facts.case import ReportCase
from fencepost.harness.report.tables.table import ROWS_MAX, Table, cut_note
from fencepost.harness.report.words.evidence import traced
from fencepost.harness.report.words.wording import clock, count, length
from fencepost.harness.verdict.fact_tables import OVERLAPS, ZOMBIE_EPISODES

_COUNTS = ("claims", "asked", "reached", "served", "fenced", "unknown", "acted")


def episodes(case: ReportCase, word: str) -> list[Table]:
    """Tabulate episodes of superseded leaders, and times in which several nodes led; nothing without facts."""
    return [_episodes(case, word), _overlaps(case, word)] if case.derived else []


def _episodes(case: ReportCase, word: str) -> Table:
    rows = case.rows(ZOMBIE_EPISODES.name)
    return Table(
        caption="Superseded leaders that went on",
        columns=(
            "node",
            "of",
            word,
            "superseded by",
            "since",
            "claimed from",
            "to",
            "awake for",
            *_COUNTS,
            "by",
        ),
        rows=tuple(_episode(row) for row in rows[:ROWS_MAX]),
        note=cut_note(len(rows)),
    )


def _episode(row: Mapping[str, Any]) -> tuple[str, ...]:
    begin, *acts = row["evidence"]
    return (
        row["node"],
        row["subject"],
        str(row["epoch"]),
        str(row["superseded_by"]),
        traced(clock(row["superseded_ns"]), (begin,)),
        _moment(row["claimed_from_ns"]),
        _moment(row["claimed_to_ns"]),
        length(row["running_ns"]),
        *(count(row[name]) for name in _COUNTS[:-1]),
        traced(count(row["acted"]), acts if row["acted"] else ()),
        ", ".join(row["anomalies"]) or "–",
    )


def _overlaps(case: ReportCase, word: str) -> Table:
    rows = case.rows(OVERLAPS.name)
    return Table(
        caption="Two leaders at once, certainly",
        columns=("of", "from", "to", "for", "all awake for", f"nodes and their {word}s"),
        rows=tuple(
            (
                row["subject"],
                clock(row["from_ns"]),
                clock(row["to_ns"]),
                length(row["to_ns"] - row["from_ns"]),
                length(row["running_ns"]),
                ", ".join(f"{node}: {epoch}" for node, epoch in zip(row["nodes"], row["epochs"], strict=True)),
            )
            for row in rows[:ROWS_MAX]
        ),
        note=cut_note(len(rows)),
    )


def _moment(ns: int | None) -> str:
    return "–" if ns is None else clock(ns)
