"""`fencepost check TABLE`: operations in integer columns, judged on this machine or, asked to, through Spark.

A Parquet history of registers that stands alone is judged through Spark likewise.
"""

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.harness.base.errors import HarnessError, UsageError
from fencepost.harness.interchange.formats.recognise import JEPSEN_EDN
from fencepost.harness.interchange.second_opinion.opinion import Opinion
from fencepost.harness.judging.judge import Judgement
from fencepost.harness.judging.stand_alone import FORMAT
from fencepost.harness.plugins import registry
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.columns import VERSION_KEY
from fencepost.harness.verdict import Facts, Validity, Verdict
from fencepost.harness.verdict.counting import counts_in_words
from fencepost.harness.verdict.tables import CAS_REGISTER, LINEARIZABLE

MODELS: Final = ("register", CAS_REGISTER)
_SESSION_S: Final = 120.0
#: About five million operations: from here on Spark works for so long that its own code is worth compiling in full.
_LARGE_BYTES: Final = 64 << 20


def is_table(path: Path) -> bool:
    """Whether `path` is Parquet that says nothing of being a history of ours: a file, or a folder of part files."""
    if path.is_dir():
        own = any((path / name).is_file() for name in (store.PLAN, store.HISTORY, JEPSEN_EDN))
        return not own and next(path.glob("*.parquet"), None) is not None
    if not path.is_file():
        # What a pipe holds can be read once only, and may not be there yet.
        return False
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PAR1" and VERSION_KEY not in (pq.read_schema(path).metadata or {})
    except (pa.ArrowException, OSError):
        return False


def check_table(
    path: Path, *, model: str | None, spark_master: str | None, as_json: bool, report: Path | None = None
) -> int:
    """Judge the table's registers for linearizability; through Spark when a master is given."""
    from fencepost.harness.cli.check.table_report import write_operations_report

    facts = _facts(path, model)
    if spark_master is None:
        verdict = registry.table("operations")(path).check(facts)
    else:
        verdict = by_spark(path, spark_master, "operations", facts)
    write_page = partial(write_operations_report, report, path, spark_master=spark_master) if report else None
    return _say_registers(path, verdict, facts, form="operations", as_json=as_json, write_page=write_page)


def check_history_by_spark(path: Path, *, model: str | None, spark_master: str, as_json: bool) -> int:
    """Judge a Parquet history of registers through Spark, where it becomes a table of operations first."""
    if not _is_history(path):
        raise UsageError(
            f"{path}: only a table of operations and a history of ours in Parquet are judged through Spark",
            hint="without --spark it is judged on this machine",
        )
    facts = _facts(path, model)
    verdict = by_spark(path, spark_master, "history", facts)
    return _say_registers(path, verdict, facts, form="parquet", as_json=as_json)


def refuse_beside(path: Path, flags: Mapping[str, object]) -> None:
    """Raise UsageError for a flag, given, that needs the events or the transactions of a history."""
    for flag, given in flags.items():
        if given:
            raise UsageError(
                f"{path}: {flag} is for histories that are judged from their events, not from columns",
                hint=f"leave {flag} out",
            )


def _is_history(path: Path) -> bool:
    try:
        return path.is_file() and VERSION_KEY in (pq.read_schema(path).metadata or {})
    except (pa.ArrowException, OSError):
        return False


def _facts(path: Path, model: str | None) -> Facts:
    if model not in (None, *MODELS):
        raise UsageError(
            f"{path}: a table of operations is of the model cas-register, not {model}",
            hint="docs/operations-table.md says what its columns mean",
        )
    return Facts(
        system="",
        workload=CAS_REGISTER,
        nodes=(),
        guarantees=(),
        required=(LINEARIZABLE,),
        read_guarantee=LINEARIZABLE,
    )


def _say_registers(
    path: Path,
    verdict: Verdict,
    facts: Facts,
    *,
    form: str,
    as_json: bool,
    write_page: Callable[[Judgement], None] | None = None,
) -> int:
    much = f"{verdict.figures['operations']} operations"
    what = "table of operations" if form == "operations" else form
    return say(path, verdict, facts, form=form, what=what, much=much, as_json=as_json, write_page=write_page)


def say(
    path: Path,
    verdict: Verdict,
    facts: Facts,
    *,
    form: str,
    what: str,
    much: str,
    as_json: bool,
    write_page: Callable[[Judgement], None] | None = None,
    ask: Callable[[], Sequence[Opinion]] | None = None,
) -> int:
    """Tell the verdict on a table, write its page and ask others; the exit code. `much`: how much there is in it."""
    from fencepost.harness.cli.check.second_opinions import exit_code as exit_code_with
    from fencepost.harness.cli.check.second_opinions import say_opinions, with_opinions
    from fencepost.harness.cli.output.outcome import say_judgement

    headline = _headline(verdict, much)
    judgement = Judgement(validity=verdict.validity, headline=headline, verdicts=(verdict,), facts=facts)
    said = f"{what}, {much} on {verdict.figures['keys']} keys"
    click.echo(f"{path}: {said}; model {facts.workload}, by {verdict.figures['engine']}", err=True)
    if not as_json:
        say_judgement(judgement)
        sys.stdout.flush()
    if write_page is not None:
        write_page(judgement)
    opinions = ask() if ask is not None else ()
    ours = int(judgement.exit_code)
    if as_json:
        sys.stdout.write(json.dumps(with_opinions(_document(path, judgement, form), opinions, ours), indent=2) + "\n")
    say_opinions(opinions, as_json=as_json)
    return exit_code_with(ours, opinions)


def _headline(verdict: Verdict, much: str) -> str:
    match verdict.validity:
        case Validity.INVALID:
            return f"{verdict.guarantee} is broken: {counts_in_words([verdict])}"
        case Validity.UNKNOWN:
            return verdict.reason
        case Validity.VALID:
            return f"{much}: no violation of {verdict.guarantee} was found"


def by_spark(path: Path, master: str, holds: str, facts: Facts, *more: object) -> Verdict:
    """What the judge of such tables says with a session at `master`; what Spark itself fails with is no verdict."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from fencepost.harness.warehouse.spark_session import FULLY_COMPILED, SparkHandle

    judge = registry.table_judge(holds)
    large = _bytes(path) >= _LARGE_BYTES
    with SparkHandle(master, jvm_flags=FULLY_COMPILED if large else None) as handle:
        try:
            return judge(handle.session(_SESSION_S), str(path.resolve()), facts, *more)
        except (PySparkException, Py4JJavaError) as error:
            said = _reason(str(error).splitlines())
            lacking = "ModuleNotFoundError" in said or "ImportError" in said
            raise HarnessError(
                f"{path}: Spark at {master} gave no verdict: {said}",
                hint="executors need fencepost and its native core for the Python that PYSPARK_PYTHON names there"
                if lacking
                else "without --spark it is judged on this machine",
            ) from error


def _bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in ([path] if path.is_file() else path.glob("*.parquet")))


def _reason(lines: list[str]) -> str:
    """The innermost exception that is named: it stands behind its traceback, before Spark's own."""
    named = [line.strip() for line in lines if re.match(r"(Caused by: )?[\w.]+(Error|Exception)\b", line)]
    told = [line for line in lines if line.strip()]
    return (named[-1] if named else told[0] if told else "no reason given").removeprefix("Caused by: ")


def _document(path: Path, judgement: Judgement, form: str) -> dict[str, Any]:
    """The judgement as plain data, as of any file that stands alone."""
    (verdict,) = judgement.verdicts
    return {
        "format": FORMAT,
        "validity": judgement.validity.value,
        "exit_code": int(judgement.exit_code),
        "headline": judgement.headline,
        "file": str(path),
        "form": form,
        "model": judgement.facts.workload,
        "keyed": True,
        "events": 0,
        "operations": verdict.figures.get("operations", verdict.figures.get("transactions")),
        "verdicts": [msgspec.to_builtins(verdict)],
    }
