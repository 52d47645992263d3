"""`fencepost export`: a history in another tool's form."""

from pathlib import Path

import click

from fencepost.harness.cli.check.foreign import export as write
from fencepost.harness.cli.output.path_value import PathValue


@click.command("export")
@click.argument("run", metavar="RUN|FILE", type=PathValue(allow_dash=True))
@click.option("--format", "form", type=click.Choice(["edn", "porcupine", "jsonl"]), required=True, help="As what.")
@click.option("-o", "--output", type=PathValue(), help="A new file. Default standard output.")
def command(run: Path, form: str, output: Path | None) -> int:
    """Write a history in another form: EDN as Jepsen has it, operations as Porcupine has them, or JSON lines.

    EDN keeps the numbers by which a report names events, as :history-index, and says at its head what the run was
    judged for.
    """
    return write(run, form, output)
