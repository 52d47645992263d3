"""One session of a night: a new night's folder opened, or a stopped one's register resumed, and its runs carried out.

results/nights/<campaign>/<UTC time>/
    register.jsonl                  what happened, as it happened; everything else follows from it
    runs/<cell>-<run>-<attempt>/    attempt.toml, run.log, and the run's own folder
    index.html, campaign.json, junit.xml, summary.md
"""

import datetime
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec

from fencepost.campaigns.night.capacity import jobs_that_fit
from fencepost.campaigns.night.cells import CheckedCells, NightCell
from fencepost.campaigns.night.documents import write_each
from fencepost.campaigns.night.file import Campaign
from fencepost.campaigns.night.forecast import estimate_s
from fencepost.campaigns.night.launcher import Launcher, ProcessLauncher
from fencepost.campaigns.night.night import Night, NightState
from fencepost.campaigns.night.pool import NextRun, Pool, judged, seed_of, turns_of
from fencepost.campaigns.night.preparation import PreparedBuilds
from fencepost.campaigns.night.register import (
    REGISTER,
    AddedCell,
    EndedRun,
    NightRegister,
    Opened,
    Record,
    RefusedRun,
    Resumed,
    night_of,
    read_register,
)
from fencepost.campaigns.night.run_class import RunClass
from fencepost.campaigns.night.strategy import Strategy
from fencepost.campaigns.night.value import Past, by_value, read_past
from fencepost.harness.base.errors import UsageError
from fencepost.harness.base.quantities import utc_stamp
from fencepost.harness.base.signals import StopRequest
from fencepost.harness.plan.checked_plan import CheckedPlan
from fencepost.harness.results import run_folder as store
from fencepost.harness.run.execute import refuse_too_short

#: Below the folder of all results.
NIGHTS: Final = "nights"
JOURNAL: Final = "journal.jsonl"
#: The documents are written again at most so often while runs go on, and take at most this share of the time.
_WRITE_EVERY_S: Final = 2.0
_WRITE_SHARE: Final = 0.02
#: A night that belongs to a date begins at its noon.
_NOON: Final = datetime.timedelta(hours=12)


class NightWishes(msgspec.Struct, frozen=True, kw_only=True):
    """What a person asks of a session; `jobs` None: as many as fit. `command` repeats it.

    `night` is the name that the shards of a night share, empty for one of its own. `repeats`: the runs repeat a
    recorded one, and how often they show something says nothing of others.
    """

    budget_s: float
    seed: int
    results: Path
    jobs: int | None = None
    shard: int = 1
    shards: int = 1
    night: str = ""
    command: str = ""
    repeats: bool = False

    @property
    def nights(self) -> Path:
        """The folder of all nights; what repeats a recorded run lies among the results."""
        return self.results if self.repeats else self.results / NIGHTS

    @property
    def register(self) -> str:
        """The name of the register; the pages over nights do not know that of repeated runs."""
        return JOURNAL if self.repeats else REGISTER

    @property
    def past(self) -> dict[str, Past]:
        """What earlier nights tell of each cell."""
        return {} if self.repeats else read_past(self.nights)


def find_unfinished(campaign: Campaign, wishes: NightWishes) -> Path:
    """The newest night of this campaign and shard that is not finished.

    Raises UsageError when there is none, or when the campaign's file has changed since.
    """
    nights = wishes.nights / campaign.content.name
    for path in sorted(nights.glob(f"*/{wishes.register}"), reverse=True):
        night = night_of(read_register(path))
        if night.shards_present != (wishes.shard,) or night.shards != wishes.shards:
            continue
        if wishes.night and night.id != f"{night.campaign}-{wishes.night}":
            continue
        if night.state is NightState.FINISHED:
            break
        if night.digest != campaign.digest:
            raise UsageError(
                f"{campaign.source.path} has changed since {path.parent} began",
                hint="a night keeps its cells: begin a new one without --resume",
            )
        return path.parent
    raise UsageError(f"{nights}: there is no unfinished night to resume", hint="leave --resume out to begin one")


def id_of_night(campaign: Campaign, wishes: NightWishes, began: datetime.datetime) -> str:
    """The id that the shards of a night share, wherever they run; empty where a night needs none.

    It is that of `wishes.night`, else of the night by its date: nights are counted from noon to noon, UTC, so that
    shards which begin on both sides of midnight are of one night. A second night of one date has a number.

    Raises:
        UsageError: `wishes.night` names a night whose shard is there already.
    """
    name = campaign.content.name
    if wishes.shards == 1 and not wishes.night:
        return ""
    there = {
        (night.id, night.shards_present): path.parent
        for path in (wishes.nights / name).glob(f"*/{REGISTER}")
        for night in (night_of(read_register(path)),)
    }
    if wishes.night:
        chosen = f"{name}-{wishes.night}"
        if (chosen, (wishes.shard,)) in there:
            raise UsageError(
                f"--night {wishes.night}: {there[chosen, (wishes.shard,)]} is this shard of it already",
                hint="go on with it by --resume, or give the next night another name",
            )
        return chosen
    base = f"{name}-{(began - _NOON).date()}"
    numbered = itertools.chain([base], (f"{base}-{number}" for number in itertools.count(2)))
    return next(own for own in numbered if (own, (wishes.shard,)) not in there)


def refuse_short_cells(cells: CheckedCells, seed: int) -> None:
    """Raise UsageError for a cell whose time is too short for any of its faults."""
    for cell in cells.cells:
        seeds = [seed_of(seed, cell, run) for run in range(1, cell.runs + 1)]
        try:
            refuse_too_short(cells.plans[cell.id], seeds)
        except UsageError as error:
            raise UsageError(f"the cell {cell.name}: {error.message}", hint=error.hint) from None


def cells_within(
    cells: Sequence[NightCell], plans: Mapping[str, CheckedPlan], wishes: NightWishes
) -> tuple[NightCell, ...]:
    """Return the cells that have time for a run, by the estimate that decides whether a run begins."""
    past = wishes.past
    return tuple(c for c in cells if estimate_s(plans[c.id].plan, past.get(c.id)) <= wishes.budget_s)


class NightSession:
    """A night that is open for its runs; entered, it holds the night's register."""

    clock_s = staticmethod(time.monotonic)

    def __init__(
        self, strategy: Strategy, wishes: NightWishes, stop: StopRequest, on_change: Callable[[Night, Pool], None]
    ) -> None:
        """`strategy` is open; `on_change` hears of every change."""
        self._strategy, self._wishes, self._stop, self._report = strategy, wishes, stop, on_change
        self.folder, self._cells = strategy.folder, strategy.checked
        self._records: list[Record] = []
        self._launcher: Launcher = ProcessLauncher(self.folder)
        self._write_at = 0.0
        self._warnings: set[str] = set()
        self._replayed: tuple[int, Night] | None = None

    def __enter__(self) -> "NightSession":
        self._register = NightRegister(self.folder / self._wishes.register)
        return self

    def __exit__(self, *exception: object) -> None:
        self._register.__exit__(*exception)

    def begin(self, prepared: PreparedBuilds, shared_id: str = "") -> None:
        """Register a new night with the cells of this shard; `shared_id` is the id that its shards share, if any."""
        campaign = self._strategy.campaign
        self._append(
            Opened(
                id=shared_id or f"{campaign.content.name}-{self.folder.name}",
                campaign=campaign.content.name,
                digest=campaign.digest,
                seed=self._wishes.seed,
                budget_s=self._wishes.budget_s,
                at=utc_stamp(),
                cells=self._strategy.cells,
                shard=self._wishes.shard,
                shards=self._wishes.shards,
                jobs=self._jobs(),
                command=self._wishes.command,
                fencepost=version("fencepost"),
                machine=store.machine_facts(),
                known_issues=self._strategy.issues,
                impossible=self._cells.impossible,
            )
        )
        self._refuse(prepared)

    def resume(self, prepared: PreparedBuilds) -> None:
        """Go on where the last session ended: what had its verdict is classed, what else was in flight is lost."""
        self._records = read_register(self.folder / self._wishes.register)
        night = night_of(self._records, running=True)
        issues, budget_s = self._strategy.issues, self._wishes.budget_s
        self._append(Resumed(at=utc_stamp(), budget_s=budget_s, jobs=self._jobs(), known_issues=issues))
        self._refuse(prepared)
        for cell, attempt in ((o.cell, a) for o in night.cells for a in o.attempts if a.run_class is None):
            again = judged(self._launcher, night, cell, attempt, exit_code=None, seconds=0.0)
            if again.run_class is not RunClass.LOST:
                self._append(EndedRun(attempt=again, spent_s=night.spent_s))
        self._clear(night_of(self._records, running=True))

    def carry_out(self, prepared: PreparedBuilds) -> Night:
        """Run what there is to run and is in demand; returns the night. The documents are up to date all the time."""
        night = night_of(self._records, running=True)
        refused = {o.cell.id for o in night.cells if o.run_class is RunClass.MACHINE and not o.attempts}
        past = self._wishes.past
        runnable = [o.cell for o in night.cells if o.cell.id not in refused and o.cell.id in self._cells.plans]
        cells = {o.cell.id for o in night.cells}

        def ask(pool: Pool) -> NextRun | None:
            next_run = self._strategy.next_run(self._night(), pool)
            if next_run is not None and next_run.cell.id not in cells:
                cells.add(next_run.cell.id)
                self._append(AddedCell(cell=next_run.cell))
            return next_run

        pool = Pool(
            night,
            turns_of(night, by_value(runnable, past, prepared.builds)),
            plans={cell.id: self._cells.plans[cell.id].plan for cell in runnable},
            past=past,
            launcher=self._launcher,
            append=self._append,
            stop=self._stop,
            clock_s=self.clock_s,
            on_change=self._on_change,
            demand=lambda turn: self._strategy.demand(self._night(), turn),
            more=ask,
            choose=lambda turn: self._strategy.choose(self._night(), turn),
        )
        pool.run()
        night = night_of(self._records)
        self._clear(night)
        self._write(night)
        return night

    def _clear(self, night: Night) -> None:
        for attempt in night.attempts:
            if attempt.run_class is not None:
                self._launcher.clear(attempt)

    def _night(self) -> Night:
        """The night as it is now, replayed once for each record."""
        if self._replayed is None or self._replayed[0] != len(self._records):
            self._replayed = len(self._records), night_of(self._records, running=True)
        return self._replayed[1]

    def _refuse(self, prepared: PreparedBuilds) -> None:
        for cell, reason in prepared.refusals.items():
            self._append(RefusedRun(cell=cell, reason=reason))

    def _append(self, record: Record) -> None:
        self._register.append(record)
        self._records.append(record)

    def _warn(self, text: str) -> None:
        """Say a warning once."""
        if text not in self._warnings:
            self._warnings.add(text)
            self._strategy.say(f"warning: {text}")

    def _write(self, night: Night, expected_end_s: float | None = None) -> None:
        write_each(self._strategy.files(night, expected_end_s), self.folder, self._warn)

    def _jobs(self) -> int:
        return self._wishes.jobs or jobs_that_fit(self._cells.plans.values())

    def _on_change(self, pool: Pool) -> None:
        night = msgspec.structs.replace(self._night(), spent_s=pool.spent_s)
        self._report(night, pool)
        began = time.monotonic()
        if began >= self._write_at:
            self._write(night, pool.expected_end_s())
            ended = time.monotonic()
            self._write_at = ended + max(_WRITE_EVERY_S, (ended - began) / _WRITE_SHARE)
