"""Write docs/reference/facts-tables.md from the schemas: `python tools/facts_page.py`. A test compares the two."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from fencepost.harness.judging.run_facts import derived_tables
from fencepost.harness.verdict.fact_tables import OF_RUN, FactColumn, FactTable
from fencepost.warehouse.night_tables import OF_NIGHTS, PLACED

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "reference" / "facts-tables.md"

_HEAD: Final = """\
# Tables of facts

A run's folder holds one Parquet file for each table in `facts/`, of the same form for every run. They are derived from
the history by one function (`checkers/derived/derive.py`, and those that a leaf brings); `fencepost check RUN` derives
them again, and the [warehouse](../how-to/many-runs-on-spark.md) does so for any number of runs.

- Each row of a run has `run_id` first: 32 hexadecimal digits, drawn when the run starts and kept in `run.json`.
- Times are in nanoseconds since the run's zero; `_ns` also ends every length of time.
- `index`, `event`, `events`, `evidence` are rows of the history, by their `index`.
- A schema has a version, in the file's metadata as `fencepost.table_version`. Whatever changes its columns changes it.
- `long` is a 64-bit integer, `list<long>` a list of them. Where a column may be null, its text says what a null means.

## Columns of several tables

The lists of tables below name the tables that have these columns.
"""

_WAREHOUSE: Final = """\
## Only in a warehouse

`placed` says of each run where it belongs. The others are read from the registers of nights, and have no `run_id`: an
attempt that never reported has no run.
"""


def render() -> str:
    """The whole page."""
    of_run, derived, of_nights = OF_RUN, derived_tables(), (PLACED, *OF_NIGHTS.values())
    shared = _shared((*of_run, *derived, *of_nights))
    rows = [f"| {_column(column)} |" for column in shared.values()]
    parts = [_HEAD, "\n".join(["| column | type | meaning |", "| --- | --- | --- |", *rows, ""])]
    parts += ["## The run and its verdicts\n", _tables(of_run, shared)]
    parts += ["## Derived from the history\n", _tables(derived, shared)]
    return "\n".join([*parts, _WAREHOUSE, _tables(of_nights, shared)])


def _shared(tables: Sequence[FactTable]) -> dict[str, FactColumn]:
    """The columns of which several tables say the same; of a name with two meanings, the more frequent one."""
    counts = Counter((column.name, column.kind, column.text) for table in tables for column in table.columns)
    shared: dict[str, FactColumn] = {}
    for (name, kind, text), count in counts.most_common():
        if count > 1:
            shared.setdefault(name, FactColumn(name, kind, text))
    return shared


def _tables(tables: Sequence[FactTable], shared: Mapping[str, FactColumn]) -> str:
    """What a row of each table is and which shared columns it has, then its other columns."""
    lines = ["| table | version | one row | columns of several tables |", "| --- | --- | --- | --- |"]
    for table in tables:
        names = ", ".join(f"`{column.name}`" for column in table.columns if shared.get(column.name) == column)
        lines.append(f"| `{table.name}` | {table.version} | {table.row} | {names} |")
    lines += ["", "| table | column | type | meaning |", "| --- | --- | --- | --- |"]
    for table in tables:
        own = [column for column in table.columns if shared.get(column.name) != column]
        for position, column in enumerate(own):
            name = f"**{table.name}**" if position == 0 else ""
            lines.append(f"| {name} | {_column(column)} |")
    return "\n".join([*lines, ""])


def _column(column: FactColumn) -> str:
    return f"`{column.name}` | {_kind(str(column.kind))} | {column.text}"


def _kind(arrow: str) -> str:
    return {
        "int64": "long",
        "string": "text",
        "bool": "flag",
        "double": "double",
        "list<item: int64>": "list<long>",
        "list<item: string>": "list<text>",
    }[arrow]


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
