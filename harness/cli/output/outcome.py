"""What a run prints first and last: its plan and seed, the command that repeats it, the verdict, the files.

Several runs of one plan by one command have one JUnit file of all of them, whose cases have names of their own: each
run keeps its own `junit.xml`, but a CI server that reads ten of them takes equal names for one case that was retried.

The runs of one command share signals and progress; both are given back at the end.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from fencepost.harness.base import offers
from fencepost.harness.base.errors import ExitCode, FencepostError, command_line, gravest
from fencepost.harness.base.options import plain
from fencepost.harness.base.signals import StopRequest
from fencepost.harness.cli.output.help import print_document
from fencepost.harness.cli.output.progress import Progress, shorten
from fencepost.harness.cli.output.verdict_text import say_judgement
from fencepost.harness.contract import server_settings as settings
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import CheckedPlan, usual_time_limit
from fencepost.harness.report.junit import JUnitCase, JUnitSuite, NotPassed, junit_xml, read_suite
from fencepost.harness.results import run_folder as store
from fencepost.harness.run.conclude import Result
from fencepost.harness.run.execute import execute
from fencepost.harness.verdict import Validity

if TYPE_CHECKING:
    from fencepost.harness.history import History


def exit_code_of(results: Sequence[Result], *, planned: int | None = None) -> int:
    """The exit code of several runs: at best unknown where there was none, or fewer than planned."""
    codes = [result.judgement.exit_code for result in results]
    if planned is not None and len(results) < planned:
        codes.append(ExitCode.UNKNOWN)
    return int(gravest(codes))


def say_first(checked: CheckedPlan, number: int, times: int) -> None:
    """On stderr, before anything starts."""
    plan = checked.plan
    which = f" (run {number + 1} of {times})" if times > 1 else ""
    # An image decides the version: the plan has none then.
    server = f"{plan.system} {plan.image or plan.version}"
    _err(f"{server} | {plan.workload} | {plan.nemesis} | {plan.nodes} nodes | {plan.runtime}{which}")
    _err(f"seed {plan.seed}; repeat with: {repeat_command(checked)}")
    for problem in offers.offered().problems:
        if problem.name in (plan.system, plan.workload):
            _err(f"warning: {problem.text}")
    notice = checked.workload.notice(checked.options)
    if notice:
        _err(f"note: {notice}")


def repeat_command(checked: CheckedPlan) -> str:
    """The flags that give this plan again; settings that have no flag of their own stand in -o and -O."""
    plan = checked.plan
    arguments = ["--system", plan.system, "--workload", plan.workload]
    arguments += ["--schedule", shorten(plan.schedule)] if plan.schedule else ["--nemesis", plan.nemesis]
    usual = usual_time_limit(checked.request)
    defaults = Plan(system="", workload="", seed=0, version=checked.system.releases.default, time_limit=usual)
    for field in ("quorum", "runtime", "image", "nodes", "time_limit", "quiet", "op_timeout", "deadline", "version"):
        value = getattr(plan, field)
        if value and value != getattr(defaults, field):
            arguments += [f"--{field.replace('_', '-')}", str(value)]
    watch_ns = checked.leadership().watch_ns
    arguments += ["--watch", plan.phases.watch] * (plan.duration_ns("watch") != watch_ns)
    repeated = {
        "--plugin": map(shorten, plan.plugins),
        "--require": plan.require,
        "-o": _as_arguments(_changed_options(checked)),
        "-O": _as_arguments(_changed_system_options(checked)),
        "--set": settings.as_arguments(plan.settings),
    }
    arguments += ["--limited-data"] * plan.limited_data
    arguments += [word for flag, values in repeated.items() for value in values for word in (flag, value)]
    return command_line("run", *arguments, "--seed", plan.seed)


def _as_arguments(options: Mapping[str, object]) -> list[str]:
    return [f"{name}={value}" for name, value in options.items()]


def _changed_options(checked: CheckedPlan) -> dict[str, object]:
    return _changed(plain(checked.options), plain(checked.workload.defaults(checked.system)))


def _changed_system_options(checked: CheckedPlan) -> dict[str, object]:
    wanted = checked.workload.system_options(checked.system)
    return _changed(plain(checked.system_options), plain(checked.system.profile.parse_options(wanted)))


def _changed(options: Mapping[str, object], defaults: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in options.items() if defaults.get(name) != value}


def say_last(seed: int, result: Result, *, as_json: bool) -> None:
    """The verdict on stdout; where to look and how to repeat it on stderr."""
    if as_json:
        print_document(result.document)
    else:
        say_judgement(result.judgement, _history(result), shorten(str(result.folder)))
    for warning in result.warnings:
        _err(f"warning: {warning}")
    _err(f"report: {shorten(str(result.folder / store.REPORT))}")
    _err(f"seed {seed}; repeat with: {command_line('run', shorten(str(result.folder / store.PLAN)))}")
    sys.stdout.flush()


def _history(result: Result) -> "History | None":
    """What was recorded, read again where there is something to draw."""
    if result.judgement.validity is not Validity.INVALID:
        return None
    from fencepost.harness.results.reader import read_history

    try:
        return read_history(result.folder)
    except FencepostError:
        return None


def say_times(results: Sequence[Result], made: "Sequence[MadeRun]") -> None:
    """After several runs: how often each verdict came out, of which seeds, and the JUnit file of all of them."""
    seeds: dict[str, list[int]] = {}
    judged = iter(results)
    for run in made:
        ended = "failed" if run.begun else "not begun"
        outcome = ended if run.failure else next(judged).judgement.validity.value
        seeds.setdefault(outcome, []).append(run.seed)
    counts = []
    for outcome, of in sorted(seeds.items()):
        which = "" if outcome == Validity.VALID else f" (seeds {', '.join(map(str, of))})"
        counts.append(f"{len(of)} of {len(made)} {outcome}{which}")
    click.echo(f"{len(made)} runs: {', '.join(counts)}")
    path = junit_path(made)
    if path is not None:
        try:
            path.write_text(junit_of(made), encoding="utf-8")
        except OSError as error:
            _err(f"warning: {path.name} could not be written: {error.strerror}")
        else:
            _err(f"JUnit of all runs: {shorten(str(path))}")


def _err(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


class MadeRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run: its seed, and its folder; or, where there was nothing to judge, why.

    `begun` is False for a run that the command never came to, since it was stopped before.
    """

    seed: int
    folder: Path | None = None
    failure: str | None = None
    begun: bool = True


def junit_path(runs: Sequence[MadeRun]) -> Path | None:
    """Where the file of all runs goes: beside the folder of the first; None when no run has one."""
    folder = next((run.folder for run in runs if run.folder is not None), None)
    return None if folder is None else folder.parent / f"junit-{folder.name}.xml"


def junit_of(runs: Sequence[MadeRun]) -> str:
    """The suites of all runs as one document; a run without a readable one is an error of its own."""
    suites = []
    for run in runs:
        suite = (None if run.folder is None else read_suite(run.folder / store.JUNIT)) or _failed(run).element()
        suite.set("name", f"{suite.get('name', 'fencepost')} seed {run.seed}")
        for case in suite.iter("testcase"):
            case.set("classname", f"{case.get('classname', 'fencepost')}.seed-{run.seed}")
        suites.append(suite)
    return junit_xml(suites)


def _failed(run: MadeRun) -> JUnitSuite:
    why = run.failure or f"the run left no readable {store.JUNIT}"
    case = JUnitCase(classname="fencepost", name="the run", ended=NotPassed.ERROR, message=why, kind="failed")
    return JUnitSuite(name="fencepost", cases=(case,))


class CommandSession:
    """Entered by a command that makes or judges runs."""

    progress: Progress
    stop: StopRequest

    def __enter__(self) -> "CommandSession":
        self.progress = Progress()
        self.stop = StopRequest()
        self.stop.install()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.close()
        self.stop.uninstall()
        # Also when it came after the verdict was said: who insists has one exit code.
        self.stop.check()

    def execute(self, checked: CheckedPlan, results: Path) -> Result:
        """Carry out one plan; raises as `harness.run.execute`."""
        try:
            return execute(checked, results, progress=self.progress, stop=self.stop)
        finally:
            self.progress.close()
