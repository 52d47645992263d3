"""The values of a night: attempts at runs, cells with what came of them, and the night as a whole. No effects.

A night is known from its register alone: `register.night_of` replays the records of one, `merge` those of several
shards. The page, JUnit, the summary and the exit code are made from the value, and so is
`campaign.json`, whose format is this module's structs.
"""

import datetime
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from fencepost.campaigns.night.cells import NightCell
from fencepost.campaigns.night.run_class import RunClass
from fencepost.harness.findings.known_issues import TrackedIssue

#: Version of campaign.json and of the register.
FORMAT: Final = 1


class NightState(StrEnum):
    """`INTERRUPTED`: the night's process ended without a word, and its register goes on no further."""

    RUNNING = "running"
    STOPPED = "stopped"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"


class RunAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at one run of a cell; `run_class` is None while it is in flight.

    A cell's runs are numbered from 1, each with its own seed; the attempts at a run too. `folder` is where the attempt
    keeps its files, relative to the night's folder; `report` its page, likewise, empty without one. `began_s` counts
    from the night's start, pauses between sessions left out. `check_s` is how long its checkers took. `faults` are
    those that were proven to have taken hold, by kind; 0 for a kind that was only tried. `undecisive` are fingerprints
    of anomalies that do not decide. `mechanisms` are those that the system's runs can meet, with how often it did.
    `values` are those that a strategy chose in place of the plan's, by dotted key; `origin` is the run whose values
    they change, 0 for none.
    """

    cell: str
    run: int
    number: int
    seed: int
    folder: str
    shard: int = 1
    began_at: str = ""
    began_s: float = 0.0
    alone: bool = False
    run_class: RunClass | None = None
    reason: str = ""
    exit_code: int | None = None
    seconds: float = 0.0
    check_s: float | None = None
    company: int = 0
    lag_ms: int = 0
    version: str = ""
    build: str = ""
    fingerprints: tuple[str, ...] = ()
    undecisive: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    anomalies: tuple[str, ...] = ()
    exposures: dict[str, int] = {}
    faults: dict[str, int] = {}
    mechanisms: dict[str, int] = {}
    report: str = ""
    values: dict[str, Any] = {}
    origin: int = 0

    @property
    def took_hold(self) -> bool:
        """Whether a fault was proven to have taken hold."""
        return any(self.faults.values())

    @property
    def key(self) -> tuple[int, str, int, int]:
        return self.shard, self.cell, self.run, self.number


class CellOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A cell and what came of it, over all its runs and attempts."""

    cell: NightCell
    run_class: RunClass
    reason: str
    attempts: tuple[RunAttempt, ...] = ()

    @property
    def decisive(self) -> list[RunAttempt]:
        """The attempts that ended and count: of each run the last one, and every violation before it."""
        return [a for a in decisive_attempts(self.attempts) if a.run_class is not None]

    @property
    def runs_tested(self) -> tuple[int, int]:
        """How many of its runs have a verdict, and how many have ended."""
        decisive = self.decisive
        judged = {(a.shard, a.run) for a in decisive if a.run_class is not None and a.run_class.is_judged}
        return len(judged), len({(a.shard, a.run) for a in decisive})

    @property
    def is_tested(self) -> bool:
        """Whether it has a verdict from each of its runs that ended, and from one at least."""
        judged, ended = self.runs_tested
        return 0 < judged == ended

    @property
    def is_caught(self) -> bool:
        """Whether a canary showed its anomaly in some run, and passed in none."""
        ended = [a for a in self.attempts if a.run_class is not None]
        return any(_shows(self.cell, a) for a in ended) and not any(a.run_class is RunClass.VALID for a in ended)

    @property
    def exposure(self) -> int:
        """How often the guarantee that was tested least was tested, over all attempts; 0: never."""
        counts = [sum(a.exposures.get(name, 0) for a in self.attempts) for name in self._guarantees()]
        return min(counts, default=0)

    def _guarantees(self) -> set[str]:
        return {name for a in self.attempts for name, count in a.exposures.items() if count}


class NightHead(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a night from its beginning on; `command` repeats it, `fencepost` is the version that ran it."""

    id: str
    campaign: str
    digest: str
    seed: int
    budget_s: float
    format: int = FORMAT
    jobs: int = 1
    shards: int = 1
    command: str = ""
    fencepost: str = ""
    machine: dict[str, Any] = {}
    known_issues: tuple[TrackedIssue, ...] = ()
    impossible: tuple[str, ...] = ()


class Night(NightHead, frozen=True, kw_only=True):
    """Everything that is known of a night, or of one shard of it until they are `merged`."""

    started_at: str
    state: NightState = NightState.RUNNING
    ended_at: str = ""
    spent_s: float = 0.0
    sessions: int = 1
    shards_present: tuple[int, ...] = (1,)
    merged: bool = False
    cells: tuple[CellOutcome, ...] = ()

    @property
    def today(self) -> datetime.date:
        """The date by which known issues expire: that of the night's start."""
        return datetime.date.fromisoformat(self.started_at[:10])

    @property
    def missing_shards(self) -> tuple[int, ...]:
        """Those that a merge was not given; a shard by itself answers for its own share of the cells."""
        every = range(1, self.shards + 1) if self.merged else ()
        return tuple(n for n in every if n not in self.shards_present)

    @property
    def shard_in_words(self) -> str:
        """Which shard this is, such as "shard 1 of 2"; empty for a whole night."""
        return "" if self.merged or self.shards == 1 else f"shard {self.shards_present[0]} of {self.shards}"

    @property
    def attempts(self) -> list[RunAttempt]:
        """Every attempt, in the order in which they began."""
        return sorted((a for outcome in self.cells for a in outcome.attempts), key=lambda a: (a.began_s, a.key))

    def count(self, run_class: RunClass) -> int:
        """How many cells, canaries left out, have this class."""
        return sum(o.run_class is run_class for o in self.cells if not o.cell.canary)


#: Of several runs of a cell the first of these that one of them ended with.
GRAVITY: Final = (
    RunClass.INVALID,
    RunClass.LOST,
    RunClass.HARNESS,
    RunClass.MACHINE,
    RunClass.UNKNOWN_DISTURBED,
    RunClass.UNKNOWN_COVERAGE,
    RunClass.UNKNOWN_BUDGET,
    RunClass.KNOWN,
    RunClass.VALID,
    RunClass.NOT_RUN,
)


def outcome_of(cell: NightCell, attempts: Sequence[RunAttempt], refusal: str = "", left_out: str = "") -> CellOutcome:
    """Decide a cell's class.

    Of each run the last attempt counts, but a violation that any attempt showed stays. Of several runs the gravest
    counts. Runs of a cell beyond its first that the budget left out do not make it `not-run`.

    Args:
        refusal: why this machine cannot run the cell at all.
        left_out: why it has not been run, where it has not.
    """
    if refusal:
        return CellOutcome(cell=cell, run_class=RunClass.MACHINE, reason=refusal, attempts=tuple(attempts))
    decisive = decisive_attempts(attempts)
    ended = [a for a in decisive if a.run_class is not None]
    if not ended:
        reason = "in flight" if decisive else left_out or "its turn has not come"
        return CellOutcome(cell=cell, run_class=RunClass.NOT_RUN, reason=reason, attempts=tuple(attempts))
    gravest = min(ended, key=lambda a: GRAVITY.index(a.run_class or RunClass.LOST))
    return CellOutcome(
        cell=cell, run_class=gravest.run_class or RunClass.LOST, reason=gravest.reason, attempts=tuple(attempts)
    )


def decisive_attempts(attempts: Sequence[RunAttempt]) -> list[RunAttempt]:
    """Of each run the last attempt, and every violation that an earlier one showed."""
    ordered = sorted(attempts, key=lambda a: (a.shard, a.run, a.number))
    last = {(a.shard, a.run): a for a in ordered}
    return [a for a in ordered if a is last[a.shard, a.run] or a.run_class in (RunClass.INVALID, RunClass.KNOWN)]


def _shows(cell: NightCell, attempt: RunAttempt) -> bool:
    return attempt.run_class is RunClass.INVALID and cell.anomaly in attempt.anomalies
