"""The index page of a warehouse's runs."""

from itertools import islice
from pathlib import Path
from typing import Final

from pyspark.sql import functions as F

from fencepost.campaigns.night.register import REGISTER
from fencepost.harness.base.files import write_whole
from fencepost.harness.report.index import ROWS_MAX, index_page
from fencepost.warehouse.warehouse import Warehouse

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
