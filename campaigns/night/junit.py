"""The night as JUnit: one case for each cell, with the properties seed, command and report.

A violation that is not known is a failure; whatever is missing is an error; a known one has passed and says so; a cell
that the budget left out is skipped. The file is never greener than the night: a reason that is about no cell (an
expired issue, a shard, the canary) is a case of its own. Each case lists every attempt. Canaries have a suite of their
own, since what is expected of them is a violation.
"""

from collections.abc import Iterator, Sequence
from typing import Final
from xml.etree import ElementTree as ET

from fencepost.campaigns.night.night import CellOutcome, Night, RunAttempt
from fencepost.campaigns.night.outcome import NightCause, NightOutcome, Reason
from fencepost.campaigns.night.run_class import RunClass
from fencepost.campaigns.night.telling import (
    attempts_in_words,
    faults_in_words,
    finding_lines,
    repeat_command,
)
from fencepost.harness.report.documents import clean

_TALLY: Final = {"tests": "testcase", "failures": "testcase/failure", "errors": "testcase/error"}


def junit_xml(night: Night, outcome: NightOutcome, home: str) -> str:
    """The document as text, with its declaration; `home` is the night's folder, from where its commands are typed."""
    suite = new_suite(night, outcome.sentence)
    canaries = ET.Element("testsuite", {"name": clean(f"fencepost {night.id}: canaries, expected to be invalid")})
    names = [each.cell.name for each in night.cells]
    for each in night.cells:
        name = each.cell.name if names.count(each.cell.name) == 1 else f"{each.cell.name} ({each.cell.id})"
        own = [reason for reason in outcome.reasons if reason.cell == each.cell.id]
        (canaries if each.cell.canary else suite).append(_case(each, name, own, home))
    for reason in outcome.reasons:
        if not reason.cell:
            case = ET.SubElement(suite, "testcase", {"classname": "fencepost.night", "name": reason.cause, "time": "0"})
            _add(case, reason, reason.text)
    return finished([suite, canaries], night.spent_s)


def _seconds(suite: ET.Element) -> float:
    return sum(float(case.get("time", "0")) for case in suite.iter("testcase"))


def new_suite(night: Night, sentence: str) -> ET.Element:
    """An empty suite of a night, with its seed, the command that repeats it, and what it found in one sentence."""
    suite = ET.Element("testsuite", {"name": clean(f"fencepost {night.id}"), "timestamp": night.started_at})
    add_properties(suite, {"seed": str(night.seed), "command": night.command, "outcome": sentence})
    return suite


def add_properties(element: ET.Element, values: dict[str, str]) -> None:
    """Give a suite or a case its properties."""
    properties = ET.SubElement(element, "properties")
    for key, value in values.items():
        ET.SubElement(properties, "property", {"name": key, "value": clean(value)})


def finished(suites: Sequence[ET.Element], seconds: float) -> str:
    """The text of a document with these suites, counted; those without a case are left out.

    All of them took `seconds`; a suite that stands beside another took what its own cases did.
    """
    root = ET.Element("testsuites", {"name": "fencepost"})
    filled = [suite for suite in suites if suite.find("testcase") is not None]
    for suite in filled:
        for name, path in {**_TALLY, "skipped": "testcase/skipped"}.items():
            suite.set(name, str(len(suite.findall(path))))
        suite.set("time", f"{seconds if len(filled) == 1 else _seconds(suite):.1f}")
        root.append(suite)
    for name in (*_TALLY, "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    root.set("time", f"{seconds:.1f}")
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def attempt_properties(attempt: RunAttempt, home: str) -> dict[str, str]:
    """What a case says of the attempt that counts."""
    values = {
        "seed": str(attempt.seed),
        "command": repeat_command(attempt, home),
        "report": attempt.report,
        "version": attempt.version,
        "faults": faults_in_words(attempt),
    }
    return {**values, **({"fingerprints": " ".join(attempt.fingerprints)} if attempt.fingerprints else {})}


def _case(each: CellOutcome, name: str, reasons: Sequence[Reason], home: str) -> ET.Element:
    plan, last = each.cell.plan, each.attempts[-1] if each.attempts else None
    case = ET.Element(
        "testcase",
        {
            "classname": clean(f"fencepost.{plan.system}.{plan.workload}"),
            "name": clean(name),
            "time": f"{sum(a.seconds for a in each.attempts):.1f}",
        },
    )
    values = {"cell": each.cell.id, "class": each.run_class.value, "required": str(each.cell.required).lower()}
    if each.cell.canary:
        values["expected"] = f"invalid: {each.cell.anomaly}"
    add_properties(case, {**values, **(attempt_properties(last, home) if last else {})})
    for reason in reasons[:1]:
        _add(case, reason, "\n".join([reason.text, *_details(each, home)]))
    if not reasons and each.run_class is RunClass.NOT_RUN:
        ET.SubElement(case, "skipped", {"message": clean(each.reason)})
    if each.attempts:
        ET.SubElement(case, "system-out").text = clean("\n".join(attempts_in_words(each)))
    return case


def _details(each: CellOutcome, home: str) -> Iterator[str]:
    """What somebody looks at next, attempt by attempt: the fingerprints, the command, the report."""
    for attempt in each.attempts:
        yield from finding_lines(attempt, home) or [f"again: {repeat_command(attempt, home)}"]
        if attempt.report:
            yield f"report: {home}/{attempt.report}"


def _add(case: ET.Element, reason: Reason, text: str) -> None:
    tag = "failure" if reason.cause in (NightCause.VIOLATION, NightCause.EXPIRED) else "error"
    element = ET.SubElement(case, tag, {"message": clean(reason.text), "type": reason.cause.value})
    element.text = clean(text)
