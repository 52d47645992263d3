"""The files of a gate: gate.html, gate.json and junit.xml, all made from one decision; each is written whole."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import msgspec

from fencepost.campaigns.gate.decision import decide
from fencepost.campaigns.gate.evidence import GateEvidence, MeasureFiles
from fencepost.campaigns.gate.page import page
from fencepost.campaigns.gate.policy import Policy
from fencepost.campaigns.gate.requirement import Decision, Requirement, RequirementKind, RequirementStatus
from fencepost.campaigns.night.documents import write_whole
from fencepost.campaigns.night.junit import add_properties, attempt_properties, finished, new_suite
from fencepost.campaigns.night.night import Night, NightState
from fencepost.campaigns.night.telling import finding_lines, from_here, repeat_command
from fencepost.harness.base.errors import UsageError
from fencepost.harness.report.documents import clean

#: Version of gate.json.
FORMAT: Final = 1
DOCUMENT: Final = "gate.json"
PAGE: Final = "gate.html"
JUNIT: Final = "junit.xml"


class GateFile(msgspec.Struct, frozen=True, kw_only=True):
    """What others read of gate.json: the policy's answer about a candidate."""

    format: int
    policy: str
    candidate: str
    exit_code: int
    sentence: str
    baseline: str | None = None
    requirements: tuple[Requirement, ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it is not green, requirement by requirement."""
        return tuple(f"{r.name}: {r.reason}" for r in self.requirements if r.status.exit_code)


def read_gate(folder: Path) -> GateFile | None:
    """Read the gate in a night's folder; None for a campaign. Raises UsageError for a file that it cannot read."""
    path = folder / DOCUMENT
    if not path.is_file():
        return None
    try:
        gate = msgspec.json.decode(path.read_bytes(), type=GateFile)
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"{path}: {error}", hint="make it again: fencepost gate with --resume writes it") from None
    if gate.format != FORMAT:
        raise UsageError(f"{path}: format {gate.format}, and this fencepost reads {FORMAT}", hint="use the newer one")
    return gate


class GateDocuments:
    """Writes the files of one gate while its night runs, and at its end."""

    def __init__(self, policy: Policy, files: MeasureFiles) -> None:
        self._policy, self._files = policy, files

    def __call__(
        self, night: Night, folder: Path, *, expected_end_s: float | None = None, warn: Callable[[str], None]
    ) -> None:
        """Write all three; a file that cannot be written costs itself, and `warn` is told."""
        evidence = self._files.evidence(self._policy, night)
        decision = decide(evidence)
        texts: dict[str, Callable[[], str]] = {
            DOCUMENT: lambda: gate_json(evidence, decision),
            JUNIT: lambda: junit_xml(evidence, decision, from_here(folder)),
            PAGE: lambda: page(evidence, decision, from_here(folder), expected_end_s=expected_end_s),
        }
        for name, text in texts.items():
            try:
                write_whole(folder / name, text())
            except Exception as error:
                warn(f"{name} could not be written: {type(error).__name__}: {error}")


def document(evidence: GateEvidence, decision: Decision) -> dict[str, Any]:
    """What gate.json holds (docs/reference/gate-format.md)."""
    policy, night = evidence.policy, evidence.night
    is_ended = night.state is not NightState.RUNNING
    kept = (
        "id",
        "fencepost",
        "seed",
        "budget_s",
        "spent_s",
        "started_at",
        "ended_at",
        "state",
        "sessions",
        "jobs",
        "command",
    )
    about = msgspec.to_builtins(night)
    return {
        "format": FORMAT,
        "policy": policy.name,
        "candidate": policy.candidate,
        "baseline": policy.baseline or None,
        "exit_code": int(decision.exit_code),
        "green": decision.is_green and is_ended,
        "stopped_early": decision.is_certainly_red,
        "sentence": decision.sentence,
        "reach": list(decision.reach),
        "requirements": msgspec.to_builtins(decision.requirements),
        "exceptions": [
            {**msgspec.to_builtins(each), "expired": each.is_expired(night.today)} for each in policy.exceptions
        ],
        **{key: about[key] for key in kept},
        "machine": about["machine"],
    }


def gate_json(evidence: GateEvidence, decision: Decision) -> str:
    """The text of gate.json."""
    data = msgspec.json.encode(document(evidence, decision))
    return msgspec.json.format(data, indent=2).decode() + "\n"


def junit_xml(evidence: GateEvidence, decision: Decision, home: str) -> str:
    """One case for each requirement: a failure says no to the candidate, an error that evidence is missing.

    `home` is the night's folder, as commands name it. A run's time counts once, in the case of its cell.
    """
    night = evidence.night
    suite = new_suite(night, decision.sentence)
    tags = {RequirementStatus.FAILED: "failure", RequirementStatus.MISSING: "error"}
    timed: set[str] = set()
    for each in sorted(
        decision.requirements, key=lambda r: r.kind not in (RequirementKind.CELL, RequirementKind.CANARY)
    ):
        fresh = [a for a in each.attempts if a.folder not in timed]
        timed |= {a.folder for a in fresh}
        about = {"classname": f"fencepost.gate.{each.kind}", "name": clean(each.name)}
        case = ET.SubElement(suite, "testcase", {**about, "time": f"{sum(a.seconds for a in fresh):.1f}"})
        values = {"need": each.need, "status": each.status.value, "cell": each.cell}
        values["expected"] = "invalid" if each.kind is RequirementKind.CANARY else ""
        last = each.attempts[-1:]
        add_properties(
            case, {k: v for k, v in values.items() if v} | (attempt_properties(last[0], home) if last else {})
        )
        lines = [f"{a.run_class or 'in flight'}: {repeat_command(a, home)} {a.report}" for a in each.attempts]
        if each.status in tags:
            element = ET.SubElement(case, tags[each.status], {"message": clean(each.reason), "type": each.status.value})
            findings = (
                [line for a in each.attempts for line in finding_lines(a, home)]
                if each.kind is RequirementKind.CELL
                else []
            )
            element.text = clean("\n".join([f"needs: {each.need}", each.reason, *findings]))
        output = [f"{each.need}: {each.status}; {each.reason}", *lines]
        ET.SubElement(case, "system-out").text = clean("\n".join(output))
    return finished([suite], night.spent_s)
