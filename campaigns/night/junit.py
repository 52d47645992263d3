"""The night as JUnit: one case for each cell, with the properties seed, command and report.

A violation that is not known is a failure; whatever is missing is an error; a known one has passed and says so; a cell
that the budget left out is skipped. The file is never greener than the night: a reason that is about no cell (an
expired issue, a shard, the canary) is a case of its own. Each case lists every attempt. Canaries have a suite of their
own, since what is expected of them is a violation.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from fencepost.campaigns.night.night import CellOutcome, Night, RunAttempt
from fencepost.campaigns.night.outcome import NightCause, NightOutcome, Reason
from fencepost.campaigns.night.run_class import RunClass
from fencepost.campaigns.night.telling import attempts_in_words, faults_in_words, finding_lines, repeat_command
from fencepost.harness.report.junit import JUnitCase, JUnitSuite, NotPassed, junit_xml


def junit_of(night: Night, outcome: NightOutcome, home: str) -> str:
    """The document as text, with its declaration; `home` is the night's folder, from where its commands are typed."""
    names = [each.cell.name for each in night.cells]
    cases: list[JUnitCase] = []
    canaries: list[JUnitCase] = []
    for each in night.cells:
        name = each.cell.name if names.count(each.cell.name) == 1 else f"{each.cell.name} ({each.cell.id})"
        own = [reason for reason in outcome.reasons if reason.cell == each.cell.id]
        (canaries if each.cell.canary else cases).append(_case(each, name, own, home))
    for reason in outcome.reasons:
        if not reason.cell:
            case = JUnitCase(classname="fencepost.night", name=reason.cause)
            cases.append(msgspec.structs.replace(case, **_broken(reason, reason.text)))
    # Beside each other they took what their own cases did.
    seconds = night.spent_s if not (cases and canaries) else None
    suites = [
        suite_of(night, outcome.sentence, cases, seconds),
        JUnitSuite(
            name=f"fencepost {night.id}: canaries, expected to be invalid", cases=tuple(canaries), seconds=seconds
        ),
    ]
    return junit_xml([suite for suite in suites if suite.cases], night.spent_s)


def suite_of(night: Night, sentence: str, cases: Sequence[JUnitCase], seconds: float | None) -> JUnitSuite:
    """A suite of a night, with its seed, the command that repeats it, and what it found in one sentence."""
    return JUnitSuite(
        name=f"fencepost {night.id}",
        cases=tuple(cases),
        properties={"seed": str(night.seed), "command": night.command, "outcome": sentence},
        timestamp=night.started_at,
        seconds=seconds,
    )


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


def _case(each: CellOutcome, name: str, reasons: Sequence[Reason], home: str) -> JUnitCase:
    plan, last = each.cell.plan, each.attempts[-1] if each.attempts else None
    values = {"cell": each.cell.id, "class": each.run_class.value, "required": str(each.cell.required).lower()}
    if each.cell.canary:
        values["expected"] = f"invalid: {each.cell.anomaly}"
    ending: dict[str, Any] = {}
    if reasons:
        ending = _broken(reasons[0], "\n".join([reasons[0].text, *_details(each, home)]))
    elif each.run_class is RunClass.NOT_RUN:
        ending = {"ended": NotPassed.SKIPPED, "message": each.reason}
    return JUnitCase(
        classname=f"fencepost.{plan.system}.{plan.workload}",
        name=name,
        seconds=sum(a.seconds for a in each.attempts),
        properties={**values, **(attempt_properties(last, home) if last else {})},
        output="\n".join(attempts_in_words(each)) if each.attempts else "",
        **ending,
    )


def _details(each: CellOutcome, home: str) -> Iterator[str]:
    """What somebody looks at next, attempt by attempt: the fingerprints, the command, the report."""
    for attempt in each.attempts:
        yield from finding_lines(attempt, home) or [f"again: {repeat_command(attempt, home)}"]
        if attempt.report:
            yield f"report: {home}/{attempt.report}"


def _broken(reason: Reason, text: str) -> dict[str, Any]:
    ended = NotPassed.FAILURE if reason.cause in (NightCause.VIOLATION, NightCause.EXPIRED) else NotPassed.ERROR
    return {"ended": ended, "message": reason.text, "kind": reason.cause.value, "text": text}
