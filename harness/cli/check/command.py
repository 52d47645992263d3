"""`fencepost check`: a stored run, a history that stands alone, or a table."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from fencepost.harness.base.errors import UsageError
from fencepost.harness.cli.check.file_report import check_report
from fencepost.harness.cli.check.foreign import check_file, is_run
from fencepost.harness.cli.check.operations import check_history_by_spark, check_table, is_table, refuse_beside
from fencepost.harness.cli.check.run import judge_again
from fencepost.harness.cli.check.second_opinions import Asked, asked_by
from fencepost.harness.cli.check.transactions import check_transactions, has_transactions
from fencepost.harness.cli.output.path_value import PathValue
from fencepost.harness.results import run_folder as store


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flags:
    """The command's flags as they were given; None where one was left out."""

    as_json: bool
    spark_master: str
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
        return self.spark_master if self.use_spark else None


@click.command("check")
@click.argument("folder", metavar="RUN|FILE", type=PathValue(allow_dash=True))
@click.option("--json", "as_json", is_flag=True, help="Print verdict.json on stdout instead of words.")
@click.option("--spark-master", default="local[*]", help="With --spark: a Spark master whose executors reach FILE.")
@click.option("--spark", "use_spark", is_flag=True, help="FILE in Parquet: judged through Spark, at any size.")
@click.option("--model", help="FILE: register, queue, ..., or module:Model. Default: guessed from the operations.")
@click.option("--format", "form", help="FILE: edn, porcupine, jsonl, parquet. Default: guessed from its first bytes.")
@click.option("--keyed/--no-keyed", default=None, help="FILE in EDN: values are [key value], or not.")
@click.option("--report", type=PathValue(), help="FILE: write an HTML report of it (must not exist yet).")
@click.option("--also", multiple=True, metavar="TOOL", help="Ask a second checker too: porcupine, knossos, elle.")
@click.option("--also-command", multiple=True, metavar="TOOL=COMMAND", help="How knossos or elle is called here.")
@click.option("--also-time-limit", default="60s", show_default=True, help="For each of those that are asked.")
@click.option(
    "--consistency",
    metavar="NAME",
    help="FILE of transactions: serializable, snapshot-isolation, causal, ... Default: strict-serializable.",
)
def command(folder: Path, **given: Any) -> int:
    """Judge a stored history again, offline.

    A run is judged by its plan; verdict, JUnit and report are written again. A FILE that stands alone (Jepsen's
    history.edn or its folder; operations in JSON; a .parquet or .jsonl of ours; a table of operations or of
    transactions in Parquet; - for standard input) is judged by a model, and nothing is written but the --report that is
    asked for.

    --also hands the same history to another checker. A tool that is missing is skipped; one that contradicts the
    verdict makes the exit code 255, with both verdicts shown.
    """
    flags = _Flags(**given)
    if flags.report is not None:
        check_report(flags.report)
    asked = asked_by(flags.also, flags.also_command, flags.also_time_limit)
    if flags.form in (None, "parquet") and flags.keyed is None and is_table(folder):
        return _check_table(folder, flags, asked)
    if flags.names_a_file and folder.is_dir() and is_run(folder):
        raise UsageError(
            f"{folder}: {', '.join(flags.of_files)}: a run is judged by its plan",
            hint=f"fencepost check {folder}; its operations alone, without the plan: fencepost check "
            f"{folder / store.HISTORY} --model ...",
        )
    if not flags.names_a_file and is_run(folder):
        if flags.report is not None:
            hint = "`fencepost report` makes it again"
            raise UsageError(f"--report: {folder} is a run: its report is written into its folder", hint=hint)
        if flags.use_spark:
            hint = "`fencepost warehouse build` judges runs through Spark, any number of them"
            raise UsageError(f"--spark: {folder} is a run: it is judged by its plan, on this machine", hint=hint)
        return judge_again(folder, as_json=flags.as_json, asked=asked)
    if flags.use_spark:
        beside = {"--also": asked.names, "--report": flags.report, "--consistency": flags.consistency}
        refuse_beside(folder, beside)
        return check_history_by_spark(folder, model=flags.model, spark_master=flags.spark_master, as_json=flags.as_json)
    return check_file(
        folder,
        form=flags.form,
        model=flags.model,
        keyed=flags.keyed,
        consistency=flags.consistency,
        as_json=flags.as_json,
        asked=asked,
        report=flags.report,
    )


def _check_table(path: Path, flags: _Flags, asked: Asked) -> int:
    if has_transactions(path):
        return check_transactions(
            path,
            model=flags.model,
            consistency=flags.consistency,
            spark_master=flags.tables_master,
            as_json=flags.as_json,
            asked=asked,
            report=flags.report,
        )
    refuse_beside(path, {"--also": asked.names, "--consistency": flags.consistency})
    return check_table(
        path, model=flags.model, spark_master=flags.tables_master, as_json=flags.as_json, report=flags.report
    )
