"""`fencepost warehouse`: many stored runs as one set of tables, judged again through Spark, and asked in SQL."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fencepost.harness.base.errors import ExitCode
from fencepost.harness.cli.output.path_value import PathValue
from fencepost.harness.cli.output.progress import shorten

if TYPE_CHECKING:
    from fencepost.harness.warehouse.build import Warehouse

_MASTER = click.option(
    "--spark-master", default="local[*]", show_default=True, help="A Spark master whose executors reach the runs."
)


@click.group("warehouse")
def command() -> None:
    """Judge any number of stored runs again through Spark, and ask all of them together.

    \b
    fencepost warehouse build results
    fencepost warehouse query "select system, version, runs, acted from zombie_episodes_by_version"
    """


@command.command("build")
@click.argument("results", type=PathValue(exists=True, file_okay=False))
@click.option("--out", type=PathValue(), help="Where it is made. Default: RESULTS/warehouse.")
@_MASTER
def build_command(results: Path, out: Path | None, spark_master: str) -> int:
    """Derive facts and verdicts of every run below RESULTS again, and from them what spans runs.

    Prints every episode of a superseded leader that went on, and every verdict that reads otherwise than before, and
    writes the page RESULTS/index.html.
    """
    from fencepost.harness.warehouse.build import build, run_folders
    from fencepost.harness.warehouse.index import write_index
    from fencepost.harness.warehouse.spark_session import SparkHandle

    folders = run_folders(results)
    with SparkHandle(spark_master) as handle:
        target = (out or results / "warehouse").absolute()
        warehouse = build(handle.session(), folders, target)
        write_index(warehouse, results / "index.html")
        say_warehouse(warehouse, len(folders))
        click.echo(f"index: {shorten(str((results / 'index.html').absolute()))}")
    return int(ExitCode.VALID)


@command.command("query")
@click.argument("sql")
@click.option(
    "--warehouse",
    "path",
    type=PathValue(),
    default=Path("results/warehouse"),
    show_default=True,
    help="What `warehouse build` made.",
)
@_MASTER
def query_command(sql: str, path: Path, spark_master: str) -> int:
    """Print the answer to a query over the tables of a warehouse (docs/facts-tables.md names them)."""
    from fencepost.harness.warehouse.query import query

    frame = query(path.absolute(), sql, spark_master=spark_master)
    click.echo(frame.to_string(index=False) if len(frame) else "no rows")
    return int(ExitCode.VALID)


def say_warehouse(warehouse: "Warehouse", runs: int) -> None:
    """What was found: episodes, changed verdicts, runs that could not be judged."""
    _say_all("superseded leaders that went on", (episode_line(row) for row in warehouse.episodes()))
    _say_all("verdicts that changed", (_change_line(row) for row in warehouse.changes()))
    failures = [f"{shorten(row['folder'])}: {row['error']}" for row in warehouse.failures()]
    if failures:
        _say_all("runs that could not be judged", iter(failures))
    click.echo(f"{runs - len(failures)} of {runs} runs judged again; tables in {shorten(str(warehouse.path))}")


def episode_line(row: dict[str, Any]) -> str:
    """One episode in a line: run, node, epoch, what it did, evidence."""
    awake_ms = row["running_ns"] / 1e6
    acts = f"acted {row['acted']} times ({', '.join(row['anomalies'])})" if row["acted"] else "did not act"
    # What it answered when it may have followed its successor already, or refused for another reason.
    rest = row["asked"] - row["served"] - row["fenced"] - row["unknown"]
    claims = f"claimed it {row['claims']} times for {awake_ms:.0f} ms awake" if row["claims"] else "did not claim it"
    return (
        f"{row['system']} {row['version']}: {row['node']}, {row['subject']} of epoch {row['epoch']}, {claims} "
        f"after epoch {row['superseded_by']} had begun; of {row['asked']} operations asked "
        f"{row['served']} were served, {row['fenced']} fenced, {row['unknown']} left unknown, {rest} ended otherwise; "
        f"{acts}; rows {_rows(row['evidence'])} of {shorten(row['folder'])} (run {row['run_id']})"
    )


def _rows(indexes: list[int]) -> str:
    shown = ",".join(str(index) for index in indexes[:8])
    return shown if len(indexes) <= 8 else f"{shown},... ({len(indexes)})"


def _change_line(row: dict[str, Any]) -> str:
    what = row["guarantee"] or "the run"
    before, after = row["before"] or "not judged", row["after"] or "not judged"
    return f"{shorten(row['folder'])}: {what}: {before} before, {after} now"


def _say_all(title: str, lines: Iterator[str]) -> None:
    """A title and its lines as they come; "none" where there are none."""
    some = False
    for line in lines:
        if not some:
            click.echo(f"{title}:")
        some = True
        click.echo(f"  {line}")
    if not some:
        click.echo(f"{title}: none")
