"""The suite's rows as a JUnit document, and as lines of a table."""

from collections.abc import Sequence
from typing import Final
from xml.etree import ElementTree as ET

from fencepost.harness.conformance.rows import ROWS, RowOutcome, SuiteRow

JUNIT: Final = "junit.xml"
ROWS_FILE: Final = "rows.json"


def junit_of(system: str, runtime: str, rows: Sequence[SuiteRow]) -> str:
    """One test case a row: what failed with its reason and remedy, what does not apply as skipped with its reason."""
    name = f"conformance of {system} ({runtime})"
    counts = {outcome: sum(row.outcome is outcome for row in rows) for outcome in RowOutcome}
    suite = ET.Element(
        "testsuite",
        {
            "name": name,
            "tests": str(len(rows)),
            "failures": str(counts[RowOutcome.FAILED]),
            "errors": "0",
            "skipped": str(counts[RowOutcome.NOT_APPLICABLE]),
        },
    )
    for row in rows:
        case = ET.SubElement(
            suite,
            "testcase",
            {"classname": f"fencepost.conformance.{system}", "name": row.name, "time": f"{row.seconds:.1f}"},
        )
        if row.outcome is RowOutcome.FAILED:
            failure = ET.SubElement(case, "failure", {"message": row.text, "type": "failed"})
            failure.text = f"{ROWS[row.name]}\n{row.text}\nremedy: {row.remedy}"
        elif row.outcome is RowOutcome.NOT_APPLICABLE:
            ET.SubElement(case, "skipped", {"message": row.text})
    ET.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"
