"""Spark's start-up archive for `fencepost prepare`, and what `fencepost doctor` says of Spark."""

from pathlib import Path
from typing import Final

from fencepost.harness.plugins.archive import Archive
from fencepost.harness.runtime.artifacts.java import find_java
from fencepost.harness.runtime.provider import Check
from fencepost.warehouse import spark_session


def _make() -> Path | None:
    from fencepost.warehouse.training import exercise

    return spark_session.prepare_archive(exercise)


ARCHIVE: Final = Archive(made=spark_session.prepared_archive, make=_make)


def check() -> Check:
    """PySpark and the Java that it runs on; may raise what the look-up raises."""
    from importlib.metadata import version

    return Check("Spark", True, f"PySpark {version('pyspark')} on Java {find_java().version}")
