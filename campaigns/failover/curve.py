"""The curve as a night: a cell for each system and number of partitions, and what the tables of its runs tell.

A run has one fault. The longest time without an accepted change and the new epoch are read from the tables that every
run has (`operations`, `faults`, `recovery`), the loading from the servers' logs.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from fencepost.campaigns.failover.figures import Curve, FailoverSample, document
from fencepost.campaigns.failover.page import page
from fencepost.campaigns.failover.picture import standing_alone
from fencepost.campaigns.night.cells import checked_cell
from fencepost.campaigns.night.documents import Files
from fencepost.campaigns.night.launcher import fact_rows
from fencepost.campaigns.night.night import CellOutcome, Night, RunAttempt
from fencepost.campaigns.night.run_class import RunClass
from fencepost.campaigns.night.strategy import CellStrategy
from fencepost.campaigns.night.telling import MEASURED
from fencepost.harness.base.errors import UsageError, unknown_choice
from fencepost.harness.base.options import plain
from fencepost.harness.contract.failover import Failover, MeasuresFailover
from fencepost.harness.plan import Plan
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.server_log import SERVER_LOG
from fencepost.harness.verdict import Thresholds
from fencepost.harness.verdict.fact_tables import FAULTS, OPERATIONS, RECOVERY

NAME: Final = "failover"
DOCUMENT: Final = "failover.json"
PAGE: Final = "failover.html"
PICTURE: Final = "failover.svg"
PARTITIONS_MAX: Final = 10_000
_NODES: Final = 3
_PLUS: Final = "+"
#: What these runs lack is proof of a guarantee, not a measured time; a run that others disturbed lacks that.
_UNSURE: Final = (RunClass.VALID, RunClass.UNKNOWN_COVERAGE, RunClass.UNKNOWN_BUDGET)
_MEASURED: Final = (*_UNSURE, RunClass.INVALID, RunClass.KNOWN)


def measurable() -> dict[str, Failover[Any]]:
    """How failover is measured, by the system's name, and by "SYSTEM+DEPLOYMENT" for each other deployment."""
    known: dict[str, Failover[Any]] = {}
    for name, system in registry.systems().items():
        if isinstance(system, MeasuresFailover):
            others = {f"{name}{_PLUS}{other}": one for other, one in system.failover.deployments.items()}
            known |= {name: system.failover, **others}
    return known


def failover_of(name: str) -> Failover[Any]:
    """How this system's failover is measured; raises UsageError for a system without partitions."""
    known = measurable()
    if name not in known:
        raise unknown_choice("system with a controller and partitions", name, list(known))
    return known[name]


def check_choices(systems: Sequence[str], partitions: Sequence[int]) -> None:
    """Refuse wrong choices before a cluster starts; raises UsageError."""
    for name in systems:
        failover_of(name)
    for what, given in (("--systems", systems), ("--partitions", partitions)):
        if not given:
            raise UsageError(f"{what}: nothing is named", hint="name one or several, joined by commas")
        if len(set(given)) < len(given):
            raise UsageError(f"{what}: one is named twice", hint="name each once")
    for number in partitions:
        if not 1 <= number <= PARTITIONS_MAX:
            raise UsageError(f"--partitions: {number} is not between 1 and {PARTITIONS_MAX}")


def plan_of(name: str, partitions: int) -> Plan:
    """Return the plan of one failover."""
    failover = failover_of(name)
    system = registry.system(name.partition(_PLUS)[0])
    own, defaults = plain(failover.options), plain(type(failover.options)())
    return Plan(
        system=system.profile.name,
        version=system.releases.default,
        workload=failover.workload,
        seed=0,
        nodes=_NODES,
        nemesis=failover.nemesis,
        time_limit=failover.time_limit,
        workload_options={**failover.workload_options, failover.load: partitions},
        system_options={key: value for key, value in own.items() if value != defaults[key]},
        # Verdicts come along, and a run that tested little still tells how long its failover took.
        thresholds=Thresholds(ok_operations_min=1, effective_faults_min=0),
    )


class CurveMaking(CellStrategy):
    """A cell for each system and number of partitions; the curve of what their runs measured."""

    page = PAGE

    def __init__(self, systems: Sequence[str], partitions: Sequence[int], times: int) -> None:
        self.systems, self.partitions, self.times = tuple(systems), tuple(sorted(partitions)), times
        self._cells: dict[str, tuple[str, int]] = {}
        self._samples: dict[str, FailoverSample | None] = {}
        own = []
        for size in self.partitions:
            for name in self.systems:
                own.append(checked_cell(f"{name}, {size:,} partitions", plan_of(name, size), runs=times))
                self._cells[own[-1][0].id] = name, size
        super().__init__(NAME, own)

    def files(self, night: Night, expected_end_s: float | None = None) -> Files:
        curve = self.curve(night)
        return {
            DOCUMENT: lambda: document(curve),
            PAGE: lambda: page(curve, {name: failover_of(name) for name in self.systems}),
            PICTURE: lambda: standing_alone(curve),
        }

    def sign(self, each: CellOutcome, attempt: RunAttempt) -> tuple[str, str]:
        """Say of a run that was measured no more than that, whatever its verdict lacks."""
        measured = attempt.run_class in _UNSURE and attempt.took_hold
        return ("✓", MEASURED) if measured else super().sign(each, attempt)

    def curve(self, night: Night) -> Curve:
        """The curve as it stands when `night` has come this far."""
        samples: list[FailoverSample] = []
        failures: list[str] = []
        versions: dict[str, str] = {}
        for outcome in night.cells:
            name, size = self._cells[outcome.cell.id]
            if not outcome.attempts:
                failures.append(f"{outcome.cell.name}: {outcome.reason or 'not begun within the deadline'}")
            for attempt in outcome.decisive:
                versions[name] = attempt.version or versions.get(name, "")
                if attempt.run_class in _MEASURED and attempt.folder not in self._samples:
                    self._samples[attempt.folder] = sample_of(name, size, self.folder, attempt)
                sample = self._samples.get(attempt.folder)
                if sample is not None:
                    samples.append(sample)
                if sample is None or attempt.run_class is RunClass.INVALID:
                    why = attempt.reason if attempt.run_class not in _UNSURE else "no fault took hold"
                    failures.append(f"{outcome.cell.name}, run {attempt.run}, {attempt.run_class}: {why}")
        return Curve(
            systems=self.systems,
            versions={name: versions.get(name, "") for name in self.systems},
            faults={name: failover_of(name).nemesis for name in self.systems},
            partitions=self.partitions,
            times=self.times,
            samples=tuple(samples),
            failures=tuple(failures),
            took_s=night.spent_s,
            started_at=night.started_at,
            machine=night.machine,
        )


def sample_of(name: str, partitions: int, folder: Path, attempt: RunAttempt) -> FailoverSample | None:
    """Read what one run tells of its failover; None when no fault took hold."""
    failover = failover_of(name)
    faults = [
        f for f in fact_rows(folder / attempt.folder, FAULTS.name) if f["outcome"] == "installed" and f["ended_ns"]
    ]
    if not faults:
        return None
    fault = faults[0]
    accepted = sorted(
        row["completed_ns"]
        for row in fact_rows(folder / attempt.folder, OPERATIONS.name)
        if row["f"] == failover.change and row["type"] == "ok"
    )
    gap_ns = longest_gap_ns(accepted, fault["began_ns"], fault["ended_ns"])
    leaders = [
        row["new_leader_after_ns"]
        for row in fact_rows(folder / attempt.folder, RECOVERY.name)
        if row["fault_id"] == fault["fault_id"] and row["node"] is None
    ]
    logs = {
        log.parent.name: log.read_text(encoding="utf-8", errors="replace")
        for log in (folder / attempt.folder).glob(f"*/*/nodes/*/{SERVER_LOG}")
    }
    return FailoverSample(
        system=name,
        partitions=partitions,
        run=attempt.folder,
        ended=tuple(fault["nodes"]),
        change_s=None if gap_ns is None else gap_ns / 1e9,
        leader_s=next((after_ns / 1e9 for after_ns in leaders if after_ns is not None), None),
        load_s=load_time_s(failover.loading, logs, fault["leader"]),
    )


def longest_gap_ns(accepted: Sequence[int], from_ns: int, to_ns: int) -> int | None:
    """Return the longest time between two acceptances that lies at least partly in the interval.

    None when no acceptance precedes the interval, or none follows its beginning.
    """
    before = [at for at in accepted if at <= from_ns]
    after = [at for at in accepted if at > from_ns]
    if not before or not after:
        return None
    within = [before[-1], *(at for at in after if at < to_ns), *[at for at in after if at >= to_ns][:1]]
    return max(later - earlier for earlier, later in pairwise(within))


_CLOCK: Final = re.compile(r"^(\d\d):(\d\d):(\d\d)\.(\d\d\d)\b")
_DAY_MS: Final = 24 * 3600 * 1000


def load_time_s(loading: tuple[str, str], logs: Mapping[str, str], ended: str | None) -> float | None:
    """Compute how long the leader that followed `ended` loaded its state.

    Args:
        loading: texts of the line that begins the loading and of the line that ends it.
        logs: the log of each node of a run that lasted less than twelve hours.
        ended: the node whose reign the fault ended; None: the last loading of the run counts.

    Returns:
        Seconds; None when no such loading both begins and ends in the logs.
    """
    loads = [(began, node, load_s) for node, log in logs.items() for began, load_s in _loads(loading, log)]
    if loads and max(loads)[0] - min(loads)[0] > _DAY_MS / 2:  # the logs have no date: it was midnight
        loads = [(began + _DAY_MS * (began < _DAY_MS / 2), node, load_s) for began, node, load_s in loads]
    loads.sort()
    if ended is None:
        return loads[-1][2] if loads else None
    return next((new[2] for old, new in reversed([*pairwise(loads)]) if old[1] == ended != new[1]), None)


def _loads(loading: tuple[str, str], log: str) -> Iterator[tuple[int, float]]:
    """Yield when each loading of a log began, in milliseconds of the day, and its seconds."""
    first, last = loading
    began: int | None = None
    for line in log.splitlines():
        if first in line:
            began = _clock_ms(line)
        elif last in line and began is not None:
            ended = _clock_ms(line)
            if ended is not None:
                yield began, (ended - began) % _DAY_MS / 1000
            began = None


def _clock_ms(line: str) -> int | None:
    """Read the time of day at the start of a line, in milliseconds; the log has no date."""
    clock = _CLOCK.match(line)
    if clock is None:
        return None
    hours, minutes, seconds, thousandths = map(int, clock.groups())
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + thousandths
