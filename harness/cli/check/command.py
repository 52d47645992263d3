"""`fencepost check`: a stored run, a history that stands alone, or a table."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fencepost.harness.base.errors import UsageError, command_line
from fencepost.harness.cli.check.foreign import Reading, check_file, is_run, is_table
from fencepost.harness.cli.output.help import Documented, HelpExample, PathValue
from fencepost.harness.results import run_folder as store

if TYPE_CHECKING:
    from fencepost.harness.cli.check.second_opinions import OtherTools

#: Spark's own name for all cores of this machine.
_THIS_MACHINE: Final = "local[*]"
#: The limit of each of the other tools.
_ALSO_TIME_LIMIT: Final = "60s"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flags:
    """The command's flags as they were given; None where one was left out."""

    as_json: bool
    spark_master: str | None
    use_spark: bool
    model: str | None
    form: str | None
    keyed: bool | None
    report: Path | None
    also: tuple[str, ...]
    also_command: tuple[str, ...]
    also_time_limit: str
    consistency: str | None

    @property
    def names_a_file(self) -> bool:
        """Whether one was given that is for histories that stand alone."""
        return bool(self.of_files)

    @property
    def of_files(self) -> tuple[str, ...]:
        """Those that were given and are for histories that stand alone."""
        given = {
            "--model": self.model,
            "--format": self.form,
            "--keyed": self.keyed,
            "--consistency": self.consistency,
        }
        return tuple(name for name, value in given.items() if value is not None)

    @property
    def tables_master(self) -> str | None:
        """Spark's master for a table; None: it is judged on this machine."""
        return self.spark_master or _THIS_MACHINE if self.use_spark else None


EXAMPLES = (
    HelpExample("fencepost check RUN", "Judge a stored run again by its plan"),
    HelpExample(
        "fencepost check history.edn --model queue --report out.html", "A history of Jepsen, with a page of it"
    ),
    HelpExample("fencepost check RUN --also porcupine", "Ask Porcupine too, and compare the verdicts"),
)
_GROUPS: Final = {
    "A history FILE": ("form", "model", "keyed", "consistency", "report"),
    "At any size, through Spark": ("use_spark", "spark_master"),
    "A second opinion": ("also", "also_command", "also_time_limit"),
}


@click.command("check", cls=Documented, examples=EXAMPLES, groups=_GROUPS)
@click.argument("folder", metavar="RUN|FILE", type=PathValue(allow_dash=True))
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
    "--format", "form", metavar="NAME", help="edn, porcupine, jsonl or parquet. Default: guessed from its first bytes."
)
@click.option("--keyed/--no-keyed", default=None, help="Whether values in EDN are pairs [key value]. Default: guessed.")
@click.option("--report", type=PathValue(), help="Write an HTML report to this file, which must not exist yet.")
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
def command(folder: Path, **given: Any) -> int:
    """Judge a stored run or a history file again, offline.

    A RUN is judged by its plan; its verdict, JUnit file and report are written again.

    A FILE is judged by a model, and nothing is written unless --report says so. It is Jepsen's history.edn or the
    folder of it, operations in JSON as for Porcupine, a history of ours (.parquet or .jsonl), or a table of operations
    or transactions in Parquet; `-` is standard input.

    --also hands the same history to another checker. A missing tool is skipped. If a tool contradicts the verdict, both
    verdicts are shown and the exit code is 255.
    """
    flags = _Flags(**given)
    if flags.spark_master is not None and not flags.use_spark:
        raise UsageError("--spark-master: nothing is judged through Spark", hint="add --spark, or leave it out")
    if flags.report is not None:
        from fencepost.harness.cli.check.file_report import check_report

        check_report(flags.report)
    others = _others(flags)
    if flags.form in (None, "parquet") and flags.keyed is None and is_table(folder):
        return _check_table(folder, flags, others)
    if flags.names_a_file and folder.is_dir() and is_run(folder):
        raise UsageError(
            f"{folder}: {', '.join(flags.of_files)}: a run is judged by its plan",
            hint=f"{command_line('check', folder)}; its operations alone, without the plan: "
            f"{command_line('check', folder / store.HISTORY)} --model ...",
        )
    if not flags.names_a_file and is_run(folder):
        if flags.report is not None:
            hint = "`fencepost report` makes it again"
            raise UsageError(f"--report: {folder} is a run: its report is written into its folder", hint=hint)
        if flags.use_spark:
            hint = "`fencepost warehouse build` judges runs through Spark, any number of them"
            raise UsageError(f"--spark: {folder} is a run: it is judged by its plan, on this machine", hint=hint)
        from fencepost.harness.cli.check.run import judge_again

        return judge_again(folder, as_json=flags.as_json, others=others)
    reading = Reading(form=flags.form, model=flags.model, keyed=flags.keyed, consistency=flags.consistency)
    if flags.tables_master is not None:
        from fencepost.harness.cli.check.operations import check_history_by_spark

        return check_history_by_spark(
            folder,
            reading,
            spark_master=flags.tables_master,
            as_json=flags.as_json,
            others=others,
            report=flags.report,
        )
    return check_file(folder, reading, as_json=flags.as_json, others=others, report=flags.report)


def _others(flags: _Flags) -> "OtherTools | None":
    """The tools of `--also`; None where no tool is to be asked. Raises UsageError for a flag that is wrong."""
    if not (flags.also or flags.also_command) and flags.also_time_limit == _ALSO_TIME_LIMIT:
        return None
    from fencepost.harness.cli.check.second_opinions import other_tools

    others = other_tools(flags.also, flags.also_command, flags.also_time_limit)
    return others if others.names else None


def _check_table(path: Path, flags: _Flags, others: "OtherTools | None") -> int:
    from fencepost.harness.cli.check.operations import check_table, refuse_beside
    from fencepost.harness.cli.check.transactions import check_transactions, has_transactions

    if has_transactions(path):
        return check_transactions(
            path,
            model=flags.model,
            consistency=flags.consistency,
            spark_master=flags.tables_master,
            as_json=flags.as_json,
            others=others,
            report=flags.report,
        )
    refuse_beside(path, {"--also": others, "--consistency": flags.consistency})
    return check_table(
        path, model=flags.model, spark_master=flags.tables_master, as_json=flags.as_json, report=flags.report
    )
