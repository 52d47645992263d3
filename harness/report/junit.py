"""JUnit XML: suites of cases, counted. Every command that writes one writes it here.

The form is what CI servers read: `testsuites` with `testsuite`, each with `testcase`; a case that did not pass has one
`failure`, `error` or `skipped`. Text that XML 1.0 cannot hold is shown as escapes.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import msgspec

_TALLY: Final = {
    "tests": "testcase",
    "failures": "testcase/failure",
    "errors": "testcase/error",
    "skipped": "testcase/skipped",
}


class NotPassed(StrEnum):
    """`FAILURE`: it is wrong. `ERROR`: nobody can tell. `SKIPPED`: it was not asked for, or cannot be."""

    FAILURE = "failure"
    ERROR = "error"
    SKIPPED = "skipped"


class JUnitCase(msgspec.Struct, frozen=True, kw_only=True):
    """One case; `kind` says which failure or error, `text` more about it, `output` what a passed case says too."""

    classname: str
    name: str
    seconds: float = 0.0
    ended: NotPassed | None = None
    message: str = ""
    kind: str = ""
    text: str = ""
    properties: Mapping[str, str] = {}
    output: str = ""


class JUnitSuite(msgspec.Struct, frozen=True, kw_only=True):
    """Cases with what they have in common; `timestamp` is UTC; without `seconds` they are those of the cases."""

    name: str
    cases: tuple[JUnitCase, ...]
    properties: Mapping[str, str] = {}
    timestamp: str = ""
    seconds: float | None = None

    def element(self) -> ET.Element:
        """Return it as `testsuite`, counted."""
        suite = ET.Element("testsuite", {"name": clean(self.name)})
        if self.timestamp:
            suite.set("timestamp", clean(self.timestamp))
        _add_properties(suite, self.properties)
        for case in self.cases:
            _add_case(suite, case)
        seconds = sum(case.seconds for case in self.cases) if self.seconds is None else self.seconds
        suite.set("time", f"{seconds:.3f}")
        _count(suite, [suite])
        return suite


def junit_xml(suites: Iterable[JUnitSuite | ET.Element], seconds: float | None = None) -> str:
    """Return the document as text, with its declaration; suites that `read_suite` read stay as they are.

    Args:
        seconds: how long all of them took together; None: the sum.
    """
    root = ET.Element("testsuites", {"name": "fencepost"})
    root.extend(suite.element() if isinstance(suite, JUnitSuite) else suite for suite in suites)
    total = sum(float(suite.get("time", "0")) for suite in root) if seconds is None else seconds
    root.set("time", f"{total:.3f}")
    _count(root, list(root))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def read_suite(path: Path) -> ET.Element | None:
    """Return the first suite of a document; None where there is no readable one."""
    try:
        return ET.parse(path).getroot().find("testsuite")
    except (OSError, ET.ParseError):
        return None


def clean(raw: str) -> str:
    """Text that XML 1.0 can hold: other control characters and lone surrogates are shown as escapes."""
    return "".join(c if _allowed(c) else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in raw)


def _allowed(c: str) -> bool:
    return c in "\t\n\r" or "\x20" <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c >= "\U00010000"


def _add_case(suite: ET.Element, case: JUnitCase) -> None:
    about = {"classname": clean(case.classname), "name": clean(case.name), "time": f"{case.seconds:.1f}"}
    element = ET.SubElement(suite, "testcase", about)
    _add_properties(element, case.properties)
    if case.ended is not None:
        kind = {"type": clean(case.kind)} if case.kind else {}
        ET.SubElement(element, case.ended, {"message": clean(case.message), **kind}).text = clean(case.text) or None
    if case.output:
        ET.SubElement(element, "system-out").text = clean(case.output)


def _add_properties(element: ET.Element, values: Mapping[str, str]) -> None:
    if values:
        properties = ET.SubElement(element, "properties")
        for name, value in values.items():
            ET.SubElement(properties, "property", {"name": name, "value": clean(value)})


def _count(element: ET.Element, suites: list[ET.Element]) -> None:
    for name, path in _TALLY.items():
        element.set(name, str(sum(len(suite.findall(path)) for suite in suites)))
