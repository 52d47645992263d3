"""`fencepost failover`: the flags made values, the night carried out, and what came out said as a table."""

from pathlib import Path
from typing import Any

import click

from fencepost.campaigns.commands.carrying_out import carry_out
from fencepost.campaigns.failover.curve import DOCUMENT, PAGE, CurveMaking, check_choices
from fencepost.campaigns.failover.figures import Curve, document, table
from fencepost.campaigns.night.session import NightWishes
from fencepost.harness.base.errors import ExitCode, HarnessError, UsageError
from fencepost.harness.base.quantities import parse_duration_ns
from fencepost.harness.cli.output.help import Documented, HelpExample, print_document, seed_or_drawn, shared_flags
from fencepost.harness.cli.output.progress import shorten


def failover(systems: str, partitions: str, times: int, wishes: NightWishes, *, as_json: bool, resume: bool) -> int:
    """Measure; 0 when every figure is there as often as was asked, 2 when some are missing.

    Raises HarnessError when nothing was measured.
    """
    names = _listed(systems)
    sizes = [_number(text) for text in _listed(partitions)]
    check_choices(names, sizes)
    making = CurveMaking(names, sizes, times)
    curve = making.curve(carry_out(making, wishes, resume=resume))
    if not curve.samples:
        raise HarnessError(
            f"nothing was measured: {'; '.join(curve.failures) or 'no run was begun'}",
            hint=f"the runs and their logs are in {making.folder}",
        )
    if as_json:
        print_document(document(curve))
    else:
        _say(curve, making.folder)
    return int(ExitCode.UNKNOWN if curve.incomplete or curve.failures else ExitCode.VALID)


def wishes_of(deadline: str, seed: int | None, results: Path) -> NightWishes:
    """One run at a time: what runs beside a measurement would be measured, too."""
    budget_s = parse_duration_ns(deadline, what="--deadline") / 1e9
    return NightWishes(budget_s=budget_s, seed=seed_or_drawn(seed), results=results, jobs=1)


def _say(curve: Curve, folder: Path) -> None:
    rows = table(curve)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
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
    HelpExample("fencepost failover", "Both generations of Kafka, at 10 to 5,000 partitions, within half an hour"),
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
    " kafka-bridge: a migration.",
)
@click.option(
    "--partitions",
    default="10,100,1000,5000",
    show_default=True,
    metavar="NUMBERS",
    help="Numbers of topic partitions, joined by commas; one cell for each.",
)
@shared_flags("seed", "resume", "results", "json", times=3, deadline="30m")
def command(systems: str, partitions: str, times: int, results: Path, as_json: bool, **flags: Any) -> int:
    """Measure how long Kafka is without a controller.

    A night over numbers of topic partitions, with --times runs of each system and number: in each run the active
    controller is killed once. The table has KRaft and ZooKeeper mode side by side. It runs in the lab only: containers
    would add their own start-up time.

    Exits 0 when every figure was measured, 2 when some are missing or a run was invalid.
    """
    wishes = wishes_of(flags["deadline"], flags["seed"], results)
    return failover(systems, partitions, times, wishes, as_json=as_json, resume=flags["resume"])
