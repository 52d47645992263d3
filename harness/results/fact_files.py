"""Tables of facts as files: one Parquet file for each table in the folder `facts/` of a run.

A file is written whole or not at all; what stood there before is replaced, since facts can always be derived again.
"""

import os
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from fencepost.harness.verdict.fact_table import FactTables

#: The folder's name in a run's folder.
FACTS: Final = "facts"


def write_facts(folder: Path, tables: FactTables) -> Path:
    """Write each table beside the run's history; the folder that now holds them. Raises OSError."""
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
    """A table that was written so."""
    return pq.read_table(path, partitioning=None)
