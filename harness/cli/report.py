"""`fencepost report`: the report of a stored run made again, or rows of its history."""

from pathlib import Path

import click

from fencepost.harness.base.errors import ExitCode
from fencepost.harness.cli.check.run import judge_again
from fencepost.harness.cli.output.help import Documented, HelpExample, PathValue
from fencepost.harness.report.documents import event_lines
from fencepost.harness.results import run_folder as store

EXAMPLES = (
    HelpExample("fencepost report RUN", "Write RUN/report.html again"),
    HelpExample("fencepost report RUN --events 7,9-12", "Print the rows that a figure of the report names"),
    HelpExample("fencepost report RUN --events all", "Print the whole history as JSON lines"),
)


@click.command("report", cls=Documented, examples=EXAMPLES)
@click.argument("folder", metavar="RUN", type=PathValue())
@click.option(
    "--events", metavar="ROWS", help="Only print these rows of the history as JSON lines: all, or such as 7,9-12."
)
def command(folder: Path, events: str | None) -> int:
    """Write the report of a stored run again.

    RUN is the folder of a run, or a folder of runs: then the newest one. Verdict and JUnit file are written again too.
    Exits 0 once the report is written, whatever the verdict is.
    """
    if events is not None:
        for line in event_lines(store.find_run_folder(folder), events):
            click.echo(line)
        return int(ExitCode.VALID)
    judge_again(folder, as_json=False)
    return int(ExitCode.VALID)
