"""gate.html: one self-contained page without scripts, which prints on paper as it stands."""

from collections.abc import Iterator
from typing import Any, Final

from fencepost.campaigns.gate.decision import builds_of, required_cells
from fencepost.campaigns.gate.evidence import GateEvidence
from fencepost.campaigns.gate.requirement import Decision, Requirement, RequirementKind, RequirementStatus
from fencepost.campaigns.night.cells import NightCell
from fencepost.campaigns.night.night import CellOutcome, NightState, RunAttempt
from fencepost.campaigns.night.run_class import nemesis_of
from fencepost.campaigns.night.telling import (
    about,
    counted,
    finding_lines,
    lag_in_words,
    on_machine,
    options_in_words,
    seen_in,
)
from fencepost.harness.base.errors import ExitCode
from fencepost.harness.base.quantities import lasting
from fencepost.harness.report.page_kit import PageKit

_REFRESH_S: Final = 10
_TITLES: Final = {
    ExitCode.VALID: "Green",
    ExitCode.INVALID: "Red: the candidate failed",
    ExitCode.UNKNOWN: "Red: evidence is missing",
}
_HEADINGS: Final = {
    RequirementKind.EXCEPTION: "expired exception",
    RequirementKind.CELL: "required cell",
    RequirementKind.GUARANTEE: "guarantee",
    RequirementKind.CANARY: "canary",
    RequirementKind.BUDGET: "budget",
    RequirementKind.FAULT: "effective faults",
    RequirementKind.BUILD: "build",
    RequirementKind.SHARD: "shard",
}
#: The table's links to runs: more of them are counted.
_LINKS_MAX: Final = 12
_OWN_STYLE: Final = """
.runs { margin: 2px 0 0; padding: 0; list-style: none; display: flex; flex-wrap: wrap; gap: 2px 10px; font-size: 12px; }
.early { font-weight: 600; }
td, th[scope="row"] { overflow-wrap: anywhere; }
td.short { white-space: nowrap; }
@media print {
  body { font-size: 11px; line-height: 1.3; }
  main { max-width: none; padding: 0; }
  header.verdict { padding: 6px 12px; }
  header.verdict p, header.verdict h1 { margin: 1px 0; }
  section { margin-top: 10px; }
  h2 { font-size: 13px; margin: 0; }
  table, .runs { font-size: 10px; }
  th, td { padding: 1px 8px 1px 0; }
  p { margin: 2px 0; }
  .scroll { overflow: visible; }
  tr { break-inside: avoid; }
}
"""


def page(evidence: GateEvidence, decision: Decision, home: str, *, expected_end_s: float | None = None) -> str:
    """The page.

    Args:
        home: the night's folder, as commands name it.
        expected_end_s: in how many seconds a running gate will end.
    """
    night, policy = evidence.night, evidence.policy
    is_running = night.state is NightState.RUNNING
    outcomes = {each.cell.id: each for each in night.cells}
    worst = min((r.status.exit_code for r in decision.requirements if r.status.exit_code), default=ExitCode.VALID)
    tones = {ExitCode.VALID: "valid", ExitCode.INVALID: "invalid"}
    title = "Running" if is_running else _TITLES[decision.exit_code]
    return PageKit("fencepost.campaigns.gate", _OWN_STYLE).page(
        "gate",
        title=f"{title}: {policy.candidate} against {policy.name}",
        heading=title,
        night=night,
        policy=policy,
        decision=decision,
        refresh_s=_REFRESH_S if is_running else 0,
        tone="unknown" if is_running and worst is not ExitCode.INVALID else tones.get(worst, "unknown"),
        about=about(night),
        machine=on_machine(night),
        candidate=", ".join(_candidate(evidence)),
        ends=f"expected to end in {lasting(expected_end_s)}" if expected_end_s is not None else "",
        early="Red is certain, so it stopped early: what was not run could not have made it green."
        if decision.is_certainly_red
        else "",
        rows=[_row(each, outcomes, home) for each in decision.requirements],
        budgets=[each for each in decision.requirements if each.comparison is not None],
        exceptions=[
            (each, *(seen_in(each.issue, night) if each.fingerprint else (0, 0))) for each in policy.exceptions
        ],
        today=night.today,
    )


def _candidate(evidence: GateEvidence) -> Iterator[str]:
    """The system, the versions that its servers said they are, and the builds."""
    required = required_cells(evidence)
    yield from sorted({each.cell.plan.system for each in required})
    versions = sorted({a.version for each in required for a in each.attempts if a.version})
    if versions:
        yield f"version {', '.join(versions)}"
    if builds := builds_of(required):
        yield f"build {', '.join(builds)}"


def _tests(cell: NightCell) -> str:
    """What a cell runs: "etcd, workload register, faults partition:leader, 3 nodes"."""
    plan, options = cell.plan, options_in_words(cell.plan)
    parts = [plan.system, f"workload {plan.workload}", f"faults {nemesis_of(cell) or 'none'}", f"{plan.nodes} nodes"]
    return ", ".join([*parts, *([options] if options else [])])


def _row(each: Requirement, outcomes: dict[str, CellOutcome], home: str) -> dict[str, Any]:
    own = outcomes.get(each.cell)
    failed = each.attempts if each.status is RequirementStatus.FAILED and each.kind is RequirementKind.CELL else ()
    return {
        "sign": each.status.sign,
        "tone": each.status.tone,
        "status": each.status.value,
        "kind": _HEADINGS[each.kind],
        "name": each.name,
        "need": each.need,
        "reason": each.reason,
        "tests": _tests(own.cell) if own is not None else "",
        "findings": [line for a in failed for line in finding_lines(a, home)],
        "runs": [_link(each, a, outcomes) for a in each.attempts[:_LINKS_MAX]],
        "more": max(0, len(each.attempts) - _LINKS_MAX),
        "counted": counted(own)
        if own is not None and each.kind in (RequirementKind.CELL, RequirementKind.CANARY)
        else "",
    }


def _link(each: Requirement, attempt: RunAttempt, outcomes: dict[str, CellOutcome]) -> dict[str, str]:
    run_class = attempt.run_class.value if attempt.run_class else "in flight"
    again = f", attempt {attempt.number}" if attempt.number > 1 else ""
    of = "baseline, " if each.kind is RequirementKind.BUDGET and attempt.cell != each.cell else ""
    times = ""
    if each.kind is RequirementKind.GUARANTEE:
        tested = attempt.exposures.get(each.name, 0)
        of, times = f"{outcomes[attempt.cell].cell.name}, ", f", tested {tested:,} time{'' if tested == 1 else 's'}"
    faults = "" if attempt.took_hold or attempt.run_class is None else ", no effective fault"
    text = f"{of}run {attempt.run}{again}: {run_class}{times}{faults}{lag_in_words(attempt)}"
    return {"text": text, "report": attempt.report}
