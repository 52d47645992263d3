"""The suite from outside: a plan for one system, the child that plays it, and what stays when it has ended."""

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from fencepost.harness.base.errors import HarnessError, UsageError, unknown_choice
from fencepost.harness.conformance.documents import JUNIT, ROWS_FILE, junit_of
from fencepost.harness.conformance.probes import probed
from fencepost.harness.conformance.rows import ROWS, RowOutcome, SuiteRow, failed, not_applicable, passed, played
from fencepost.harness.faults.schedule import NONE
from fencepost.harness.plan import Plan, write_plan
from fencepost.harness.plan.checked_plan import CheckedPlan, check_plan
from fencepost.harness.plugins import registry
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.run_folder import RunRecord
from fencepost.harness.run.execute import facts_before_start, made_ready
from fencepost.harness.runtime.linux import processes
from fencepost.harness.runtime.linux.supervisor import start

_MEMBERSHIP: Final = "membership"
_CLOSE_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How the suite ended: a row for each of `ROWS`, in that order, and the folder with logs, JUnit and rows."""

    system: str
    version: str
    runtime: str
    rows: tuple[SuiteRow, ...]
    folder: Path

    @property
    def failures(self) -> tuple[SuiteRow, ...]:
        return tuple(row for row in self.rows if row.outcome is RowOutcome.FAILED)


def suite_plan(keys: Mapping[str, Any]) -> CheckedPlan:
    """The plan of the suite's cluster, by the words of a plan: `system`, `runtime`, `nodes`, ...

    Settings that the system offers as samples are set, and members are made ready for a change where that is possible.
    """
    system = registry.system(keys["system"])
    given: dict[str, Any] = {"nodes": _nodes(system.profile.sizes), **keys}
    if system.settings is not None and "set" not in given:
        given["set"] = {of: dict(values) for of, values in system.settings.samples.items()}
    # No workload runs; it says which nodes clients connect to.
    fitting = {workload.protocol: name for name, workload in reversed(registry.workloads().items())}
    workload = next((fitting[kind] for kind in probed() if kind in fitting and kind in system.profile.interfaces), None)
    with contextlib.suppress(UsageError):
        return _checked({**given, "nemesis": _MEMBERSHIP}, workload)
    return _checked({**given, "nemesis": NONE}, workload)


def _checked(given: Mapping[str, Any], workload: str | None) -> CheckedPlan:
    """The plan with this workload, or with the first one that this system supports; raises UsageError."""
    offered, refused = registry.system(given["system"]).profile.interfaces, list[UsageError]()
    names = [name for name, kind in registry.workloads().items() if kind.protocol in offered]
    for name in names if workload is None else [workload]:
        try:
            return check_plan(msgspec.convert({"seed": 1, **given, "workload": name}, Plan))
        except msgspec.ValidationError as error:
            raise UsageError(f"the cluster of the suite: {error}", hint="the keys are those of a plan file") from None
        except UsageError as error:
            refused.append(error)
    raise refused[0]


def play_suite(
    checked: CheckedPlan,
    results: Path,
    *,
    wanted: Collection[str] = (),
    progress: Callable[[SuiteRow], None] = lambda row: None,
) -> Report:
    """Play these rows of the suite and those that they need (`rows.played`), or all of it where none is named.

    Raises:
        MachineError, UsageError: found before a server started.
        HarnessError: the suite itself failed.
    """
    for name in wanted:
        if name not in ROWS:
            raise unknown_choice("row", name, ROWS)
    ready = made_ready(checked, lambda text: None)
    checked = ready.checked
    plan = checked.plan
    folder = store.make_run_folder(results, f"conformance-{plan.system}-{plan.runtime}")
    write_plan(plan, folder / store.PLAN)
    record = RunRecord(folder, {})
    record.add(facts_before_start(checked, ready.forecast, ready.artifacts, ready.others))
    ready.prepared.write(folder)
    by_name: dict[str, SuiteRow] = {}

    def take(row: SuiteRow) -> None:
        by_name[row.name] = row
        progress(row)

    try:
        for row in _rows_of_child(record, wanted, in_namespaces=checked.provider.in_namespaces):
            take(row)
    finally:
        left = [*checked.provider.sweep(folder), *_processes_that_name(folder)]
    take(failed("nothing-left", "; ".join(left)) if left else passed("nothing-left", "nothing stays on this machine"))
    why = next((row.name for row in by_name.values() if row.outcome is RowOutcome.FAILED), "")
    for name in ROWS:
        if name not in by_name:
            reason = f"not reached: {why} failed" if why else "not reached"
            take(not_applicable(name, reason if name in played(wanted) else "not asked for"))
    rows = tuple(by_name[name] for name in ROWS)
    version = str(record.facts["system_version"])
    report = Report(system=plan.system, version=version, runtime=plan.runtime, rows=rows, folder=folder)
    (folder / JUNIT).write_text(junit_of(report.system, report.runtime, rows), encoding="utf-8")
    store.write_json(folder / ROWS_FILE, {"system": plan.system, "version": version, "rows": msgspec.to_builtins(rows)})
    return report


def _nodes(sizes: tuple[int, ...]) -> int:
    """Three nodes where that is possible: the smallest cluster that survives a failure."""
    return 3 if 3 in sizes else sizes[0]


def _rows_of_child(record: RunRecord, wanted: Collection[str], *, in_namespaces: bool) -> Iterator[SuiteRow]:
    folder = record.folder
    log = folder / store.RUNNER_LOG
    child = start("fencepost.harness.conformance.inside", str(folder), *wanted, log=log, in_namespaces=in_namespaces)
    error: Mapping[str, Any] | None = None
    assert child.stdout is not None
    try:
        for line in child.stdout:
            message = json.loads(line)
            if message["topic"] == "row":
                yield msgspec.convert(message["row"], SuiteRow)
            elif message["topic"] == "facts":
                record.add(message["facts"])
            elif message["topic"] == "error":
                error = message
    finally:
        child.terminate()
        try:
            child.wait(_CLOSE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdout.close()
    if error is not None:
        raise HarnessError(error["message"], hint=error["hint"] or f"the log is {log}")
    if child.returncode:
        raise HarnessError(f"the suite's process ended with status {child.returncode}", hint=f"its log is {log}")


def _processes_that_name(folder: Path) -> list[str]:
    """Processes of this machine whose environment or command line names the suite's folder, other than this one."""
    name, left = str(folder.resolve()).encode(), []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) in (os.getpid(), os.getppid()):
            continue
        with contextlib.suppress(OSError):
            command = (process / "cmdline").read_bytes()
            if name in command or name in (process / "environ").read_bytes():
                left.append(f"process {process.name}: {processes.in_words(command)}")
    return left
