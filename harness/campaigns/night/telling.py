"""A night in words: what the page, the summary, JUnit and the terminal say alike."""

from typing import Final

from fencepost.harness.base.command_line import command_line
from fencepost.harness.campaigns.night.draws import in_words
from fencepost.harness.campaigns.night.known_issues import KnownIssue
from fencepost.harness.campaigns.night.launcher import PLAN
from fencepost.harness.campaigns.night.night import Attempt, CellOutcome, Night, State
from fencepost.harness.campaigns.night.run_class import RunClass

#: Every class has a sign as well as a word, so that no meaning rests on colour.
SIGNS: Final = {
    RunClass.VALID: "✓",
    RunClass.KNOWN: "≈",
    RunClass.INVALID: "✗",
    RunClass.UNKNOWN_COVERAGE: "?",
    RunClass.UNKNOWN_BUDGET: "?",
    RunClass.UNKNOWN_DISTURBED: "?",
    RunClass.HARNESS: "!",
    RunClass.MACHINE: "!",
    RunClass.LOST: "!",
    RunClass.NOT_RUN: "·",
}
_STATES: Final = {
    State.RUNNING: "still running",
    State.STOPPED: "stopped by hand",
    State.FINISHED: "finished",
    State.INTERRUPTED: "interrupted",
}


def sign_of(each: CellOutcome) -> str:
    """The sign of a cell; that of a canary says whether it did what it is there for."""
    if each.cell.canary and each.run_class.is_judged:
        return "✓" if each.is_caught else "✗"
    return SIGNS[each.run_class]


def class_in_words(each: CellOutcome) -> str:
    """A cell's class as people read it: a canary is caught, or not."""
    if each.cell.canary and each.is_caught:
        return "caught"
    if each.cell.canary and each.run_class is RunClass.VALID:
        return "passed"
    return each.run_class.value


def attempt_sign(each: CellOutcome, attempt: Attempt) -> tuple[str, str]:
    """The sign and the class of one attempt that ended; a canary that is invalid does what it is for."""
    if each.cell.canary and attempt.run_class is RunClass.INVALID and each.cell.anomaly in attempt.anomalies:
        return "✓", "caught"
    if each.cell.canary and attempt.run_class is RunClass.VALID:
        return "✗", "passed"
    run_class = attempt.run_class or RunClass.LOST
    return SIGNS[run_class], run_class.value


def attempt_in_words(each: CellOutcome, attempt: Attempt) -> str:
    """One attempt with its class: "run 1, attempt 2 of 2 (alone): valid, 18 s, seed 7, drawn: nodes=5"."""
    of = sum(a.run == attempt.run and a.shard == attempt.shard for a in each.attempts)
    alone = " (alone)" if attempt.alone else ""
    run_class = attempt.run_class.value if attempt.run_class else "in flight"
    drawn = in_words(each.cell.draws, attempt.seed)
    return (
        f"run {attempt.run}, attempt {attempt.number} of {of}{alone}: {run_class}, "
        f"{attempt.seconds:.0f} s, seed {attempt.seed}{f', drawn: {drawn}' if drawn else ''}"
    )


def attempts_in_words(each: CellOutcome) -> list[str]:
    """Every attempt with its class and why, so that none is swallowed."""
    return [f"{attempt_in_words(each, a)}{f': {a.reason}' if a.reason else ''}" for a in each.attempts]


def counted(each: CellOutcome) -> str:
    """How many attempts there were, where there was more than one: "2 of 3 valid"."""
    ended = [a.run_class for a in each.attempts if a.run_class is not None]
    if len(ended) < 2:
        return ""
    return ", ".join(f"{ended.count(c)} of {len(ended)} {c}" for c in dict.fromkeys(ended))


def seen_in(issue: KnownIssue, night: Night) -> tuple[int, int]:
    """In how many runs a known issue was seen, and how many judged runs are in its scope; canaries left out."""
    attempts = [
        a
        for o in night.cells
        for a in o.attempts
        if o.cell.plan.system == issue.system and not o.cell.canary and a.run_class and a.run_class.is_judged
    ]
    runs = [a for a in attempts if not issue.versions or a.version in issue.versions]
    return sum(any(map(issue.is_about, a.fingerprints)) for a in runs), len(runs)


def repeat_command(attempt: Attempt) -> str:
    """The command that repeats a run, from the night's folder."""
    return command_line("run", f"{attempt.folder}/{PLAN}")


def about(night: Night) -> str:
    """ "finished; 8 of 10 min; 2 jobs; seed 7; began 2026-11-23T20:00:00Z"."""
    shards = f"; {len(night.shards_present)} of {night.shards} shards" if night.shards > 1 else ""
    sessions = f"; {night.sessions} sessions" if night.sessions > 1 else ""
    return (
        f"{_STATES[night.state]}; {lasting(night.spent_s)} of {lasting(night.budget_s)}; {night.jobs} at a time; "
        f"seed {night.seed}; began {night.started_at}{sessions}{shards}"
    )


def lasting(seconds: float) -> str:
    """ "45 s", "12 min", "3 h 05 min"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"
