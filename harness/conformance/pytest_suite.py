"""The suite as pytest tests, for authors of systems: one test for each row.

    from fencepost.harness.conformance.pytest_suite import SystemConformance

    class TestMyStore(SystemConformance):
        system = "my-store"
        runtime = "lab"

The suite is played once for the class; a row that failed fails its test with reason and remedy, and one that does not
apply is skipped with its reason.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from fencepost.harness.base.errors import FencepostError
from fencepost.harness.conformance.rows import ROWS, RowOutcome
from fencepost.harness.conformance.suite import Report, play_suite, suite_plan
from fencepost.harness.plugins import registry


class SystemConformance:
    """The base of a test class; `plan` has further keys of a plan, `plugins` the paths of `--plugin`."""

    system: ClassVar[str]
    runtime: ClassVar[str] = "lab"
    plan: ClassVar[Mapping[str, object]] = {}
    plugins: ClassVar[tuple[str | Path, ...]] = ()

    @pytest.fixture(scope="class")
    @classmethod
    def report(cls, tmp_path_factory: pytest.TempPathFactory) -> Report:
        """The played suite of the class."""
        try:
            registry.use_plugins(cls.plugins)
            checked = suite_plan({"system": cls.system, "runtime": cls.runtime, **cls.plan})
            return play_suite(checked, tmp_path_factory.mktemp("conformance"))
        except FencepostError as error:
            hint = f"\nhint: {error.hint}" if error.hint else ""
            pytest.fail(f"{error.message}{hint}", pytrace=False)

    @pytest.mark.parametrize("row", ROWS)
    def test_row(self, report: Report, row: str) -> None:
        result = next(one for one in report.rows if one.name == row)
        if result.outcome is RowOutcome.NOT_APPLICABLE:
            pytest.skip(result.text)
        if result.outcome is RowOutcome.FAILED:
            pytest.fail(f"{ROWS[row]}\n{result.text}\nremedy: {result.remedy}\nlogs: {report.folder}", pytrace=False)
