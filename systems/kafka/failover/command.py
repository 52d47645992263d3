"""`fencepost failover`: the flags made values, the curve measured, and what came out said as a table."""

import json
from pathlib import Path

import click

from fencepost.harness.base.errors import ExitCode, UsageError
from fencepost.harness.base.quantities import parse_duration_ns
from fencepost.harness.base.signals import StopRequest
from fencepost.harness.cli.output.help import Documented, HelpExample, PathValue
from fencepost.harness.cli.output.progress import Progress, shorten
from fencepost.systems.kafka.failover.curve import DOCUMENT, PAGE, CurveRun, check_choices
from fencepost.systems.kafka.failover.document import Curve, costs, document, table


def failover(systems: str, partitions: str, times: int, deadline: str, results: Path, *, as_json: bool) -> int:
    """Measure; 0 when every figure is there as often as was asked, 2 when some are missing."""
    names = _listed(systems)
    sizes = [_number(text) for text in _listed(partitions)]
    check_choices(names, sizes)
    deadline_s = parse_duration_ns(deadline, what="--deadline") / 1e9
    stop, progress = StopRequest(), Progress()
    stop.install()
    try:
        run = CurveRun(names, sizes, times, deadline_s=deadline_s, results=results, say=progress.line, stop=stop)
        progress.line(f"results in {shorten(str(run.folder))}")
        curve = run.run()
    finally:
        progress.close()
        stop.uninstall()
    if as_json:
        click.echo(json.dumps(document(curve), indent=2))
    else:
        _say(curve, run.folder)
    return int(ExitCode.UNKNOWN if curve.incomplete or curve.failures else ExitCode.VALID)


def _say(curve: Curve, folder: Path) -> None:
    rows = table(curve)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    for text in costs(curve):
        click.echo(text)
    for text in (*curve.failures, *curve.incomplete):
        click.echo(f"missing: {text}")
    click.echo(f"picture: {shorten(str(folder / PAGE))}")
    click.echo(f"figures: {shorten(str(folder / DOCUMENT))}")


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"--partitions: {text!r} is not a number", hint="such as 10,100,1000,5000") from None


EXAMPLES = (
    HelpExample("fencepost failover", "Both generations of Kafka, at 10 to 5,000 partitions, within 20 minutes"),
    HelpExample(
        "fencepost failover --systems kraft,kraft+controllers --partitions 10 --times 2",
        "A quick look at KRaft, also with controllers on nodes of their own",
    ),
    HelpExample("fencepost failover --deadline 2h --json", "More time, and the figures as JSON"),
)


@click.command("failover", cls=Documented, examples=EXAMPLES)
@click.option(
    "--systems",
    default="kraft,kafka-zk",
    show_default=True,
    metavar="NAMES",
    help="Systems to measure, joined by commas; kraft+controllers: its controllers have nodes of their own;"
    " kafka-bridge: a migration, phase by phase.",
)
@click.option(
    "--partitions",
    default="10,100,1000,5000",
    show_default=True,
    metavar="NUMBERS",
    help="Numbers of topic partitions, joined by commas; one cluster for each.",
)
@click.option(
    "--times",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    metavar="NUMBER",
    help="How often each cluster's controller is ended in each way.",
)
@click.option(
    "--deadline",
    default="20m",
    show_default=True,
    metavar="DURATION",
    help="Limit for the whole command; the table says what was not measured in time.",
)
@click.option("--results", type=PathValue(), default=Path("results"), show_default=True, help="Folder for the results.")
@click.option("--json", "as_json", is_flag=True, help="Print failover.json on standard output instead of a table.")
def command(systems: str, partitions: str, times: int, deadline: str, results: Path, as_json: bool) -> int:
    """Measure how long Kafka is without a controller.

    The active controller is killed or asked to end, again and again, with more and more topic partitions; the table
    has KRaft and ZooKeeper mode side by side. It runs in the lab only: containers would add their own start-up time.

    Exits 0 when every figure was measured, 2 when some are missing.
    """
    return failover(systems, partitions, times, deadline, results, as_json=as_json)
