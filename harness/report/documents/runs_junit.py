"""Several runs of one plan by one command: one JUnit file of all of them, whose cases have names of their own.

Each run keeps its own `junit.xml`; a CI server that reads ten of them takes equal names for one case that was retried.
"""

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec

from fencepost.harness.results import run_folder as store


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """One run: its seed, and its folder; or, where there was nothing to judge, why.

    `begun` is False for a run that the command never came to, since it was stopped before.
    """

    seed: int
    folder: Path | None = None
    failure: str | None = None
    begun: bool = True


def junit_path(runs: Sequence[Made]) -> Path | None:
    """Where the file of all runs goes: beside the folder of the first; None when no run has one."""
    folder = next((run.folder for run in runs if run.folder is not None), None)
    return None if folder is None else folder.parent / f"junit-{folder.name}.xml"


def junit_of(runs: Sequence[Made]) -> str:
    """The suites of all runs as one document; a run without a readable one is an error of its own."""
    root = ET.Element("testsuites", {"name": "fencepost"})
    for run in runs:
        suite = _suite(run)
        suite.set("name", f"{suite.get('name', 'fencepost')} seed {run.seed}")
        for case in suite.iter("testcase"):
            case.set("classname", f"{case.get('classname', 'fencepost')}.seed-{run.seed}")
        root.append(suite)
    for tally in ("tests", "failures", "errors", "skipped"):
        root.set(tally, str(sum(int(suite.get(tally, "0")) for suite in root)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(run: Made) -> ET.Element:
    why = run.failure or f"the run left no readable {store.JUNIT}"
    if run.folder is not None:
        try:
            suite = ET.parse(run.folder / store.JUNIT).getroot().find("testsuite")
        except (OSError, ET.ParseError):
            suite = None
        if suite is not None:
            return suite
    suite = ET.Element("testsuite", {"name": "fencepost", "tests": "1", "errors": "1"})
    case = ET.SubElement(suite, "testcase", {"classname": "fencepost", "name": "the run", "time": "0"})
    ET.SubElement(case, "error", {"message": why, "type": "failed"})
    return suite
