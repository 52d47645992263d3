"""`fencepost check TABLE --report`: the page of a judged table.

A table has no events: those of what is shown are made from its rows, and its witnesses are told by these.
"""

import re
import shlex
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from fencepost.checkers.storage.registers import GUARANTEE
from fencepost.checkers.tables.histories import events_of, transaction_events_of, transaction_witnesses_in, witnesses_in
from fencepost.checkers.tables.operations_file import TableFile
from fencepost.checkers.tables.transactions import Rows
from fencepost.checkers.tables.transactions_file import TransactionsFile
from fencepost.harness.cli.check.file_report import MODEL_SOURCES, file_facts, models_of, write_page
from fencepost.harness.history import Operation
from fencepost.harness.interchange.formats.family import FAMILIES
from fencepost.harness.interchange.formats.imported import Imported, ImportedHistory
from fencepost.harness.judging.judge import Judgement
from fencepost.harness.report.page.judged_file import JudgedFile, Whole
from fencepost.harness.verdict import Verdict, Witness

#: Rows of the shown keys together; of larger ones the sentences stand without a drawing.
_ROWS_MAX: Final = 200_000
#: Micro-operations and elements of the shown transactions together; of larger ones likewise.
_VALUES_MAX: Final = 20_000
_NAMED: Final = re.compile(r"\bT(\d+)\b")


class ShownTransactions(ImportedHistory):
    """Transactions of a table, in the order of its rows, which names them by its own numbers."""

    def __init__(self, rows: Rows, model: str, *, source: str) -> None:
        super().__init__(transaction_events_of(rows), FAMILIES[model], source=source)
        self._numbers = rows.numbers.tolist()

    @cached_property
    def transactions(self) -> dict[int, Operation]:
        return dict(zip(self._numbers, self.operations, strict=True))


def write_operations_report(output: Path, path: Path, judgement: Judgement, *, spark_master: str | None) -> None:
    """The page of a table of operations; raises UsageError, or HarnessError for a section that could not be made."""
    (verdict,) = judgement.verdicts
    history = _shown(path, verdict)
    figures: dict[str, Any] = verdict.figures
    judged = JudgedFile(
        found=Imported(history=history, form="operations", keyed=True),
        judgement=_with(judgement, witnesses_in(history, verdict, judgement.facts)),
        file=file_facts(path),
        command=_command(path, output, spark_master),
        whole=Whole(count=figures["operations"], keys=figures["keys"]),
    )
    _write(output, judged)


def write_transactions_report(output: Path, path: Path, judgement: Judgement, *, spark_master: str | None) -> None:
    """The page of a table of transactions; raises as `write_operations_report`."""
    (verdict,) = judgement.verdicts
    history = _shown_transactions(path, verdict)
    figures: dict[str, Any] = verdict.figures
    judged = JudgedFile(
        found=Imported(history=history, form="transactions", keyed=False),
        judgement=_with(judgement, transaction_witnesses_in(history, verdict)),
        file=file_facts(path),
        command=_command(path, output, spark_master, "--consistency", verdict.guarantee),
        models=models_of(judgement.verdicts),
        sources=MODEL_SOURCES,
        whole=Whole(count=figures["transactions"], keys=figures["keys"], of="transactions", shown="that are shown"),
    )
    _write(output, judged)


def _write(output: Path, judged: JudgedFile) -> None:
    write_page(output, judged)
    click.echo(f"report: {output}", err=True)


def _with(judgement: Judgement, witnesses: tuple[Witness, ...]) -> Judgement:
    (verdict,) = judgement.verdicts
    return msgspec.structs.replace(judgement, verdicts=(msgspec.structs.replace(verdict, witnesses=witnesses),))


def _command(path: Path, output: Path, spark_master: str | None, *more: str) -> str:
    spark = ["--spark", "--spark-master", spark_master] if spark_master is not None else []
    return shlex.join(["fencepost", "check", str(path), *more, *spark, "--report", f"again-{output.name}"])


def _shown(path: Path, verdict: Verdict) -> ImportedHistory:
    """The keys of the witnesses as one history; without those of too many rows."""
    table = TableFile(path)
    keys = [int(witness.key.removeprefix("key ")) for witness in verdict.witnesses if witness.key is not None]
    left, chosen = _ROWS_MAX, list[int]()
    for key in keys:
        rows = table.count(key)
        if rows <= left:
            chosen.append(key)
            left -= rows
    events = events_of(table.read(chosen)) if chosen else []
    return ImportedHistory(events, FAMILIES["cas-register"], source=f"{path} ({GUARANTEE})")


def _shown_transactions(path: Path, verdict: Verdict) -> ShownTransactions:
    """The transactions of the witnesses and those that bear witness to their steps; without too large ones."""
    table = TransactionsFile(path)
    named = [_named(witness) for witness in verdict.witnesses]
    rows = table.read({number for numbers in named for number in numbers})
    sizes = dict(zip(rows.numbers.tolist(), _sizes(rows), strict=True))
    left, chosen = _VALUES_MAX, set[int]()
    for numbers in named:
        size = sum(sizes[number] for number in numbers - chosen)
        if size <= left:
            chosen |= numbers
            left -= size
    if len(chosen) < len(sizes):
        rows = table.read(chosen)
    return ShownTransactions(rows, table.model, source=f"{path} ({verdict.guarantee})")


def _named(witness: Witness) -> set[int]:
    return {*witness.transactions, *(int(number) for step in witness.steps for number in _NAMED.findall(step))}


def _sizes(rows: Rows) -> Sequence[int]:
    """Of each transaction: itself, its micro-operations, and the elements that it read."""
    c = rows.columns
    ops = c.first[1:] - c.first[:-1]
    elements = c.start[c.first[1:]] - c.start[c.first[:-1]] if rows.lists else 0
    return (1 + ops + elements).tolist()  # type: ignore[no-any-return]  # numpy's lists are of anything
