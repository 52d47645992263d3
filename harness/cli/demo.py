"""`fencepost demo`: etcd and ZooKeeper under the same attack, and what each did.

Both clusters have their leader paused until it has been superseded, and woken again. etcd's leader may believe for a
moment that it still leads, but answers nothing that is not current. ZooKeeper's answers `sync` and read from its
superseded epoch (ZOOKEEPER-1675), which recipes rely on not to happen and the manual disclaims.
"""

import time
from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from fencepost.harness.base.errors import ExitCode
from fencepost.harness.cli.flags import seed_or_drawn
from fencepost.harness.cli.output.outcome import report_path, say_first
from fencepost.harness.cli.output.path_value import PathValue
from fencepost.harness.cli.output.session import Session
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import CheckedPlan, check_plan
from fencepost.harness.run.conclude import Result
from fencepost.harness.verdict import Validity

_NEMESIS = "pause:leader"
_TIME_LIMIT = "24s"
FINDING = "fresh-after-sync"


def demo_plans(seed: int, runtime: str = "lab") -> tuple[CheckedPlan, CheckedPlan]:
    """The etcd and the ZooKeeper plan of the demo."""
    etcd = Plan(
        system="etcd",
        workload="register",
        runtime=runtime,
        nemesis=_NEMESIS,
        time_limit=_TIME_LIMIT,
        quiet="3s",
        seed=seed,
    )
    zookeeper = msgspec.structs.replace(
        etcd, system="zookeeper", require=(FINDING,), workload_options={"reads": "sync"}
    )
    return check_plan(etcd), check_plan(zookeeper)


def demonstrate(execute: Callable[[CheckedPlan, Path], Result], results: Path, seed: int, runtime: str = "lab") -> int:
    """Both runs, then a summary; 0 when etcd was valid and the ZooKeeper finding showed, 2 when it did not."""
    began = time.monotonic()
    found = []
    for plan in demo_plans(seed, runtime):
        say_first(plan, 0, 1)
        found.append(execute(plan, results))
    etcd, zookeeper = found
    shown = zookeeper.judgement.validity is Validity.INVALID
    click.echo("")
    click.echo(f"etcd: {etcd.judgement.validity.value} - {etcd.judgement.headline}")
    click.echo(f"  {_claims(etcd)}")
    click.echo(f"  report: {report_path(etcd)}")
    click.echo(f"ZooKeeper: {zookeeper.judgement.validity.value} - {zookeeper.judgement.headline}")
    click.echo(f"  {_claims(zookeeper)}")
    for step in _witness(zookeeper):
        click.echo(f"  - {step}")
    click.echo(f"  report: {report_path(zookeeper)}")
    again = f"fencepost demo --seed {seed}" + (f" --runtime {runtime}" if runtime != "lab" else "")
    click.echo(f"{time.monotonic() - began:.0f} s; seed {seed}; again with: {again}")
    if etcd.judgement.validity is Validity.INVALID:
        click.echo("etcd was not expected to be invalid under a pause: this is a finding, look at its report")
        return int(ExitCode.INVALID)
    if not shown or etcd.judgement.validity is not Validity.VALID:
        click.echo("not reproduced in this run")
        return int(ExitCode.UNKNOWN)
    return int(ExitCode.VALID)


def _claims(result: Result) -> str:
    figures = next((v.figures for v in result.judgement.verdicts if "claimed_count" in v.figures), {})
    claimed = figures.get("claimed_count", 0)
    if not claimed:
        return "no deposed leader was certainly seen to claim that it still leads"
    awake_ms = figures.get("claimed_running_ns_max", 0) / 1e6
    return (
        f"deposed leaders claimed to lead {claimed} time{'s' * (claimed != 1)}, for up to {awake_ms:.0f} ms awake; "
        f"of {figures.get('asked_of_superseded_leader', 0)} operations asked of them "
        f"{figures.get('stale_answers', 0)} got a stale answer"
    )


def _witness(result: Result) -> tuple[str, ...]:
    for verdict in result.judgement.verdicts:
        if verdict.guarantee == FINDING and verdict.witnesses:
            return verdict.witnesses[0].steps
    return ()


@click.command("demo")
@click.option("--results", type=PathValue(), default=Path("results"), help="Where runs are kept.")
@click.option("--seed", type=int, default=None, help="Drawn when it is not given.")
@click.option("--runtime", default="lab", help="Where the nodes live: lab, containers.")
def command(results: Path, seed: int | None, runtime: str) -> int:
    """Two real clusters attacked in the same way: etcd does no harm, ZooKeeper's woken leader answers stale."""
    with Session() as session:
        return demonstrate(session.execute, results, seed_or_drawn(seed), runtime)
