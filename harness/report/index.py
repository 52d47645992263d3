"""The index of many runs: every run with its outcome, every superseded leader that went on, and what spans runs.

One self-contained file, as a run's own page; it links to those pages by paths relative to where it stands.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from fencepost.harness.report.page_kit import PageKit
from fencepost.harness.report.section import TextTable, generic
from fencepost.harness.report.words import SIGNS, clock, count, length
from fencepost.harness.results import run_folder as store
from fencepost.harness.verdict import Validity

#: More runs, or more episodes, are cut, and the page says so.
ROWS_MAX: Final = 500

Row = Mapping[str, Any]


def index_page(runs: Sequence[Row], episodes: Sequence[Row], across: Mapping[str, Sequence[Row]], place: Path) -> str:
    """The page that is to stand in the folder `place`.

    Args:
        runs: rows of the table `run`, at most one more than `ROWS_MAX`.
        episodes: rows of the table `zombie_episodes`, each with its run's `folder`, `system` and `version`; likewise.
        across: tables that span runs, by name.
    """
    kit = PageKit(clock=clock, lasting=length, grouped=count)
    return kit.page(
        "index",
        title="fencepost: runs",
        runs=[{**run, "report": _report(run, place), "sign": SIGNS[Validity(run["outcome"])]} for run in _cut(runs)],
        episodes=[{**episode, "report": _report(episode, place)} for episode in _cut(episodes)],
        cut=len(runs) > ROWS_MAX or len(episodes) > ROWS_MAX,
        rows_max=ROWS_MAX,
        tables=[table for name, rows in across.items() for table in _tables(name, rows)],
    )


def _cut(rows: Sequence[Row]) -> Sequence[Row]:
    return rows[:ROWS_MAX]


def _report(row: Row, place: Path) -> str:
    return Path(os.path.relpath(Path(row["folder"]) / store.REPORT, place)).as_posix()


def _tables(name: str, rows: Sequence[Row]) -> list[TextTable]:
    return generic(name, [dict(row) for row in rows]) if rows else []
