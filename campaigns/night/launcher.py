"""Starts the runs of a night as processes, waits for them, and reads what they left."""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from fencepost.campaigns.night.cells import NightCell
from fencepost.campaigns.night.draws import values_of, with_values
from fencepost.campaigns.night.night import RunAttempt
from fencepost.campaigns.night.preparation import build_of
from fencepost.campaigns.night.run_class import RunClass, RunEvidence, evidence_of
from fencepost.harness.base import offers
from fencepost.harness.plan import write_plan
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.columns import FACTS, read_table
from fencepost.harness.results.run_folder import RESERVE

#: Of each attempt, beside the run's own folder; not `plan.toml`, by which tools know the folder of a run.
PLAN: Final = "attempt.toml"
LOG: Final = "run.log"
_CHILD: Final = "fencepost.campaigns.night.child"


class Flight(Protocol):
    """A run in flight."""

    def ended(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        ...

    def stop(self, *, at_once: bool = False) -> None:
        """Ask it to heal and to judge what there is, or to heal and to end without a verdict."""
        ...

    def kill(self) -> None:
        """End it; its servers end with it."""
        ...


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """What a run left: the evidence for its class, its report, the build that ran, and how long its checkers took."""

    evidence: RunEvidence
    report: str = ""
    version: str = ""
    build: str = ""
    check_s: float | None = None


class Launcher(Protocol):
    """Carries out attempts; the tests have one that only pretends."""

    def launch(self, cell: NightCell, attempt: RunAttempt) -> Flight: ...

    def wait(self, flights: Sequence[Flight], timeout_s: float) -> None:
        """Return when one of them has ended, or after the time-out."""
        ...

    def left(self, attempt: RunAttempt, exit_code: int | None) -> Left:
        """Read what an attempt left; `exit_code` None: nobody saw it end."""
        ...

    def clear(self, attempt: RunAttempt) -> None:
        """Remove what an attempt that ended kept for its recording, and mark the folder of a lost one."""
        ...


class ProcessFlight:
    """A `fencepost run` in a session of its own, so that Ctrl-C at the night does not reach it."""

    def __init__(self, plan: Path, folder: Path, log: Path) -> None:
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", _CHILD, str(os.getpid()), str(plan), "--results", str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pidfd = os.pidfd_open(self._process.pid)

    def ended(self) -> int | None:
        code = self._process.poll()
        if code is not None and self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
        return code

    def stop(self, *, at_once: bool = False) -> None:
        # Two different signals: two of one kind may arrive as one.
        self._process.send_signal(signal.SIGINT)
        if at_once:
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self._process.kill()


class ProcessLauncher:
    """Runs below a night's folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def launch(self, cell: NightCell, attempt: RunAttempt) -> ProcessFlight:
        own = self._folder / attempt.folder
        own.mkdir(parents=True, exist_ok=True)
        plan = with_values(cell.plan, {**values_of(cell.draws, attempt.seed), **attempt.values})
        # The attempt can be run again alone, so it names the plug-ins of the night; its run keeps those that it uses.
        plugins = tuple(dict.fromkeys((*plan.plugins, *offers.plugin_paths())))
        write_plan(msgspec.structs.replace(plan, seed=attempt.seed, plugins=plugins), own / PLAN)
        return ProcessFlight(own / PLAN, own, own / LOG)

    def wait(self, flights: Sequence[Flight], timeout_s: float) -> None:
        with selectors.DefaultSelector() as selector:
            for flight in flights:
                if isinstance(flight, ProcessFlight) and flight.pidfd >= 0:
                    selector.register(flight.pidfd, selectors.EVENT_READ)
            selector.select(timeout_s)

    def left(self, attempt: RunAttempt, exit_code: int | None) -> Left:
        own = self._folder / attempt.folder
        runs = sorted(plan.parent for plan in own.glob(f"*/*/{store.PLAN}"))
        run = runs[-1] if runs else None
        evidence = evidence_of(run, exit_code, own / LOG)
        if run is None:
            return Left(evidence=evidence)
        about: dict[str, Any] = {}
        with contextlib.suppress(Exception):
            about = store.read_run(run)
        artifacts, check_ns = about.get("artifacts", {}), about.get("check_ns")
        report = run / store.REPORT
        return Left(
            evidence=evidence,
            report=str(report.relative_to(self._folder)) if report.is_file() else "",
            version=str((evidence.document or {}).get("version") or artifacts.get("version", "")),
            build=build_of(artifacts) if artifacts else "",
            check_s=check_ns / 1e9 if isinstance(check_ns, int) else None,
        )

    def clear(self, attempt: RunAttempt) -> None:
        with contextlib.suppress(OSError):
            for run in (plan.parent for plan in (self._folder / attempt.folder).glob(f"*/*/{store.PLAN}")):
                (run / RESERVE).unlink(missing_ok=True)
                if attempt.run_class is RunClass.LOST:
                    (run / store.LOST).write_text(f"{attempt.reason}\n", encoding="utf-8")


def fact_rows(attempt: Path, table: str) -> list[dict[str, Any]]:
    """The rows of a table of facts that an attempt's run left; none where it cannot be read."""
    rows: list[dict[str, Any]] = []
    with contextlib.suppress(OSError, ValueError):
        for path in sorted(attempt.glob(f"*/*/{FACTS}/{table}.parquet"))[-1:]:
            rows = read_table(path).to_pylist()
    return rows
