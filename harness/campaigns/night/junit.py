"""The night as JUnit: one case for each cell, with the properties seed, command and report.

A violation that is not known is a failure; whatever is missing is an error; a known one has passed and says so; a cell
that the budget left out is skipped. The file is never greener than the night: a reason that is about no cell (an
expired issue, a shard, the canary) is a case of its own. Each case lists every attempt.
"""

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from fencepost.harness.campaigns.night.night import Attempt, CellOutcome, Night
from fencepost.harness.campaigns.night.outcome import Cause, Outcome, Reason
from fencepost.harness.campaigns.night.run_class import RunClass
from fencepost.harness.campaigns.night.telling import attempts_in_words, repeat_command
from fencepost.harness.report.documents.junit import clean


def junit_xml(night: Night, outcome: Outcome) -> str:
    """The document as text, with its declaration."""
    suite = ET.Element("testsuite", {"name": clean(f"fencepost {night.id}"), "timestamp": night.started_at})
    properties = ET.SubElement(suite, "properties")
    for name, value in (("seed", night.seed), ("command", night.command), ("outcome", outcome.sentence)):
        ET.SubElement(properties, "property", {"name": name, "value": clean(str(value))})
    names = [each.cell.name for each in night.cells]
    for each in night.cells:
        name = each.cell.name if names.count(each.cell.name) == 1 else f"{each.cell.name} ({each.cell.id})"
        own = [reason for reason in outcome.reasons if reason.cell == each.cell.id]
        suite.append(_case(each, name, own))
    for reason in outcome.reasons:
        if not reason.cell:
            case = ET.SubElement(suite, "testcase", {"classname": "fencepost.night", "name": reason.cause, "time": "0"})
            _add(case, reason)
    tally = {"tests": "testcase", "failures": "testcase/failure", "errors": "testcase/error"}
    for name, path in {**tally, "skipped": "testcase/skipped"}.items():
        suite.set(name, str(len(suite.findall(path))))
    suite.set("time", f"{night.spent_s:.1f}")
    root = ET.Element("testsuites", {"name": "fencepost"})
    root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _case(each: CellOutcome, name: str, reasons: Sequence[Reason]) -> ET.Element:
    plan, last = each.cell.plan, each.attempts[-1] if each.attempts else None
    case = ET.Element(
        "testcase",
        {
            "classname": clean(f"fencepost.{plan.system}.{plan.workload}"),
            "name": clean(name),
            "time": f"{sum(a.seconds for a in each.attempts):.1f}",
        },
    )
    properties = ET.SubElement(case, "properties")
    values = {"cell": each.cell.id, "class": each.run_class.value, "required": str(each.cell.required).lower()}
    for key, value in {**values, **(_of_attempt(last) if last else {})}.items():
        ET.SubElement(properties, "property", {"name": key, "value": clean(value)})
    for reason in reasons[:1]:
        _add(case, reason)
    if not reasons and each.run_class is RunClass.NOT_RUN:
        ET.SubElement(case, "skipped", {"message": clean(each.reason)})
    if each.attempts:
        ET.SubElement(case, "system-out").text = clean("\n".join(attempts_in_words(each)))
    return case


def _of_attempt(attempt: Attempt) -> dict[str, str]:
    return {
        "seed": str(attempt.seed),
        "command": repeat_command(attempt),
        "report": attempt.report,
        "version": attempt.version,
    }


def _add(case: ET.Element, reason: Reason) -> None:
    tag = "failure" if reason.cause in (Cause.VIOLATION, Cause.EXPIRED) else "error"
    ET.SubElement(case, tag, {"message": clean(reason.text), "type": reason.cause.value})
