"""The files of a gate: gate.html, gate.json and junit.xml, all made from one decision; each is written whole."""

from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.campaigns.gate.decision import decide
from fencepost.campaigns.gate.evidence import GateEvidence
from fencepost.campaigns.gate.page import page
from fencepost.campaigns.gate.requirement import Decision, Requirement, RequirementKind, RequirementStatus
from fencepost.campaigns.night.documents import Files
from fencepost.campaigns.night.junit import attempt_properties, suite_of
from fencepost.campaigns.night.night import NightState
from fencepost.campaigns.night.telling import finding_lines, from_here, repeat_command
from fencepost.harness.base.errors import UsageError
from fencepost.harness.report.junit import JUnitCase, NotPassed, junit_xml

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


def files_of(evidence: GateEvidence, folder: Path, expected_end_s: float | None = None) -> Files:
    """The files of a gate in its night's folder, while the night runs and at its end."""
    decision, home = decide(evidence), from_here(folder)
    return {
        DOCUMENT: lambda: document(evidence, decision),
        JUNIT: lambda: junit_of(evidence, decision, home),
        PAGE: lambda: page(evidence, decision, home, expected_end_s=expected_end_s),
    }


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


def junit_of(evidence: GateEvidence, decision: Decision, home: str) -> str:
    """One case for each requirement: a failure says no to the candidate, an error that evidence is missing.

    `home` is the night's folder, as commands name it. A run's time counts once, in the case of its cell.
    """
    night = evidence.night
    tags = {RequirementStatus.FAILED: NotPassed.FAILURE, RequirementStatus.MISSING: NotPassed.ERROR}
    timed: set[str] = set()
    cases = []
    for each in sorted(
        decision.requirements, key=lambda r: r.kind not in (RequirementKind.CELL, RequirementKind.CANARY)
    ):
        fresh = [a for a in each.attempts if a.folder not in timed]
        timed |= {a.folder for a in fresh}
        values = {"need": each.need, "status": each.status.value, "cell": each.cell}
        values["expected"] = "invalid" if each.kind is RequirementKind.CANARY else ""
        of_cell = each.attempts if each.kind is RequirementKind.CELL else ()
        findings = [line for a in of_cell for line in finding_lines(a, home)]
        lines = [f"{a.run_class or 'in flight'}: {repeat_command(a, home)} {a.report}" for a in each.attempts]
        case = JUnitCase(
            classname=f"fencepost.gate.{each.kind}",
            name=each.name,
            seconds=sum(a.seconds for a in fresh),
            properties={k: v for k, v in values.items() if v}
            | (attempt_properties(each.attempts[-1], home) if each.attempts else {}),
            output="\n".join([f"{each.need}: {each.status}; {each.reason}", *lines]),
        )
        if each.status in tags:
            case = msgspec.structs.replace(
                case,
                ended=tags[each.status],
                message=each.reason,
                kind=each.status.value,
                text="\n".join([f"needs: {each.need}", each.reason, *findings]),
            )
        cases.append(case)
    return junit_xml([suite_of(night, decision.sentence, cases, night.spent_s)], night.spent_s)
