"""`junit.xml`: one suite per run, one case per guarantee, so that CI shows which guarantee broke.

It is never greener than the verdict: a run that is invalid or unknown has at least one failure or error, whatever its
single verdicts say. A violation that does not decide is a passed case that carries a note, and an unknown that does not
decide is skipped with its reason, so that it is never redder either.
"""

from typing import Final
from xml.etree import ElementTree as ET

import msgspec

from fencepost.harness.history import ending_of
from fencepost.harness.report.facts.case import ReportCase
from fencepost.harness.report.words.wording import clock, text
from fencepost.harness.verdict import Standing, Validity, Verdict
from fencepost.harness.verdict.by_guarantee import OfGuarantee, by_guarantee, counts_in_words

_LINES_MAX: Final = 40


def junit_xml(case: ReportCase) -> str:
    """The document as text, with its declaration."""
    suite = ET.Element(
        "testsuite", {"name": clean(f"fencepost {case.name}"), "time": f"{case.history.end_ns / 1e9:.3f}"}
    )
    if case.run.get("started_at"):
        suite.set("timestamp", clean(str(case.run["started_at"])))
    properties = ET.SubElement(suite, "properties")
    for name in ("system", "version", "seed", "kernel", "git_commit"):
        if case.fact(name) is not None:
            ET.SubElement(properties, "property", {"name": name, "value": clean(text(case.fact(name), 200))})
    ending = ending_of(case.history, case.facts.planned_ns, case.facts.failure)
    for name, value in msgspec.to_builtins(ending).items():
        if value is not None:
            ET.SubElement(properties, "property", {"name": name, "value": clean(str(value))})
    ET.SubElement(properties, "property", {"name": "command", "value": clean(case.command)})
    for line in by_guarantee(case.verdicts, case.facts):
        suite.append(_case(case, line))
    if not _says(suite, case.validity):
        suite.append(_whole(case))
    tally = {
        "tests": "testcase",
        "failures": "testcase/failure",
        "errors": "testcase/error",
        "skipped": "testcase/skipped",
    }
    for name, path in tally.items():
        suite.set(name, str(len(suite.findall(path))))
    root = ET.Element("testsuites", {"name": "fencepost"})
    root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _case(case: ReportCase, line: OfGuarantee) -> ET.Element:
    out = _testcase(case, line.name)
    first = line.verdicts[0]
    match line.validity:
        case _ if line.effect is Validity.UNKNOWN:
            _add(out, "error", line.contradiction or _reasons(line), _story(case, first), kind="unknown")
        case Validity.INVALID if line.effect is Validity.INVALID:
            _add(out, "failure", _counted(line), _story(case, first), kind=next(iter(first.anomalies), "invalid"))
        case Validity.INVALID:
            ET.SubElement(out, "system-out").text = clean(
                f"violated, but it does not decide ({_standing(case, line.name)}): {_counted(line)}\n"
                + _story(case, first)
            )
        case Validity.UNKNOWN:
            ET.SubElement(out, "skipped", {"message": clean(f"unknown; does not affect the result: {_reasons(line)}")})
        case Validity.VALID:
            pass
    remarks = [remark for verdict in line.verdicts for remark in verdict.remarks]
    if remarks:
        ET.SubElement(out, "system-out").text = clean("\n".join(remarks))
    return out


def _says(suite: ET.Element, validity: Validity) -> bool:
    match validity:
        case Validity.INVALID:
            return suite.find("testcase/failure") is not None
        case Validity.UNKNOWN:
            return suite.find("testcase/error") is not None
        case Validity.VALID:
            return suite.find("testcase") is not None


def _whole(case: ReportCase) -> ET.Element:
    """The run's own case, where no single verdict says what the run is."""
    out = _testcase(case, "the run")
    if case.validity is Validity.INVALID:
        _add(out, "failure", case.headline, case.command, kind="invalid")
    elif case.validity is Validity.UNKNOWN:
        _add(out, "error", case.headline, case.command, kind="unknown")
    return out


def _testcase(case: ReportCase, name: str) -> ET.Element:
    class_name = f"fencepost.{case.facts.system}.{case.facts.workload}"
    return ET.Element("testcase", {"classname": clean(class_name), "name": clean(name), "time": "0"})


def _add(parent: ET.Element, tag: str, message: str, body: str, *, kind: str) -> None:
    element = ET.SubElement(parent, tag, {"message": clean(message), "type": clean(kind)})
    element.text = clean(body)


def _counted(line: OfGuarantee) -> str:
    reasons = "; ".join(v.reason for v in line.verdicts if v.validity is Validity.INVALID and v.reason)
    return ": ".join(part for part in (counts_in_words(line.verdicts), reasons) if part) or "violated"


def _reasons(line: OfGuarantee) -> str:
    unknown = (v.reason for v in line.verdicts if v.validity is Validity.UNKNOWN and v.reason)
    return "; ".join(dict.fromkeys(unknown)) or line.validity.value


def _standing(case: ReportCase, name: str) -> str:
    guarantee = case.facts.guarantee(name)
    if guarantee is not None and guarantee.unmet is not None:
        return guarantee.unmet.text
    return guarantee.standing.value if guarantee else Standing.MEASURED.value


def _story(case: ReportCase, verdict: Verdict) -> str:
    """The first witness in words, and how to see it again."""
    lines = []
    for witness in verdict.witnesses[:1]:
        lines.append(f"{witness.anomaly}, {clock(witness.from_ns)} to {clock(witness.to_ns)}:")
        lines += [f"  {step}" for step in witness.steps[:_LINES_MAX]]
    return "\n".join([*lines, f"repeat: {case.command}"])


def clean(raw: str) -> str:
    """Text that XML 1.0 can hold: other control characters and lone surrogates are shown as escapes."""
    return "".join(c if _allowed(c) else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in raw)


def _allowed(c: str) -> bool:
    return c in "\t\n\r" or "\x20" <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c >= "\U00010000"
