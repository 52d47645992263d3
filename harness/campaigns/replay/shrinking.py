"""`shrink`: less time, fewer faults, less load, narrower parameters, while the same fingerprint still shows.

Everything that was tried stands in `shrink.json`. The search itself holds no state: begun again it takes the tries that
are there in their order, comes to where it was, and goes on. The counts of the search are biased upwards (a candidate
was taken because it showed), so the final plan is confirmed by fresh runs that decide nothing.
"""

import contextlib
import fcntl
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.harness.base.errors import HarnessError, UsageError
from fencepost.harness.campaigns.replay import wilson
from fencepost.harness.campaigns.replay.recorded import Recorded, with_faults
from fencepost.harness.campaigns.replay.reductions import Candidate, Reduction, dropped
from fencepost.harness.campaigns.replay.search import Evidence, minimise, rate_of
from fencepost.harness.campaigns.replay.stages import AFTER_FAULTS, BEFORE_FAULTS, FAULTS, Stage, forecast, span
from fencepost.harness.campaigns.replay.tries import Carry, Try
from fencepost.harness.plan import write_plan
from fencepost.harness.plan.checked_plan import CheckedPlan, check_plan
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.schedule_rows import write_rows

DOCUMENT: Final = "shrink.json"
SMALLER: Final = "smaller.toml"
SMALLER_SCHEDULE: Final = "smaller.jsonl"
FORMAT: Final = 1
#: Fresh runs of the final plan.
CONFIRMATIONS: Final = 10
_CANDIDATES: Final = "candidates"
_LOCK: Final = ".lock"
#: So many tries in a row in which the harness fails end the search.
_FAILURES_MAX: Final = 3
#: A try takes as long as the latest ones did.
_RECENT: Final = 5


class BudgetSpent(Exception):
    """No time is left for another try and the confirmation."""


class Stopped(Exception):
    """A person asked for the end."""


class Kept(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One try as `shrink.json` holds it: `candidate` is the key of what was tried."""

    candidate: str
    confirms: bool
    made: Try


class Shrunk(msgspec.Struct, kw_only=True):
    """What came of it. `complete`: the search came to its end, so nothing more can be left out."""

    folder: Path
    fingerprint: str
    whole: Candidate
    best: Candidate
    #: How the whole did: shows and tries.
    baseline: tuple[int, int]
    #: How the smaller plan did in runs of its own; None before that.
    confirmation: tuple[int, int] | None = None
    confirmations: int
    complete: bool = False
    stopped: bool = False
    tries: int = 0
    #: How long a try takes, by the latest ones.
    per_try_s: float = 0.0

    @property
    def smaller(self) -> bool:
        return self.best.key != self.whole.key

    @property
    def confirmed(self) -> bool:
        """All the fresh runs were made, and show it not much less often than the whole did."""
        if self.confirmation is None or self.confirmation[1] < self.confirmations:
            return False
        shows, tries = self.confirmation
        return shows > 0 and shows / tries >= rate_of(*self.baseline) / 3


class Shrinking:
    """One recorded run being shrunk, in a folder of its own below `results`."""

    def __init__(
        self,
        recorded: Recorded,
        fingerprint: str,
        results: Path,
        *,
        budget_s: float,
        carry: Carry,
        clock_s: Callable[[], float],
        stopped: Callable[[], bool],
        say: Callable[[str], None],
        confirmations: int = CONFIRMATIONS,
    ) -> None:
        self.folder = _folder_of(recorded, results)
        self._recorded, self._fingerprint, self._carry = recorded, fingerprint, carry
        self._clock_s, self._stopped, self._say = clock_s, stopped, say
        self._ends_s = clock_s() + budget_s
        self._confirmations = confirmations
        self._candidates: dict[str, Candidate] = {}
        self._plans: dict[str, CheckedPlan] = {}
        self._kept: list[Kept] = []
        self._shrunk: Shrunk

    def run(self) -> Shrunk:
        """Search, then confirm; stopped at any moment it goes on when it is run again. Raises HarnessError."""
        with _locked(self.folder):
            self._kept = _read(self.folder / DOCUMENT)
            whole = Candidate(plan=self._recorded.plan, rows=self._recorded.rows)
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
            except Stopped:
                self._shrunk.stopped = True
            self._shrunk.tries, self._shrunk.per_try_s = len(self._kept), self._per_try_s()
            self._write()
        return self._shrunk

    # -- the search -----------------------------------------------------------------------------------------------

    def _search(self, whole: Candidate) -> None:
        known = ((kept.candidate, self._shows(kept.made)) for kept in self._counted(confirms=False))
        evidence: Evidence[str] = Evidence(self._attempt, known=known)
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

    def _leave_out_faults(self, begun: Candidate, evidence: Evidence[str]) -> None:
        with self._announced(FAULTS, 2 * len(begun.rows)):
            minimise(
                begun.rows,
                lambda rows: self._key(msgspec.structs.replace(begun, rows=rows)),
                evidence,
                found=lambda rows: self._accept(msgspec.structs.replace(begun, rows=rows), f"{len(rows)} faults"),
            )

    def _play(self, stage: Stage, evidence: Evidence[str]) -> None:
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
            left = f"{span(self._ends_s - self._clock_s())} of the budget left"
            now = self._shrunk.best
            less = "less" if now.key != best.key else "nothing to leave out"
            self._say(
                f"{stage}: {less} after {len(self._kept) - before} tries; {len(now.rows)} faults, "
                f"{now.plan.time_limit}; {left}"
            )

    def _reduce(self, reduction: Reduction, evidence: Evidence[str]) -> None:
        for offer in reduction.offers(self._shrunk.best):
            if self._makes_sense(offer) and evidence.enough(self._key(offer)):
                self._accept(offer, f"less: {reduction.name}")
                return

    def _accept(self, candidate: Candidate, words: str) -> None:
        self._say(f"still shows with {words}")
        self._shrunk.best = candidate
        self._write()

    def _key(self, candidate: Candidate) -> str:
        self._candidates[candidate.key] = candidate
        return candidate.key

    def _makes_sense(self, candidate: Candidate) -> bool:
        try:
            self._plan_of(candidate)
        except UsageError:
            return False
        return True

    # -- tries ----------------------------------------------------------------------------------------------------

    def _attempt(self, key: str) -> bool:
        per_try_s = self._per_try_s()
        if self._kept and self._clock_s() + per_try_s * (1 + self._confirmations) > self._ends_s:
            raise BudgetSpent
        return self._shows(self._try(self._candidates[key], confirms=False))

    def _confirm(self, candidate: Candidate) -> None:
        """Fresh runs, whatever the search has seen of this candidate; the budget was kept for them."""
        while len(done := [k for k in self._counted(confirms=True) if k.candidate == candidate.key]) < (
            self._confirmations
        ):
            self._say(f"confirming: {len(done) + 1} of {self._confirmations}")
            self._try(candidate, confirms=True)
            self._count_confirmation(candidate)
        self._count_confirmation(candidate)

    def _count_confirmation(self, candidate: Candidate) -> None:
        done = [kept.made for kept in self._counted(confirms=True) if kept.candidate == candidate.key]
        self._shrunk.confirmation = (sum(map(self._shows, done)), len(done))

    def _try(self, candidate: Candidate, *, confirms: bool) -> Try:
        """One try that counts; those that do not are kept too."""
        checked = self._plan_of(candidate)
        for _ in range(_FAILURES_MAX):
            if self._stopped():
                raise Stopped
            made = self._carry(checked, self.folder)
            self._kept.append(Kept(candidate=candidate.key, confirms=confirms, made=made))
            self._write()
            if made.counts:
                shown = "shows" if self._shows(made) else "does not show"
                self._say(f"{shown}: {len(candidate.rows)} faults, {checked.plan.time_limit}, {made.seconds:.0f} s")
                return made
            self._say(f"not counted: {made.why}")
        if self._stopped():
            raise Stopped
        raise HarnessError(
            f"{_FAILURES_MAX} tries in a row could not be judged: {made.why}",
            hint=f"the same command goes on; the tries are kept in {self.folder}",
        )

    def _plan_of(self, candidate: Candidate) -> CheckedPlan:
        """The candidate's plan, with its faults in a file; raises UsageError when it makes no sense."""
        key = candidate.key
        if key not in self._plans:
            path = self.folder / _CANDIDATES / f"{key}.jsonl"
            path.parent.mkdir(exist_ok=True)
            write_rows(candidate.rows, path)
            self._plans[key] = check_plan(with_faults(candidate.plan, path, candidate.rows))
        return self._plans[key]

    def _shows(self, made: Try) -> bool:
        return self._fingerprint in made.fingerprints

    def _counted(self, *, confirms: bool) -> Iterator[Kept]:
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


def document(shrunk: Shrunk, recorded: Recorded, kept: Iterable[Kept]) -> dict[str, Any]:
    """As `shrink.json` holds it."""
    return {
        "format": FORMAT,
        "run": str(recorded.folder),
        "fingerprint": shrunk.fingerprint,
        "complete": shrunk.complete,
        "confirmed": shrunk.confirmed,
        "baseline": _share(shrunk.baseline),
        "confirmation": _share(shrunk.confirmation),
        "smaller": SMALLER if shrunk.smaller else None,
        "faults": {"before": len(shrunk.whole.rows), "after": len(shrunk.best.rows)},
        "dropped": dropped(shrunk.whole, shrunk.best),
        "tries": msgspec.to_builtins(list(kept)),
    }


def _share(counts: tuple[int, int] | None) -> dict[str, Any] | None:
    if counts is None:
        return None
    low, high = wilson.interval(*counts)
    return {"shown": counts[0], "of": counts[1], "interval_95": [round(low, 4), round(high, 4)]}


def _folder_of(recorded: Recorded, results: Path) -> Path:
    """One for each recorded run, so that the same command finds its own state again."""
    folder = results / f"shrink-{recorded.folder.parent.name}" / recorded.folder.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}", hint="give another folder with --results") from None
    return folder.resolve()


def _read(path: Path) -> list[Kept]:
    data = store.read_json(path)
    if not data:
        return []
    if data.get("format") != FORMAT:
        raise UsageError(
            f"{path}: format {data.get('format')!r} where {FORMAT} was expected",
            hint="move the folder away to begin again",
        )
    try:
        return msgspec.convert(data.get("tries"), list[Kept])
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {error}", hint="move the folder away to begin again") from None


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Two searches in one folder would mix their tries."""
    with (folder / _LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"{folder}: this run is being shrunk already", hint="let that end, or stop it") from None
        yield
