"""What holds for every step over runs: that no event is sent anywhere before it is counted."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from fencepost.harness.results import run_folder as store
from fencepost.harness.results.columns import write_table
from fencepost.warehouse.night_tables import STORED, schema_of
from fencepost.warehouse.rebuild import rebuild
from fencepost.warehouse.sources import sources_of
from fencepost.warehouse.warehouse import STEPS

pytestmark = pytest.mark.spark

FOUND = Path(__file__).parents[1] / "histories" / "found" / "zookeeper-3.9.5-stale-after-sync"
Tables = dict[str, DataFrame]
#: The table with a row for each operation.
_EVENTS = "operations"
#: The steps that read it.
_COUNT_EVENTS = ("latency_by_fault",)


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """The tables of one run, as files; those that it has no row of are empty."""
    place = tmp_path_factory.mktemp("tables")
    shutil.copytree(FOUND, place / "stored")
    store.write_json(place / "stored" / store.RUN, {"format": 1, "run_id": "cd" * 16, "system_version": "3.9.5"})
    _, made = rebuild(sources_of([place / "stored"])[0])
    assert made
    frames = {}
    for name, table in STORED.items():
        schema = from_arrow_schema(schema_of(table))
        (place / name).mkdir()
        write_table(made[name] if name in made else schema_of(table).empty_table(), place / name / "part.parquet")
        frames[name] = spark.read.schema(schema).parquet(str(place / name))
    return frames


@pytest.mark.parametrize("name", STEPS)
def test_no_row_of_an_event_is_exchanged_before_it_is_counted(name: str, tables: Tables) -> None:
    """So neither a hot key nor a run that is much longer than the others brings a history to one task."""
    paths = scans_of_events(plan_of(STEPS[name](tables)))
    assert bool(paths) is (name in _COUNT_EVENTS)
    for path in paths:
        assert "Exchange" not in until_counted(path), f"{name}: {path}"


def test_a_step_that_exchanges_events_would_be_seen(tables: Tables) -> None:
    sorted_by_run = tables[_EVENTS].repartition(2, "run_id").groupBy("key").agg(F.count("*"))
    assert any("Exchange" in until_counted(path) for path in scans_of_events(plan_of(sorted_by_run)))


@pytest.mark.parametrize("name", _COUNT_EVENTS)
def test_a_step_has_no_more_rows_for_more_events(name: str, tables: Tables) -> None:
    many = {**tables, _EVENTS: tables[_EVENTS].withColumn("copy", F.explode(F.sequence(F.lit(1), F.lit(20))))}
    assert STEPS[name](many).count() == STEPS[name](tables).count()


def plan_of(frame: DataFrame) -> list[str]:
    """The physical plan before anything is adapted, one line for each node."""
    plan: Any = frame._jdf.queryExecution().executedPlan()
    text = str(plan.toString())
    return text.partition("== Initial Plan ==")[2].splitlines() or text.splitlines()


def scans_of_events(plan: list[str]) -> list[list[str]]:
    """The nodes above each scan of the table of operations, from the scan up to the root."""
    paths = []
    for at, line in enumerate(plan):
        if "FileScan" not in line or f"/{_EVENTS}]" not in line:
            continue
        depth, path = _depth(line), []
        for above in reversed(plan[:at]):
            if above.strip() and _depth(above) < depth:
                depth = _depth(above)
                path.append(above.lstrip(" :+-*(0123456789)").partition(" ")[0].partition("(")[0])
        paths.append(path)
    return paths


def until_counted(path: list[str]) -> str:
    """The names of the nodes from a scan up to the first that aggregates."""
    counted = next((at for at, node in enumerate(path) if "Aggregate" in node), len(path))
    return " ".join(path[:counted])


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" :+-*"))
