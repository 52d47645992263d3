"""The whole curve: starts one process for each cell, one after the other, and collects and writes their samples.

Cells with few partitions come first, both systems at each size, so that a deadline cuts off the largest cells of both
systems. Each cell may take an equal share of the remaining time.
"""

import json
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.harness.base.errors import HarnessError, UsageError
from fencepost.harness.base.quantities import utc_stamp
from fencepost.harness.base.signals import STOP_GRACE_S, StopRequest
from fencepost.harness.plugins import registry
from fencepost.harness.results import run_folder as store
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.linux.supervisor import start
from fencepost.harness.runtime.provider import Placement
from fencepost.systems.kafka.failover.cell import ENDS, NODES, FailoverCell, FailoverSample, measured
from fencepost.systems.kafka.failover.child import CELL
from fencepost.systems.kafka.failover.document import Curve, document
from fencepost.systems.kafka.failover.measurable import endings_of, failover_of, system_of
from fencepost.systems.kafka.failover.page import page
from fencepost.systems.kafka.failover.picture import standing_alone

DOCUMENT: Final = "failover.json"
PAGE: Final = "failover.html"
PICTURE: Final = "failover.svg"
_LOG: Final = "cell.log"
_SLUG: Final = "failover"
PARTITIONS_MAX: Final = 10_000

Say = Callable[[str], None]


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


class CurveRun:
    """One command: `run` measures; `write` writes the samples so far into the folder, at any time."""

    def __init__(
        self,
        systems: Sequence[str],
        partitions: Sequence[int],
        times: int,
        *,
        deadline_s: float,
        results: Path,
        say: Say,
        stop: StopRequest,
    ) -> None:
        self.systems, self.partitions, self.times = tuple(systems), tuple(sorted(partitions)), times
        self.ends = time.monotonic() + deadline_s
        self.began = time.monotonic()
        self.started_at = utc_stamp()
        self.say, self.stop = say, stop
        self.samples: list[FailoverSample] = []
        self.failures: list[str] = []
        self.artifacts = self._resolve()
        self.folder = store.make_run_folder(results, _SLUG)

    def _resolve(self) -> dict[str, Artifacts]:
        """Resolve the releases before the folder is created; raises MachineError or UsageError."""
        provider = registry.runtime("lab")
        artifacts = {}
        for name in self.systems:
            system = system_of(name)
            options = failover_of(name).options
            placement = Placement(runtime="lab", nodes=NODES, members=system.members(NODES, options))
            placement = provider.refuse_if_impossible(placement)
            artifacts[name] = provider.resolve(system.releases, system.releases.default, placement, self.say)
        return artifacts

    def run(self) -> Curve:
        """Measure every cell; raises HarnessError without a single sample, StoppedTwice when a person insists."""
        waiting = [(system, partitions) for partitions in self.partitions for system in self.systems]
        while waiting and not self.stop.asked:
            left_s = self.ends - time.monotonic()
            system, partitions = waiting[0]
            if left_s <= 0:
                self.failures.append(f"{system}, {partitions} partitions: not started before the deadline")
                del waiting[0]
                continue
            self._cell(system, partitions, left_s / len(waiting))
            del waiting[0]
            self.write()
        self.stop.check()
        if self.stop.asked:
            self.failures.append("stopped before everything was measured")
        curve = self.write()
        if not self.samples:
            raise HarnessError(
                f"nothing was measured: {'; '.join(self.failures) or 'no cell was started'}",
                hint=f"the logs are in {self.folder}",
            )
        return curve

    def write(self) -> Curve:
        """Write failover.json, failover.html and failover.svg with the samples so far."""
        curve = Curve(
            systems=self.systems,
            versions={name: self.artifacts[name].version for name in self.systems},
            partitions=self.partitions,
            times=self.times,
            samples=tuple(self.samples),
            failures=tuple(self.failures),
            took_s=time.monotonic() - self.began,
            started_at=self.started_at,
            machine=store.machine_facts(),
        )
        store.write_json(self.folder / DOCUMENT, document(curve))
        (self.folder / PAGE).write_text(page(curve), encoding="utf-8")
        (self.folder / PICTURE).write_text(standing_alone(curve), encoding="utf-8")
        return curve

    def _cell(self, system: str, partitions: int, budget_s: float) -> None:
        cell = FailoverCell(
            system=system,
            version=self.artifacts[system].version,
            partitions=partitions,
            times=self.times,
            budget_s=budget_s,
            artifacts=msgspec.to_builtins(self.artifacts[system]),
        )
        folder = self.folder / cell.name
        folder.mkdir()
        (folder / CELL).write_bytes(msgspec.json.encode(cell))
        self.say(f"{system}, {partitions:,} partitions (at most {budget_s:.0f} s)")
        before = len(self.samples)
        failure = _Child(folder, self._take, self.stop, budget_s).run()
        endings = len(self.samples) - before
        planned = len(endings_of(system)) * self.times
        if failure is None and endings < planned and not self.stop.asked:
            failure = f"its {budget_s:.0f} s had passed after {endings} of {planned} endings"
        if failure is not None:
            self.failures.append(f"{system}, {partitions} partitions: {failure}")
            self.say(self.failures[-1])

    def _take(self, sample: FailoverSample) -> None:
        self.samples.append(sample)
        shown = {name.removesuffix("_s"): getattr(sample, name) for name in measured(sample.ending)}
        figures = ", ".join(f"{name} {'-' if value is None else f'{value:.3f} s'}" for name, value in shown.items())
        whose = f"{sample.ended} -> {sample.successor or 'nobody'}" if sample.ending in ENDS else "phase"
        self.say(f"  {sample.ending} {whose}: {figures}")
        for missing in sample.missing:
            self.say(f"  missing: {missing}")


class _Child:
    """The process of one cell: its lines are read, and it is ended when its time is over."""

    def __init__(
        self, folder: Path, take: Callable[[FailoverSample], None], stop: StopRequest, budget_s: float
    ) -> None:
        self.folder, self.take, self.stop = folder, take, stop
        self.timers: list[threading.Timer] = []
        self.failure: str | None = None
        self.late = False
        self.budget_s = budget_s

    def run(self) -> str | None:
        """Run the process to its end; returns why it ended before its work was done, or None."""
        module = "fencepost.systems.kafka.failover.child"
        self.child = start(module, str(self.folder), log=self.folder / _LOG)
        done = False
        try:
            self._after(self.budget_s, self._too_late)
            with self.stop.on_request(self._stop):
                if self.stop.asked:
                    self._stop()
                assert self.child.stdout is not None
                for line in self.child.stdout:
                    done = self._hear(json.loads(line)) or done
                self.child.wait()
        finally:
            for timer in self.timers:
                timer.cancel()
            if self.child.poll() is None:
                self.child.kill()
                self.child.wait()
        if self.failure is None and not done and not self.stop.asked:
            why = (
                f"its time of {self.budget_s:.0f} s was over" if self.late else f"it ended with {self.child.returncode}"
            )
            self.failure = f"{why}; its log is {self.folder / _LOG}"
        return self.failure

    def _hear(self, message: dict[str, Any]) -> bool:
        if message["topic"] == "sample":
            self.take(msgspec.convert(message["sample"], FailoverSample))
        elif message["topic"] == "error":
            self.failure = str(message["message"])
        return bool(message["topic"] == "done")

    def _too_late(self) -> None:
        self.late = True
        self._stop()

    def _stop(self) -> None:
        if self.stop.insisted:
            self._signal(signal.SIGKILL)
            return
        self._signal(signal.SIGTERM)
        self._after(STOP_GRACE_S, lambda: self._signal(signal.SIGKILL))

    def _signal(self, number: signal.Signals) -> None:
        # `send_signal` checks first whether the process still exists.
        self.child.send_signal(number)

    def _after(self, delay_s: float, action: Callable[[], None]) -> None:
        timer = threading.Timer(delay_s, action)
        timer.daemon = True
        timer.start()
        self.timers.append(timer)
