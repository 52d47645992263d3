"""Tables of what clients got, by phase, by node and around each fault, and of stale answers; from the fact tables."""

from collections.abc import Iterable, Mapping
from typing import Any

from fencepost.harness.report.facts.case import ReportCase
from fencepost.harness.report.tables.table import ROWS_MAX, Table, cut_note
from fencepost.harness.report.words.evidence import traced
from fencepost.harness.report.words.wording import clock, count, length
from fencepost.harness.verdict.fact_tables import FAULTS, PHASES, RECOVERY, SERVICE, STALE_ANSWERS

Row = Mapping[str, Any]


def service(case: ReportCase) -> list[Table]:
    """Tabulate availability by phase and by node, and stale answers by node."""
    return [_phases(case), _nodes(case), _stale(case)]


def _phases(case: ReportCase) -> Table:
    rows = case.rows(PHASES.name)
    return Table(
        caption="By phase (operations invoked in it)",
        columns=("phase", "from", "to", "ok", "fail", "info", "available", "longest without an ok", "from"),
        rows=tuple(
            (row["phase"], clock(row["from_ns"]), clock(row["to_ns"]), *_outcomes(row), *_gap(row)) for row in rows
        ),
    )


def _nodes(case: ReportCase) -> Table:
    """Sum each node's segments; a gap across two segments is longer than the table shows."""
    by_node: dict[str, list[Row]] = {}
    for row in case.rows(SERVICE.name):
        if row["node"] is not None:
            by_node.setdefault(row["node"], []).append(row)
    summed = {node: {name: sum(row[name] for row in own) for name in _OUTCOMES} for node, own in by_node.items()}
    return Table(
        caption="By node that was asked",
        columns=("node", "ok", "fail", "info", "available"),
        rows=tuple((node, *_outcomes(row)) for node, row in summed.items()),
    )


_OUTCOMES = ("ok", "fail", "info")


def _outcomes(row: Row) -> tuple[str, ...]:
    total = sum(row[name] for name in _OUTCOMES)
    share = f"{100 * row['ok'] / total:.1f} %" if total else "–"
    return (*(count(row[name]) for name in _OUTCOMES), share)


def _gap(row: Row) -> tuple[str, str]:
    return length(row["longest_without_ok_ns"]), clock(row["without_ok_from_ns"])


def _stale(case: ReportCase) -> Table:
    by_node: dict[str, list[Row]] = {}
    for row in case.rows(STALE_ANSWERS.name):
        by_node.setdefault(row["node"], []).append(row)
    return Table(
        caption="Answers without an acknowledged write; the guarantee of the reads says whether this is allowed",
        columns=("node", "answers", "by a superseded leader", "late by at most"),
        rows=tuple(
            (
                node,
                traced(count(len(own)), [row["index"] for row in own]),
                _superseded(own),
                length(max(row["late_ns"] for row in own)),
            )
            for node, own in sorted(by_node.items())
        ),
    )


def _superseded(rows: Iterable[Row]) -> str:
    own = [row["index"] for row in rows if row["superseded_epoch"] is not None]
    return traced(count(len(own)), own)


def recovery(case: ReportCase) -> Table | None:
    """Tabulate the recovery of clients and leadership around each fault; None without facts or faults."""
    faults = {row["fault_id"]: row for row in case.rows(FAULTS.name)}
    by_fault: dict[int, list[Row]] = {}
    for row in case.rows(RECOVERY.name):
        by_fault.setdefault(row["fault_id"], []).append(row)
    if not faults:
        return None
    numbers = {fault_id: number for number, fault_id in enumerate(faults, 1)}
    rows = tuple(
        _recovery(numbers[fault_id], faults[fault_id], own) for fault_id, own in list(by_fault.items())[:ROWS_MAX]
    )
    return Table(
        caption="Recovery around each fault (operations invoked inside it)",
        columns=(
            "#",
            "fault",
            "nodes",
            "new leader after",
            "longest without an ok",
            "first ok after healing",
            "by node",
            *_OUTCOMES,
            "available",
            "p50",
            "p99",
        ),
        rows=rows,
        note=cut_note(len(by_fault)),
    )


def _recovery(number: int, fault: Row, rows: list[Row]) -> tuple[str, ...]:
    everyone = next(row for row in rows if row["node"] is None)
    nodes = [f"{row['node']}: {length(row['recovered_after_ns'])}" for row in rows if row["node"] is not None]
    return (
        str(number),
        fault["fault"],
        ", ".join(fault["nodes"]),
        _length(everyone["new_leader_after_ns"]),
        length(everyone["longest_without_ok_ns"]),
        _length(everyone["recovered_after_ns"]),
        ", ".join(nodes[:12]),
        *_outcomes(everyone),
        _length(everyone["latency_ns_p50"]),
        _length(everyone["latency_ns_p99"]),
    )


def _length(ns: int | None) -> str:
    return "–" if ns is None else length(ns)
