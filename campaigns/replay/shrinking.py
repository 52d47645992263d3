"""`shrink`: less time, fewer faults, less load, narrower parameters, while the same fingerprint still shows.

The search holds no state: it takes the tries of the journal in their order, comes to where it was, and asks for the
next one. The counts of the search are too high (a candidate was accepted because it showed), so new runs that decide
nothing confirm the final plan.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import msgspec

from fencepost.campaigns.night.cells import NightCell
from fencepost.campaigns.night.documents import Files
from fencepost.campaigns.night.night import Night, RunAttempt
from fencepost.campaigns.night.pool import NextRun, Pool
from fencepost.campaigns.night.run_class import RunClass
from fencepost.campaigns.night.session import JOURNAL
from fencepost.campaigns.night.strategy import CellStrategy
from fencepost.campaigns.night.value import Past
from fencepost.campaigns.replay.recorded import Recorded, Try, try_of, with_faults
from fencepost.campaigns.replay.reductions import ReducedPlan, Reduction, dropped, idle_time, load, narrowing
from fencepost.campaigns.replay.search import BASELINE_SHOWS, Tries, minimise, rate_of
from fencepost.harness.base.errors import HarnessError, UsageError
from fencepost.harness.base.quantities import counted, lasting
from fencepost.harness.findings.rate import Rate
from fencepost.harness.plan import write_plan
from fencepost.harness.plan.checked_plan import CheckedPlan, check_plan
from fencepost.harness.results.schedule_rows import write_rows
from fencepost.harness.verdict.fingerprint import is_shown

DOCUMENT: Final = "shrink.json"
SMALLER: Final = "smaller.toml"
SMALLER_SCHEDULE: Final = "smaller.jsonl"
FORMAT: Final = 2
#: New runs of the final plan, unless told otherwise.
CONFIRMATIONS: Final = 10
#: Of an anomaly that shows half of the time, three runs miss it once in eight searches.
CONFIRMATIONS_MIN: Final = 3
#: Time is cut first: every later try is shorter by what was idle; and again, since faults that were left out or made
#: shorter leave idle time behind.
BEFORE_FAULTS: Final = (("time", idle_time),)
AFTER_FAULTS: Final = (("time", idle_time), ("load", load), ("parameters of faults", narrowing), ("time", idle_time))
#: A candidate that shows needs two tries as a rule, one that does not up to four.
_TRIES_EACH: Final = (2, 4)
_CANDIDATES: Final = "candidates"
#: Of the cell whose runs confirm a candidate.
_CONFIRMING: Final = "-confirming"
#: So many tries in a row in which the harness fails end the search.
_FAILURES_MAX: Final = 3
#: A try takes as long as the latest ones did.
_RECENT: Final = 5
#: At most this part of the budget is for learning how often the whole shows.
_BASELINE_SHARE: Final = 0.2


class Shrunk(msgspec.Struct, kw_only=True):
    """What the tries so far say. `complete`: the search reached its end, so nothing more can be left out."""

    whole: ReducedPlan
    best: ReducedPlan
    confirmations: int
    #: For the whole plan: how often it showed, and in how many tries.
    baseline: Rate = Rate(0, 0)
    #: The same for the smaller plan in the new runs that confirm it.
    confirmation: Rate = Rate(0, 0)
    complete: bool = False
    tries: int = 0

    @property
    def smaller(self) -> bool:
        return self.best.key != self.whole.key

    @property
    def confirmed(self) -> bool:
        """Whether all confirming runs were made, and showed it at least a third as often as the whole plan."""
        shown = self.confirmation
        if shown.runs < self.confirmations or not shown.seen:
            return False
        return shown.share >= rate_of(self.baseline.seen, self.baseline.runs) / 3


class _Wanted(Exception):
    """The search needs one more try of a candidate."""

    def __init__(self, candidate: ReducedPlan) -> None:
        self.candidate = candidate


class Shrinking(CellStrategy):
    """One recorded run being shrunk, in a folder of its own below `results`; the same command finds it again.

    Its runs are asked for one after the other, each by what those before it showed.
    """

    page = DOCUMENT
    says_begins = False

    def __init__(
        self,
        recorded: Recorded,
        fingerprint: str,
        results: Path,
        *,
        budget_s: float,
        confirmations: int = CONFIRMATIONS,
    ) -> None:
        self.home = self.folder = _folder_of(recorded, results)
        self._recorded, self._fingerprint = recorded, fingerprint
        self._budget_s, self._confirmations = budget_s, confirmations
        self._whole = ReducedPlan(plan=recorded.plan, rows=recorded.rows)
        self._candidates: dict[str, ReducedPlan] = {}
        self._plans: dict[str, CheckedPlan] = {}
        self._lines, self._said, self._tells = 0, 0, False
        self._begun: dict[int, int] = {}
        self._earlier: int | None = None
        self._left_s, self.per_try_s = budget_s, 0.0
        first = self._cell(self._whole), self._plan_of(self._whole)
        super().__init__(f"shrinking {recorded.name}", [first], f"shrink-{recorded.folder.parent.name}")

    def shrunk(self, night: Night) -> Shrunk:
        """What the tries of a journal come to."""
        return self._searched(night)[0]

    # -- the search -----------------------------------------------------------------------------------------------

    def next_run(self, night: Night, pool: Pool) -> NextRun | None:
        """The try that the search needs, or that confirms its result; None when both are over, or the budget is."""
        attempts = night.attempts
        if self._earlier is None:
            self._earlier = len(attempts)
            if attempts:
                best = self._searched(night)[0].best
                self._said = self._lines
                self.say(f"going on: {len(attempts)} tries are there; {_named(best)}")
        _refuse_failures([try_of(attempt) for attempt in attempts[self._earlier :]])
        self._left_s = pool.remaining_s
        shrunk, wanted = self._searched(night, tell=True)
        if wanted is not None:
            next_run = self._run_of(wanted, night)
            needed_s = pool.needed_s(next_run)
            self.per_try_s = self.per_try_s or needed_s
            if wanted.key != self._whole.key:
                last = self._run_of(shrunk.best if shrunk.smaller else wanted, night)
                needed_s += (self._confirmations - 1) * (last.past.seconds if last.past else 0) + pool.needed_s(last)
            if needed_s <= pool.remaining_s:
                return next_run
        if not shrunk.smaller or shrunk.confirmation.runs >= self._confirmations:
            return None
        self.say(f"confirming: {shrunk.confirmation.runs + 1} of {self._confirmations}")
        return self._run_of(shrunk.best, night, confirms=True)

    def _searched(self, night: Night, *, tell: bool = False) -> tuple[Shrunk, ReducedPlan | None]:
        """Search by the tries there are; also the candidate of which one more is needed, None at the end."""
        self._tells = tell
        shrunk = Shrunk(whole=self._whole, best=self._whole, confirmations=self._confirmations)
        self._lines, shrunk.tries = 0, len(night.attempts)
        lengths = [attempt.seconds for attempt in night.attempts if attempt.seconds][-_RECENT:]
        self.per_try_s = fmean(lengths) if lengths else self.per_try_s
        tries = [(attempt.cell, try_of(attempt)) for attempt in night.attempts if attempt.run_class is not None]
        shown = [(cell, is_shown(self._fingerprint, made.fingerprints)) for cell, made in tries if made.counts]

        def attempt(key: str) -> bool:
            raise _Wanted(self._candidates[key])

        evidence: Tries[str] = Tries(attempt, known=shown, baseline_shows=lambda: self._baseline_shows(night))
        wanted = None
        try:
            self._search(shrunk, evidence)
            shrunk.complete = True
        except _Wanted as one:
            wanted = one.candidate
        whole = evidence.tries(self._whole.key)
        shrunk.baseline = Rate(sum(whole), len(whole))
        fresh = [shows for cell, shows in shown if cell == f"{shrunk.best.key}{_CONFIRMING}"]
        shrunk.confirmation = Rate(sum(fresh), len(fresh))
        return shrunk, wanted

    def _search(self, shrunk: Shrunk, evidence: Tries[str]) -> None:
        whole = self._whole
        self._tell(f"how often it shows as it is: {_named(whole)}")
        if not evidence.baseline(self._key(whole)):
            return
        for name, reductions in BEFORE_FAULTS:
            self._play(name, reductions, shrunk, evidence)
        self._leave_out_faults(shrunk, evidence)
        for name, reductions in AFTER_FAULTS:
            self._play(name, reductions, shrunk, evidence)

    def _leave_out_faults(self, shrunk: Shrunk, evidence: Tries[str]) -> None:
        begun = shrunk.best
        over = self._announced("faults", 2 * len(begun.rows), shrunk)
        minimise(
            begun.rows,
            lambda rows: self._key(msgspec.structs.replace(begun, rows=rows)),
            evidence,
            report=lambda rows: self._accept(shrunk, msgspec.structs.replace(begun, rows=rows), f"{len(rows)} faults"),
            # A fault that waits for a phase of a migration is nothing without the migration.
            makes_sense=lambda rows: self._makes_sense(msgspec.structs.replace(begun, rows=rows)),
        )
        over()

    def _play(
        self, name: str, of: Callable[[ReducedPlan], list[Reduction]], shrunk: Shrunk, evidence: Tries[str]
    ) -> None:
        reductions = of(shrunk.best)
        over = self._announced(name, sum(1 for each in reductions for _ in each.offers(shrunk.best)), shrunk)
        for reduction in reductions:
            for offer in reduction.offers(shrunk.best):
                if self._makes_sense(offer) and evidence.enough(self._key(offer)):
                    self._accept(shrunk, offer, f"less: {reduction.name}")
                    break
        over()

    def _announced(self, stage: str, candidates: int, shrunk: Shrunk) -> Callable[[], None]:
        """Say what a stage may take; returns what says, after it, what came of it."""
        if not candidates:
            return lambda: None
        before = self._begun.setdefault(self._lines, shrunk.tries)
        best = shrunk.best
        self._tell(f"{stage}: {forecast(candidates, self.per_try_s)}")

        def over() -> None:
            less = "less" if shrunk.best.key != best.key else "nothing to leave out"
            self._tell(
                f"{stage}: {less} after {shrunk.tries - before} tries; {_named(shrunk.best)}; "
                f"{lasting(self._left_s)} of the budget left"
            )

        return over

    def _accept(self, shrunk: Shrunk, candidate: ReducedPlan, change: str) -> None:
        self._tell(f"still shows with {change}")
        shrunk.best = candidate

    def _tell(self, text: str) -> None:
        """Say a line of the search once, though each try begins it again."""
        self._lines += 1
        if self._tells and self._lines > self._said:
            self._said = self._lines
            self.say(text)

    def _key(self, candidate: ReducedPlan) -> str:
        self._candidates[candidate.key] = candidate
        return candidate.key

    def _makes_sense(self, candidate: ReducedPlan) -> bool:
        try:
            self._plan_of(candidate)
        except UsageError:
            return False
        return True

    # -- tries ----------------------------------------------------------------------------------------------------

    def _run_of(self, candidate: ReducedPlan, night: Night, *, confirms: bool = False) -> NextRun:
        """A run of this candidate; it takes as long as recent ones, less where its main phase is shorter."""
        main_s = {key: _main_s(each) for key, each in self._candidates.items()}
        recent = [a for a in night.attempts if a.cell.removesuffix(_CONFIRMING) in main_s and a.seconds][-_RECENT:]
        past = None
        if recent:
            around_s = [max(a.seconds - main_s[a.cell.removesuffix(_CONFIRMING)], 0.0) for a in recent]
            seconds = min(fmean(around_s) + _main_s(candidate), fmean(a.seconds for a in recent))
            past = Past(last=RunClass.VALID, build="", at="", exposures=0, seconds=seconds)
        cell = self._cell(candidate)
        if confirms:
            cell = msgspec.structs.replace(cell, id=f"{cell.id}{_CONFIRMING}")
        return NextRun(cell=cell, plan=self._plan_of(candidate).plan, past=past)

    def _cell(self, candidate: ReducedPlan) -> NightCell:
        plan = self._plan_of(candidate).plan
        return NightCell(id=self._key(candidate), name=_named(candidate), plan=plan, runs=0, same_seed=True)

    def describe(self, attempt: RunAttempt) -> str:
        made = try_of(attempt)
        shown = "shows" if is_shown(self._fingerprint, made.fingerprints) else "does not show"
        return shown if made.counts else "not counted"

    def _baseline_shows(self, night: Night) -> int:
        """How often the whole must show before the search: a short budget must not be spent on that alone.

        The first try tells how long one takes, so a search that goes on with the same budget comes to the same number.
        """
        first_s = max(night.attempts[0].seconds, 1.0) if night.attempts else 1.0
        return max(1, min(BASELINE_SHOWS, int(self._budget_s * _BASELINE_SHARE / first_s)))

    def _plan_of(self, candidate: ReducedPlan) -> CheckedPlan:
        """The candidate's plan, with its faults in a file; raises UsageError when it makes no sense."""
        key = candidate.key
        if key not in self._plans:
            path = self.folder / _CANDIDATES / f"{key}.jsonl"
            path.parent.mkdir(exist_ok=True)
            write_rows(candidate.rows, path)
            self._plans[key] = check_plan(with_faults(candidate.plan, path, candidate.rows))
        return self._plans[key]

    # -- what is kept ---------------------------------------------------------------------------------------------

    def files(self, night: Night, expected_end_s: float | None = None) -> Files:
        shrunk = self.shrunk(night)
        if shrunk.smaller:
            write_rows(shrunk.best.rows, self.folder / SMALLER_SCHEDULE)
            plan = self._plan_of(shrunk.best).plan
            schedule = SMALLER_SCHEDULE if plan.schedule else ""
            write_plan(msgspec.structs.replace(plan, schedule=schedule), self.folder / SMALLER)
        return {DOCUMENT: lambda: document(shrunk, self._recorded, self._fingerprint)}


def document(shrunk: Shrunk, recorded: Recorded, fingerprint: str) -> dict[str, Any]:
    """Make the contents of `shrink.json`."""
    return {
        "format": FORMAT,
        "run": str(recorded.folder),
        "fingerprint": fingerprint,
        "complete": shrunk.complete,
        "confirmed": shrunk.confirmed,
        "baseline": _share(shrunk.baseline),
        "confirmation": _share(shrunk.confirmation),
        "smaller": SMALLER if shrunk.smaller else None,
        "faults": {"before": len(shrunk.whole.rows), "after": len(shrunk.best.rows)},
        "dropped": dropped(shrunk.whole, shrunk.best),
        "tries": shrunk.tries,
    }


def _refuse_failures(made: Sequence[Try]) -> None:
    """Raise HarnessError when none of the last tries of this command could be judged."""
    last = made[-_FAILURES_MAX:]
    if len(last) == _FAILURES_MAX and not any(each.counts for each in last):
        raise HarnessError(
            f"{_FAILURES_MAX} tries in a row could not be judged: {last[-1].why}",
            hint="the same command goes on; their folders are kept",
        )


def forecast(candidates: int, per_try_s: float) -> str:
    """ "up to 14 smaller plans, each 2 to 4 tries of 12 s: 6 to 11 min"."""
    low, high = (candidates * tries * per_try_s for tries in _TRIES_EACH)
    plans = "1 smaller plan" if candidates == 1 else f"up to {candidates} smaller plans"
    tries = f"{_TRIES_EACH[0]} to {_TRIES_EACH[1]} tries of {per_try_s:.0f} s"
    return f"{plans}, each {tries}: {lasting(low)} to {lasting(high)}"


def _named(candidate: ReducedPlan) -> str:
    return f"{counted(len(candidate.rows), 'fault')}, {candidate.plan.time_limit}"


def _main_s(candidate: ReducedPlan) -> float:
    """The length of a candidate's main phase in seconds."""
    return candidate.plan.duration_ns("time_limit") / 1e9


def _share(shown: Rate) -> dict[str, Any] | None:
    if not shown.runs:
        return None
    low, high = shown.interval()
    return {"shown": shown.seen, "of": shown.runs, "interval_95": [round(low, 4), round(high, 4)]}


def _folder_of(recorded: Recorded, results: Path) -> Path:
    """Make the folder of this run's search; raises UsageError for one of an earlier version."""
    folder = results / f"shrink-{recorded.folder.parent.name}" / recorded.folder.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}", hint="give another folder with --results") from None
    if (folder / DOCUMENT).exists() and not (folder / JOURNAL).exists():
        raise UsageError(
            f"{folder}: {DOCUMENT} is of an earlier version of fencepost, which kept its tries elsewhere",
            hint="move the folder away to begin again",
        )
    return folder.resolve()
