"""The index of a warehouse's runs: each with its outcome, superseded leaders that went on, and what spans runs.

One self-contained file, as a run's own page; it links to those pages by paths relative to where it stands.
"""

import os
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup
from pyspark.sql import functions as F

from fencepost.campaigns.night.register import REGISTER
from fencepost.harness.base.files import write_whole
from fencepost.harness.report.page_kit import PageKit
from fencepost.harness.report.section import TextTable, cell, column_name
from fencepost.harness.report.words import SIGNS, clock, count, length
from fencepost.harness.results import run_folder as store
from fencepost.harness.verdict import Validity
from fencepost.warehouse.warehouse import Warehouse

#: More runs, or more episodes, are cut, and the page says of how many.
ROWS_MAX: Final = 500
#: Rows of a history that an episode names.
_EVIDENCE_MAX: Final = 12

Row = Mapping[str, Any]

_BY_RELEASE: Final = "zombie_episodes_by_version"
#: The steps that the page shows. Latencies, a row for each function and fault, are left to queries.
_SHOWN: Final = (_BY_RELEASE, "anomaly_rates", "guarantee_outcomes", "recovery_by_fault", "availability_by_phase")


def index_of(results: Path) -> Path:
    """Where the page goes: into the folder of results, but not over the page of a night."""
    return results / ("warehouse.html" if (results / REGISTER).is_file() else "index.html")


def write_index(warehouse: Warehouse, path: Path) -> None:
    """Write the page to `path`, whole or not at all; its links are relative to the folder that it stands in."""
    table = warehouse.table("run")
    # By their names: invalid, unknown, valid.
    runs = table.orderBy("outcome", F.desc("started_at"), "folder").limit(ROWS_MAX).collect()
    across = {name: [row.asDict() for row in warehouse.table(name).collect()] for name in _SHOWN}
    page = index_page(
        [run.asDict() for run in runs],
        list(islice(warehouse.episodes(), ROWS_MAX)),
        across,
        path.absolute().parent,
        outcomes={row["outcome"]: row["count"] for row in table.groupBy("outcome").count().collect()},
        episode_count=sum(row["episodes"] for row in across[_BY_RELEASE]),
    )
    write_whole(path, page)


def index_page(
    runs: Sequence[Row],
    episodes: Sequence[Row],
    across: Mapping[str, Sequence[Row]],
    place: Path,
    *,
    outcomes: Mapping[str, int],
    episode_count: int,
) -> str:
    """The page that is to stand in the folder `place`.

    Args:
        runs: rows of the table `run` in the order of the page; of more than `ROWS_MAX`, the first are enough.
        episodes: rows of the table `zombie_episodes`, each with its run's `folder`, `system` and `version`; likewise.
        across: all rows of tables that span runs, by name.
        outcomes: how many runs there are of each outcome.
        episode_count: how many episodes there are.
    """
    counted = [(Validity(name), count(number)) for name, number in sorted(outcomes.items())]
    return PageKit("fencepost.warehouse.pages", traced=lambda value, *_: value).page(
        "index",
        title="fencepost: runs",
        total=count(sum(outcomes.values())),
        outcomes=[_badge(outcome, f"{number} {outcome}") for outcome, number in counted],
        runs=_table("Runs", [_run(run, place) for run in runs[:ROWS_MAX]], sum(outcomes.values())),
        episodes=_table("Episodes", [_episode(each, place) for each in episodes[:ROWS_MAX]], episode_count),
        across=[(name.replace("_", " "), _across(name, rows)) for name, rows in across.items() if rows],
    )


def _run(run: Row, place: Path) -> Row:
    outcome = Validity(run["outcome"])
    return {
        "run": _link(run, _moment(run["started_at"] or run["run_id"]), place),
        "outcome": _badge(outcome, outcome),
        "system": f"{run['system']} {run['version']}",
        "workload": run["workload"],
        "faults": run["nemesis"],
        "operations": run["operations"],
        "in words": run["headline"],
    }


def _episode(row: Row, place: Path) -> Row:
    more = " …" if len(row["evidence"]) > _EVIDENCE_MAX else ""
    return {
        "run": _link(row, row["run_id"][:8], place, "#leadership"),
        "system": f"{row['system']} {row['version']}",
        "node": row["node"],
        "of": row["subject"],
        "epoch": row["epoch"],
        "superseded by": row["superseded_by"],
        "since": clock(row["superseded_ns"]),
        "claims": row["claims"],
        "awake for": length(row["running_ns"]),
        **{name: row[name] for name in ("asked", "served", "fenced", "unknown", "acted")},
        "by": ", ".join(row["anomalies"]) or "–",
        "rows of the history": ", ".join(map(str, row["evidence"][:_EVIDENCE_MAX])) + more,
    }


def _across(name: str, rows: Sequence[Row]) -> TextTable:
    """Make a table over runs: violated guarantees first, then by release."""
    ordered = sorted(map(_of_release, rows), key=lambda row: (-row.get("invalid", 0), *map(str, row.values())))
    return _table(f"table {name}", ordered, len(rows))


def _of_release(row: Row) -> Row:
    """Say in one column what makes the release."""
    names = ("system", "version", "variant", "expected")
    plain = " ".join(str(row[name]) for name in names[:2])
    expected = f"expected {row['expected']}" if row.get("expected") else ""
    release = ", ".join(filter(None, (plain, row.get("variant"), expected)))
    rest = {name: value for name, value in row.items() if name not in names}
    return {
        "release": release,
        **rest,
        **{name: _moment(rest[name]) for name in ("first_at", "last_at") if name in rest},
    }


def _table(caption: str, rows: Sequence[Row], total: int) -> TextTable:
    return TextTable(
        caption=caption,
        columns=tuple(map(column_name, rows[0])) if rows else (),
        rows=tuple(tuple(v if isinstance(v, Markup) else cell(k, v) for k, v in row.items()) for row in rows),
        note=f"{count(len(rows))} of {count(total)} rows shown." if total > len(rows) else "",
    )


def _moment(started_at: str) -> str:
    return started_at.replace("T", " ")  # a line can break there


def _link(row: Row, text: str, place: Path, anchor: str = "") -> Markup:
    page = Path(os.path.relpath(Path(row["folder"]) / store.REPORT, place)).as_posix()
    return Markup('<a href="{}">{}</a>').format(page + anchor, text)


def _badge(outcome: Validity, text: str) -> Markup:
    return Markup('<span class="badge {}"><span aria-hidden="true">{}</span> {}</span>').format(
        outcome, SIGNS[outcome], text
    )
