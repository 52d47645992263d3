"""`fencepost run`: a plan, once or several times."""

from pathlib import Path
from typing import Any

import click

from fencepost.harness.base.errors import HarnessError, PlanError, UsageError
from fencepost.harness.cli.output.help import Documented, Example, PathValue
from fencepost.harness.cli.output.outcome import exit_code_of, say_first, say_last, say_times
from fencepost.harness.cli.output.session import Session
from fencepost.harness.cli.plan_flags import RUN_GROUPS, plan_flags, plan_of
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.harness.report.documents.runs_junit import Made
from fencepost.harness.results.schedule_rows import refuse_torn
from fencepost.harness.run.conclude import Result
from fencepost.harness.run.execute import refuse_too_short

EXAMPLES = (
    Example(
        "fencepost run --system etcd --workload register --nemesis partition:leader,kill --time-limit 40s",
        "Cut off the leader and kill nodes, in turns, for 40 seconds",
    ),
    Example(
        "fencepost run --system zookeeper --workload lock --nemesis all --time-limit 120s --seed 7",
        "A mixture of every fault that is possible here, the same one every time",
    ),
    Example(
        "fencepost run --system example --workload register --nemesis partition:leader -O defect=stale-reads",
        "A planted defect: this run must be invalid",
    ),
)


@click.command("run", cls=Documented, examples=EXAMPLES, groups=RUN_GROUPS)
@click.argument("plan_file", required=False, type=PathValue())
@plan_flags
@click.option(
    "--times",
    type=click.IntRange(1),
    default=1,
    metavar="NUMBER",
    help="Number of runs, with seed, seed + 1, ... Default 1.",
)
@click.option("--results", type=PathValue(), default=Path("results"), help="Folder for the runs. Default: results.")
@click.option("--json", "as_json", is_flag=True, help="Print verdict.json on standard output instead of text.")
def command(plan_file: Path | None, results: Path, as_json: bool, times: int, **flags: Any) -> int:
    """Run a plan against a real cluster and judge it.

    The plan is PLAN_FILE (every run writes its plan.toml), or the flags, or both: a flag wins over the file. A new
    plan needs --system, --workload and --nemesis. Durations have units: 500ms, 30s, 2m.

    Exits 0 valid, 1 invalid, 2 unknown, 130 stopped twice by hand, 254 refused before the start, 255 failed.
    """

    try:
        checked = check_plan(plan_of(plan_file, flags))
    except PlanError:
        raise
    except UsageError as error:
        raise UsageError(f"{plan_file}: {error.message}" if plan_file else error.message, hint=error.hint) from None
    plan = checked.plan
    if plan.schedule:
        refuse_torn(Path(plan.schedule))
    refuse_too_short(checked, range(plan.seed, plan.seed + times))
    with Session() as session, session.stop.deadline(plan.deadline):
        judged: list[Result] = []
        made: list[Made] = []
        try:
            for number in range(times):
                one = checked.with_seed(plan.seed + number)
                say_first(one, number, times)
                try:
                    result = session.execute(one, results)
                except HarnessError as error:
                    made.append(Made(seed=one.plan.seed, failure=error.message))
                    raise
                say_last(one.plan.seed, result, as_json=as_json)
                judged.append(result)
                made.append(Made(seed=one.plan.seed, folder=result.folder))
                if session.stop.asked:
                    why = "not begun: the command was stopped before"
                    rest = range(plan.seed + number + 1, plan.seed + times)
                    made += [Made(seed=seed, failure=why, begun=False) for seed in rest]
                    break
        finally:
            if times > 1:
                say_times(judged, made)
    return exit_code_of(judged, planned=times)
