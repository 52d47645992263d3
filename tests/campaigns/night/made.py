"""Nights made in memory: cells, verdicts, attempts, and a launcher that only pretends to run."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from fencepost.campaigns.night.cells import NightCell
from fencepost.campaigns.night.launcher import Flight, Left
from fencepost.campaigns.night.night import Night, NightState, RunAttempt
from fencepost.campaigns.night.pool import Demand, Pool, RunValues, WaitingRun, turns_of
from fencepost.campaigns.night.register import ClosedNight, EndedRun, Opened, Record, Registered, Resumed, night_of
from fencepost.campaigns.night.run_class import RunClass, RunEvidence
from fencepost.campaigns.night.value import Past, by_value
from fencepost.harness.base.signals import StopRequest
from fencepost.harness.plan import Phases, Plan

FINGERPRINT = "example:linearizable:stale-read:change+read"
OTHER = "example:linearizable:lost-write:change"
STARTED = "2026-11-23T20:00:00Z"


def cell(
    name: str, *, required: bool = False, canary: bool = False, runs: int = 1, anomaly: str = "stale-read"
) -> NightCell:
    return NightCell(
        id=name,
        name=name,
        plan=Plan(system="example", workload="register", seed=0, nemesis="kill", time_limit="5s"),
        required=required,
        canary=canary,
        anomaly=anomaly if canary else "",
        runs=runs,
    )


def document(
    validity: str = "valid",
    *,
    seed: int = 0,
    fingerprints: Sequence[str] = (),
    cause: str | None = None,
    lag_ns: int = 0,
    stalled_by: str = "",
    exit_code: int | None = None,
    faults: int = 2,
) -> dict[str, Any]:
    """What verdict.json holds, as far as a night reads it."""
    return {
        "format": 1,
        "validity": validity,
        "exit_code": {"valid": 0, "invalid": 1, "unknown": 2}[validity] if exit_code is None else exit_code,
        "headline": f"it is {validity}",
        "system": "example",
        "version": "0.1.0",
        "workload": "register",
        "seed": seed,
        "anomalies": [
            {"fingerprint": f, "fingerprints": [f], "anomaly": f.split(":")[2], "decides": True} for f in fingerprints
        ],
        "guarantees": [{"name": "linearizable", "exposure": 40}],
        "faults": {"kill": {"installed": faults, "skipped": 0, "indeterminate": 0}},
        "verdicts": [
            {
                "checker": "coverage",
                "validity": "unknown" if cause else "valid",
                "decides": False,
                "cause": cause,
                "figures": {"loop_lag_ns_max": {"value": lag_ns, "rows": []}, "stalled_by": stalled_by},
            }
        ],
    }


def attempt(name: str, run_class: RunClass | None, *, run: int = 1, number: int = 1, **fields: Any) -> RunAttempt:
    faults = {"kill": 2} if run_class is not None and run_class.is_judged else {}
    return RunAttempt(
        **{
            "cell": name,
            "run": run,
            "number": number,
            "seed": 1,
            "folder": f"runs/{name}-{run}-{number}",
            "run_class": run_class,
            "faults": faults,
            **fields,
        }
    )


def caught(name: str = "canary", **fields: Any) -> RunAttempt:
    return attempt(name, RunClass.INVALID, anomalies=("stale-read",), fingerprints=(FINGERPRINT,), **fields)


def opened(cells: Sequence[NightCell], **fields: Any) -> Opened:
    values = {"id": "night", "campaign": "c", "digest": "d", "seed": 7, "budget_s": 600.0, "at": STARTED, **fields}
    return Opened(cells=tuple(cells), **values)


def night(
    cells: Sequence[NightCell],
    attempts: Sequence[RunAttempt],
    *,
    state: NightState = NightState.FINISHED,
    **fields: Any,
) -> Night:
    """The night of a register with these attempts."""
    records: list[Record] = [opened(cells, **fields)]
    for each in attempts:
        records.append(Registered(attempt=each))
        if each.run_class is not None:
            records.append(EndedRun(attempt=each, spent_s=1))
    if state in (NightState.FINISHED, NightState.STOPPED):
        records.append(ClosedNight(at=STARTED, spent_s=2, stopped=state is NightState.STOPPED))
    return night_of(records, running=state is NightState.RUNNING)


class Clock:
    """A clock that only waiting moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class PretendedFlight:
    """Ends by itself at `ends`, or soon after it was stopped."""

    def __init__(self, clock: Clock, ends: float, code: int) -> None:
        self.clock, self.ends, self.code = clock, ends, code

    def ended(self) -> int | None:
        return self.code if self.clock.now >= self.ends else None

    def stop(self, *, at_once: bool = False) -> None:
        self.ends, self.code = min(self.ends, self.clock.now + 2), 130 if at_once else self.code

    def kill(self) -> None:
        self.ends, self.code = self.clock.now, -9


class PretendedLauncher:
    """Carries out attempts by a function from cell and attempt to seconds, exit code and verdict."""

    def __init__(
        self,
        clock: Clock,
        plays: Callable[[NightCell, RunAttempt], tuple[float, int, dict[str, Any] | None]],
        step_s: float = 0,
    ) -> None:
        self.clock, self.plays, self.step_s = clock, plays, step_s
        self.launched: list[tuple[str, int, int]] = []
        self.most_at_a_time = 0
        self.flights: list[PretendedFlight] = []
        self.verdicts: dict[tuple[int, str, int, int], dict[str, Any] | None] = {}

    def launch(self, cell: NightCell, attempt: RunAttempt) -> Flight:
        seconds, code, verdict = self.plays(cell, attempt)
        self.launched.append((cell.id, attempt.run, attempt.number))
        self.verdicts[attempt.key] = None if verdict is None else {**verdict, "seed": attempt.seed}
        flight = PretendedFlight(self.clock, self.clock.now + seconds, code)
        self.flights.append(flight)
        self.most_at_a_time = max(self.most_at_a_time, sum(f.ended() is None for f in self.flights))
        return flight

    def wait(self, flights: Sequence[Flight], timeout_s: float) -> None:
        self.clock.now += max(timeout_s, self.step_s)

    def left(self, attempt: RunAttempt, exit_code: int | None) -> Left:
        document = self.verdicts.get(attempt.key) if exit_code in (0, 1, 2) else None
        return Left(evidence=RunEvidence(exit_code=exit_code, document=document))

    def clear(self, attempt: RunAttempt) -> None:
        """It keeps no files."""


class Killed(Exception):
    """The night's process ends here."""


def session(
    records: list[Record],
    launcher: PretendedLauncher,
    *,
    stop: StopRequest | None = None,
    killed_after: int | None = None,
    past: dict[str, Past] | None = None,
    ordered: bool = True,
    demand: Callable[[Night, WaitingRun], Demand] | None = None,
    choose: Callable[[Night, WaitingRun], RunValues] | None = None,
    on_change: Callable[[Pool], None] = lambda _: None,
) -> Night:
    """Carry out what a register has left to do, in its order unless `ordered`; it is killed after so many records."""
    resumed = any(isinstance(record, Registered) for record in records)
    if resumed:
        records.append(Resumed(at=STARTED, budget_s=night_of(records).budget_s, jobs=night_of(records).jobs))
    made = night_of(records, running=not resumed)
    left = killed_after

    def append(record: Record) -> None:
        nonlocal left
        if left == 0:
            raise Killed
        left = None if left is None else left - 1
        records.append(record)

    cells = [o.cell for o in made.cells]
    Pool(
        made,
        turns_of(made, by_value(cells, past or {}, {}) if ordered else cells),
        plans={c.id: msgspec.structs.replace(c.plan, phases=Phases(watch="1s")) for c in cells},
        past=past or {},
        launcher=launcher,
        append=append,
        stop=stop or StopRequest(),
        clock_s=launcher.clock,
        on_change=on_change,
        demand=lambda turn: demand(night_of(records, running=True), turn) if demand else Demand.NOW,
        choose=lambda turn: choose(night_of(records, running=True), turn) if choose else RunValues(),
    ).run()
    return night_of(records)
