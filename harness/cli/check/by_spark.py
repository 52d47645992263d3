"""`fencepost check FILE --spark`: a table of operations or a history in Parquet, judged by shares of its keys."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.harness.base.errors import MalformedHistory, UsageError
from fencepost.harness.cli.check.foreign import Judged, Reading, judge, judge_imported
from fencepost.harness.interchange.formats.family import Family, choose, sampler
from fencepost.harness.interchange.formats.recognise import is_table
from fencepost.harness.interchange.second_opinion.opinion import ToolQuestion
from fencepost.harness.judging.judgement import Judgement
from fencepost.harness.judging.stand_alone import FORMAT
from fencepost.harness.plugins import registry
from fencepost.harness.results.columns import is_history, read_parquet
from fencepost.harness.verdict import Facts, Validity, Verdict
from fencepost.harness.verdict.by_guarantee import counts_in_words, plain_verdict
from fencepost.harness.verdict.figures import KEYS, OPERATIONS


class JudgedBySpark(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict on more operations than one machine holds; `form` is a table's or that of our histories."""

    path: Path
    form: str
    verdict: Verdict
    facts: Facts

    @property
    def history(self) -> None:
        return None

    @property
    def taken_for(self) -> str:
        return f"{self.form}, model {self.facts.workload}"

    @property
    def operations(self) -> int:
        return int(self.verdict.figures[OPERATIONS])

    @property
    def judgement(self) -> Judgement:
        """The verdict as the judgement on a whole file."""
        verdict = self.verdict
        headline = f"{self.operations} operations: no violation of {verdict.guarantee} was found"
        if verdict.validity is Validity.INVALID:
            headline = f"{verdict.guarantee} is violated: {counts_in_words([verdict])}"
        elif verdict.validity is Validity.UNKNOWN:
            headline = verdict.reason
        return Judgement(validity=verdict.validity, headline=headline, verdicts=(verdict,), facts=self.facts)

    def introduction(self) -> list[str]:
        keys = self.verdict.figures[KEYS]
        return [
            f"{self.path}: {self.form}, {self.operations} operations on {keys} keys; {self.facts.workload}, by spark"
        ]

    def write_page(self, output: Path) -> None:
        """Write the page of the witnesses' keys, judged once more as a history of their own."""
        from fencepost.harness.interchange.formats.tables import read_table

        names = (witness.key for witness in self.verdict.witnesses if witness.key is not None)
        imported = read_table(self.path, keys=[int(name.removeprefix("key ")) for name in names])
        judge_imported(imported, self.path, None).write_page(output)

    def question(self) -> ToolQuestion:
        raise AssertionError("--also was refused before")

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


def judge_by_spark(path: Path, reading: Reading) -> Judged:
    """Judge a table or a history by shares of its keys; on this machine if its model does not split so."""
    table = is_table(path)
    if not table and not (path.suffix == ".parquet" and path.is_file() and is_history(path)):
        raise UsageError(
            f"{path}: only a table of operations and a history of ours in Parquet are judged through Spark",
            hint="without --spark it is judged on this machine",
        )
    family = _family_of_table(path, reading.model) if table else _family(path, reading.model)
    if not family.splits_by_key:
        click.echo(
            f"note: {path}: Spark shares out keys, and a history of the model {family.name} must be judged as one: "
            "it is judged on this machine",
            err=True,
        )
        return judge(path, msgspec.structs.replace(reading, spark_master=None))
    page = reading.page and not table
    _refuse_beside(path, {"--also": reading.also, "--report": page, "--consistency": reading.consistency})
    facts = Facts(
        system="",
        workload=f"{family.name}:{family.parameter}" if family.parameter else family.name,
        nodes=(),
        guarantees=(),
        required=(family.guarantee,),
        read_guarantee=family.guarantee,
    )
    form = "operations" if table else "parquet"
    verdict = registry.table_judge()(path, reading.spark_master or "", form, facts)
    return JudgedBySpark(path=path, form=form, verdict=verdict, facts=facts)


def _refuse_beside(path: Path, flags: Mapping[str, object]) -> None:
    """Raise UsageError for a flag, given, that needs all events on this machine."""
    for flag, given in flags.items():
        if given:
            raise UsageError(
                f"{path}: {flag} is for histories that are judged on this machine", hint=f"leave {flag} or --spark out"
            )


def _family_of_table(path: Path, model: str | None) -> Family:
    first = min(path.glob("*.parquet")) if path.is_dir() else path
    try:
        ops = "ops" in pq.read_schema(first).names
    except (pa.ArrowException, OSError) as error:
        raise _not_whole(path, error) from None
    return choose(model or ("list-append" if ops else "cas-register"), (), lambda _: (), str(path))


def _family(path: Path, model: str | None) -> Family:
    """The model that was named, or the one that the operations show; what they return is read of the first ones."""
    try:
        named = pq.read_table(path, columns=["f"], read_dictionary=["f"]).column("f").unique().drop_null().to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise _not_whole(path, error) from None
    functions = {"read" if f == "members" else f for f in named}
    return choose(model, functions, sampler(next(read_parquet(path), [])), str(path))


def _not_whole(path: Path, error: Exception) -> MalformedHistory:
    return MalformedHistory(f"{path}: not a whole Parquet file: {error}", hint="write or copy it again")
