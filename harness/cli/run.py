"""`fencepost run`: a plan, once or several times."""

from pathlib import Path
from typing import Any

import click

from fencepost.harness.base.errors import HarnessError, PlanError, UsageError
from fencepost.harness.campaigns.times.junit import Made
from fencepost.harness.cli.output.outcome import exit_code_of, say_first, say_last, say_times
from fencepost.harness.cli.output.path_value import PathValue
from fencepost.harness.cli.output.session import Session
from fencepost.harness.cli.plan_flags import plan_flags, plan_of
from fencepost.harness.plan.checked_plan import check_plan
from fencepost.harness.run.conclude import Result
from fencepost.harness.run.execute import refuse_too_short


@click.command("run")
@click.argument("plan_file", required=False, type=PathValue())
@plan_flags
@click.option("--results", type=PathValue(), default=Path("results"), help="Where runs are kept.")
@click.option("--json", "as_json", is_flag=True, help="Print verdict.json on stdout instead of words.")
@click.option("--times", type=click.IntRange(1), default=1, help="Run so many times, with seed, seed + 1, ...")
def command(plan_file: Path | None, results: Path, as_json: bool, times: int, **flags: Any) -> int:
    """Run a plan against a real cluster and judge it.

    \b
    fencepost run --system etcd --workload register --nemesis partition:leader,kill --time-limit 30s --seed 7
    fencepost run plan.toml
    """

    try:
        checked = check_plan(plan_of(plan_file, flags))
    except PlanError:
        raise
    except UsageError as error:
        raise UsageError(f"{plan_file}: {error.message}" if plan_file else error.message, hint=error.hint) from None
    plan = checked.plan
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
                    break
        finally:
            if times > 1:
                say_times(judged, made)
    return exit_code_of(judged)
