"""A small invented history for the whole pipeline: the start-up archive of Spark's JVM is made while it is analysed."""

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from fencepost.harness.warehouse.pipeline import analyse
from fencepost.harness.warehouse.schemas import HISTORY

_STEP_NS: Final = 1_000_000
_NODES: Final = ("n1", "n2")


def exercise(spark: SparkSession, scratch: Path) -> None:
    """Write the history below `scratch` and analyse it; for `harness.warehouse.spark_session.prepare_archive`."""
    path = scratch / "training"
    table = pa.Table.from_pylist(_history(), schema=to_arrow_schema(HISTORY))
    spark.createDataFrame(table, HISTORY).coalesce(1).write.parquet(str(path))
    analyse(spark, str(path))


def _history() -> list[dict[str, Any]]:
    """Two nodes that both go on claiming, so that every step has something to do; a fault; reads that go back."""
    rows: list[dict[str, Any]] = [{"kind": "phase", "phase": "main"}]
    fault = {"kind": "fault", "fault_id": 0, "fault": "pause", "target": "leader", "nodes": ["n1"]}
    rows.append(fault | {"action": "inject", "stage": "begin", "outcome": "pending"})
    rows.append(fault | {"action": "inject", "stage": "end", "outcome": "installed"})
    for i in range(200):
        at, node = len(rows) * _STEP_NS, _NODES[i % 2]
        epoch = 1 + (i // 20) % 2 if node == "n1" else 2
        belief = {"kind": "belief", "subject": "leader", "node": node, "incarnation": 0, "claims": "yes"}
        rows.append(belief | {"asked_ns": at - 1, "answered_ns": at, "epoch": epoch, "epoch_exact": i % 3 > 0})
        op = {"kind": "op", "process": i % 2, "f": "read", "node": node, "key": f"k{i % 3}"}
        rows.append(op | {"type": "invoke"})
        rows.append(op | {"type": "ok", "position": 9 + i % 5, "value_position": 5 + i % 4, "epoch": 1, "session": 3})
    rows.append(fault | {"action": "heal", "stage": "begin", "outcome": "pending"})
    rows.append(fault | {"action": "heal", "stage": "end", "outcome": "healed"})
    return [{"index": index, "time_ns": index * _STEP_NS} | row for index, row in enumerate(rows)]
