"""`fencepost conformance`: whether a system keeps the contract that fencepost holds it to."""

import textwrap
from pathlib import Path

import click

from fencepost.harness.base import offers
from fencepost.harness.base.errors import ExitCode
from fencepost.harness.cli.output.help import Documented, DocumentedGroup, HelpExample, pairs, shared_flags
from fencepost.harness.cli.output.progress import shorten
from fencepost.harness.conformance.documents import JUNIT
from fencepost.harness.conformance.rows import ROWS, RowOutcome, SuiteRow
from fencepost.harness.conformance.suite import play_suite, suite_plan

_SYSTEM = (
    HelpExample("fencepost conformance system example", "Every row of the suite, in the lab"),
    HelpExample(
        "fencepost conformance system etcd --runtime containers --row killed", "One row, where nodes are containers"
    ),
    HelpExample("fencepost conformance system pocket --plugin examples/pocket-store", "A system of your own"),
)
#: Wide enough for the longest name.
_FIRST = max(map(len, ROWS))
_WIDTH = 100
_MARKS = {RowOutcome.PASSED: "ok ", RowOutcome.FAILED: "NO ", RowOutcome.NOT_APPLICABLE: "n/a"}


@click.group("conformance", cls=DocumentedGroup, examples=_SYSTEM)
def command() -> None:
    """Check that a system keeps its contract."""


for _below in offers.loaded("conformance").values():
    command.add_command(_below)


@command.command("system", cls=Documented, examples=_SYSTEM)
@click.argument("name", metavar="NAME")
@click.option("--version", default="", metavar="RELEASE|PATH", help="A release, or the path of your own build.")
@click.option("--image", default="", metavar="IMAGE", help="With --runtime containers: your own image of the server.")
@click.option("--nodes", type=int, help="Number of nodes. Default 3, or what the system takes.")
@click.option(
    "-O", "--system-option", multiple=True, metavar="NAME=VALUE", help="An option of the system. May be repeated."
)
@click.option(
    "--row",
    "rows",
    multiple=True,
    metavar="ROW",
    help="Only this row, and those that every row needs. May be repeated.",
)
@shared_flags("results", runtime="lab")
def system(
    name: str, system_option: tuple[str, ...], rows: tuple[str, ...], results: Path, **cluster: str | int | None
) -> int:
    """Play the conformance suite on a cluster of the system NAME.

    Each line says ok, NO or n/a. A NO says why, and the remedy; n/a says why the row does not apply. A relay between
    client and server counts what is sent, so that no hidden retry passes. Rows, logs and a JUnit file are kept.

    Exits 0 when no row failed, 1 when one did, 254 refused before the start, 255 failed itself.
    """
    given = {"system": name, **{key: value for key, value in cluster.items() if value}}
    options = pairs(system_option, "-O")
    checked = suite_plan({**given, **({"system_options": options} if options else {})})
    report = play_suite(checked, results, wanted=rows, progress=_say)
    passed = sum(row.outcome is RowOutcome.PASSED for row in report.rows)
    failed = len(report.failures)
    verdict = f"{failed} of {len(report.rows)} rows failed" if failed else f"{passed} rows passed, none failed"
    click.echo(f"{report.system} {report.version} ({report.runtime}): {verdict}")
    click.echo(f"JUnit: {shorten(str(report.folder / JUNIT))}", err=True)
    return int(ExitCode.INVALID if failed else ExitCode.VALID)


def _say(row: SuiteRow) -> None:
    """Print one row as soon as it is known; a name is never broken."""
    indent = " " * (_FIRST + 6)
    lines = textwrap.wrap(row.text, _WIDTH - len(indent), break_on_hyphens=False) or [""]
    click.echo(f"{_MARKS[row.outcome]} {row.name:<{_FIRST}}  {lines[0]}")
    for line in lines[1:]:
        click.echo(indent + line)
    if row.outcome is RowOutcome.FAILED:
        click.echo(f"{indent}expected: {ROWS[row.name]}")
        click.echo(f"{indent}remedy: {row.remedy}")
