"""The page Tonight: what the latest night says in one sentence, what is new or gone, and what was not tested."""

from collections.abc import Sequence
from typing import Any, Final

from fencepost.campaigns.night.run_class import RunClass
from fencepost.harness.base.quantities import counted
from fencepost.harness.findings.state import FindingState
from fencepost.harness.report.words import SIGNS
from fencepost.harness.verdict import Validity
from fencepost.warehouse.pages.telling import KNOWN, expected_text, night_text, night_tone
from fencepost.warehouse.pages.values import ListedFinding, NightSummary, Overview, Row

_GROUPS: Final = (
    (FindingState.NEW.value, "not seen before the night that showed it first"),
    (FindingState.BACK.value, "was gone, and shows again"),
    (FindingState.ONGOING.value, "seen again and again"),
    (FindingState.RARE.value, "shows seldom: one clean night says little"),
    (FindingState.PROBABLY_GONE.value, "its silence has become unlikely"),
    (FindingState.GONE.value, "its silence has become very unlikely"),
    (KNOWN, "an issue in force covers it"),
)
_JUDGED: Final = (RunClass.VALID, RunClass.INVALID, RunClass.KNOWN)


def tonight_values(overview: Overview) -> dict[str, Any]:
    """What the template shows."""
    night = overview.tonight
    tone = _tone(overview)
    recent = [each for each in overview.findings if _is_recent(each, overview)]
    cells = [cell for cell in overview.cells if not cell["canary"]]
    groups = [(state, about, [each for each in recent if each.state == state]) for state, about in _GROUPS]
    return {
        "night": night,
        "tone": tone,
        "sign": SIGNS[Validity(tone)],
        "heading": _heading(overview, tone),
        "sentence": _sentence(overview, recent),
        "since": [each for each in overview.since if each is not night],
        "gates": newest_gates(overview),
        "reasons": _reasons(overview),
        "groups": [group for group in groups if group[2]],
        "absent": [state for state, _, rows in groups if not rows],
        "canaries": [_canary(cell) for cell in overview.cells if cell["canary"]],
        "holes": [cell for cell in cells if cell["run_class"] not in _JUDGED],
        "issues": overview.issues,
        "ids": {each.finding.id for each in overview.findings},
        "nights": [
            (each, night_tone(each), SIGNS[Validity(night_tone(each))], night_text(each))
            for each in reversed(overview.latest)
        ],
    }


def _is_recent(each: ListedFinding, overview: Overview) -> bool:
    """What is gone for good is left to the list of all findings."""
    return each.state != FindingState.GONE or each.finding.last_seen in {night.night for night in overview.latest}


def _violations(overview: Overview) -> list[ListedFinding]:
    """Findings of the latest night, or of runs after it, that decide and that no issue covers."""
    names = {night.night for night in overview.since}
    return [
        each
        for each in overview.findings
        if each.finding.decides and not each.issues and each.finding.is_seen_in(names)
    ]


def _tone(overview: Overview) -> str:
    """The gravest of what the night, its findings and the known issues say: never greener than the night itself."""
    night = overview.tonight
    if any(status.is_expired for status in overview.issues):
        return "invalid"
    if night is None:
        return "unknown"
    tone = "invalid" if _violations(overview) else night_tone(night)
    return "unknown" if tone == "valid" and _missed(overview) else tone


def _missed(overview: Overview) -> list[NightSummary]:
    """Single runs in which a violation was expected and did not show; a campaign's register has its canaries."""
    return [night for night in overview.since if night.missed and not night.is_campaign]


def _heading(overview: Overview, tone: str) -> str:
    night = overview.tonight
    if night is None:
        return "Nothing was tested"
    if night.running:
        return "Running" if tone != "invalid" else "Running, and red"
    if tone == "invalid":
        causes = ["a violation"] * bool(_violations(overview) or night.exit_code == 1 or night.exit_code is None)
        causes += ["a known issue that expired"] * any(status.is_expired for status in overview.issues)
        return f"Red: {' and '.join(causes)}"
    if night.exit_code is None:
        return "Single runs: no violation, and no canary"
    return "Green" if tone == "valid" else "Red: something is missing"


def _sentence(overview: Overview, recent: Sequence[ListedFinding]) -> str:
    night = overview.tonight
    if night is None:
        return "The warehouse is empty, so nothing is known of any system."
    counts = [(state, sum(each.state == state for each in recent)) for state, _ in _GROUPS]
    states = ", ".join(f"{number} {state}" for state, number in counts if number)
    own = night.sentence or f"{counted(night.runs, 'single run')} on {night.day}, {night.invalid} invalid"
    own += "" if night.sentence else expected_text(night)
    if not states:
        return f"{own}. Findings: none."
    here = sum(each.finding.is_seen_in({night.night}) for each in recent)
    later = sum(each.finding.is_seen_in({each.night for each in overview.since[1:]}) for each in recent)
    since = f", {later} in single runs since then" if later else ""
    return f"{own}. Findings: {states}; {here or 'none'} of them seen in this night{since}."


def _reasons(overview: Overview) -> list[tuple[str, str]]:
    """Each reason with the page that shows it; empty where there is none of its own."""
    night = overview.tonight
    expired = [
        (f"the known issue {status.issue.fingerprint} of {status.issue.owner} {status.text}", "#known-issues")
        for status in overview.issues
        if status.is_expired
    ]
    if night is None:
        return expired
    own = [(reason, night.page) for reason in night.reasons]
    shown = sorted((each.finding.fingerprint, each.page) for each in _violations(overview))
    missed = [
        (f"{counted(each.missed, 'run')} of {each.night} should have been invalid, and the violation did not show", "")
        for each in _missed(overview)
    ]
    return [*expired, *own, *missed, *((f"{name} was seen, and no issue covers it", page) for name, page in shown)]


def _canary(cell: Row) -> tuple[Row, str, str]:
    """A canary with its tone and its outcome in words."""
    run_class = cell["run_class"]
    if run_class == RunClass.INVALID if cell["caught"] is None else cell["caught"]:
        return cell, "valid", "✓ caught"
    if run_class == RunClass.NOT_RUN:
        return cell, "none", "· not run"
    if run_class == RunClass.VALID:
        return cell, "invalid", "✗ passed: this night could not have seen anything"
    return cell, "invalid", f"✗ {run_class}: its anomaly did not show"


#: Links to runs of one requirement; more of them stand on the gate's own page.
_LINKS_MAX: Final = 8


def gate_values(overview: Overview) -> dict[str, Any]:
    """What the template shows."""
    newest = [night for night, *_ in newest_gates(overview)]
    return {
        "gates": newest_gates(overview),
        "earlier": [_in_words(night) for night in overview.gates if night not in newest],
        "links_max": _LINKS_MAX,
    }


def newest_gates(overview: Overview) -> list[tuple[NightSummary, str, str, str]]:
    """The newest gate of each policy and candidate with its tone, sign and outcome in words; the newest first."""
    newest: dict[tuple[str, str], NightSummary] = {}
    for night in overview.gates:
        if night.gate is not None:
            newest.setdefault((night.gate.policy, night.gate.candidate), night)
    return [_in_words(night) for night in newest.values()]


def _in_words(night: NightSummary) -> tuple[NightSummary, str, str, str]:
    tone = night_tone(night)
    return night, tone, SIGNS[Validity(tone)], night_text(night)
