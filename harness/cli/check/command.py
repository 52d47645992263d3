"""`fencepost check`: a stored run, a history that stands alone, or a table."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fencepost.harness.base.errors import UsageError
from fencepost.harness.cli.check.foreign import Reading, conclude, judge, takes_for_run
from fencepost.harness.cli.output.help import Documented, HelpExample, PathValue

if TYPE_CHECKING:
    from fencepost.harness.cli.check.second_opinions import OtherTools

#: Spark's own name for all cores of this machine.
_THIS_MACHINE: Final = "local[*]"
#: The limit of each of the other tools.
_ALSO_TIME_LIMIT: Final = "60s"
EXAMPLES = (
    HelpExample("fencepost check RUN", "Judge a stored run again by its plan"),
    HelpExample(
        "fencepost check history.edn --model queue --report out.html", "A history of Jepsen, with a page of it"
    ),
    HelpExample("fencepost check night.edn histories --junit junit.xml", "Many files and folders: a table of verdicts"),
)
_GROUPS: Final = {
    "A history FILE": ("form", "model", "keyed", "order", "ignore", "initial", "consistency", "report", "junit"),
    "At any size, through Spark": ("use_spark", "spark_master"),
    "A second opinion": ("also", "also_command", "also_time_limit"),
}


@click.command("check", cls=Documented, examples=EXAMPLES, groups=_GROUPS)
@click.argument("paths", metavar="RUN|FILE...", nargs=-1, required=True, type=PathValue(allow_dash=True))
@click.option("--json", "as_json", is_flag=True, help="Print verdict.json on standard output instead of text.")
@click.option(
    "--spark-master",
    metavar="URL",
    help=f"With --spark: a Spark master whose executors can read FILE. Default: {_THIS_MACHINE}.",
)
@click.option(
    "--spark", "use_spark", is_flag=True, help="Judge FILE, in Parquet, through Spark, if its keys can be judged apart."
)
@click.option(
    "--model",
    metavar="NAME",
    help="What the operations act on: register, queue, mutex, ..., or module:Model of your own. Default: guessed.",
)
@click.option(
    "--format",
    "form",
    metavar="NAME",
    help="edn, json, log, awdit, plume, porcupine, jsonl, parquet, operations or transactions. Default: guessed.",
)
@click.option("--keyed/--no-keyed", default=None, help="Whether values in EDN are pairs [key value]. Default: guessed.")
@click.option(
    "--order",
    metavar="NAME",
    help="file, index or time: what orders the operations where these differ. Default: guessed.",
)
@click.option("--ignore", metavar="F,F", help="Operations in EDN or JSON that are not the store's: left out.")
@click.option(
    "--initial",
    multiple=True,
    metavar="[KEY=]VALUE",
    help="What was there before the first operation, of all keys or of one: 0, x=5, '[1, 2]'. Default: nothing.",
)
@click.option("--report", type=PathValue(), help="Write an HTML report to this file, which must not exist yet.")
@click.option("--junit", type=PathValue(), help="Write a JUnit document to this file, with a test case for each FILE.")
@click.option("--also", multiple=True, metavar="TOOL", help="Ask porcupine, knossos or elle too. May be repeated.")
@click.option(
    "--also-command", multiple=True, metavar="TOOL=COMMAND", help="The command that starts knossos or elle here."
)
@click.option(
    "--also-time-limit",
    metavar="DURATION",
    default=_ALSO_TIME_LIMIT,
    show_default=True,
    help="Limit for each of these tools.",
)
@click.option(
    "--consistency",
    metavar="NAME",
    help="For transactions: serializable, snapshot-isolation, causal, ... Default: strict-serializable.",
)
def command(
    paths: tuple[Path, ...],
    as_json: bool,
    use_spark: bool,
    spark_master: str | None,
    report: Path | None,
    junit: Path | None,
    **given: Any,
) -> int:
    """Judge stored runs or history files again, offline.

    A RUN is judged by its plan; its verdict, JUnit file and report are written again.

    A FILE is judged by a model, and nothing is written unless --report says so. It is Jepsen's history.edn or the
    folder of it, its log, the same operations in JSON, operations as for Porcupine, sessions as for AWDIT, reports by
    client, a history of ours (.parquet or .jsonl), or a table in Parquet; `-` is standard input.

    Several files, or a folder of histories: a table with a line for each, and one exit code: 1 if any is invalid, 254
    if any could not be read, 2 if any is unknown.

    --also hands the same history to another checker. A missing tool is skipped. If a tool contradicts the verdict, both
    verdicts are shown and the exit code is 255.
    """
    if spark_master is not None and not use_spark:
        raise UsageError("--spark-master: nothing is judged through Spark", hint="add --spark, or leave it out")
    if report is not None:
        from fencepost.harness.cli.check.file_report import check_report

        check_report(report)
    others = _others(given.pop("also"), given.pop("also_command"), given.pop("also_time_limit"))
    reading = Reading(
        ignore=tuple(filter(None, (given.pop("ignore") or "").split(","))),
        initial=_initial(given.pop("initial")),
        spark_master=spark_master or _THIS_MACHINE if use_spark else None,
        also=others.names if others is not None else (),
        page=report is not None,
        **given,
    )
    if junit is not None:
        from fencepost.harness.cli.check.many import check_junit

        check_junit(junit)
    if len(paths) != 1 or (paths[0].is_dir() and _stands_for_many(paths[0])):
        for flag, was_given in {"--report": report, "--also": reading.also, "--spark": use_spark}.items():
            if was_given:
                raise UsageError(f"{flag}: for one history, and several were given", hint="call it for each alone")
        from fencepost.harness.cli.check.many import check_many

        return check_many(paths, reading, as_json=as_json, junit=junit)
    (folder,) = paths
    if not takes_for_run(folder, reading):
        judged = judge(folder, reading)
        code = conclude(judged, as_json=as_json, others=others, report=report)
        if junit is not None:
            from fencepost.harness.cli.check.many import row_of, write_junit

            write_junit(junit, [row_of(folder, judged)])
        return code
    if junit is not None:
        raise UsageError(f"--junit: {folder} is a run: junit.xml is written into its folder", hint="leave --junit out")
    if report is not None:
        hint = "`fencepost report` makes it again"
        raise UsageError(f"--report: {folder} is a run: its report is written into its folder", hint=hint)
    if use_spark:
        hint = "`fencepost warehouse build` judges runs through Spark, any number of them"
        raise UsageError(f"--spark: {folder} is a run: it is judged by its plan, on this machine", hint=hint)
    from fencepost.harness.cli.check.run import judge_again

    return judge_again(folder, as_json=as_json, others=others)


def _initial(texts: tuple[str, ...]) -> dict[str | None, Any]:
    if not texts:
        return {}
    from fencepost.harness.interchange.formats.initial import initial_values

    return initial_values(texts)


def _stands_for_many(folder: Path) -> bool:
    from fencepost.harness.cli.check.many import stands_for_many

    return stands_for_many(folder)


def _others(also: tuple[str, ...], commands: tuple[str, ...], time_limit: str) -> "OtherTools | None":
    """The tools of `--also`; None where no tool is to be asked. Raises UsageError for a flag that is wrong."""
    if not (also or commands) and time_limit == _ALSO_TIME_LIMIT:
        return None
    from fencepost.harness.cli.check.second_opinions import other_tools

    others = other_tools(also, commands, time_limit)
    return others if others.names else None
