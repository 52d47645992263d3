"""index.html of a night: self-contained, without scripts, readable at any time of the night."""

from typing import Any, Final

from fencepost.campaigns.night.night import CellOutcome, Night, NightState
from fencepost.campaigns.night.outcome import NightOutcome
from fencepost.campaigns.night.run_class import RunClass
from fencepost.campaigns.night.telling import (
    SIGNS,
    about,
    attempt_in_words,
    class_in_words,
    counted,
    finding_lines,
    on_machine,
    options_in_words,
    seen_in,
)
from fencepost.harness.base.errors import ExitCode
from fencepost.harness.base.quantities import lasting
from fencepost.harness.contract.guarantees import mechanisms_of
from fencepost.harness.plugins import registry
from fencepost.harness.report.page_kit import PageKit
from fencepost.harness.verdict import Validity

#: A page of a running night asks for itself again after so many seconds.
_REFRESH_S: Final = 10
_OWN_STYLE: Final = """
.squares { display: flex; flex-wrap: wrap; gap: 3px; margin: 6px 0 2px; padding: 0; list-style: none; }
.squares a, .squares span { display: block; min-width: 22px; text-align: center; border: 1px solid var(--line);
  border-radius: 3px; text-decoration: none; line-height: 20px; }
.squares .valid { background: var(--valid-paper); color: var(--valid); }
.squares .invalid { background: var(--invalid-paper); color: var(--invalid); font-weight: 700; }
.squares .unknown { background: var(--unknown-paper); color: var(--unknown); }
.squares .none { color: var(--soft); }
.badge.none { color: var(--soft); }
.reasons li { margin: 2px 0; overflow-wrap: anywhere; }
.attempts { margin: 0; padding: 0; list-style: none; }
.attempts li { overflow-wrap: anywhere; margin: 0 0 2px; }
"""


def page(night: Night, outcome: NightOutcome, home: str, *, expected_end_s: float | None = None) -> str:
    """The page.

    Args:
        home: the night's folder, as commands name it.
        expected_end_s: in how many seconds a running night will end.
    """
    title = _title(night, outcome)
    explained = {reason.cell for reason in outcome.reasons}
    rows = [_row(each, home, is_explained=each.cell.id in explained) for each in night.cells]
    return PageKit("fencepost.campaigns.night", _OWN_STYLE).page(
        "night",
        title=f"{title}: {night.id}",
        heading=title,
        night=night,
        outcome=outcome,
        about=about(night),
        machine=on_machine(night),
        home=home,
        ends=f"expected to end in {lasting(expected_end_s)}" if expected_end_s is not None else "",
        refresh_s=_REFRESH_S if night.state is NightState.RUNNING else 0,
        tone=_night_tone(night, outcome),
        canaries=[row for row in rows if row["canary"]],
        cells=[row for row in rows if not row["canary"]],
        mechanisms=[_mechanisms(night, system) for system in _systems(night)],
        reasons=[{"text": reason.text, "anchor": reason.cell} for reason in outcome.reasons],
        issues=[(issue, *seen_in(issue, night)) for issue in night.known_issues],
        today=night.today,
    )


def _night_tone(night: Night, outcome: NightOutcome) -> str:
    if night.state is NightState.RUNNING:
        return Validity.INVALID if night.count(RunClass.INVALID) else Validity.UNKNOWN
    tones = {ExitCode.VALID: Validity.VALID, ExitCode.INVALID: Validity.INVALID}
    return tones.get(outcome.exit_code, Validity.UNKNOWN)


def _title(night: Night, outcome: NightOutcome) -> str:
    if night.state is NightState.RUNNING:
        return "Running"
    if outcome.is_green:
        return "Green"
    return "Red: a violation" if outcome.exit_code is ExitCode.INVALID else "Red: something is missing"


def _row(each: CellOutcome, home: str, *, is_explained: bool) -> dict[str, Any]:
    """A cell for the table; why it was not run stands above the table, where it is explained there."""
    last = each.attempts[-1] if each.attempts else None
    return {
        "id": each.cell.id,
        "name": each.cell.name,
        "canary": each.cell.canary,
        "required": each.cell.required,
        "anomaly": each.cell.anomaly,
        "sign": SIGNS[each.run_class],
        "words": class_in_words(each),
        "tone": _tone(each),
        "reason": "no run: see above" if is_explained else each.reason,
        "options": options_in_words(each.cell.plan),
        "counted": counted(each),
        "exposure": each.exposure,
        "version": last.version if last else "",
        "attempts": [
            {"head": attempt_in_words(each, a), "why": a.reason, "report": a.report, "finding": finding_lines(a, home)}
            for a in each.attempts
        ],
        "in_flight": any(a.run_class is None for a in each.attempts),
    }


def _systems(night: Night) -> list[str]:
    return sorted(
        {o.cell.plan.system for o in night.cells if not o.cell.canary and any(a.mechanisms for a in o.decisive)}
    )


def _mechanisms(night: Night, system: str) -> dict[str, Any]:
    """What the runs of one system met, canaries left out, and what none of them met."""
    runs = [a for o in night.cells if o.cell.plan.system == system and not o.cell.canary for a in o.decisive]
    runs = [a for a in runs if a.mechanisms]
    known = mechanisms_of(registry.system(system)) if system in registry.SYSTEMS else ()
    texts = {one.name: one.text for one in known}
    rows = []
    for name in dict.fromkeys(name for a in runs for name in a.mechanisms):
        met = [a for a in runs if a.mechanisms.get(name)]
        could = sum(name in a.mechanisms for a in runs)
        rows.append(
            {
                "name": name,
                "text": texts.get(name, ""),
                "met": len(met),
                "runs": could,
                "times": sum(a.mechanisms[name] for a in met),
                "first": min(met, key=lambda a: a.began_s, default=None),
            }
        )
    return {
        "system": system,
        "runs": len(runs),
        "met": [row for row in rows if row["met"]],
        "never": [row for row in rows if not row["met"]],
    }


def _tone(each: CellOutcome) -> str:
    """One of the four colours."""
    if each.cell.canary:
        return "valid" if each.is_caught else "none" if each.run_class is RunClass.NOT_RUN else "invalid"
    if each.run_class.is_green:
        return "valid"
    return {RunClass.INVALID: "invalid", RunClass.NOT_RUN: "none"}.get(each.run_class, "unknown")
