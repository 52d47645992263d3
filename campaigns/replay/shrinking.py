"""`shrink`: less time, fewer faults, less load, narrower parameters, while the same fingerprint still shows.

Every try is kept in `shrink.json`. The search itself holds no state: started again, it reads those tries in order,
comes to where it was, and goes on. The counts of the search are too high (a candidate was accepted because it showed),
so new runs that decide nothing confirm the final plan.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from fencepost.campaigns.replay.recorded import Recorded, with_faults
from fencepost.campaigns.replay.reductions import ReducedPlan, Reduction
from fencepost.campaigns.replay.search import BASELINE_SHOWS, Tries, minimise
from fencepost.campaigns.replay.shrink_state import (
    DOCUMENT,
    SMALLER,
    KeptTry,
    Shrunk,
    document,
    folder_of,
    one_search,
    read_tries,
)
from fencepost.campaigns.replay.stages import AFTER_FAULTS, BEFORE_FAULTS, FAULTS, ReductionStage, forecast
from fencepost.campaigns.replay.tries import Carrier, Try
from fencepost.harness.base.errors import HarnessError, UsageError
from fencepost.harness.base.quantities import lasting
from fencepost.harness.plan import write_plan
from fencepost.harness.plan.checked_plan import CheckedPlan, check_plan
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.schedule_rows import write_rows
from fencepost.harness.verdict.fingerprint import is_shown

SMALLER_SCHEDULE: Final = "smaller.jsonl"
#: New runs of the final plan, unless told otherwise.
CONFIRMATIONS: Final = 10
#: Of an anomaly that shows half of the time, three runs miss it once in eight searches.
CONFIRMATIONS_MIN: Final = 3
_CANDIDATES: Final = "candidates"
#: So many tries in a row in which the harness fails end the search.
_FAILURES_MAX: Final = 3
#: A try takes as long as the latest ones did.
_RECENT: Final = 5


#: At most this part of the budget is for learning how often the whole shows.
_BASELINE_SHARE: Final = 0.2


class BudgetSpent(Exception):
    """No time is left for another try and the confirmation."""


class _Stopped(Exception):
    """A person asked for the end."""


def _main_s(candidate: ReducedPlan) -> float:
    """The length of a candidate's main phase in seconds."""
    return candidate.plan.duration_ns("time_limit") / 1e9


class Shrinking:
    """One recorded run being shrunk, in a folder of its own below `results`."""

    def __init__(
        self,
        recorded: Recorded,
        fingerprint: str,
        results: Path,
        *,
        budget_s: float,
        carrier: Carrier,
        confirmations: int = CONFIRMATIONS,
    ) -> None:
        self.folder = folder_of(recorded, results)
        self._recorded, self._fingerprint = recorded, fingerprint
        self._carry, self._stopped, self._say = carrier.carry, carrier.stopped, carrier.say
        self._clock_s = carrier.clock_s
        self._ends_s = self._clock_s() + budget_s
        self._budget_s = budget_s
        self._confirmations = confirmations
        self._candidates: dict[str, ReducedPlan] = {}
        self._plans: dict[str, CheckedPlan] = {}
        self._kept: list[KeptTry] = []
        self._shrunk: Shrunk

    def run(self) -> Shrunk:
        """Search, then confirm; stopped at any moment it goes on when it is run again. Raises HarnessError."""
        with one_search(self.folder):
            self._kept = read_tries(self.folder / DOCUMENT)
            whole = ReducedPlan(plan=self._recorded.plan, rows=self._recorded.rows)
            self._shrunk = Shrunk(
                folder=self.folder,
                fingerprint=self._fingerprint,
                whole=whole,
                best=whole,
                baseline=(0, 0),
                confirmations=self._confirmations,
            )
            if self._kept:
                self._say(f"going on: {len(self._kept)} tries are there")
            try:
                with contextlib.suppress(BudgetSpent):
                    self._search(whole)
                    self._shrunk.complete = True
                if self._shrunk.smaller:
                    self._confirm(self._shrunk.best)
            except _Stopped:
                self._shrunk.stopped = True
            self._shrunk.tries, self._shrunk.per_try_s = len(self._kept), self._per_try_s()
            self._write()
        return self._shrunk

    # -- the search -----------------------------------------------------------------------------------------------

    def _search(self, whole: ReducedPlan) -> None:
        known = ((kept.candidate, self._shows(kept.made)) for kept in self._counted(confirms=False))
        evidence: Tries[str] = Tries(self._attempt, known=known, baseline_shows=self._baseline_shows)
        self._say(f"how often it shows as it is: {len(whole.rows)} faults, {whole.plan.time_limit}")
        try:
            showed = evidence.baseline(self._key(whole))
        finally:
            tries = evidence.tries(whole.key)
            self._shrunk.baseline = (sum(tries), len(tries))
        if not showed:
            return
        for stage in BEFORE_FAULTS:
            self._play(stage, evidence)
        self._leave_out_faults(self._shrunk.best, evidence)
        for stage in AFTER_FAULTS:
            self._play(stage, evidence)

    def _leave_out_faults(self, begun: ReducedPlan, evidence: Tries[str]) -> None:
        with self._announced(FAULTS, 2 * len(begun.rows)):
            minimise(
                begun.rows,
                lambda rows: self._key(msgspec.structs.replace(begun, rows=rows)),
                evidence,
                report=lambda rows: self._accept(msgspec.structs.replace(begun, rows=rows), f"{len(rows)} faults"),
                # A fault that waits for a phase of a migration is nothing without the migration.
                makes_sense=lambda rows: self._makes_sense(msgspec.structs.replace(begun, rows=rows)),
            )

    def _play(self, stage: ReductionStage, evidence: Tries[str]) -> None:
        with self._announced(stage.name, stage.offers(self._shrunk.best)):
            for reduction in stage.reductions(self._shrunk.best):
                self._reduce(reduction, evidence)

    @contextlib.contextmanager
    def _announced(self, stage: str, candidates: int) -> Iterator[None]:
        """What a stage may take, before it; what came of it and what is left of the budget, after it."""
        before, best = len(self._kept), self._shrunk.best
        if candidates:
            self._say(f"{stage}: {forecast(candidates, self._per_try_s())}")
        yield
        if candidates:
            left = f"{lasting(self._ends_s - self._clock_s())} of the budget left"
            now = self._shrunk.best
            less = "less" if now.key != best.key else "nothing to leave out"
            self._say(
                f"{stage}: {less} after {len(self._kept) - before} tries; {len(now.rows)} faults, "
                f"{now.plan.time_limit}; {left}"
            )

    def _reduce(self, reduction: Reduction, evidence: Tries[str]) -> None:
        for offer in reduction.offers(self._shrunk.best):
            if self._makes_sense(offer) and evidence.enough(self._key(offer)):
                self._accept(offer, f"less: {reduction.name}")
                return

    def _accept(self, candidate: ReducedPlan, change: str) -> None:
        self._say(f"still shows with {change}")
        self._shrunk.best = candidate
        self._write()

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

    def _baseline_shows(self) -> int:
        """How often the whole must show before the search: a short budget must not be spent on that alone.

        The first try tells how long one takes, so a search that goes on with the same budget comes to the same number.
        """
        first_s = max(self._kept[0].made.seconds, 1.0) if self._kept else 1.0
        return max(1, min(BASELINE_SHOWS, int(self._budget_s * _BASELINE_SHARE / first_s)))

    def _attempt(self, key: str) -> bool:
        """Try a candidate once; raises BudgetSpent where no time would be left to confirm what is smaller."""
        candidate, best = self._candidates[key], self._shrunk.best
        needed_s = self._forecast_s(candidate)
        if key != self._shrunk.whole.key:
            needed_s += self._confirmations * self._forecast_s(best if self._shrunk.smaller else candidate)
        if self._kept and self._clock_s() + needed_s > self._ends_s:
            raise BudgetSpent
        return self._shows(self._try(candidate, confirms=False))

    def _forecast_s(self, candidate: ReducedPlan) -> float:
        """How many seconds a try of this candidate takes: as recent ones, or less where its main phase is shorter."""
        recent = [kept for kept in self._kept if kept.candidate in self._candidates][-_RECENT:]
        if not recent:
            return self._per_try_s()
        around_s = [max(kept.made.seconds - _main_s(self._candidates[kept.candidate]), 0.0) for kept in recent]
        return min(self._per_try_s(), sum(around_s) / len(around_s) + _main_s(candidate))

    def _confirm(self, candidate: ReducedPlan) -> None:
        """Fresh runs, whatever the search has seen of this candidate; the budget was kept for them."""
        while len(done := [k for k in self._counted(confirms=True) if k.candidate == candidate.key]) < (
            self._confirmations
        ):
            self._say(f"confirming: {len(done) + 1} of {self._confirmations}")
            self._try(candidate, confirms=True)
            self._count_confirmation(candidate)
        self._count_confirmation(candidate)

    def _count_confirmation(self, candidate: ReducedPlan) -> None:
        done = [kept.made for kept in self._counted(confirms=True) if kept.candidate == candidate.key]
        self._shrunk.confirmation = (sum(map(self._shows, done)), len(done))

    def _try(self, candidate: ReducedPlan, *, confirms: bool) -> Try:
        """One try that counts; those that do not are kept too."""
        checked = self._plan_of(candidate)
        for _ in range(_FAILURES_MAX):
            if self._stopped():
                raise _Stopped
            made = self._carry(checked, self.folder)
            self._kept.append(KeptTry(candidate=candidate.key, confirms=confirms, made=made))
            self._write()
            if made.counts:
                shown = "shows" if self._shows(made) else "does not show"
                self._say(f"{shown}: {len(candidate.rows)} faults, {checked.plan.time_limit}, {made.seconds:.0f} s")
                return made
            self._say(f"not counted: {made.why}")
        if self._stopped():
            raise _Stopped
        raise HarnessError(
            f"{_FAILURES_MAX} tries in a row could not be judged: {made.why}",
            hint=f"the same command goes on; the tries are kept in {self.folder}",
        )

    def _plan_of(self, candidate: ReducedPlan) -> CheckedPlan:
        """The candidate's plan, with its faults in a file; raises UsageError when it makes no sense."""
        key = candidate.key
        if key not in self._plans:
            path = self.folder / _CANDIDATES / f"{key}.jsonl"
            path.parent.mkdir(exist_ok=True)
            write_rows(candidate.rows, path)
            self._plans[key] = check_plan(with_faults(candidate.plan, path, candidate.rows))
        return self._plans[key]

    def _shows(self, made: Try) -> bool:
        return is_shown(self._fingerprint, made.fingerprints)

    def _counted(self, *, confirms: bool) -> Iterator[KeptTry]:
        return (kept for kept in self._kept if kept.confirms is confirms and kept.made.counts)

    def _per_try_s(self) -> float:
        recent = [kept.made.seconds for kept in self._kept][-_RECENT:]
        return sum(recent) / len(recent) if recent else 0.0

    # -- what is kept ---------------------------------------------------------------------------------------------

    def _write(self) -> None:
        shrunk = self._shrunk
        if shrunk.smaller:
            write_rows(shrunk.best.rows, self.folder / SMALLER_SCHEDULE)
            plan = self._plan_of(shrunk.best).plan
            schedule = SMALLER_SCHEDULE if plan.schedule else ""
            write_plan(msgspec.structs.replace(plan, schedule=schedule), self.folder / SMALLER)
        store.write_json(self.folder / DOCUMENT, document(shrunk, self._recorded, self._kept))
