"""Adds and builds without Spark: what their tasks would write, committed as they commit it."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from fencepost.warehouse.night_tables import ADDED, AT, REBUILT_NAME, STORED, layout
from fencepost.warehouse.parts import TaskTables
from fencepost.warehouse.store import DeltaStore, commit_time, is_warehouse, new_id

#: Tables that each of these runs has one row in.
FILLED = ("run", "operations", "placed")


def bring(root: str, runs: Sequence[str], *, replaced: dict[str, str] | None = None, night: str = "n") -> None:
    """Commit these runs as an add does; `replaced`: as a build does that found these."""
    store = DeltaStore(root)
    added = new_id()
    parts = TaskTables(root, added)
    for run in runs:
        row = {"run_id": run, "system": "etcd", "night": night}
        parts.add(night, "etcd", {n: pa.Table.from_pylist([row], schema=STORED[n].stored_schema) for n in FILLED})
    parts.write()
    rows = [{"run_id": run, "folder": run, "changes": [], ADDED: added, AT: commit_time()} for run in runs]
    rebuilt = pa.Table.from_pylist(rows, schema=layout(REBUILT_NAME).schema)
    if replaced is None:
        store.add_runs(added, parts.files, pa.concat_tables(parts.runs), rebuilt)
    else:
        store.replace_runs(added, parts.files, pa.concat_tables(parts.runs), rebuilt, replaced)


def add_one(root: str, run: str) -> None:
    """What `adding.add` does."""
    store = DeltaStore(root)
    if not is_warehouse(root):
        store.make()
    if run not in store.runs():
        bring(root, [run])


def build_one(root: str, run: str) -> None:
    """What `adding.build` does."""
    bring(root, [run], replaced=DeltaStore(root).runs())


def runs_of(root: str, name: str = "run") -> list[str]:
    """The runs in a table as any reader of Delta tables sees them, one for each row."""
    return sorted(DeltaTable(f"{root}/{name}").to_pyarrow_table(columns=["run_id"])["run_id"].to_pylist())


def tear(path: Path, damage: str) -> None:
    """Damage a file: it is cut off, empty, gone, or has other bytes where a Parquet file says what it is."""
    whole = path.read_bytes()
    match damage:
        case "truncated":
            path.write_bytes(whole[:-100])
        case "empty":
            path.write_bytes(b"")
        case "wrong magic":
            path.write_bytes(whole[:-4] + b"what")
        case "missing":
            path.unlink()
