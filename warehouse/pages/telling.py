"""States, classes and rates as signs, tones and sentences, the same on every page."""

from typing import Final

from fencepost.campaigns.night.run_class import RunClass
from fencepost.campaigns.night.telling import SIGNS
from fencepost.harness.base.quantities import counted
from fencepost.harness.faults.schedule import NONE
from fencepost.harness.findings.findability import FIXED_AT
from fencepost.harness.findings.state import RARE_BELOW, FindingState
from fencepost.warehouse.pages.values import ListedFinding, NightSummary, Row

#: A run that belongs to no campaign may be `unknown` for any reason.
UNKNOWN: Final = "unknown"
KNOWN: Final = "known"
CANARY_SIGN: Final = "c"
_RED: Final = ("red: a violation", "red: something is missing")
_STATE_TONES: Final = {
    FindingState.NEW: "invalid",
    FindingState.BACK: "invalid",
    FindingState.ONGOING: "invalid",
    FindingState.RARE: "unknown",
    FindingState.PROBABLY_GONE: "unknown",
    FindingState.GONE: "valid",
}


def sign_of(run_class: str) -> str:
    """The sign of a class, so that no meaning rests on colour."""
    return SIGNS[RunClass(run_class)] if run_class in list(RunClass) else SIGNS[RunClass.UNKNOWN_COVERAGE]


def tone_of(run_class: str) -> str:
    """One of four colours: valid, invalid, unknown, none."""
    if run_class in (RunClass.VALID, RunClass.KNOWN):
        return "valid"
    return {RunClass.INVALID.value: "invalid", RunClass.NOT_RUN.value: "none"}.get(run_class, "unknown")


def square_tone(square: Row) -> str:
    """A canary that is invalid does what it is for; one that is valid turns its night red."""
    run_class = square["run_class"]
    if not square["canary"]:
        return "none" if _is_calm(square) and run_class == RunClass.VALID else tone_of(run_class)
    return {"invalid": "valid", "valid": "invalid"}.get(run_class, tone_of(run_class))


def _is_calm(square: Row) -> bool:
    return square["nemesis"] in ("", NONE)


def square_sign(square: Row) -> str:
    is_caught = square["canary"] and square["run_class"] == RunClass.INVALID
    return CANARY_SIGN if is_caught else sign_of(square["run_class"])


def square_text(square: Row) -> str:
    """The night in words: "nightly-3: invalid, 2 runs, tested 40 times"."""
    which = "made to fail, " if square["canary"] else "no faults, " if _is_calm(square) else ""
    text = f"{square['night']}: {which}{square['run_class']}"
    if not square["runs"]:
        return f"{text}, no run"
    return f"{text}, {counted(square['runs'], 'run')}, tested {square['exposure']} times"


def state_tone(state: str) -> str:
    return "valid" if state == KNOWN else _STATE_TONES[FindingState(state)]


def seen(each: ListedFinding) -> str:
    """How often it showed in the release where it stands worst; since its return, where it had been gone."""
    finding, rate = each.finding, each.finding.standing.rate
    where = f" in {finding.release}" if len(finding.by_version) > 1 else ""
    every = finding.by_version[finding.release]
    back = f" since its return, {every.seen} of {every.runs} over all nights" if rate.seen != every.seen else ""
    return f"{rate}{where}{back}"


def expected_text(night: NightSummary) -> str:
    """Runs that were made to fail, which count apart: "; 3 runs made to fail, 1 of them did not"."""
    if not night.expected:
        return ""
    missed = f", {night.missed} of them did not" if night.missed else ""
    return f"; {counted(night.expected, 'run')} made to fail{missed}"


def rests(each: ListedFinding) -> str:
    """What a finding's state rests on, in one sentence."""
    standing = each.finding.standing
    text = f"seen in {seen(each)}"
    if standing.clean_runs:
        text += (
            f"; then not in {counted(standing.clean_runs, 'run')}, which happens with a chance of "
            f"{percent(standing.chance_unseen)} were it still there"
        )
    if standing.state is FindingState.RARE:
        text += f"; rare: in fewer than {percent(RARE_BELOW)} of runs"
    if each.issues:
        text += f"; known: {', '.join(issue.link for issue in each.issues)}"
    return text


def release_state(each: ListedFinding, version: str) -> str:
    """Where a finding stands in one release, in a word."""
    standing = each.finding.standings.get(version)
    return "never seen" if standing is None else standing.state.value


def clean(each: ListedFinding) -> str:
    """How many more clean runs settle it: "59 more clean runs to call it fixed at 95 %"."""
    sure = percent(1 - FIXED_AT)
    if not each.clean_runs_left:
        return f"fixed at {sure}: {each.finding.standing.clean_runs} clean runs, {each.clean_runs_needed} were needed"
    so_far = each.finding.standing.clean_runs
    more = f" ({so_far} of {each.clean_runs_needed} so far)" if so_far else ""
    of = f" of {each.finding.release}" if len(each.finding.by_version) > 1 else ""
    return f"{counted(each.clean_runs_left, 'more clean run')}{of} to call it fixed at {sure}{more}"


def night_tone(night: NightSummary) -> str:
    """Green only where a campaign's own outcome is green: single runs have no canary."""
    if night.exit_code is None or night.running:
        return "invalid" if night.invalid and night.exit_code is None else "unknown"
    return {0: "valid", 1: "invalid"}.get(night.exit_code, "unknown")


def night_text(night: NightSummary) -> str:
    """The outcome in a word or two, as a badge has it."""
    if night.running:
        return "running"
    if night.exit_code is None:
        return "single runs"
    red = ("red: the candidate failed", "red: evidence is missing") if night.gate else _RED
    return {0: "green", 1: red[0]}.get(night.exit_code, red[1])


def percent(share: float) -> str:
    """A share with two digits that count: 4.8 %, 0.05 %, 100 %."""
    number = 100 * share
    if number == 0 or number >= 10:
        return f"{number:.0f} %"
    return f"{number:.2g} %" if number >= 0.01 else "under 0.01 %"


def figure(value: float | None) -> str:
    """A figure with three digits; a dash where nothing was measured."""
    if value is None:
        return "–"
    return f"{value:,.0f}".replace(",", "\u202f") if abs(value) >= 100 else f"{value:.3g}"
