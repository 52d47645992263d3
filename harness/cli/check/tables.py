"""`fencepost check TABLE`: operations or transactions in columns, which are too many to be events.

Operations are judged on this machine or, asked to, through Spark. A Parquet history that stands alone is judged through
Spark likewise, if its model can be judged key by key. For a page, the events of what is shown are made from the rows.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import click
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.harness.base.errors import MalformedHistory, UsageError, command_line, unknown_choice
from fencepost.harness.cli.check.foreign import Judged, Reading, judge
from fencepost.harness.history import Operation
from fencepost.harness.interchange.formats.family import FAMILIES, Family, choose, sampler
from fencepost.harness.interchange.formats.imported import Imported, ImportedHistory
from fencepost.harness.interchange.second_opinion.asking import check_asked
from fencepost.harness.interchange.second_opinion.opinion import ToolQuestion, ToolSkip
from fencepost.harness.judging.judgement import Judgement
from fencepost.harness.judging.stand_alone import FORMAT
from fencepost.harness.plugins import registry
from fencepost.harness.results.columns import VERSION_KEY, read_parquet
from fencepost.harness.verdict import Facts, Validity, Verdict
from fencepost.harness.verdict.by_guarantee import counts_in_words, plain_verdict, table_figures
from fencepost.harness.verdict.consistency_models import NAMES
from fencepost.harness.verdict.tables import CAS_REGISTER, LIST_APPEND, RW_REGISTER, STRICT, ShownRows

OPERATIONS: Final = "operations"
TRANSACTIONS: Final = "transactions"
MODELS: Final = {OPERATIONS: ("register", CAS_REGISTER), TRANSACTIONS: (LIST_APPEND, RW_REGISTER)}
#: Numbers in micro-operations that are handed to another tool: as events about a gigabyte, as text a tenth of that.
HANDED_MAX: Final = 20_000_000


class JudgedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table and the verdict on it; `form` is "parquet" for a history that was judged by shares of its keys."""

    path: Path
    form: str
    verdict: Verdict
    facts: Facts
    spark_master: str | None = None

    @property
    def history(self) -> None:
        return None

    @property
    def what(self) -> str:
        """Its kind for people."""
        return self.form if self.form == "parquet" else f"table of {self.form}"

    @property
    def rows(self) -> str:
        """What a row of it is, in the plural."""
        return TRANSACTIONS if self.form == TRANSACTIONS else OPERATIONS

    @property
    def taken_for(self) -> str:
        return f"{self.what}, model {self.facts.workload}"

    @property
    def operations(self) -> int:
        return table_figures(self.verdict).rows

    @property
    def judgement(self) -> Judgement:
        """The verdict as the judgement on a whole file."""
        return Judgement(
            validity=self.verdict.validity, headline=self._headline(), verdicts=(self.verdict,), facts=self.facts
        )

    def introduction(self) -> list[str]:
        figures, size = table_figures(self.verdict), f"{self.operations} {self.rows}"
        what = f"{self.path}: {self.what}, {size} on {figures.keys} keys"
        return [f"{what}; model {self.facts.workload}, by {figures.engine}"]

    def document(self) -> dict[str, Any]:
        """The judgement as plain data, with the keys of any file that is judged without a plan."""
        judgement = self.judgement
        return {
            "format": FORMAT,
            "validity": judgement.validity.value,
            "exit_code": int(judgement.exit_code),
            "headline": judgement.headline,
            "file": str(self.path),
            "form": self.form,
            "model": self.facts.workload,
            "keyed": True,
            "events": 0,
            "operations": self.operations,
            "verdicts": [plain_verdict(self.verdict)],
        }

    def write_page(self, output: Path) -> None:
        """Write the page; raises UsageError, or HarnessError for a section that could not be made."""
        from fencepost.harness.cli.check.file_report import MODEL_SOURCES, file_facts, models_of, write_page
        from fencepost.harness.report.judged_file import JudgedFile, Whole

        table, verdict = registry.table(self.rows)(self.path), self.verdict
        by_transaction = self.rows == TRANSACTIONS
        family, source = FAMILIES[table.model], f"{self.path} ({verdict.guarantee})"
        rows = table.shown(verdict)
        history = ImportedHistory(rows.events, family, source=source)
        if by_transaction:
            history = _ShownTransactions(rows, family, source=source)
        drawn = msgspec.structs.replace(verdict, witnesses=table.witnesses(history, verdict, self.facts))
        held = ["--consistency", verdict.guarantee] if by_transaction else []
        spark = [] if self.spark_master is None else ["--spark", "--spark-master", self.spark_master]
        size = Whole(count=self.operations, keys=table_figures(verdict).keys)
        judged = JudgedFile(
            imported=Imported(history=history, form=self.form, keyed=not by_transaction),
            judgement=msgspec.structs.replace(self.judgement, verdicts=(drawn,)),
            file=file_facts(self.path),
            command=command_line("check", self.path, *held, *spark, "--report", f"again-{output.name}"),
            models=models_of((drawn,)),
            sources=MODEL_SOURCES,
            whole=msgspec.structs.replace(size, of=TRANSACTIONS, shown="that are shown") if by_transaction else size,
        )
        write_page(output, judged)

    def question(self) -> ToolQuestion:
        """What was asked of the transactions; no tool that knows these reads the operations."""
        assert self.rows == TRANSACTIONS, "--also was refused before"
        return ToolQuestion(
            events=registry.table(TRANSACTIONS)(self.path).events(),
            operations=(),
            model=self.verdict.checker,
            guarantee=self.verdict.guarantee,
            validity=self.verdict.validity,
        )

    def _headline(self) -> str:
        match self.verdict.validity:
            case Validity.INVALID:
                return f"{self.verdict.guarantee} is violated: {counts_in_words([self.verdict])}"
            case Validity.UNKNOWN:
                return self.verdict.reason
            case Validity.VALID:
                return f"{self.operations} {self.rows}: no violation of {self.verdict.guarantee} was found"


class _ShownTransactions(ImportedHistory):
    """Transactions of a table, in the order of its rows, which names them by its own numbers."""

    def __init__(self, rows: ShownRows, family: Family, *, source: str) -> None:
        super().__init__(rows.events, family, source=source)
        self._numbers = rows.numbers

    @cached_property
    def transactions(self) -> dict[int, Operation]:
        return dict(zip(self._numbers, self.operations, strict=True))


def has_operations(path: Path) -> bool:
    """Whether a file of Parquet can be read and says nothing of being a history of ours."""
    return VERSION_KEY not in _metadata(path, {VERSION_KEY: b""})


def _metadata(path: Path, unreadable: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
    try:
        return pq.read_schema(path).metadata or {}
    except (pa.ArrowException, OSError):
        return unreadable


def judge_table(path: Path, reading: Reading) -> JudgedTable:
    """Judge the table's registers for linearizability, or its transactions by a consistency model."""
    return (_judge_transactions if _has_transactions(path) else _judge_operations)(path, reading)


def _has_transactions(path: Path) -> bool:
    try:
        first = min(path.glob("*.parquet")) if path.is_dir() else path
        return "ops" in pq.read_schema(first).names
    except (pa.ArrowException, OSError):
        return False


def _judge_operations(path: Path, reading: Reading) -> JudgedTable:
    """Judge on this machine, or through Spark when a master is given."""
    _refuse_beside(path, {"--also": reading.also, "--consistency": reading.consistency})
    _refuse_model(path, OPERATIONS, reading.model, f"the model {CAS_REGISTER}")
    facts, master = _facts(FAMILIES[CAS_REGISTER]), reading.spark_master
    if master is None:
        verdict = registry.table(OPERATIONS)(path).check(facts)
    else:
        verdict = registry.table_judge()(path, master, OPERATIONS, facts)
    return JudgedTable(path=path, form=OPERATIONS, verdict=verdict, facts=facts, spark_master=master)


def _judge_transactions(path: Path, reading: Reading) -> JudgedTable:
    """Judge on this machine, since a cycle spans keys."""
    model, held = reading.model, reading.consistency or STRICT
    _refuse_model(path, TRANSACTIONS, model, f"the model {LIST_APPEND} or {RW_REGISTER}")
    if held not in NAMES:
        raise unknown_choice("consistency model", held, NAMES)
    facts = Facts(system="", workload=model or "", nodes=(), guarantees=(), required=(held,), read_guarantee=held)
    opened = registry.table(TRANSACTIONS)(path, model)
    for name in reading.also:
        # Before anything is judged, since judging takes long.
        try:
            check_asked(name, opened.model, held)
        except ToolSkip as skip:
            raise UsageError(f"{path}: --also {name}: {skip.reason}", hint=skip.hint) from None
        size = opened.size()
        if size > HANDED_MAX:
            raise UsageError(
                f"{path}: --also {name}: its micro-operations hold {size} numbers, and at most {HANDED_MAX} are "
                "handed to another tool",
                hint="ask about a table of some of the keys, or leave --also out",
            )
    if reading.spark_master is not None:
        _say_one_machine(path, opened.model)
    verdict = opened.check(facts)
    return JudgedTable(
        path=path,
        form=TRANSACTIONS,
        verdict=verdict,
        facts=msgspec.structs.replace(facts, workload=verdict.checker),
    )


def judge_by_spark(path: Path, reading: Reading) -> Judged:
    """Judge a Parquet history by shares of its keys through Spark; on this machine if its model does not split so."""
    if not path.is_file() or VERSION_KEY not in _metadata(path, {}):
        raise UsageError(
            f"{path}: only a table of operations and a history of ours in Parquet are judged through Spark",
            hint="without --spark it is judged on this machine",
        )
    family = _family(path, reading.model)
    if not family.splits_by_key:
        _say_one_machine(path, family.name)
        return judge(path, msgspec.structs.replace(reading, spark_master=None))
    _refuse_beside(path, {"--also": reading.also, "--report": reading.page, "--consistency": reading.consistency})
    facts = _facts(family)
    verdict = registry.table_judge()(path, reading.spark_master or "", "history", facts)
    return JudgedTable(path=path, form="parquet", verdict=verdict, facts=facts)


def _say_one_machine(path: Path, model: str) -> None:
    """Say that --spark changes nothing for this file."""
    click.echo(
        f"note: {path}: Spark shares out keys, and a history of the model {model} must be judged as one: "
        "it is judged on this machine",
        err=True,
    )


def _refuse_model(path: Path, holds: str, model: str | None, known: str) -> None:
    if model not in (None, *MODELS[holds]):
        raise UsageError(
            f"{path}: a table of {holds} is of {known}, not {model}",
            hint=f"docs/reference/{holds}-table.md says what its columns mean",
        )


def _refuse_beside(path: Path, flags: Mapping[str, object]) -> None:
    """Raise UsageError for a flag, given, that needs the events or the transactions of a history."""
    for flag, given in flags.items():
        if given:
            raise UsageError(
                f"{path}: {flag} is for histories that are judged from their events, not from columns",
                hint=f"leave {flag} out",
            )


def _family(path: Path, model: str | None) -> Family:
    """The model that was named, or the one that the operations show; what they return is read of the first ones."""
    try:
        named = pq.read_table(path, columns=["f"], read_dictionary=["f"]).column("f").unique().drop_null().to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise MalformedHistory(f"{path}: not a whole Parquet file: {error}", hint="write or copy it again") from None
    functions = {"read" if f == "members" else f for f in named}
    return choose(model, functions, sampler(next(read_parquet(path), [])), str(path))


def _facts(family: Family) -> Facts:
    return Facts(
        system="",
        workload=f"{family.name}:{family.parameter}" if family.parameter else family.name,
        nodes=(),
        guarantees=(),
        required=(family.guarantee,),
        read_guarantee=family.guarantee,
    )
