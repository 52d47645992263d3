"""`fencepost export`: a history in another tool's form."""

from pathlib import Path

import click

from fencepost.harness.cli.check.foreign import export as write
from fencepost.harness.cli.output.help import Documented, HelpExample, PathValue

EXAMPLES = (
    HelpExample("fencepost export RUN --format edn -o history.edn", "For Jepsen, Knossos and Elle"),
    HelpExample("fencepost export RUN --format porcupine -o operations.json", "For Porcupine"),
    HelpExample("fencepost export RUN --format jsonl", "One JSON object a line, on standard output"),
)


@click.command("export", cls=Documented, examples=EXAMPLES)
@click.argument("run", metavar="RUN|FILE", type=PathValue(allow_dash=True))
@click.option(
    "--format",
    "form",
    type=click.Choice(["edn", "json", "log", "porcupine", "awdit", "jsonl"]),
    required=True,
    help="edn: events as Jepsen has them; json: the same, a line each, as elle-cli reads them; log: Jepsen's log; "
    "porcupine: operations as Porcupine has them; awdit: sessions of transactions; jsonl: everything, in JSON lines.",
)
@click.option("-o", "--output", type=PathValue(), help="A file that does not exist yet. Default: standard output.")
def command(run: Path, form: str, output: Path | None) -> int:
    """Write a history in the form of another tool.

    RUN is the folder of a run, FILE a history that `fencepost check` reads, `-` standard input. EDN keeps the row
    numbers of the report as :history-index, and its head says which guarantee the run was judged for.
    """
    return write(run, form, output)
