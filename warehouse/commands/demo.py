"""`fencepost demo`: etcd and ZooKeeper under the same attack, and what each did.

In both clusters the leader is paused until another one leads, and then woken. etcd's old leader may believe for a
moment that it still leads, but gives only current answers. ZooKeeper's old leader answers `sync` and reads from its
superseded epoch (ZOOKEEPER-1675): recipes rely on this not happening, and the manual does not promise it. Then Spark
derives the facts of both histories again and makes an index of both runs.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from fencepost.harness.base.errors import ExitCode, command_line
from fencepost.harness.cli.output.help import Documented, HelpExample, seed_or_drawn, shared_flags
from fencepost.harness.cli.output.outcome import CommandSession, say_first
from fencepost.harness.cli.output.progress import shorten
from fencepost.harness.cli.output.verdict_text import wrapped
from fencepost.harness.plan import Plan
from fencepost.harness.plan.checked_plan import CheckedPlan, check_plan
from fencepost.harness.results import run_folder as store
from fencepost.harness.run.conclude import Result
from fencepost.harness.verdict import Validity
from fencepost.harness.verdict.by_guarantee import by_guarantee, opening, times
from fencepost.harness.verdict.figures import ASKED, CLAIMED_COUNT, CLAIMED_RUNNING, STALE_ANSWERS
from fencepost.warehouse.commands.warehouse import episode_lines
from fencepost.warehouse.spark_session import spark_session

_NEMESIS = "pause:leader"
_TIME_LIMIT = "21s"
EXAMPLES = (
    HelpExample("fencepost demo", "In the lab: network namespaces on this machine, no root"),
    HelpExample("fencepost demo --runtime containers", "In containers of Docker or Podman"),
    HelpExample("fencepost demo --seed 7 --results /tmp/results", "With the same random choices every time"),
)
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


def demonstrate(session: CommandSession, results: Path, seed: int, runtime: str = "lab") -> int:
    """Run both, judge both again through Spark, and print a summary.

    Returns:
        0 when etcd was valid and the ZooKeeper finding showed, 1 when etcd was invalid, 2 when the finding did not
        show, 255 when the index lacks it.
    """
    began = time.monotonic()
    first, last = demo_plans(seed, runtime)
    say_first(first, 0, 1)
    etcd = session.execute(first, results)
    say_first(last, 0, 1)
    zookeeper = session.execute(last, results)
    index = results / "index.html"
    episodes = _pipeline(session, [etcd, zookeeper], index)
    click.echo("")
    for name, result in (("etcd", etcd), ("ZooKeeper", zookeeper)):
        for line in _summary(name, result):
            click.echo(wrapped(line, hanging=4))
    click.echo("Superseded leaders that went on, as Spark derives them from both histories:")
    for line in (line for row in episodes for line in episode_lines(row)):
        click.echo(wrapped(f"  {line}", hanging=6))
    click.echo(f"  index of both runs: {shorten(str(index.absolute()))}")
    again = command_line("demo", "--seed", seed, *(["--runtime", runtime] if runtime != "lab" else []))
    click.echo(f"Done in {time.monotonic() - began:.0f} s. Repeat it with: {again}")
    return int(_outcome(etcd, zookeeper, episodes))


def _summary(name: str, result: Result) -> Iterator[str]:
    """What happened on one cluster, whom it concerns, what shows it, and where to look."""
    judgement, folder = result.judgement, shorten(str(result.folder))
    guarantees = by_guarantee(judgement.verdicts, judgement.facts)
    first = opening(judgement.validity, judgement.headline, guarantees, judgement.facts, folder)
    yield f"{name}: {judgement.validity.value}. {_sentence(first.headline)}"
    if first.concerns:
        yield f"  {first.concerns}"
    yield f"  {_claims(result)}"
    for step in _witness(result):
        yield f"  - {step}"
    yield f"  Look at: {shorten(str(result.folder / store.REPORT))}"


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _outcome(etcd: Result, zookeeper: Result, episodes: list[dict[str, Any]]) -> ExitCode:
    if etcd.judgement.validity is Validity.INVALID:
        click.echo("A pause must not make etcd invalid, so this may be a new defect of etcd: read its report first.")
        return ExitCode.INVALID
    if zookeeper.judgement.validity is not Validity.INVALID or etcd.judgement.validity is not Validity.VALID:
        click.echo("This run did not show the difference between the two. Run the demo again, with another seed.")
        return ExitCode.UNKNOWN
    if not any(row["system"] == "zookeeper" and row["acted"] for row in episodes):
        click.echo("The index lacks the stale answers that ZooKeeper's run shows. This is a defect of fencepost.")
        return ExitCode.INTERNAL
    return ExitCode.VALID


def _pipeline(session: CommandSession, runs: list[Result], index: Path) -> list[dict[str, Any]]:
    """Judge both runs again through Spark and write the index; return the episodes that it shows."""
    from fencepost.warehouse.adding import build
    from fencepost.warehouse.index import write_index
    from fencepost.warehouse.warehouse import Warehouse

    session.stop.check()
    root = str(index.absolute().with_name("demo-warehouse"))
    with session.stop.on_request(session.stop.check), spark_session("local[*]") as spark:
        build(spark, [run.folder for run in runs], root)
        warehouse = Warehouse(spark, root)
        write_index(warehouse, index)
        return list(warehouse.episodes())


def _claims(result: Result) -> str:
    figures = next((v.figures for v in result.judgement.verdicts if CLAIMED_COUNT in v.figures), None)
    if figures is None or not (claimed := figures[CLAIMED_COUNT].value):
        return "No superseded leader was certainly seen to claim that it still leads."
    awake_ms = figures[CLAIMED_RUNNING].value / 1e6
    return (
        f"Superseded leaders claimed {times(claimed)} that they still lead, for up to {awake_ms:.0f} ms while they "
        f"ran. They were sent {figures[ASKED].value} operations and gave "
        f"{figures[STALE_ANSWERS].value} stale answers."
    )


def _witness(result: Result) -> tuple[str, ...]:
    for verdict in result.judgement.verdicts:
        if verdict.guarantee == FINDING and verdict.witnesses:
            return verdict.witnesses[0].steps
    return ()


@click.command("demo", cls=Documented, examples=EXAMPLES)
@shared_flags("results", "seed", runtime="lab")
def command(results: Path, seed: int | None, runtime: str) -> int:
    """Attack etcd and ZooKeeper alike and compare them.

    The leader of each cluster is paused until another one leads, and then woken. etcd's old leader does no harm,
    ZooKeeper's answers with stale data. It takes about 90 seconds and writes two reports and an index of both.

    Exits 0 when ZooKeeper's stale answers showed and etcd stayed valid, 2 when this run did not show it.
    """
    with CommandSession() as session:
        return demonstrate(session, results, seed_or_drawn(seed), runtime)
