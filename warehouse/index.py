"""The index page of a warehouse's runs."""

from itertools import islice
from pathlib import Path
from typing import Final

from fencepost.harness.base.files import write_whole
from fencepost.harness.report.index import ROWS_MAX, index_page
from fencepost.warehouse.warehouse import Warehouse

#: The steps that the page shows. Latencies, a row for each function and fault, are left to queries.
_SHOWN: Final = (
    "zombie_episodes_by_version",
    "anomaly_rates",
    "guarantee_outcomes",
    "recovery_by_fault",
    "availability_by_phase",
)


def write_index(warehouse: Warehouse, path: Path) -> None:
    """Write the page to `path`, whole or not at all; its links are relative to the folder that it stands in."""
    runs = warehouse.table("run").orderBy("started_at", "folder").limit(ROWS_MAX + 1).collect()
    across = {name: warehouse.table(name).limit(ROWS_MAX).collect() for name in _SHOWN}
    page = index_page(
        [run.asDict() for run in runs],
        list(islice(warehouse.episodes(), ROWS_MAX + 1)),
        {name: [row.asDict() for row in rows] for name, rows in across.items()},
        path.absolute().parent,
    )
    write_whole(path, page)
