"""Turns what a run recorded into its verdict and its files: seals the history, derives facts, judges it, reports.

The files that a CI job reads are written first. A file that cannot be made (a full disk, a defect) is left out, with a
warning that names it.

The runner is a child process: it is started, its messages are read, and it is stopped in time. Once the history is
complete, the runner only keeps the nodes' data and takes the cluster down. It is judged meanwhile.

Judging makes Arrow tables and never a pandas frame, and importing pandas costs more than half a second of a run, so
pyarrow is kept from importing it when it makes its first array. It asks for pandas once and remembers that there is
none; a frame or series that is handed to it later is still understood.
"""

import contextlib
import importlib
import json
import os
import shutil
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any, Final

from fencepost.harness.base.errors import FencepostError, HarnessError, MachineError, UsageError, command_line
from fencepost.harness.base.signals import STOP_GRACE_S, StoppedTwice, StopRequest
from fencepost.harness.history import History, NodeLog
from fencepost.harness.history.operation import ErrorKind, error_of
from fencepost.harness.judging.judge import judge_history, read_recorded, resolved_of
from fencepost.harness.judging.judgement import Judgement
from fencepost.harness.plan.checked_plan import ResolvedPlan
from fencepost.harness.plugins import registry
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.run_folder import RunRecord
from fencepost.harness.runtime.linux.supervisor import start
from fencepost.harness.verdict import Validity
from fencepost.harness.verdict.fact_tables import FactTables

_PANDAS: Final = "pandas"


class _Hidden(MetaPathFinder):
    """Lets an import of pandas fail."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == _PANDAS:
            raise ImportError(f"{_PANDAS} is hidden from pyarrow")


def keep_pandas_out() -> None:
    """Let pyarrow go on without pandas, unless pandas is imported already."""
    import pyarrow as pa

    if _PANDAS in sys.modules:
        return
    hidden = _Hidden()
    sys.meta_path.insert(0, hidden)
    try:
        pa.array([0.5])
    finally:
        sys.meta_path.remove(hidden)


#: Gets each message of the runner.
Progress = Callable[[dict[str, Any]], None]


#: Modules that judging and reporting need. Importing them takes most of a second; the cluster settles meanwhile.
_JUDGES: Final = ("fencepost.harness.report.page", registry.DERIVE.partition(":")[0])


def _load_judges() -> None:
    """Import them now; an import error is raised later, when the module is needed."""
    with contextlib.suppress(ImportError):
        keep_pandas_out()
        for name in _JUDGES:
            importlib.import_module(name)


@dataclass(slots=True)
class ChildEnd:
    """How the child process ended."""

    finished: bool = False
    #: Whether the history is complete; a later failure does not affect it.
    recorded: bool = False
    error: FencepostError | None = None


class Child:
    """The child process: started, listened to, stopped in time."""

    def __init__(
        self,
        record: RunRecord,
        *,
        in_namespaces: bool,
        progress: Progress,
        stop: StopRequest,
    ) -> None:
        self.record, self.folder = record, record.folder
        self.progress, self.stop = progress, stop
        self.in_namespaces = in_namespaces
        self.outcome = ChildEnd()
        self.timers: list[threading.Timer] = []

    @contextlib.contextmanager
    def running(self) -> Iterator[ChildEnd]:
        """Run the child; the body begins when the history is complete, or the child has ended without.

        The child has ended when the context is left; it is killed when reading its messages fails.
        """
        log = self.folder / store.RUNNER_LOG
        self.child = start("fencepost.harness.runner", str(self.folder), log=log, in_namespaces=self.in_namespaces)
        try:
            with self.stop.on_request(self._stop):
                if self.stop.asked:
                    self._stop()
                if not self._listen(until_recorded=True):
                    self.rest()
                try:
                    yield self.outcome
                finally:
                    self.rest()
        finally:
            for timer in self.timers:
                timer.cancel()
            if self.child.poll() is None:
                self.child.kill()
                self.child.wait()
            if self.child.stdout is not None:
                self.child.stdout.close()

    def rest(self) -> None:
        """Wait until the child has ended; the outcome is whole then. Idempotent."""
        self._listen()
        self.child.wait()
        if not self.outcome.finished and self.outcome.error is None and not self.stop.asked:
            self.outcome.error = HarnessError(
                f"the runner ended with status {self.child.returncode} before the run was over",
                hint=f"its log is {self.folder / store.RUNNER_LOG}",
            )

    def _listen(self, *, until_recorded: bool = False) -> bool:
        """Hear the child until it ends, or until its history is complete; return whether it is."""
        assert self.child.stdout is not None
        while not (until_recorded and self.outcome.recorded):
            line = self.child.stdout.readline()
            if not line:
                break
            self._hear(line)
        return self.outcome.recorded

    def _hear(self, line: str) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return
        topic = message.get("topic")
        if topic == "facts":
            self.record.add(message["facts"])
            return
        if topic == "done":
            self.outcome.finished = True
        elif topic == "recorded":
            self.outcome.recorded = True
        elif topic == "error":
            kind = {254: MachineError}.get(message["exit_code"], HarnessError)
            self.outcome.error = kind(message["message"], hint=message["hint"])
        self.progress(message)
        if topic == "phase" and message["phase"] == "heal":
            _load_judges()

    def _stop(self) -> None:
        if self.stop.insisted:
            self._end()
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.child.pid, signal.SIGTERM)
        self._after(STOP_GRACE_S, self._end)

    def _end(self) -> None:
        # When the runner dies, servers, rules, mounts and namespaces go with it.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.child.pid, signal.SIGKILL)

    def _after(self, delay_s: float, action: Callable[[], None]) -> None:
        timer = threading.Timer(delay_s, action)
        timer.daemon = True
        timer.start()
        self.timers.append(timer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A finished run: its folder, its judgement and warnings; `document` is the content of verdict.json."""

    folder: Path
    judgement: Judgement
    warnings: tuple[str, ...]
    document: dict[str, Any]


def conclude_run(
    resolved: ResolvedPlan,
    record: RunRecord,
    outcome: ChildEnd,
    *,
    progress: Progress,
    stop: StopRequest,
    rest: Callable[[], None] = lambda: None,
) -> Result:
    """Seal the history, judge it, write the report; raise the runner's error when there is no history.

    Args:
        resolved: the run's plan.
        record: `run.json` of the run, whose end is added to it.
        outcome: how the runner ended, or that it has recorded everything and ends while the run is judged.
        progress: is told what happens.
        stop: a second request ends it.
        rest: waits until the runner has ended. What it keeps of the nodes is complete only then.
    """
    from fencepost.harness.results.reader import seal

    folder = record.folder
    progress({"topic": "phase", "phase": "judge", "left_s": None})
    if not store.has_history(folder):
        raise outcome.error or HarnessError("the runner left no history", hint=f"look into {folder}")
    if outcome.error is not None and not _has_operations(folder):
        raise outcome.error
    warnings: list[str] = []
    if not outcome.recorded:
        warnings += [f"the run ended early: {outcome.error.message}"] if outcome.error else []
        warnings += _keep(record, failure=_why_incomplete(outcome))
    try:
        seal(folder)
    except OSError as error:
        # There is no room for the columnar copy: the lines are judged as they are.
        warnings.append(f"the history stays in {store.HISTORY_LINES}: {error.strerror}")
        warnings += _keep(record, recorded=outcome.recorded)
    if resolved.system.read_log is not None:
        rest()
        warnings += _keep_logs(resolved.system.read_log, folder)
    # A second Ctrl-C ends the command without further output.
    try:
        with stop.on_request(stop.check):
            # Sealing is not interrupted; a stop that came meanwhile counts here.
            stop.check()
            result = judge_and_report(resolved, record, progress=progress)
        # An exception that a signal handler raises inside an interpreter callback is lost, so check once more.
        stop.check()
    except StoppedTwice:
        if (folder / store.VERDICT).is_file():
            raise
        raise StoppedTwice(f"the history is whole: {command_line('check', folder)} judges it") from None
    rest()
    if outcome.recorded and outcome.error is not None:
        warnings.append(f"after the run: {outcome.error.message}")
    if not resolved.plan.keep_data and result.judgement.validity is not Validity.INVALID:
        _drop_data(folder)
    return replace(result, warnings=(*warnings, *result.warnings))


def _why_incomplete(outcome: ChildEnd) -> str:
    """What kept the runner from closing its history, in one line: lines of a server's log may follow."""
    return outcome.error.message.partition("\n")[0] if outcome.error else "the runner was stopped before it was over"


def _keep(record: RunRecord, **facts: object) -> list[str]:
    """Add facts about the end of the run to `run.json`, so that every later check knows them; return warnings."""
    try:
        record.add(facts)
    except OSError as full:
        return [f"{store.RUN} does not say how the run ended: {full.strerror}"]
    return []


def judge_stored(folder: Path, *, progress: Progress) -> Result:
    """Judge a stored run again; raise UsageError without a plan, MalformedHistory for a broken history."""
    if not (folder / store.PLAN).is_file():
        raise UsageError(f"{folder}: no {store.PLAN}", hint="a history is judged by the plan of its run")
    for name in (store.VERDICT, store.JUNIT, store.REPORT):
        if (folder / name).is_dir():
            raise UsageError(
                f"{folder / name}: is a folder, but a file of this name must be written", hint="move the folder away"
            )
    keep_pandas_out()
    return judge_and_report(resolved_of(folder), RunRecord.read(folder), progress=progress)


def judge_and_report(resolved: ResolvedPlan, record: RunRecord, *, progress: Progress) -> Result:
    """Derive the facts of a stored history, judge it, and write verdict, JUnit, facts and report beside it."""
    from fencepost.harness.judging.run_facts import facts_of_run
    from fencepost.harness.report.documents import junit_of, verdict_document, write_verdict
    from fencepost.harness.report.page import render
    from fencepost.harness.report.section import ReportCase
    from fencepost.harness.results.columns import FACTS, write_facts

    folder = record.folder
    history, facts = read_recorded(resolved, folder, record.facts)
    warnings: list[str] = []
    # A failure of facts or report must not prevent the files that a CI job reads.
    derived: FactTables | None = None
    with _facts_left_out(warnings):
        derived = registry.derive()(history, facts)
    judgement = judge_history(resolved, folder, history, facts)
    warnings += _keep_times(record, history, judgement.took_ns)
    tables: FactTables = {}
    if derived is not None:
        with _facts_left_out(warnings):
            tables = facts_of_run(resolved, folder, record.facts, history, judgement, derived)
    case = ReportCase(
        history=history,
        facts=judgement.facts,
        verdicts=judgement.verdicts,
        validity=judgement.validity,
        headline=judgement.headline,
        run=record.facts,
        command=command_line("run", folder / store.PLAN),
        plan_toml=(folder / store.PLAN).read_text(encoding="utf-8"),
        derived=tables,
        effect_free=resolved.workload.effect_free,
        folder=str(folder),
    )
    warnings += _unforeseen(history)
    document = verdict_document(case)
    with _unless_full(folder / store.VERDICT, warnings) as path:
        write_verdict(document, path)
    with _unless_full(folder / store.JUNIT, warnings) as path:
        path.write_text(junit_of(case), encoding="utf-8")
    if tables:
        with _unless_full(folder / FACTS, warnings):
            write_facts(folder, tables)
    rendered = render(case)
    with _unless_full(folder / store.REPORT, warnings) as path:
        path.write_text(rendered.html, encoding="utf-8")
    warnings += [f"the report: {problem}" for problem in rendered.problems]
    progress({"topic": "judged", "validity": judgement.validity.value, "seed": resolved.plan.seed})
    return Result(folder=folder, judgement=judgement, warnings=tuple(warnings), document=document)


@contextlib.contextmanager
def _facts_left_out(warnings: list[str]) -> Iterator[None]:
    """Turn facts that cannot be derived into a warning."""
    try:
        yield
    except Exception as error:
        warnings.append(f"the facts could not be derived: {type(error).__name__}: {str(error)[:300]}")


def _keep_times(record: RunRecord, history: History, check_ns: int) -> list[str]:
    """Write into `run.json`, once, when each phase began and ended and how long checkers took; return warnings."""
    if "phases" in record.facts or not (record.folder / store.RUN).is_file():
        return []
    phases = {phase.value: {"from_ns": start, "to_ns": end} for phase, (start, end) in history.phases.items()}
    try:
        record.add({"phases": phases, "check_ns": check_ns})
    except OSError as error:
        return [f"{store.RUN} does not say when the phases were: {error.strerror}"]
    return []


@contextlib.contextmanager
def _unless_full(path: Path, warnings: list[str]) -> Iterator[Path]:
    """Turn a file that cannot be written into a warning; verdict and exit code stay the same."""
    try:
        yield path
    except StoppedTwice:
        _remove(path)
        raise
    except OSError as error:
        _remove(path)
        warnings.append(f"{path.name} could not be written: {error.strerror}")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _unforeseen(history: History) -> list[str]:
    """Return warnings about exceptions that no client handles: the verdict is sound, the client has a defect."""
    errors = (error_of(operation) for operation in history.operations)
    codes = Counter(error.code for error in errors if error is not None and error.kind is ErrorKind.UNFORESEEN)
    return [
        f"{count} operations ended with an exception that the client does not handle: {name}"
        for name, count in codes.items()
    ]


def _has_operations(folder: Path) -> bool:
    lines = folder / store.HISTORY_LINES
    if not lines.exists():
        return True
    with lines.open("rb") as file:
        return any(b'"kind":"op"' in line for line in file)


def _keep_logs(read_log: Callable[[Path, str], NodeLog | None], folder: Path) -> list[str]:
    """Read the nodes' logs from the kept data while it is there; return what cannot be read."""
    from fencepost.harness.results.reader import keep_logs

    return keep_logs(folder, read_log)


def _drop_data(folder: Path) -> None:
    """Remove the nodes' data; it is kept only when the verdict is invalid or the plan says so."""
    for archive in (folder / store.NODES).glob("*/data.tar.gz"):
        archive.unlink()
    for data in (folder / store.NODES).glob("*/data"):
        shutil.rmtree(data, ignore_errors=True)
