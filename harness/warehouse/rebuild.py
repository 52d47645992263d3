"""One task of the warehouse: a stored run is judged and its facts are derived again, in an executor's own Python.

It calls what a run itself calls, writes each table as one file of the warehouse, and hands back one row on the run. So
no event, and no operation, ever goes through the driver.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from fencepost.harness.base.errors import FencepostError
from fencepost.harness.judging.judge import judge_by
from fencepost.harness.judging.run_facts import facts_of_run, run_id_of
from fencepost.harness.plan import read_plan
from fencepost.harness.plan.checked_plan import resolve_plan
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.fact_files import write_table
from fencepost.harness.verdict.fact_table import LONG, TEXT
from fencepost.harness.verdict.run_tables import GUARANTEES, RUN

#: A verdict that is another one now: of one guarantee, or of the whole run where `guarantee` is null.
_CHANGE: Final = pa.struct([("guarantee", TEXT), ("before", TEXT), ("after", TEXT)])
#: One row for each run that was looked at; `error` says why it could not be judged, and is null otherwise.
REBUILT: Final = pa.schema(
    [
        ("run_id", TEXT),
        ("folder", TEXT),
        ("outcome", TEXT),
        ("length_ns", LONG),
        ("error", TEXT),
        ("changes", pa.list_(_CHANGE)),
    ]
)

Batches = Iterator[Any]


def task(folders: Sequence[str], tables: str) -> Callable[[Batches], Batches]:
    """What `mapInArrow` carries out: rows with the number (`id`) of a folder become rows of REBUILT."""

    def rebuild_all(batches: Batches) -> Batches:
        for batch in batches:
            rows = [rebuild(Path(folders[number]), Path(tables)) for number in batch.column("id").to_pylist()]
            yield from pa.Table.from_pylist(rows, schema=REBUILT).to_batches()

    return rebuild_all


def rebuild(folder: Path, tables: Path) -> dict[str, Any]:
    """Judge the run in `folder`, write its tables below `tables`, and say what came of it (-> REBUILT)."""
    began = time.perf_counter_ns()
    run_id = None
    try:
        run = store.read_json(folder / store.RUN)
        run_id = run_id_of(folder, run)
        before = _stored(folder)
        resolved = resolve_plan(read_plan(folder / store.PLAN, seed=0))
        history, judgement = judge_by(resolved, folder)
        derived = facts_of_run(resolved, folder, run, history, judgement)
        for name, table in derived.items():
            # Of thousands of runs, empty files would be half of all.
            if len(table):
                write_table(table, tables / name / f"{run_id}.parquet")
        outcome = derived[RUN.name]["outcome"][0].as_py()
        after = {None: outcome, **{row["guarantee"]: row["validity"] for row in derived[GUARANTEES.name].to_pylist()}}
        return _row(run_id, folder, outcome, began, changes=_changes(before, after))
    except (FencepostError, OSError) as error:
        why = error.message if isinstance(error, FencepostError) else str(error)
        return _row(run_id, folder, None, began, error=why)
    except Exception as error:
        return _row(run_id, folder, None, began, error=f"{type(error).__name__}: {error}")


def _row(
    run_id: str | None,
    folder: Path,
    outcome: str | None,
    began: int,
    *,
    error: str | None = None,
    changes: Sequence[dict[str, str | None]] = (),
) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "folder": str(folder),
        "outcome": outcome,
        "length_ns": time.perf_counter_ns() - began,
        "error": error,
        "changes": list(changes),
    }


def _stored(folder: Path) -> dict[str | None, str]:
    """The verdicts that were written when the run was last judged, by guarantee; None is the whole run."""
    document = store.read_json(folder / store.VERDICT)
    if not document:
        return {}
    return {None: document.get("validity"), **{g["name"]: g["validity"] for g in document.get("guarantees", ())}}


def _changes(before: dict[str | None, str], after: dict[str | None, str]) -> list[dict[str, str | None]]:
    """What reads otherwise now; nothing where the run had not been judged."""
    names = [*before, *(name for name in after if name not in before)] if before else []
    pairs = [(name, before.get(name), after.get(name)) for name in names]
    return [{"guarantee": name, "before": old, "after": new} for name, old, new in pairs if old != new]
