"""The loop of a night: what is worth most is started while it fits, what ended is classed, everything is registered.

One thread starts and waits, since a run dies with the thread that started it. An attempt is registered before its
process exists. A run that others disturbed is made again alone, behind the first runs of its tier. The budget is kept:
nothing begins that would end after it, and what is in flight at its end is stopped and judged by what there is.
"""

import bisect
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from fencepost.campaigns.night.cells import NightCell
from fencepost.campaigns.night.forecast import Pace, deadline_s, estimate_s, usual_ratio
from fencepost.campaigns.night.launcher import Flight, Launcher
from fencepost.campaigns.night.night import Night, RunAttempt
from fencepost.campaigns.night.register import Append, ClosedNight, EndedRun, Registered, Ticked
from fencepost.campaigns.night.run_class import RunClass, classify, shown_by
from fencepost.campaigns.night.value import Past, tier_of
from fencepost.harness.base.errors import ExitCode
from fencepost.harness.base.quantities import utc_stamp
from fencepost.harness.base.signals import StopRequest
from fencepost.harness.plan import Plan

#: A run that was asked to end has this long to heal and to judge.
STOP_GRACE_S: Final = 30.0
_POLL_S: Final = 0.5
#: The night's time is registered so often, which is what a kill may cost the budget.
_TICK_S: Final = 5.0
#: A run that was lost so often is not begun again by itself.
_ATTEMPTS_MAX: Final = 5


class Demand(StrEnum):
    """Whether a run is needed: `LATER` waits for what is in flight to decide it."""

    NOW = "now"
    LATER = "later"
    NEVER = "never"


class WaitingRun(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A run that waits for its turn; turns are carried out in their order.

    `again`: it was disturbed, and comes behind the first runs of its tier. `alone`: nothing may be beside it.
    """

    tier: int
    again: bool = False
    run: int = 1
    rank: int = 0
    cell: str
    number: int = 1
    alone: bool = False


class NextRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that a strategy asks for once nothing is in flight; `past` as for an estimate, None: by its plan."""

    cell: NightCell
    plan: Plan
    past: Past | None = None


class RunValues(msgspec.Struct, frozen=True, kw_only=True):
    """What a strategy chooses for a run: `values` and `origin` as in `RunAttempt`; a `seed` among them is its seed."""

    values: dict[str, Any] = {}
    origin: int = 0


class _InFlight(msgspec.Struct, kw_only=True):
    attempt: RunAttempt
    flight: Flight
    began: float
    ends: float
    company: int
    late: bool = False
    cut: bool = False
    ordered: bool = False
    killed_at: float | None = None


def turns_of(night: Night, ordered: Sequence[NightCell]) -> list[WaitingRun]:
    """What a night has still to run, in order: every run without an attempt, and those whose last attempt is lost."""
    outcomes = {o.cell.id: o for o in night.cells}
    turns = []
    for rank, cell in enumerate(ordered):
        for run in range(1, cell.runs + 1):
            own = sorted((a for a in outcomes[cell.id].attempts if a.run == run), key=lambda a: a.number)
            number = len(own) + 1
            if own and (own[-1].run_class is not RunClass.LOST or number > _ATTEMPTS_MAX):
                continue
            turns.append(
                WaitingRun(tier=tier_of(cell), run=run, rank=rank, cell=cell.id, number=number, alone=cell.alone)
            )
    return sorted(turns)


def seed_of(night_seed: int, cell: NightCell, run: int) -> int:
    """The seed of a run: the same for every attempt at it."""
    if cell.same_seed:
        return cell.plan.seed
    digest = hashlib.sha256(f"{night_seed}:{cell.seeds_of or cell.id}:{run}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


class Pool:
    """One session of a night. `on_change` is called after every step; `clock_s` is monotonic."""

    def __init__(  # noqa: PLR0913 - what a session rests on, each part replaced by the tests
        self,
        night: Night,
        turns: Sequence[WaitingRun],
        *,
        plans: Mapping[str, Plan],
        past: Mapping[str, Past],
        launcher: Launcher,
        append: Append,
        stop: StopRequest,
        clock_s: Callable[[], float] = time.monotonic,
        on_change: Callable[["Pool"], None] = lambda _: None,
        demand: Callable[[WaitingRun], Demand] = lambda _: Demand.NOW,
        more: Callable[["Pool"], NextRun | None] = lambda _: None,
        choose: Callable[[WaitingRun], RunValues] = lambda _: RunValues(),
    ) -> None:
        self._night, self._plans, self._past = night, dict(plans), dict(past)
        self._cells = {o.cell.id: o.cell for o in night.cells}
        self._launcher, self._append, self._stop, self._on_change = launcher, append, stop, on_change
        self._demand, self._more, self._choose = demand, more, choose
        self._clock_s, self._began = clock_s, clock_s()
        self.waiting = sorted(turns)
        self.in_flight: list[_InFlight] = []
        self.left_out: dict[str, str] = {}
        self._runs = Counter({o.cell.id: len({a.run for a in o.attempts}) for o in night.cells})
        self.ended = 0
        self._waiting_s: tuple[tuple[int, int, int], float] | None = None
        self._pace, self._usual_ratio = Pace(), usual_ratio(plans, past)
        self._ticked_s = self.spent_s

    @property
    def spent_s(self) -> float:
        """The night's time: that of earlier sessions, and of this one."""
        return self._night.spent_s + self._clock_s() - self._began

    @property
    def remaining_s(self) -> float:
        return self._night.budget_s - self.spent_s

    def run(self) -> None:
        """Until everything was run, left out or stopped; the register is closed at the end."""
        while True:
            self._collect()
            if not (self.in_flight or self.waiting or self._stop.insisted):
                self._ask_for_more()
            if not self._stop.asked:
                self._start_what_fits()
            if not self.in_flight and (self._stop.asked or not self.waiting):
                break
            self._end_what_is_late()
            self._tick()
            self._on_change(self)
            self._launcher.wait([one.flight for one in self.in_flight], _POLL_S)
        for turn in self.waiting:
            self.left_out.setdefault(turn.cell, "the night was stopped before its turn")
        stopped = bool(self.waiting) or self._stop.insisted
        self._append(ClosedNight(at=utc_stamp(), spent_s=self.spent_s, stopped=stopped, left_out=dict(self.left_out)))
        self._on_change(self)

    def expected_end_s(self) -> float:
        """In how many seconds the night will end: what waits and is in demand, shared by the jobs; at most the budget.

        What may be in demand later is not counted: a gate has many such runs, and makes few of them.
        """
        now = self._clock_s()
        flying = [max(0.0, one.began + self._estimate_s(one.attempt.cell) - now) for one in self.in_flight]
        state = self.ended, len(self.in_flight), len(self.waiting)
        if self._waiting_s is None or self._waiting_s[0] != state:
            needed = [turn.cell for turn in self.waiting if self._demand(turn) is Demand.NOW]
            self._waiting_s = state, sum(map(self._estimate_s, needed))
        rest = (sum(flying) + self._waiting_s[1]) / max(1, self._night.jobs)
        return max(0.0, min(max([rest, *flying]), self.remaining_s))

    def needed_s(self, next_run: NextRun) -> float:
        """How many seconds a run would take."""
        forecast_s = estimate_s(next_run.plan, next_run.past) * (1.0 if next_run.past else self._usual_ratio)
        return self._pace.corrected_s(next_run.cell.id, forecast_s)

    def _ask_for_more(self) -> None:
        self._on_change(self)
        next_run = self._more(self)
        if next_run is None:
            return
        cell = next_run.cell
        self._cells[cell.id], self._plans[cell.id] = cell, next_run.plan
        if next_run.past:
            self._past[cell.id] = next_run.past
        self._runs[cell.id] += 1
        self.waiting.append(WaitingRun(tier=tier_of(cell), run=self._runs[cell.id], cell=cell.id))

    def elapsed_s(self, one: _InFlight) -> float:
        return self._clock_s() - one.began

    def _estimate_s(self, cell: str) -> float:
        return self._pace.corrected_s(cell, self._forecast_s(cell))

    def _forecast_s(self, cell: str) -> float:
        """Seconds by earlier nights alone."""
        past = self._past.get(cell)
        return estimate_s(self._plans[cell], past) * (1.0 if past and past.seconds else self._usual_ratio)

    def _tick(self) -> None:
        if self.in_flight and self.spent_s >= self._ticked_s + _TICK_S:
            self._ticked_s = self.spent_s
            self._append(Ticked(spent_s=round(self._ticked_s, 3)))

    def _start_what_fits(self) -> None:
        position = 0
        while position < len(self.waiting) and len(self.in_flight) < self._night.jobs:
            turn = self.waiting[position]
            match self._demand(turn):
                case Demand.NEVER:
                    del self.waiting[position]
                    self.left_out.setdefault(turn.cell, "its result was no longer needed")
                    continue
                case Demand.LATER if self.in_flight:
                    position += 1
                    continue
            needed_s, left_s = self._estimate_s(turn.cell), self.remaining_s
            if needed_s > left_s:
                del self.waiting[position]
                self.left_out.setdefault(
                    turn.cell, f"the budget left {max(0.0, left_s):.0f} s, and it takes about {needed_s:.0f} s"
                )
                continue
            if self.in_flight and turn.alone and not turn.again:
                # Others go on side by side meanwhile.
                position += 1
                continue
            if self.in_flight and (turn.alone or any(one.attempt.alone for one in self.in_flight)):
                return
            del self.waiting[position]
            self._start(turn)

    def _start(self, turn: WaitingRun) -> None:
        cell = self._cells[turn.cell]
        (shard,) = self._night.shards_present
        chosen = self._choose(turn)
        attempt = RunAttempt(
            cell=cell.id,
            run=turn.run,
            number=turn.number,
            seed=chosen.values.get("seed", seed_of(self._night.seed, cell, turn.run)),
            folder=f"runs/{cell.id}-{turn.run}-{turn.number}",
            shard=shard,
            began_at=utc_stamp(),
            began_s=round(self.spent_s, 3),
            alone=turn.alone,
            values=chosen.values,
            origin=chosen.origin,
        )
        self._append(Registered(attempt=attempt))
        flight = self._launcher.launch(cell, attempt)
        now = self._clock_s()
        ends = now + deadline_s(self._plans[cell.id])
        self.in_flight.append(
            _InFlight(attempt=attempt, flight=flight, began=now, ends=ends, company=len(self.in_flight))
        )
        for one in self.in_flight:
            one.company = max(one.company, len(self.in_flight) - 1)

    def _collect(self) -> None:
        for one in list(self.in_flight):
            code = one.flight.ended()
            if code is not None:
                self.in_flight.remove(one)
                self._class(one, code)

    def _class(self, one: _InFlight, code: int) -> None:
        attempt = judged(
            self._launcher,
            self._night,
            self._cells[one.attempt.cell],
            one.attempt,
            exit_code=code,
            seconds=self._clock_s() - one.began,
            manner=(one.late, one.cut, one.company),
        )
        self._append(EndedRun(attempt=attempt, spent_s=round(self.spent_s, 3)))
        self.ended += 1
        if attempt.exit_code in (ExitCode.VALID, ExitCode.INVALID, ExitCode.UNKNOWN) and not (one.late or one.cut):
            cell = attempt.cell
            self._pace.ended(cell, attempt.seconds, self._forecast_s(cell))
        if attempt.run_class is RunClass.UNKNOWN_DISTURBED and not attempt.alone:
            again = WaitingRun(
                tier=tier_of(self._cells[attempt.cell]),
                again=True,
                alone=True,
                run=attempt.run,
                cell=attempt.cell,
                number=attempt.number + 1,
            )
            bisect.insort(self.waiting, again)

    def _end_what_is_late(self) -> None:
        now = self._clock_s()
        for one in self.in_flight:
            if one.killed_at is not None and now >= one.killed_at:
                one.flight.kill()
            elif self._stop.insisted and not one.ordered:
                one.ordered, one.killed_at = True, now + STOP_GRACE_S
                one.flight.stop(at_once=True)
            elif one.killed_at is None and (now >= one.ends or self.remaining_s <= 0):
                one.late, one.cut = now >= one.ends, now < one.ends
                one.killed_at = now + STOP_GRACE_S
                one.flight.stop()


def judged(
    launcher: Launcher,
    night: Night,
    cell: NightCell,
    attempt: RunAttempt,
    *,
    exit_code: int | None,
    seconds: float,
    manner: tuple[bool, bool, int] = (False, False, 0),
) -> RunAttempt:
    """The attempt with its class and what it showed; `manner`: whether it was late, cut, and its company."""
    left = launcher.left(attempt, exit_code)
    late, cut, company = manner
    evidence = msgspec.structs.replace(left.evidence, late=late, cut=cut, company=company)
    classed = classify(evidence, cell, attempt.seed, night.known_issues, night.today)
    return msgspec.structs.replace(
        attempt,
        run_class=classed.run_class,
        reason=" ".join(classed.reason.split()),
        exit_code=exit_code,
        seconds=round(seconds, 1),
        company=company,
        version=left.version,
        build=left.build,
        check_s=left.check_s,
        known=classed.known,
        report=left.report,
        **shown_by(evidence.document),
    )
