"""Tables of facts as files: one Parquet file for each table in the folder `facts/` of a run.

A file is written completely or not at all. It replaces an older one, since facts can always be derived again.
"""

import os
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from fencepost.harness.verdict.fact_table import FactTables

#: The folder's name in a run's folder.
FACTS: Final = "facts"


def write_facts(folder: Path, tables: FactTables) -> Path:
    """Write each table beside the run's history; return the folder. Raises OSError."""
    target = folder / FACTS
    target.mkdir(exist_ok=True)
    for name, table in tables.items():
        write_table(table, target / f"{name}.parquet")
    return target


def write_table(table: Any, path: Path) -> None:
    """Write one table, whole or not at all."""
    hidden = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        pq.write_table(table, hidden, compression="zstd")
        hidden.replace(path)
    finally:
        hidden.unlink(missing_ok=True)


def read_table(path: Path) -> Any:
    """Read a table that `write_table` wrote."""
    return pq.read_table(path, partitioning=None)
