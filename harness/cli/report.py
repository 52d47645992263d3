"""`fencepost report`: the report of a stored run made again, or rows of its history."""

from pathlib import Path

import click

from fencepost.harness.base.errors import ExitCode
from fencepost.harness.cli.check.run import judge_again
from fencepost.harness.cli.output.path_value import PathValue
from fencepost.harness.report.documents.events import event_lines
from fencepost.harness.results import run_folder as store


@click.command("report")
@click.argument("folder", type=PathValue())
@click.option("--events", help="Print these rows of the history as JSON lines, and nothing else: all, or 7,9-12.")
def command(folder: Path, events: str | None) -> int:
    """Make the report of a stored run again; exits 0 when it was made, whatever the verdict."""
    if events is not None:
        for line in event_lines(store.find_run_folder(folder), events):
            click.echo(line)
        return int(ExitCode.VALID)
    judge_again(folder, as_json=False)
    return int(ExitCode.VALID)
