"""What the start-up archive is made from: it must go through every question that the demo asks."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fencepost.warehouse.training import exercise

pytestmark = pytest.mark.spark


def test_an_empty_warehouse_is_made_and_asked(spark: SparkSession, tmp_path: Path) -> None:
    exercise(spark, tmp_path)
    assert "None was seen." in (tmp_path / "index.html").read_text()
