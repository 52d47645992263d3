"""`fencepost warehouse`: the facts and verdicts of all runs as tables, kept and queried through Spark."""

import datetime
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fencepost.harness.base.errors import ExitCode, unknown_choice
from fencepost.harness.base.quantities import counted
from fencepost.harness.cli.output.help import Documented, DocumentedGroup, HelpExample, PathValue
from fencepost.harness.cli.output.progress import shorten
from fencepost.harness.cli.output.verdict_text import wrapped
from fencepost.harness.verdict.by_guarantee import times

if TYPE_CHECKING:
    from fencepost.warehouse.adding import Added

_MASTER = click.option(
    "--spark-master", default="local[*]", show_default=True, help="A Spark master whose executors can read the runs."
)
_ROOT = click.option(
    "--warehouse",
    "root",
    default="results/warehouse",
    show_default=True,
    help="Where the tables are: a folder, or a URI that Spark can write (s3:, gs:, hdfs:).",
)

_ADD: Final = (
    HelpExample("fencepost warehouse add results", "Add what is new below results/"),
    HelpExample("fencepost warehouse add results --warehouse s3a://team/fencepost", "Keep the tables for a whole team"),
    HelpExample("fencepost warehouse add results --spark-master spark://spark:7077", "Let a Spark cluster do the work"),
)
_BUILD: Final = (
    HelpExample("fencepost warehouse build results", "Judge every run below results/ again, by today's checkers"),
    HelpExample("fencepost warehouse build results --out /tmp/warehouse", "Keep the tables elsewhere"),
    HelpExample("fencepost warehouse build results --spark-master local[8]", "Use eight threads of this machine"),
)
_SHOW: Final = (
    HelpExample("fencepost warehouse show", "See what the warehouse holds"),
    HelpExample("fencepost warehouse show run", "See its first 20 runs"),
    HelpExample("fencepost warehouse show zombie_episodes --rows 100", "See 100 superseded leaders that went on"),
)
_QUERY: Final = (
    HelpExample(
        'fencepost warehouse query "select system, version, runs, acted from zombie_episodes_by_version"',
        "In which releases a superseded leader acted",
    ),
    HelpExample(
        "fencepost warehouse query \"select folder, headline from run where outcome = 'invalid'\"", "Every invalid run"
    ),
    HelpExample(
        'fencepost warehouse query "select anomaly, sum(count) from anomalies group by anomaly"',
        "How often each anomaly showed",
    ),
)
_PAGES: Final = (
    HelpExample("fencepost warehouse pages", "Make the pages over all nights: open results/pages/index.html"),
    HelpExample(
        "fencepost warehouse pages --known docs/how-to/known-issues.toml", "Say which findings somebody has taken on"
    ),
    HelpExample("fencepost warehouse pages --nights 30", "Show the last 30 nights as squares"),
)
_COMPACT: Final = (
    HelpExample("fencepost warehouse compact", "Make few files of many"),
    HelpExample("fencepost warehouse compact --warehouse other/warehouse", "Those of another warehouse"),
    HelpExample("fencepost warehouse compact --warehouse s3a://team/fencepost", "Those of a team"),
)
_VACUUM: Final = (
    HelpExample("fencepost warehouse vacuum", "Remove files that nothing has named for a week"),
    HelpExample("fencepost warehouse vacuum --keep-hours 24", "Keep those of the last day only"),
    HelpExample("fencepost warehouse vacuum --warehouse other/warehouse", "In another warehouse"),
)
EXAMPLES = (_ADD[0], _QUERY[0], _PAGES[0])
#: Columns before the second line of a wrapped text.
_HANGING: Final = 6
#: Rows of a history that an episode names; of more, the first two and their number.
_ROWS_SHOWN: Final = 3
#: Rows that `show TABLE` prints unless asked for more.
_ROWS: Final = 20


@click.group("warehouse", cls=DocumentedGroup, examples=EXAMPLES)
def command() -> None:
    """Keep the verdicts of all runs as tables, and query them.

    `add` brings new runs and nights in, `build` judges all runs again, `show` and `query` answer questions, `pages`
    makes the pages over all nights. The tables are Delta Lake tables; `compact` and `vacuum` keep them small.
    """


@command.command("add", cls=Documented, examples=_ADD)
@click.argument("paths", type=PathValue(exists=True, file_okay=False), nargs=-1, required=True)
@_ROOT
@_MASTER
def add_command(paths: tuple[Path, ...], root: str, spark_master: str) -> int:
    """Add the runs and nights below PATHS to the warehouse.

    Runs that it holds already are left as they are: adding twice changes nothing. Several may add at the same time,
    also beside a build. Half runs of a night's lost attempts are left out.

    Exit code 0: everything was added. 2: a run could not be judged, or its verdict differs from the one in its folder;
    the same each time, until the run is mended, removed or checked (`fencepost check FOLDER`). 254: no run could be
    judged, or a file of the warehouse is torn.
    """
    from fencepost.warehouse.adding import add
    from fencepost.warehouse.spark_session import spark_session
    from fencepost.warehouse.store import absolute

    with spark_session(spark_master, root) as session:
        done = add(session, paths, absolute(root))
    click.echo(
        f"{_troubles(done)}{counted(done.runs, 'run')} and {counted(done.nights, 'night')} added; "
        f"{counted(done.known, 'run')} {'was' if done.known == 1 else 'were'} there already; "
        f"{_half(done)}tables in {shorten(absolute(root))}"
    )
    _say_troubles(done)
    return _exit_code(done)


@command.command("build", cls=Documented, examples=_BUILD)
@click.argument("results", type=PathValue(exists=True, file_okay=False))
@click.option("--warehouse", "--out", "root", help="Where the tables go. Default: RESULTS/warehouse.")
@_MASTER
def build_command(results: Path, root: str | None, spark_master: str) -> int:
    """Judge every run below RESULTS again, and make a new warehouse of all of them.

    Prints every superseded leader that went on and every verdict that changed, and writes the page RESULTS/index.html
    (RESULTS/warehouse.html in the folder of a night, whose page index.html is).
    Runs of other results that the warehouse held are dropped, and their number is printed; what others add while it
    runs is kept.

    Exit code 0: every run was judged as before. 2: a run could not be judged, or a verdict changed. 254: no run could
    be judged.
    """
    from fencepost.warehouse.adding import build
    from fencepost.warehouse.index import index_of, write_index
    from fencepost.warehouse.spark_session import spark_session
    from fencepost.warehouse.store import absolute
    from fencepost.warehouse.warehouse import Warehouse

    target = absolute(root or str(results / "warehouse"))
    with spark_session(spark_master) as session:
        done = build(session, [results], target)
        carried = f"{counted(done.carried, 'add')} made meanwhile kept; " if done.carried else ""
        dropped = f"{counted(done.dropped, 'run')} of other results dropped; " if done.dropped else ""
        click.echo(
            f"{_troubles(done)}{done.runs} of {done.runs + done.failed} runs judged again; "
            f"{dropped}{carried}{_half(done)}tables in {shorten(target)}"
        )
        warehouse = Warehouse(session, target)
        episodes = (line for row in warehouse.episodes() for line in episode_lines(row))
        _say_all("superseded leaders that went on", episodes)
        _say_troubles(done)
        index = index_of(results)
        write_index(warehouse, index)
        click.echo(f"index: {shorten(str(index.absolute()))}")
    return _exit_code(done)


@command.command("show", cls=Documented, examples=_SHOW)
@click.argument("table", required=False)
@click.option("--rows", type=click.IntRange(1), default=_ROWS, show_default=True, help="Rows to print of TABLE.")
@_ROOT
@_MASTER
def show_command(table: str | None, rows: int, root: str, spark_master: str) -> int:
    """Print what the warehouse holds, or the first rows of TABLE."""
    from fencepost.warehouse.night_tables import STORED
    from fencepost.warehouse.store import open_store
    from fencepost.warehouse.warehouse import NAMES

    if table is not None:
        if table not in NAMES:
            raise unknown_choice("table", table, NAMES)
        return _print(f"select * from {table} limit {rows}", root, spark_master)
    store = open_store(root)
    runs = store.read("run", ["night", "added"]).to_pylist()
    shards = store.nights()
    nights = {row["night"] for row in runs} | {night for night, _ in shards}
    adds = {row["added"] for row in runs} | {added for _, added in shards.values()}
    of = f"{counted(len(runs), 'run')} of {counted(len(nights), 'night')} in {counted(len(adds), 'add')}"
    click.echo(f"{of}: {shorten(store.root)}")
    width = max(map(len, NAMES))
    for name in NAMES:
        about = f"one row: {STORED[name].row}" if name in STORED else "computed from the others"
        click.echo(f"  {name:<{width}}  {about}")
    return int(ExitCode.VALID)


@command.command("query", cls=Documented, examples=_QUERY)
@click.argument("sql")
@_ROOT
@_MASTER
def query_command(sql: str, root: str, spark_master: str) -> int:
    """Print the answer to a query over the tables of a warehouse (docs/reference/facts-tables.md names them)."""
    return _print(sql, root, spark_master)


@command.command("compact", cls=Documented, examples=_COMPACT)
@_ROOT
def compact_command(root: str) -> int:
    """Make few files of many small ones, and remove the rows of adds that were killed.

    Others may add and query meanwhile. The files that it replaces stay until `vacuum`.
    """
    from fencepost.warehouse.store import open_store

    store = open_store(root)
    done = store.compact()
    killed = f"rows of {counted(done.unfinished, 'add')} that never ended removed; " if done.unfinished else ""
    click.echo(f"{counted(done.before, 'file')} made {done.after}; {killed}tables in {shorten(store.root)}")
    return int(ExitCode.VALID)


@command.command("vacuum", cls=Documented, examples=_VACUUM)
@click.option(
    "--keep-hours",
    type=click.IntRange(1),
    default=168,
    show_default=True,
    help="Keep files that the tables named, or that were written, within so many hours.",
)
@_ROOT
def vacuum_command(keep_hours: int, root: str) -> int:
    """Remove files that the tables name no longer: of `compact`, of builds, and of adds that were killed.

    Queries and adds that take longer than --keep-hours may fail.
    """
    from fencepost.warehouse.store import open_store

    store = open_store(root)
    click.echo(f"{counted(store.vacuum(keep_hours), 'file')} removed: {shorten(store.root)}")
    return int(ExitCode.VALID)


@command.command("pages", cls=Documented, examples=_PAGES)
@_ROOT
@click.option("--out", type=PathValue(), default=Path("results/pages"), show_default=True, help="Folder for the pages.")
@click.option(
    "--known", type=PathValue(dir_okay=False), help="A file of known issues, such as docs/how-to/known-issues.toml."
)
@click.option("--nights", type=click.IntRange(1), default=14, show_default=True, help="Nights that stand as squares.")
@_MASTER
def pages_command(root: str, out: Path, known: Path | None, nights: int, spark_master: str) -> int:
    """Make the pages over all nights: Tonight, the matrix, every finding, and trends.

    They are files that need no server and no network. A finding that an issue of --known covers is `known`.
    """
    from fencepost.harness.findings.known_issues import read_known_issues
    from fencepost.warehouse.pages.collect import overview
    from fencepost.warehouse.pages.site import write_pages
    from fencepost.warehouse.spark_session import spark_session
    from fencepost.warehouse.store import open_store
    from fencepost.warehouse.warehouse import Warehouse

    issues = () if known is None else read_known_issues(known)
    open_store(root)
    today = datetime.datetime.now(datetime.UTC).date()
    with spark_session(spark_master, root) as session:
        warehouse = Warehouse(session, root)
        written = write_pages(overview(warehouse, out, issues, shown=nights, today=today), out)
    click.echo(f"{len(written)} pages: {shorten(str(written[0].absolute()))}")
    return int(ExitCode.VALID)


def _print(sql: str, root: str, spark_master: str) -> int:
    from fencepost.warehouse.query import query

    frame = query(root, sql, spark_master=spark_master)
    click.echo(frame.to_string(index=False) if len(frame) else "no rows")
    return int(ExitCode.VALID)


def _exit_code(done: "Added") -> int:
    return int(ExitCode.UNKNOWN if done.failures or done.changes else ExitCode.VALID)


def _troubles(done: "Added") -> str:
    """What gives exit code 2, with counts; empty where nothing does."""
    failed = f"{counted(done.failed, 'run')} could not be judged; " if done.failures else ""
    return failed + (f"{counted(len(done.changes), 'verdict')} changed; " if done.changes else "")


def _half(done: "Added") -> str:
    return f"{counted(done.half, 'half run')} of lost attempts left out; " if done.half else ""


def _say_troubles(done: "Added") -> None:
    _say_all("verdicts that changed", map(_change_line, sorted(done.changes, key=lambda row: row["folder"])))
    _say_all("runs that could not be judged", (f"{shorten(folder)}: {why}" for folder, why in sorted(done.failures)))


def episode_lines(row: dict[str, Any]) -> Iterator[str]:
    """One episode in two lines: who did what after which epoch, then the figures and the rows that show it."""
    yield (
        f"{row['system']} {row['version']}: {row['node']}, {row['subject']} of epoch {row['epoch']}, {_deed(row)} "
        f"after epoch {row['superseded_by']} had begun"
    )
    awake_ms = row["running_ns"] / 1e6
    claims = f"claimed to lead {times(row['claims'])} ({awake_ms:.0f} ms awake); " if row["claims"] else ""
    yield f"  {claims}{_operations(row)}; rows {_rows(row['evidence'])} of {shorten(row['folder'])}"


def _deed(row: dict[str, Any]) -> str:
    return f"acted {times(row['acted'])} ({', '.join(row['anomalies'])})" if row["acted"] else "did not act"


def _operations(row: dict[str, Any]) -> str:
    """How the operations ended that the superseded leader was sent; a zero is left out."""
    if not row["asked"]:
        return "sent no operation"
    # It may have followed its successor already when it answered, or refused for another reason.
    others = row["asked"] - row["served"] - row["fenced"] - row["unknown"]
    ends = {"served": row["served"], "fenced": row["fenced"], "unknown": row["unknown"], "ended otherwise": others}
    return f"{row['asked']} operations: {', '.join(f'{count} {name}' for name, count in ends.items() if count)}"


def _rows(indexes: list[int]) -> str:
    if len(indexes) <= _ROWS_SHOWN:
        return ", ".join(map(str, indexes))
    return f"{indexes[0]}, {indexes[1]}, ... ({len(indexes)})"


def _change_line(row: dict[str, Any]) -> str:
    what = row["guarantee"] or "the run"
    before, after = row["before"] or "not judged", row["after"] or "not judged"
    return f"{shorten(row['folder'])}: {what}: {before} before, {after} now"


def _say_all(title: str, lines: Iterable[str]) -> None:
    """A title and its lines as they come; "none" where there are none."""
    some = False
    for line in lines:
        if not some:
            click.echo(f"{title}:")
        some = True
        click.echo(wrapped(f"  {line}", hanging=_HANGING))
    if not some:
        click.echo(f"{title}: none")
