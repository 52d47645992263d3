"""The values of the pages, read from named steps of a warehouse: rows grow with nights, cells and findings alone."""

import datetime
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql import functions as F

from fencepost.campaigns.gate.documents import PAGE as GATE_PAGE
from fencepost.campaigns.gate.requirement import RequirementStatus
from fencepost.campaigns.night.documents import PAGE as NIGHT_PAGE
from fencepost.campaigns.night.night import GRAVITY
from fencepost.campaigns.night.run_class import RunClass
from fencepost.harness.findings.finding import findings_of, release_of
from fencepost.harness.findings.known_issues import TrackedIssue
from fencepost.harness.results import run_folder as store
from fencepost.warehouse.across import Tables
from fencepost.warehouse.pages.known import covering, status_of
from fencepost.warehouse.pages.shrunk import smallest
from fencepost.warehouse.pages.values import (
    RUNS_TO_OPEN,
    GateValues,
    ListedFinding,
    MatrixCell,
    NightSummary,
    Overview,
    Row,
    SystemMatrix,
    night_to_read,
)

#: A run may have a class that no night gives, such as `unknown` of a single run: it is as grave as these.
_UNNAMED: Final = GRAVITY.index(RunClass.UNKNOWN_COVERAGE)


def overview(
    tables: Tables, out: Path, issues: Sequence[TrackedIssue], *, shown: int, today: datetime.date
) -> Overview:
    """Collect what the pages show; `out` is the folder in which they will stand, from which links lead to runs."""
    registers, requirements = _rows(tables, "nights"), _rows(tables, "requirements")
    nights = night_summaries(_rows(tables, "night_runs"), registers, out, requirements)
    tonight = night_to_read(nights)
    if tonight is None:
        return Overview(shown=shown, issues=tuple(status_of(issue, [], [], today) for issue in issues))
    names = [night.night for night in nights]
    sightings = _rows(tables, "finding_sightings")
    examples = {row["fingerprint"]: row for row in _rows(tables, "finding_examples")}
    of_tonight = tables["cells"].where(F.col("night") == tonight.night)
    return Overview(
        nights=tuple(nights),
        shown=shown,
        cells=cell_rows(row.asDict() for row in of_tonight.collect()),
        findings=listed(sightings, examples, names, issues, shown=shown, today=today, out=out),
        issues=tuple(status_of(issue, sightings, names, today) for issue in issues),
        matrix=matrices(_rows(tables, "night_matrix"), names, out),
        trends=system_trends(_rows(tables, "night_trends"), names),
    )


def night_summaries(
    runs: Iterable[Row], registers: Sequence[Row], out: Path, requirements: Sequence[Row] = ()
) -> list[NightSummary]:
    """The nights, oldest first; the shards of a night become one, and a missing one keeps it from being green."""
    return [
        _night(
            row,
            sorted((own for own in registers if own["night"] == row["night"]), key=lambda own: own["shard"]),
            [own for own in requirements if own["night"] == row["night"]],
            out,
        )
        for row in sorted(runs, key=lambda row: (row["started_at"], row["night"]))
    ]


def _night(row: Row, shards: Sequence[Row], requirements: Sequence[Row], out: Path) -> NightSummary:
    counts = {name: row[name] for name in ("runs", "valid", "invalid", "unknown", "expected", "missed")}
    if not shards:
        return NightSummary(night=row["night"], day=row["day"], **counts)
    present = {own["shard"] for own in shards}
    missing = [n for n in range(1, max(own["shards"] for own in shards) + 1) if n not in present]
    absent = [f"shard {n} of {max(own['shards'] for own in shards)} is missing" for n in missing]
    codes = [own["exit_code"] for own in shards if own["exit_code"]] + [2] * bool(missing)
    gate = _gate(shards[0], requirements, out)
    pages = [_link(Path(own["folder"]) / (GATE_PAGE if gate else NIGHT_PAGE), out) for own in shards]
    return NightSummary(
        night=row["night"],
        day=row["day"],
        pages=tuple(filter(None, pages)),
        exit_code=min(codes, default=0),
        running=any(own["state"] == "running" for own in shards),
        sentence="; ".join([*(own["sentence"] for own in shards), *absent]),
        reasons=tuple(dict.fromkeys([*(text for own in shards for text in own["reasons"] or ()), *absent])),
        gate=gate,
        **counts,
    )


def _gate(register: Row, requirements: Sequence[Row], out: Path) -> GateValues | None:
    if register["policy"] is None:
        return None
    folder = Path(register["folder"])
    return GateValues(
        policy=register["policy"],
        candidate=register["candidate"],
        baseline=register["baseline"] or "",
        lines=tuple(
            {
                **row,
                "status": RequirementStatus(row["status"]),
                "reports": [link for report in row["reports"] or () if (link := _link(folder / report, out))],
            }
            for row in sorted(requirements, key=lambda row: row["number"])
        ),
    )


def cell_rows(rows: Iterable[Row]) -> tuple[Row, ...]:
    """The cells of a night; a canary that runs on every shard is shown for each of them."""
    return tuple(sorted(rows, key=lambda row: (not row["required"], row["name"])))


def listed(
    sightings: Sequence[Row],
    examples: Mapping[str, Row],
    nights: Sequence[str],
    issues: Sequence[TrackedIssue],
    *,
    shown: int,
    today: datetime.date,
    out: Path,
) -> tuple[ListedFinding, ...]:
    """Every finding, those seen last first, with the issues that cover it."""
    lately = nights[-shown:]
    return tuple(
        ListedFinding(
            finding=finding,
            issues=covering(finding, sightings, issues, lately, today),
            **_runs_to_open(examples.get(finding.fingerprint), out),
        )
        for finding in findings_of(sightings, nights)
    )


def _runs_to_open(row: Row | None, out: Path) -> dict[str, Any]:
    if row is None:
        return {}
    links = {row[name]: _link(Path(row[name]) / store.REPORT, out) for name in RUNS_TO_OPEN}
    return {
        "shrunk": smallest(row["fingerprint"], row["searches"] or ()),
        "examples": row,
        "reports": {folder: link for folder, link in links.items() if link},
    }


def matrices(rows: Iterable[Row], nights: Sequence[str], out: Path) -> tuple[SystemMatrix, ...]:
    """One matrix for each system, by name."""
    order = {night: number for number, night in enumerate(nights)}
    by_system: dict[str, dict[tuple[str, str, str], list[Row]]] = {}
    for row in rows:
        if row["night"] in order:
            cells = by_system.setdefault(row["system"], {})
            release = release_of({**row, "version": row["version"] or "unknown release"})
            cells.setdefault((release, row["workload"], row["nemesis"]), []).append(row)
    return tuple(
        SystemMatrix(
            system=system,
            versions=tuple(sorted({version for version, _, _ in cells})),
            columns=tuple(sorted({(workload, nemesis) for _, workload, nemesis in cells})),
            cells={key: _matrix_cell(own, order, out) for key, own in cells.items()},
        )
        for system, cells in sorted(by_system.items())
    )


def _matrix_cell(rows: Sequence[Row], order: Mapping[str, int], out: Path) -> MatrixCell:
    by_night: dict[str, list[Row]] = {}
    for row in rows:
        by_night.setdefault(row["night"], []).append(row)
    tested = [row["night"] for row in rows if row["runs"]]
    return MatrixCell(
        squares={night: _square(own, out) for night, own in by_night.items()},
        runs=sum(row["runs"] for row in rows),
        exposure=sum(row["exposure"] for row in rows),
        last_tested=max(tested, key=order.__getitem__, default=""),
    )


def _square(rows: Sequence[Row], out: Path) -> Row:
    # A canary says nothing about a system, unless nothing else ran there.
    own = [row for row in rows if not row["canary"]] or rows
    gravest = min(own, key=lambda row: _gravity(row["run_class"]))
    counts = {name: sum(row[name] for row in own) for name in ("runs", "exposure")}
    report = _link(Path(gravest["folder"]) / store.REPORT, out) if gravest["folder"] else ""
    return {**gravest, **counts, "report": report}


def _gravity(run_class: str) -> int:
    return GRAVITY.index(RunClass(run_class)) if run_class in list(RunClass) else _UNNAMED


def system_trends(rows: Iterable[Row], nights: Sequence[str]) -> dict[str, list[Row]]:
    """The rows of each system and variant, oldest night first."""
    order = {night: number for number, night in enumerate(nights)}
    by_system: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: order[row["night"]]):
        by_system.setdefault(row["system"] + (f" ({row['variant']})" if row["variant"] else ""), []).append(row)
    return dict(sorted(by_system.items()))


def _rows(tables: Tables, name: str) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in tables[name].collect()]


def _link(target: Path, out: Path) -> str:
    """A link from `out` to a page; empty where there is no such page."""
    return Path(os.path.relpath(target, out.absolute())).as_posix() if target.is_file() else ""
