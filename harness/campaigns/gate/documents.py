"""The files of a gate: gate.html, gate.json and junit.xml, all made from one decision; each is written whole."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import msgspec

from fencepost.harness.base.errors import UsageError
from fencepost.harness.campaigns.gate.decision import decide
from fencepost.harness.campaigns.gate.evidence import Evidence, MeasureFiles
from fencepost.harness.campaigns.gate.page import page
from fencepost.harness.campaigns.gate.policy import Policy
from fencepost.harness.campaigns.gate.requirement import Decision, Requirement, Status
from fencepost.harness.campaigns.night.documents import write_whole
from fencepost.harness.campaigns.night.night import Night, State
from fencepost.harness.campaigns.night.telling import repeat_command
from fencepost.harness.report.documents.junit import clean

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
            JUNIT: lambda: junit_xml(evidence, decision),
            PAGE: lambda: page(evidence, decision, expected_end_s=expected_end_s),
        }
        for name, text in texts.items():
            try:
                write_whole(folder / name, text())
            except Exception as error:
                warn(f"{name} could not be written: {type(error).__name__}: {error}")


def document(evidence: Evidence, decision: Decision) -> dict[str, Any]:
    """What gate.json holds (docs/reference/gate-format.md)."""
    policy, night = evidence.policy, evidence.night
    is_ended = night.state is not State.RUNNING
    kept = ("id", "seed", "budget_s", "spent_s", "started_at", "ended_at", "state", "sessions", "jobs", "command")
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
        "requirements": msgspec.to_builtins(decision.requirements),
        "exceptions": [
            {**msgspec.to_builtins(each), "expired": each.is_expired(night.today)} for each in policy.exceptions
        ],
        **{key: about[key] for key in kept},
        "machine": about["machine"],
    }


def gate_json(evidence: Evidence, decision: Decision) -> str:
    """The text of gate.json."""
    data = msgspec.json.encode(document(evidence, decision))
    return msgspec.json.format(data, indent=2).decode() + "\n"


def junit_xml(evidence: Evidence, decision: Decision) -> str:
    """One case for each requirement: a failure says no to the candidate, an error that evidence is missing."""
    night = evidence.night
    suite = ET.Element("testsuite", {"name": clean(f"fencepost {night.id}"), "timestamp": night.started_at})
    properties = ET.SubElement(suite, "properties")
    for name, value in (("seed", night.seed), ("command", night.command), ("outcome", decision.sentence)):
        ET.SubElement(properties, "property", {"name": name, "value": clean(str(value))})
    tags = {Status.FAILED: "failure", Status.MISSING: "error"}
    for each in decision.requirements:
        seconds = sum(a.seconds for a in each.attempts)
        about = {"classname": f"fencepost.gate.{each.kind}", "name": clean(each.name), "time": f"{seconds:.1f}"}
        case = ET.SubElement(suite, "testcase", about)
        if each.status in tags:
            ET.SubElement(case, tags[each.status], {"message": clean(each.reason), "type": each.status.value})
        lines = [f"{each.need}: {each.status}; {each.reason}"]
        lines += [f"{a.run_class or 'in flight'}: {repeat_command(a)} {a.report}" for a in each.attempts]
        ET.SubElement(case, "system-out").text = clean("\n".join(lines))
    for name, path in {"tests": "testcase", "failures": "testcase/failure", "errors": "testcase/error"}.items():
        suite.set(name, str(len(suite.findall(path))))
    suite.set("time", f"{night.spent_s:.1f}")
    root = ET.Element("testsuites", {"name": "fencepost"})
    root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"
