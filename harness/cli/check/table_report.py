"""`fencepost check TABLE --report`: the page of a judged table.

A table has no events: those of what is shown are made from its rows, and its witnesses are told by these.
"""

from functools import cached_property
from pathlib import Path

import msgspec

from fencepost.harness.base.errors import command_line
from fencepost.harness.cli.check.file_report import MODEL_SOURCES, file_facts, models_of, write_page
from fencepost.harness.history import Operation
from fencepost.harness.interchange.formats.family import FAMILIES
from fencepost.harness.interchange.formats.imported import Imported, ImportedHistory
from fencepost.harness.judging.judgement import Judgement
from fencepost.harness.plugins import registry
from fencepost.harness.report.judged_file import JudgedFile, Whole
from fencepost.harness.verdict import Witness
from fencepost.harness.verdict.by_guarantee import table_figures
from fencepost.harness.verdict.tables import ShownRows


class ShownTransactions(ImportedHistory):
    """Transactions of a table, in the order of its rows, which names them by its own numbers."""

    def __init__(self, rows: ShownRows, model: str, *, source: str) -> None:
        super().__init__(rows.events, FAMILIES[model], source=source)
        self._numbers = rows.numbers

    @cached_property
    def transactions(self) -> dict[int, Operation]:
        return dict(zip(self._numbers, self.operations, strict=True))


def write_operations_report(output: Path, path: Path, judgement: Judgement, *, spark_master: str | None) -> None:
    """The page of a table of operations; raises UsageError, or HarnessError for a section that could not be made."""
    (verdict,) = judgement.verdicts
    table = registry.table("operations")(path)
    source = f"{path} ({verdict.guarantee})"
    history = ImportedHistory(table.shown(verdict).events, FAMILIES[table.model], source=source)
    figures = table_figures(verdict)
    judged = JudgedFile(
        imported=Imported(history=history, form="operations", keyed=True),
        judgement=_with(judgement, table.witnesses(history, verdict, judgement.facts)),
        file=file_facts(path),
        command=_command(path, output, spark_master),
        whole=Whole(count=figures.rows, keys=figures.keys),
    )
    write_page(output, judged)


def write_transactions_report(output: Path, path: Path, judgement: Judgement) -> None:
    """The page of a table of transactions; raises as `write_operations_report`."""
    (verdict,) = judgement.verdicts
    table = registry.table("transactions")(path)
    history = ShownTransactions(table.shown(verdict), table.model, source=f"{path} ({verdict.guarantee})")
    figures = table_figures(verdict)
    judged = JudgedFile(
        imported=Imported(history=history, form="transactions", keyed=False),
        judgement=_with(judgement, table.witnesses(history, verdict, judgement.facts)),
        file=file_facts(path),
        command=_command(path, output, None, "--consistency", verdict.guarantee),
        models=models_of(judgement.verdicts),
        sources=MODEL_SOURCES,
        whole=Whole(count=figures.rows, keys=figures.keys, of="transactions", shown="that are shown"),
    )
    write_page(output, judged)


def _with(judgement: Judgement, witnesses: tuple[Witness, ...]) -> Judgement:
    (verdict,) = judgement.verdicts
    return msgspec.structs.replace(judgement, verdicts=(msgspec.structs.replace(verdict, witnesses=witnesses),))


def _command(path: Path, output: Path, spark_master: str | None, *more: str) -> str:
    spark = ["--spark", "--spark-master", spark_master] if spark_master is not None else []
    return command_line("check", path, *more, *spark, "--report", f"again-{output.name}")
