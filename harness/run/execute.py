"""One run from the outside: folder, artifacts, runner, history sealed, verdict, report.

The outer process holds what must survive the runner: the folder, the Spark session and the verdict. So a runner that
crashes, or is killed, still gets judged by what it recorded.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from fencepost.harness.base.durations import format_duration
from fencepost.harness.base.errors import FencepostError, HarnessError, MachineError, UsageError, refused
from fencepost.harness.base.source_tree import source_tree
from fencepost.harness.base.stop_request import STOP_GRACE_S, StoppedTwice, StopRequest
from fencepost.harness.history import History
from fencepost.harness.judging.judge import Judgement, judge, members_of, options_of, setting_of
from fencepost.harness.plan import Plan, check_choices, merge_options, read_plan, write_plan
from fencepost.harness.plugins import registry
from fencepost.harness.plugins.workload import Workload
from fencepost.harness.results import run_folder as store
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.linux.supervisor import PARENT_VARIABLE
from fencepost.harness.runtime.provider import Links, Setting
from fencepost.harness.systems.contract.reported_version import TellsVersion
from fencepost.harness.systems.contract.server_settings import Settings, TakesSettings
from fencepost.harness.systems.contract.server_settings import checked as checked_settings
from fencepost.harness.systems.contract.system import System
from fencepost.harness.verdict import Standing, Validity
from fencepost.harness.warehouse.spark_session import SparkHandle

if TYPE_CHECKING:
    from fencepost.harness.faults.forecast import Prospect
    from fencepost.harness.faults.schedule import Entry

#: How long Spark may keep the report waiting.
_SPARK_DEADLINE_S: Final = 60.0

Progress = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A finished run: where it is kept and what was found; `document` is what verdict.json holds."""

    folder: Path
    judgement: Judgement
    warnings: tuple[str, ...]
    document: dict[str, Any]


def check_plan(plan: Plan) -> Plan:
    """Everything that can be found wrong before a cluster starts; returns the plan with its defaults filled in."""
    from fencepost.harness.faults.cuts import NEED_A_CUT, may_cut_off_leader
    from fencepost.harness.faults.kind import ALL, NONE, parse_nemesis
    from fencepost.harness.faults.schedule import duration_of
    from fencepost.harness.plan import QUORUMS

    check_choices(
        plan,
        choices={
            "system": tuple(registry.SYSTEMS),
            "workload": tuple(registry.WORKLOADS),
            "runtime": tuple(registry.RUNTIMES),
            "links": tuple(Links),
            "quorum": QUORUMS,
        },
        alone=registry.RUN_ALONE,
    )
    system = registry.system(plan.system)
    workload: Workload = registry.workload(plan.workload)
    if workload.protocol not in system.interfaces:
        raise UsageError(
            f"{plan.system} does not offer '{workload.protocol}', which {plan.workload} needs",
            hint=f"it offers: {', '.join(sorted(system.interfaces))}",
        )
    options = options_of(plan, system, workload)
    # How many nodes there are, and with which roles, may be the workload's wish.
    wanted = {**workload.system_options(system), **plan.system_options}
    plan = msgspec.structs.replace(plan, system_options=merge_options(plan.system, wanted, system.options()))
    plan = msgspec.structs.replace(
        plan, server_settings=checked_settings(plan.server_settings, system, plan.system_options)
    )
    members = members_of(plan, system)
    refusal = workload.refuse(options, members)
    if refusal:
        raise refused(plan.workload, refusal)
    setting = setting_of(plan, system)
    refusal = registry.runtime(plan.runtime).refuse(setting)
    if refusal:
        raise refused(f"--runtime {plan.runtime}", refusal)
    if plan.image and plan.version:
        raise UsageError("--image and --version exclude each other", hint="the image decides the version")
    if plan.schedule:
        plan = msgspec.structs.replace(plan, nemesis=_given_nemesis(plan, setting))
    elif not plan.nemesis.strip():
        raise UsageError(
            "the plan names no faults", hint=f"give --nemesis with any of: {', '.join([*registry.faults(), ALL, NONE])}"
        )
    out_of_reach = NEED_A_CUT
    if plan.nemesis != NONE:
        faults = registry.faults()
        asked = parse_nemesis(plan.nemesis, faults, setting)
        for spec in asked.specs:
            duration_of(spec, faults[spec.fault])
            # What a mixture happens to draw is no promise that a guarantee is put to the test.
            named = spec.fault in asked.named
            if named and may_cut_off_leader(spec, faults[spec.fault], members, system.subjects[0]):
                out_of_reach = frozenset()
    known = {g.name for g in system.guarantees}
    for name in plan.require:
        if name not in known:
            raise UsageError(f"unknown guarantee {name!r}", hint=f"{plan.system} has: {', '.join(sorted(known))}")
    # A workload asks only for what somebody stands behind (what is merely measured may have no verdict at all), and
    # which the faults can put to the test.
    stated = {g.name for g in system.guarantees if g.standing is not Standing.MEASURED}
    demanded = (name for name in workload.requires(options) if name in stated and name not in out_of_reach)
    if plan.nemesis != NONE:
        _refuse_changes(plan, system, plan.version or system.default_version, {})
    watch_ns = system.leadership(plan.system_options).watch_ns
    return msgspec.structs.replace(
        plan,
        phases=msgspec.structs.replace(plan.phases, watch=plan.phases.watch or format_duration(watch_ns)),
        version=plan.version if plan.version or plan.image else system.default_version,
        workload_options=options,
        require=tuple(dict.fromkeys((*plan.require, *demanded))),
    )


def execute(
    plan: Plan,
    results: Path,
    *,
    progress: Progress,
    stop: StopRequest,
    spark: SparkHandle | None,
) -> Result:
    """Carry out one checked plan; `spark` is a handle not yet started, shared by several runs.

    Raises:
        MachineError, UsageError: found before the cluster started.
        HarnessError: the cluster did not start or the harness failed before there was anything to judge.
        StoppedTwice: by hand.
    """
    provider = registry.runtime(plan.runtime)
    system = registry.system(plan.system)
    setting = setting_of(plan, system)
    named = _named_faults(plan, setting)
    setting = provider.refuse_if_impossible(setting, named)
    _refuse_unavailable(named, setting)
    prospect = look_ahead(plan, setting)
    artifacts = provider.resolve(system, plan.version, setting, _say(progress))
    others = _others(plan, system, setting, prospect, artifacts, _say(progress))
    for one in (artifacts, *others.values()):
        _refuse_settings(system, one, plan.settings)
    folder = store.make_run_folder(results, plan.slug)
    write_plan(_with_own_schedule(plan, folder), folder / store.PLAN)
    run_facts = {
        "format": 1,
        "system": plan.system,
        "system_version": artifacts.version,
        "seed": plan.seed,
        "started_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "artifacts": msgspec.to_builtins(artifacts),
        # What `auto` came to on this machine.
        "links": setting.links.value,
        "nemesis": prospect.document(keep_quorum=plan.quorum == "keep"),
        "machine": store.machine_facts(),
    }
    if others:
        # What faults start nodes as, by the version that the plan names.
        run_facts["other_artifacts"] = msgspec.to_builtins(others)
    if plan.settings:
        run_facts["settings"] = {"asked": plan.settings}
    store.write_json(folder / store.RUN, run_facts)
    progress({"topic": "folder", "folder": str(folder)})
    for line in prospect.in_words(keep_quorum=plan.quorum == "keep"):
        progress({"topic": "preparing", "text": line})
    left: list[str] = []
    try:
        outcome = _Runner(folder, plan, progress, stop, spark).run()
    finally:
        # Whatever ended the runner: nothing of it may stay, and what stays is named.
        left += provider.sweep(folder)
        for what in left:
            progress({"topic": "warning", "text": what})
    stop.check()
    result = conclude_run(folder, outcome, progress=progress, stop=stop, spark=spark)
    return replace(result, warnings=(*left, *result.warnings))


def _given_entries(plan: Plan, setting: Setting) -> "list[Entry]":
    from fencepost.harness.faults.schedule import given_entries

    limit_ns = plan.duration_ns("time_limit")
    return given_entries(Path(plan.schedule), registry.faults(), setting, time_limit_ns=limit_ns)


def _given_nemesis(plan: Plan, setting: Setting) -> str:
    """What the plan's schedule holds, in words; a plan that says otherwise is refused."""
    from fencepost.harness.faults.schedule import nemesis_of

    entries = _given_entries(plan, setting)
    if not entries:
        raise UsageError(
            f"{plan.schedule} holds no fault that was injected", hint="--nemesis none runs without faults on purpose"
        )
    words = nemesis_of(entries)
    if plan.nemesis not in ("", words):
        raise UsageError(
            f"the plan says nemesis {plan.nemesis!r}, and its schedule {plan.schedule} holds {words!r}",
            hint="leave `nemesis` out where a schedule is given",
        )
    return words


def _with_own_schedule(plan: Plan, folder: Path) -> Plan:
    """A run's folder holds the schedule that its plan names, so that it can be moved and run again."""
    if not plan.schedule:
        return plan
    shutil.copyfile(plan.schedule, folder / store.GIVEN)
    return msgspec.structs.replace(plan, schedule=store.GIVEN)


def _named_faults(plan: Plan, setting: Setting) -> set[str]:
    """The kinds that the plan asks for by name: a run without one of them would not be what was asked for."""
    from fencepost.harness.faults.kind import parse_nemesis

    return set(parse_nemesis(plan.nemesis, registry.faults(), setting).named)


def look_ahead(plan: Plan, setting: Setting) -> "Prospect":
    """What the plan's faults come to in this setting; kinds of a mixture that this machine cannot do are left out."""
    from fencepost.harness.faults.forecast import Surroundings
    from fencepost.harness.faults.forecast import look_ahead as work_out

    system, faults = registry.system(plan.system), registry.faults()
    members = members_of(plan, system)

    def can(kind: str) -> str | None:
        why = faults[kind].unavailable(setting)
        if why is None:
            try:
                registry.runtime(plan.runtime).refuse_if_impossible(setting, {kind})
            except MachineError as error:
                why = error.message
        return why

    around = Surroundings(
        setting=setting,
        members=members,
        subject=system.subjects[0],
        bound=system.leadership({**system.options(), **plan.system_options}, plan.version),
        seed=plan.seed,
        time_limit_ns=plan.duration_ns("time_limit"),
        quiet_ns=plan.duration_ns("quiet"),
    )
    given = _given_entries(plan, setting) if plan.schedule else None
    return work_out(plan.nemesis, faults, around, can=can, given=given)


def _refuse_unavailable(kinds: set[str], setting: Setting) -> None:
    faults = registry.faults()
    for kind in sorted(kinds):
        why = faults[kind].unavailable(setting)
        if why:
            raise MachineError(f"this machine cannot do {kind}: {why}", hint="fencepost doctor says what is missing")


def _others(
    plan: Plan, system: System, setting: Setting, prospect: "Prospect", first: Artifacts, say: Callable[[str], None]
) -> dict[str, Artifacts]:
    """What the other releases run from that the plan's faults start nodes as, had before any server runs."""
    from fencepost.harness.faults.kind import versions_needed

    specs = prospect.asked.specs
    provider, faults = registry.runtime(plan.runtime), registry.faults()
    found = {word: provider.resolve(system, word, setting, say) for word in versions_needed(specs, faults)}
    names = {first.version: first.version, **{word: others.version for word, others in found.items()}}
    _refuse_changes(plan, system, first.version, names)
    return found


def _refuse_changes(plan: Plan, system: System, start: str, names: Mapping[str, str]) -> None:
    """Raise UsageError for changes of release that cannot be; `names` are the releases by the words of the plan."""
    from fencepost.harness.faults.kind import parse_nemesis, versions_needed

    faults = registry.faults()
    specs = parse_nemesis(plan.nemesis, faults, setting_of(plan, system)).specs
    for spec in specs:
        for word in versions_needed([spec], faults):
            if not isinstance(system, TellsVersion):
                raise refused(spec.text, f"servers of {system.name} do not say which release they are; leave out to=")
            to = names.get(word, word)
            if to == start:
                raise refused(spec.text, f"the nodes begin as {start}; leave out to=")
            # A roll may begin where an earlier one of another kind ended.
            back = spec.options.get("back") == "yes"
            for begun in dict.fromkeys((start, *names.values())):
                why = system.refuse_change(begun, to, back=back, options=plan.system_options, settings=plan.settings)
                if why and begun != to:
                    raise refused(spec.text, why)


def _refuse_settings(system: System, artifacts: Artifacts, settings: Settings) -> None:
    """What these servers themselves do not know, as far as they can be asked before they run."""
    why = system.refuse_settings(artifacts, settings) if isinstance(system, TakesSettings) else None
    if why:
        raise refused("--set", why)


def _say(progress: Progress) -> Callable[[str], None]:
    return lambda text: progress({"topic": "preparing", "text": text})


@dataclass(slots=True)
class _Outcome:
    finished: bool = False
    #: The history is complete; what fails from here on costs it nothing.
    recorded: bool = False
    error: FencepostError | None = None


class _Runner:
    """The child process: started, listened to, stopped in time."""

    def __init__(
        self, folder: Path, plan: Plan, progress: Progress, stop: StopRequest, spark: SparkHandle | None
    ) -> None:
        self.folder, self.plan, self.progress, self.stop, self.spark = folder, plan, progress, stop, spark
        self.outcome = _Outcome()
        self.timers: list[threading.Timer] = []

    def run(self) -> _Outcome:
        with (self.folder / store.RUNNER_LOG).open("ab") as log:
            self.child = subprocess.Popen(
                [sys.executable, "-m", "fencepost.harness.runner", str(self.folder), *self._manner()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=source_tree(),
                # In a session of its own, so that Ctrl-C reaches it once and through us.
                start_new_session=True,
                env={**os.environ, PARENT_VARIABLE: str(os.getpid())},
                text=True,
            )
        try:
            with self.stop.on_request(self._stop):
                if self.stop.asked:
                    self._stop()
                assert self.child.stdout is not None
                for line in self.child.stdout:
                    self._hear(line)
                self.child.wait()
        finally:
            for timer in self.timers:
                timer.cancel()
            if self.child.poll() is None:
                self.child.kill()
                self.child.wait()
        if not self.outcome.finished and self.outcome.error is None and not self.stop.asked:
            self.outcome.error = HarnessError(
                f"the runner ended with status {self.child.returncode} before the run was over",
                hint=f"its log is {self.folder / store.RUNNER_LOG}",
            )
        return self.outcome

    def _manner(self) -> list[str]:
        return [] if registry.runtime(self.plan.runtime).in_namespaces else ["--plain"]

    def _hear(self, line: str) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return
        topic = message.get("topic")
        if topic == "done":
            self.outcome.finished = True
        elif topic == "recorded":
            self.outcome.recorded = True
        elif topic == "error":
            kind = {254: MachineError}.get(message["exit_code"], HarnessError)
            self.outcome.error = kind(message["message"], hint=message["hint"])
        elif topic == "phase" and message["phase"] == "heal" and self.spark is not None:
            # Not during faults: a starting JVM costs the load generator milliseconds.
            with contextlib.suppress(FencepostError):
                self.spark.boot()
        self.progress(message)

    def _stop(self) -> None:
        if self.stop.insisted:
            self._end()
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.child.pid, signal.SIGTERM)
        self._after(STOP_GRACE_S, self._end)

    def _end(self) -> None:
        # The runner's death takes servers, rules, mounts and namespaces with it.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.child.pid, signal.SIGKILL)

    def _after(self, delay_s: float, action: Callable[[], None]) -> None:
        timer = threading.Timer(delay_s, action)
        timer.daemon = True
        timer.start()
        self.timers.append(timer)


def conclude_run(
    folder: Path, outcome: _Outcome, *, progress: Progress, stop: StopRequest, spark: SparkHandle | None
) -> Result:
    """Seal the history, judge it, analyse it, write the report; raises the runner's error when there is no history."""
    from fencepost.harness.results.reader import seal

    progress({"topic": "phase", "phase": "judge", "left_s": None})
    if not (folder / store.HISTORY_LINES).exists() and not (folder / store.HISTORY).exists():
        if stop.asked and outcome.error is None:
            raise HarnessError(
                "stopped before there was anything to judge", hint="the cluster had not been started yet"
            )
        raise outcome.error or HarnessError("the runner left no history", hint=f"look into {folder}")
    if outcome.error is not None and not _has_operations(folder):
        raise outcome.error
    warnings = [f"the run ended early: {outcome.error.message}"] if outcome.error else []
    if outcome.error is not None and not outcome.recorded:
        warnings += _keep_failure(folder, outcome.error)
    try:
        seal(folder)
    except OSError as error:
        # No room for the columnar copy: the lines are the history too, and are judged as they are.
        warnings.append(f"the history stays in {store.HISTORY_LINES}: {error.strerror}")
    warnings += _keep_logs(folder)
    with stop.on_request(lambda: _hurry(stop, spark)):
        # Sealing is not broken off; an order that came meanwhile counts here.
        stop.check()
        late = None if stop.asked else spark
        result = judge_and_report(folder, progress=progress, spark=late, stopped=stop.asked)
    # What a handler raises is lost in a callback of the interpreter's own.
    stop.check()
    _drop_data(folder, result.judgement)
    return replace(result, warnings=(*warnings, *result.warnings))


def _keep_failure(folder: Path, error: FencepostError) -> list[str]:
    """Write into `run.json` what ended the runner, so that every later check knows the cause; returns warnings."""
    # The first line alone: what follows are lines of a server's log.
    data = {**store.read_json(folder / store.RUN), "failure": error.message.partition("\n")[0]}
    try:
        store.write_json(folder / store.RUN, data)
    except OSError as full:
        return [f"{store.RUN} does not say why the run ended early: {full.strerror}"]
    return []


def _hurry(stop: StopRequest, spark: SparkHandle | None) -> None:
    """Asked to end while judging: Spark's part is given up, and a person who insists gets nothing more."""
    if spark is not None:
        spark.abandon()
    stop.check()


def judge_stored(folder: Path, *, progress: Progress, spark: SparkHandle | None) -> Result:
    """Judge a stored run anew; raises UsageError when its plan is missing and MalformedHistory as the reader does."""
    if not (folder / store.PLAN).is_file():
        raise UsageError(f"{folder}: no {store.PLAN}", hint="a history is judged by the plan that it was made with")
    if spark is not None:
        with contextlib.suppress(FencepostError):
            spark.boot()
    return judge_and_report(folder, progress=progress, spark=spark)


def judge_and_report(folder: Path, *, progress: Progress, spark: SparkHandle | None, stopped: bool = False) -> Result:
    """Judge a stored history and write verdict, JUnit and report beside it; Spark's part is optional."""
    from fencepost.harness.report.documents.junit import junit_xml
    from fencepost.harness.report.documents.verdict_json import verdict_document
    from fencepost.harness.report.documents.verdict_json import write as write_verdict
    from fencepost.harness.report.facts.case import ReportCase
    from fencepost.harness.report.page.html import render

    history, judgement = judge(folder)
    plan = read_plan(folder / store.PLAN, seed=0)
    case = ReportCase(
        history=history,
        facts=judgement.facts,
        verdicts=judgement.verdicts,
        validity=judgement.validity,
        headline=judgement.headline,
        run=store.read_json(folder / store.RUN),
        command=f"fencepost run {folder / store.PLAN}",
        plan_toml=(folder / store.PLAN).read_text(encoding="utf-8"),
        effect_free=registry.workload(plan.workload).effect_free,
        folder=str(folder),
    )
    # First what a gate reads, so that nothing that happens to the analysis or the report can cost it.
    warnings = _unforeseen(history)
    with _unless_full(folder / store.VERDICT, warnings) as path:
        write_verdict(case, path)
    with _unless_full(folder / store.JUNIT, warnings) as path:
        path.write_text(junit_xml(case), encoding="utf-8")
    analysis, doubts = _analyse(folder, spark, stopped, subject=registry.system(plan.system).subjects[0])
    warnings += doubts
    case = msgspec.structs.replace(case, analysis=analysis)
    rendered = render(case)
    with _unless_full(folder / store.REPORT, warnings) as path:
        path.write_text(rendered.html, encoding="utf-8")
    warnings += [f"the report: {problem}" for problem in rendered.problems]
    progress({"topic": "judged", "validity": judgement.validity.value, "seed": plan.seed})
    return Result(folder=folder, judgement=judgement, warnings=tuple(warnings), document=verdict_document(case))


def _analyse(
    folder: Path, spark: SparkHandle | None, stopped: bool, *, subject: str
) -> tuple[dict[str, Any] | None, list[str]]:
    """Spark's results as plain data. Its failure costs the report a section, never the verdict."""
    if spark is None:
        return None, ["not analysed by Spark: the run was stopped"] if stopped else []
    if not (folder / store.HISTORY).exists():
        return None, [f"not analysed by Spark: there is no {store.HISTORY}"]
    try:
        from fencepost.harness.warehouse.pipeline import analyse

        session = spark.session(timeout_s=_SPARK_DEADLINE_S)
        found = analyse(session, str(folder / store.HISTORY), subject=subject)
    except Exception as error:
        return None, [f"not analysed by Spark: {type(error).__name__}: {str(error)[:300]}"]
    return msgspec.to_builtins(found), []


@contextlib.contextmanager
def _unless_full(path: Path, warnings: list[str]) -> Iterator[Path]:
    """A file that cannot be written costs itself and is told; the verdict is said and exits as it must."""
    try:
        yield path
    except StoppedTwice:
        path.unlink(missing_ok=True)
        raise
    except OSError as error:
        path.unlink(missing_ok=True)
        warnings.append(f"{path.name} could not be written: {error.strerror}")


def _unforeseen(history: History) -> list[str]:
    """Exceptions of clients that no table foresaw: `info`, sound, and a defect of the client to mend."""
    prefix = "unforeseen: "
    found = Counter(
        operation.error.removeprefix(prefix).partition(":")[0]
        for operation in history.operations
        if operation.error is not None and operation.error.startswith(prefix)
    )
    return [f"{count} operations ended by an exception that no client foresaw: {name}" for name, count in found.items()]


def _has_operations(folder: Path) -> bool:
    lines = folder / store.HISTORY_LINES
    if not lines.exists():
        return True
    with lines.open("rb") as file:
        return any(b'"kind":"op"' in line for line in file)


def _keep_logs(folder: Path) -> list[str]:
    """What the disks say, out of the kept data while it is there; what cannot be read is told."""
    from fencepost.harness.results.voter_logs import keep_logs

    read = registry.log_reader(read_plan(folder / store.PLAN, seed=0).system)
    return [] if read is None else keep_logs(folder, read)


def _drop_data(folder: Path, judgement: Judgement) -> None:
    """Node data stays when the verdict is invalid or the plan says so; else it is only in the way."""
    plan = read_plan(folder / store.PLAN, seed=0)
    if plan.keep_data or judgement.validity is Validity.INVALID:
        return
    for archive in (folder / store.NODES).glob("*/data.tar.gz"):
        archive.unlink()
    for data in (folder / store.NODES).glob("*/data"):
        shutil.rmtree(data, ignore_errors=True)
