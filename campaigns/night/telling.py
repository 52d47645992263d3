"""A night in words: what the page, the summary, JUnit and the terminal say alike."""

from pathlib import Path, PurePosixPath
from typing import Final

from fencepost.campaigns.night.draws import in_words
from fencepost.campaigns.night.launcher import PLAN
from fencepost.campaigns.night.night import CellOutcome, Night, NightState, RunAttempt
from fencepost.campaigns.night.run_class import DISTURBED_LAG_NS, RunClass
from fencepost.harness.base.errors import command_line
from fencepost.harness.base.quantities import lasting
from fencepost.harness.findings.known_issues import TrackedIssue
from fencepost.harness.plan import Plan

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
#: The class of a run of which only a figure was asked, and that has it.
MEASURED: Final = "measured"
_STATES: Final = {
    NightState.RUNNING: "still running",
    NightState.STOPPED: "stopped by hand",
    NightState.FINISHED: "finished",
    NightState.INTERRUPTED: "interrupted",
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


def attempt_sign(each: CellOutcome, attempt: RunAttempt) -> tuple[str, str]:
    """The sign and the class of one attempt that ended; a canary that is invalid does what it is for."""
    if each.cell.canary and attempt.run_class is RunClass.INVALID and each.cell.anomaly in attempt.anomalies:
        return "✓", "caught"
    if each.cell.canary and attempt.run_class is RunClass.VALID:
        return "✗", "passed"
    run_class = attempt.run_class or RunClass.LOST
    return SIGNS[run_class], run_class.value


def attempt_in_words(each: CellOutcome, attempt: RunAttempt) -> str:
    """One attempt with its class: "run 1, attempt 2 of 2: valid, 18 s, seed 7, drawn: nodes=5; faults: kill 3"."""
    of = sum(a.run == attempt.run and a.shard == attempt.shard for a in each.attempts)
    alone = " (alone)" if attempt.alone else ""
    run_class = attempt.run_class.value if attempt.run_class else "in flight"
    drawn = in_words(each.cell.draws, attempt.seed)
    faults = faults_in_words(attempt)
    return (
        f"run {attempt.run}, attempt {attempt.number} of {of}{alone}: {run_class}, "
        f"{attempt.seconds:.0f} s, seed {attempt.seed}{f', drawn: {drawn}' if drawn else ''}"
        f"{f'; faults: {faults}' if faults else ''}{lag_in_words(attempt)}"
    )


def faults_in_words(attempt: RunAttempt) -> str:
    """How many faults of each kind took hold: "kill 3, partition 1, pause 0"; empty where none was tried."""
    return ", ".join(f"{kind} {count}" for kind, count in attempt.faults.items())


def lag_in_words(attempt: RunAttempt) -> str:
    """How late the run's own timer was, and beside how many others; empty for a run that was on time."""
    if attempt.lag_ms * 1_000_000 < DISTURBED_LAG_NS:
        return ""
    beside = f"{attempt.company} run{'' if attempt.company == 1 else 's'}" if attempt.company else "no run"
    return f"; late by {attempt.lag_ms:,} ms, {beside} beside it"


def attempts_in_words(each: CellOutcome) -> list[str]:
    """Every attempt with its class and why, so that none is swallowed."""
    return [f"{attempt_in_words(each, a)}{f': {a.reason}' if a.reason else ''}" for a in each.attempts]


def counted(each: CellOutcome) -> str:
    """How its runs ended, where there was more than one attempt: "2 of 3 runs valid, 1 lost"; a lost run is none."""
    ended = [a for a in each.attempts if a.run_class is not None]
    if len(ended) < 2:
        return ""
    classes = [a.run_class for a in ended if a.run_class is not RunClass.LOST]
    of = f"{len(classes)} run{'' if len(classes) == 1 else 's'}"
    parts = [f"{classes.count(c)} of {of} {c}" for c in dict.fromkeys(classes)]
    lost = len(ended) - len(classes)
    return ", ".join([*parts, *([f"{lost} lost and not counted"] if lost else [])])


def seen_in(issue: TrackedIssue, night: Night) -> tuple[int, int]:
    """In how many runs a known issue was seen, and how many judged runs are in its scope; canaries left out."""
    attempts = [
        a
        for o in night.cells
        for a in o.attempts
        if o.cell.plan.system == issue.system and not o.cell.canary and a.run_class and a.run_class.is_judged
    ]
    runs = [a for a in attempts if not issue.versions or a.version in issue.versions]
    return sum(any(map(issue.is_about, a.fingerprints)) for a in runs), len(runs)


def options_in_words(plan: Plan) -> str:
    """The options of a plan's system, by which its runs differ from ordinary ones: "defect=stale-reads"."""
    return ", ".join(f"{name}={value}" for name, value in plan.system_options.items())


def from_here(folder: Path) -> str:
    """A night's folder as a command can name it: relative to the working directory, where it lies below that."""
    folder, here = folder.resolve(), Path.cwd()
    return str(folder.relative_to(here) if folder.is_relative_to(here) else folder)


def repeat_command(attempt: RunAttempt, home: str) -> str:
    """The command that repeats a run; `home` is the night's folder (`from_here`)."""
    return command_line("run", f"{home}/{attempt.folder}/{PLAN}")


def finding_lines(attempt: RunAttempt, home: str) -> list[str]:
    """What somebody needs who looks into a violation: its fingerprints, and the command that replays its run."""
    if attempt.run_class not in (RunClass.INVALID, RunClass.KNOWN):
        return []
    run = PurePosixPath(attempt.report).parent
    again = command_line("replay", f"{home}/{run}") if attempt.report else repeat_command(attempt, home)
    return [*(f"fingerprint: {each}" for each in attempt.fingerprints), f"again: {again}"]


def about(night: Night) -> str:
    """ "finished; 8 of 10 min; 2 at a time; seed 7; began 2026-11-23T20:00:00Z"."""
    shards = f"; {len(night.shards_present)} of {night.shards} shards" if night.shards > 1 else ""
    sessions = f"; {night.sessions} sessions" if night.sessions > 1 else ""
    return (
        f"{_STATES[night.state]}; {spent(night)}; {night.jobs} at a time; "
        f"seed {night.seed}; began {night.started_at}{sessions}{shards}"
    )


def on_machine(night: Night) -> str:
    """The machine and the version of fencepost: "2 cores, x86_64, kernel 6.1, Python 3.12; fencepost 0.3 at 28d41f"."""
    facts = night.machine
    if not facts:
        return "not recorded"
    commit = str(facts.get("git_commit") or "")[:12]
    return (
        f"{facts.get('cores')} cores, {facts.get('architecture')}, kernel {facts.get('kernel')}, "
        f"Python {facts.get('python')}; fencepost {night.fencepost}{f' at {commit}' if commit else ''}"
    )


def spent(night: Night) -> str:
    """ "8 min of 10 min", or by how much the budget was exceeded while the last runs were ended."""
    over_s = night.spent_s - night.budget_s
    if over_s >= 1:
        return f"{lasting(night.budget_s)}, and {lasting(over_s)} more to end the last runs"
    return f"{lasting(min(night.spent_s, night.budget_s))} of {lasting(night.budget_s)}"
