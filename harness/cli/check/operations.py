"""`fencepost check TABLE`: operations in integer columns, judged on this machine or, asked to, through Spark.

A Parquet history that stands alone is judged through Spark likewise, if its model can be judged key by key.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

import click
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.harness.base.errors import MalformedHistory, UsageError
from fencepost.harness.cli.check.foreign import Judged, Reading, judge
from fencepost.harness.cli.check.judged_table import JudgedTable
from fencepost.harness.interchange.formats.family import FAMILIES, Family, choose, sampler
from fencepost.harness.plugins import registry
from fencepost.harness.results.columns import VERSION_KEY, read_parquet
from fencepost.harness.verdict import Facts, Verdict
from fencepost.harness.verdict.by_guarantee import table_figures
from fencepost.harness.verdict.tables import CAS_REGISTER

MODELS: Final = ("register", CAS_REGISTER)


def has_operations(path: Path) -> bool:
    """Whether a file of Parquet can be read and says nothing of being a history of ours."""
    try:
        return VERSION_KEY not in (pq.read_schema(path).metadata or {})
    except (pa.ArrowException, OSError):
        return False


def judge_operations(path: Path, reading: Reading) -> JudgedTable:
    """Judge the table's registers for linearizability; through Spark when a master is given."""
    refuse_beside(path, {"--also": reading.also, "--consistency": reading.consistency})
    if reading.model not in (None, *MODELS):
        raise UsageError(
            f"{path}: a table of operations is of the model cas-register, not {reading.model}",
            hint="docs/reference/operations-table.md says what its columns mean",
        )
    facts = _facts(FAMILIES[CAS_REGISTER])
    if reading.spark_master is None:
        verdict = registry.table("operations")(path).check(facts)
    else:
        verdict = registry.table_judge()(path, reading.spark_master, "operations", facts)
    return _registers(path, verdict, facts, form="operations", spark_master=reading.spark_master)


def judge_by_spark(path: Path, reading: Reading) -> Judged:
    """Judge a Parquet history by shares of its keys through Spark; on this machine if its model does not split so."""
    if not _is_history(path):
        raise UsageError(
            f"{path}: only a table of operations and a history of ours in Parquet are judged through Spark",
            hint="without --spark it is judged on this machine",
        )
    family = _family(path, reading.model)
    if not family.splits_by_key:
        say_one_machine(path, family.name)
        return judge(path, msgspec.structs.replace(reading, spark_master=None))
    refuse_beside(path, {"--also": reading.also, "--report": reading.page, "--consistency": reading.consistency})
    facts = _facts(family)
    verdict = registry.table_judge()(path, reading.spark_master or "", "history", facts)
    return _registers(path, verdict, facts, form="parquet", spark_master=reading.spark_master)


def say_one_machine(path: Path, model: str) -> None:
    """Say that --spark changes nothing for this file."""
    click.echo(
        f"note: {path}: Spark shares out keys, and a history of the model {model} must be judged as one: "
        "it is judged on this machine",
        err=True,
    )


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


def _registers(path: Path, verdict: Verdict, facts: Facts, *, form: str, spark_master: str | None) -> JudgedTable:
    from fencepost.harness.cli.check.table_report import write_operations_report

    return JudgedTable(
        path=path,
        form=form,
        what="table of operations" if form == "operations" else form,
        size=f"{table_figures(verdict).rows} operations",
        verdict=verdict,
        facts=facts,
        page=partial(write_operations_report, spark_master=spark_master),
        ask=_ask_nobody,
    )


def _ask_nobody() -> NoReturn:
    raise AssertionError("--also was refused before")
