"""What the start-up archive is made from: it must go through every question that the demo asks."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fencepost.harness.warehouse.across import ACROSS
from fencepost.harness.warehouse.training import exercise

pytestmark = pytest.mark.spark


def test_an_empty_warehouse_is_made_and_asked(spark: SparkSession, tmp_path: Path) -> None:
    exercise(spark, tmp_path)
    assert {path.name for path in (tmp_path / "training" / "across").iterdir()} == set(ACROSS)
    assert "None was seen." in (tmp_path / "training" / "index.html").read_text()
