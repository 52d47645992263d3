"""`fencepost schedule`: a schedule of faults, drawn before it is run, or as a run carried it out."""

from pathlib import Path

import click

from fencepost.harness.base.errors import ExitCode, UsageError
from fencepost.harness.cli.output.help import Documented, DocumentedGroup, Example
from fencepost.harness.cli.output.path_value import PathValue
from fencepost.harness.report.drawing.schedule import Band, schedule_lines
from fencepost.harness.report.drawing.terminal import of_stdout
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.schedule_rows import injected, read_rows

EXAMPLES = (
    Example("fencepost schedule show staggered.schedule", "Look at a schedule before a run"),
    Example("fencepost run --schedule staggered.schedule --system etcd --workload register", "Run what it says"),
    Example("fencepost schedule show RUN", "See which faults a run carried out, and on which nodes"),
)


@click.group("schedule", cls=DocumentedGroup, examples=EXAMPLES)
def command() -> None:
    """Draw a schedule of faults, before or after it was run."""


@command.command("show", cls=Documented, examples=EXAMPLES)
@click.argument("schedule", type=PathValue())
def show_command(schedule: Path) -> int:
    """Draw SCHEDULE, a file or a run's folder: which node, which fault, from when until when.

    A file holds the lines of a run's schedule.jsonl, or one fault a line: TARGET FAULT[:key=value]... FROM..TO.
    """
    path = schedule / store.SCHEDULE if schedule.is_dir() else schedule
    rows = injected(read_rows(path))
    if not rows:
        raise UsageError(f"{path}: no fault stands in it", hint="write lines such as: n1 kill 2s..28s")
    bands = [
        Band(
            lane=", ".join(row.get("nodes") or ()) or target_of(row["spec"]),
            text=fault_of(row["spec"]),
            from_ns=row["at_ns"],
            to_ns=row["at_ns"] + row["duration_ns"],
        )
        for row in rows
    ]
    for line in schedule_lines(bands, max(band.to_ns for band in bands), of_stdout()):
        click.echo(line)
    return int(ExitCode.VALID)


def target_of(spec: str) -> str:
    """The target of a fault's text, `FAULT[:TARGET][:key=value]...`; "any" where it names none."""
    second = (*spec.split(":"), "")[1]
    return "any" if "=" in second or not second else second


def fault_of(spec: str) -> str:
    """A fault's text without its target."""
    kind, *rest = spec.split(":")
    return ":".join([kind, *(part for part in rest if "=" in part)])
