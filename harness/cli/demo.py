"""`fencepost demo`: etcd and ZooKeeper under the same attack, and what each did.

Both clusters have their leader paused until it has been superseded, and woken again. etcd's leader may believe for a
moment that it still leads, but answers nothing that is not current. ZooKeeper's answers `sync` and read from its
superseded epoch (ZOOKEEPER-1675), which recipes rely on not to happen and the manual disclaims. Then Spark derives the
facts of both histories again and makes the index of both runs from them.
"""

import time
from pathlib import Path
from typing import Any

import click
import msgspec

from fencepost.harness.base.errors import ExitCode
from fencepost.harness.cli.flags import seed_or_drawn
from fencepost.harness.cli.output.outcome import report_path, say_first
from fencepost.harness.cli.output.path_value import PathValue
from fencepost.harness.cli.output.progress import shorten
from fencepost.harness.cli.output.session import Session
from fencepost.harness.cli.warehouse import episode_line
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import CheckedPlan, check_plan
from fencepost.harness.run.conclude import Result
from fencepost.harness.verdict import Validity
from fencepost.harness.warehouse.spark_session import SparkHandle

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


def demonstrate(session: Session, spark: SparkHandle, results: Path, seed: int, runtime: str = "lab") -> int:
    """Both runs, the pipeline over both, then a summary.

    0 when etcd was valid and the ZooKeeper finding showed, 2 when it did not, 255 when the pipeline's index lacks it.
    """
    began = time.monotonic()
    first, last = demo_plans(seed, runtime)
    say_first(first, 0, 1)
    etcd = session.execute(first, results)
    say_first(last, 0, 1)
    zookeeper = session.execute(last, results, hear=lambda message: _boot_behind(spark, message))
    index = results / "index.html"
    episodes = _pipeline(session, spark, [etcd, zookeeper], index)
    click.echo("")
    for name, result in (("etcd", etcd), ("ZooKeeper", zookeeper)):
        click.echo(f"{name}: {result.judgement.validity.value} - {result.judgement.headline}")
        click.echo(f"  {_claims(result)}")
        for step in _witness(result):
            click.echo(f"  - {step}")
        click.echo(f"  report: {report_path(result)}")
    click.echo("Spark, over both histories: superseded leaders that went on")
    for row in episodes:
        click.echo(f"  {episode_line(row)}")
    click.echo(f"  index: {shorten(str(index.absolute()))}")
    again = f"fencepost demo --seed {seed}" + (f" --runtime {runtime}" if runtime != "lab" else "")
    click.echo(f"{time.monotonic() - began:.0f} s; seed {seed}; again with: {again}")
    return int(_outcome(etcd, zookeeper, episodes))


def _outcome(etcd: Result, zookeeper: Result, episodes: list[dict[str, Any]]) -> ExitCode:
    if etcd.judgement.validity is Validity.INVALID:
        click.echo("etcd was not expected to be invalid under a pause: this is a finding, look at its report")
        return ExitCode.INVALID
    if zookeeper.judgement.validity is not Validity.INVALID or etcd.judgement.validity is not Validity.VALID:
        click.echo("not reproduced in this run")
        return ExitCode.UNKNOWN
    if not any(row["system"] == "zookeeper" and row["acted"] for row in episodes):
        click.echo("the index lacks ZooKeeper's stale answers, which its run shows: this is a defect of fencepost")
        return ExitCode.INTERNAL
    return ExitCode.VALID


def _boot_behind(spark: SparkHandle, message: dict[str, Any]) -> None:
    """Start Spark when the main phase is over: during faults a starting JVM costs the load generator milliseconds."""
    if message.get("topic") == "phase" and message["phase"] == "heal":
        spark.boot()


def _pipeline(session: Session, spark: SparkHandle, runs: list[Result], index: Path) -> list[dict[str, Any]]:
    """Judge both runs again through Spark and write the index; the episodes that it shows."""
    from fencepost.harness.warehouse.build import build
    from fencepost.harness.warehouse.index import write_index

    with session.stop.on_request(spark.abandon):
        session.stop.check()
        warehouse = build(spark.session(), [run.folder for run in runs], index.absolute().with_name("demo-warehouse"))
        write_index(warehouse, index)
        return list(warehouse.episodes())


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
    with Session() as session, SparkHandle("local[*]") as spark:
        return demonstrate(session, spark, results, seed_or_drawn(seed), runtime)
