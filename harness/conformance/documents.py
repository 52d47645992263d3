"""The suite's rows as a JUnit document, and as lines of a table."""

from collections.abc import Sequence
from typing import Final

from fencepost.harness.conformance.rows import ROWS, RowOutcome, SuiteRow
from fencepost.harness.report.junit import JUnitCase, JUnitSuite, NotPassed, junit_xml

JUNIT: Final = "junit.xml"
ROWS_FILE: Final = "rows.json"
_ENDED: Final = {RowOutcome.FAILED: NotPassed.FAILURE, RowOutcome.NOT_APPLICABLE: NotPassed.SKIPPED}


def junit_of(system: str, runtime: str, rows: Sequence[SuiteRow]) -> str:
    """One test case a row: what failed with its reason and remedy, what does not apply as skipped with its reason."""
    cases = tuple(
        JUnitCase(
            classname=f"fencepost.conformance.{system}",
            name=row.name,
            seconds=row.seconds,
            ended=_ENDED.get(row.outcome),
            message=row.text,
            kind="failed" if row.outcome is RowOutcome.FAILED else "",
            text=f"{ROWS[row.name]}\n{row.text}\nremedy: {row.remedy}" if row.outcome is RowOutcome.FAILED else "",
        )
        for row in rows
    )
    return junit_xml([JUnitSuite(name=f"conformance of {system} ({runtime})", cases=cases)])
