"""`fencepost check FILE` and `fencepost export`: histories of other tools, judged and written."""

import sys
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click
import msgspec

from fencepost.harness.base.errors import ExitCode, UsageError, command_line
from fencepost.harness.cli.output.help import print_document
from fencepost.harness.history import History
from fencepost.harness.results import run_folder as store
from fencepost.harness.verdict import Validity

if TYPE_CHECKING:
    from fencepost.harness.cli.check.by_spark import JudgedBySpark
    from fencepost.harness.cli.check.second_opinions import OtherTools
    from fencepost.harness.interchange.formats.imported import Imported
    from fencepost.harness.interchange.second_opinion.opinion import ToolQuestion
    from fencepost.harness.judging.judgement import Judgement

#: The files of a run, of which each stands for all.
_OF_A_RUN: Final = frozenset(
    (
        store.PLAN,
        store.RUN,
        store.HISTORY,
        store.HISTORY_LINES,
        store.SCHEDULE,
        store.VERDICT,
        store.JUNIT,
        store.REPORT,
    )
)


def is_run(path: Path) -> bool:
    """Whether `path` is judged by a plan: a run's folder, a folder of runs, or a file of a run."""
    if path.is_dir():
        from fencepost.harness.interchange.formats.recognise import is_one_history

        return (path / store.PLAN).is_file() or not is_one_history(path)
    if not path.exists() and str(path) != "-":
        return not path.suffix
    return path.name in _OF_A_RUN and (path.parent / store.PLAN).is_file()


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How a file is read and judged, as the flags say; None where the file itself decides."""

    form: str | None = None
    #: As `family.choose` takes it.
    model: Any = None
    #: Whether values are pairs of a key and a value.
    keyed: bool | None = None
    consistency: str | None = None
    #: `file`, `index` or `time`; None: the first two decide, and a note says where they differ.
    order: str | None = None
    #: What was there before the first operation: by key; None: of all others.
    initial: dict[str | None, Any] = {}  # msgspec copies it
    #: Functions that are not the store's.
    ignore: tuple[str, ...] = ()
    #: Spark judges a table or a history in Parquet by its keys; None: this machine does.
    spark_master: str | None = None
    #: The tools that are asked afterwards, and whether a page is wanted: refused first where there is none.
    also: tuple[str, ...] = ()
    page: bool = False

    @property
    def flags(self) -> tuple[str, ...]:
        """Those that were given and are for histories that stand alone."""
        given = {
            "--model": self.model,
            "--format": self.form,
            "--keyed": self.keyed,
            "--consistency": self.consistency,
            "--order": self.order,
            "--ignore": self.ignore or None,
            "--initial": self.initial or None,
        }
        return tuple(name for name, value in given.items() if value is not None)


def takes_for_run(path: Path, reading: Reading) -> bool:
    """Whether `path` is judged by a plan; raises UsageError for a run's folder with flags that are for files."""
    if not reading.flags:
        return is_run(path)
    if path.is_dir() and is_run(path):
        raise UsageError(
            f"{path}: {', '.join(reading.flags)}: a run is judged by its plan",
            hint=f"{command_line('check', path)}; its operations alone, without the plan: "
            f"{command_line('check', path / store.HISTORY)} --model ...",
        )
    return False


#: What was judged: a file of another tool, rows handed over in Python, or shares of its keys through Spark.
Judged: TypeAlias = "JudgedHistory | JudgedBySpark"


class JudgedHistory(msgspec.Struct, frozen=True, kw_only=True):
    """A history that was judged without a plan."""

    path: Path
    imported: "Imported"
    judgement: "Judgement"
    consistency: str | None = None

    @property
    def history(self) -> History:
        return self.imported.history

    @property
    def taken_for(self) -> str:
        keys = ", keyed" if self.imported.keyed else ""
        return f"{self.imported.form}, model {self.imported.family.name}{keys}"

    @property
    def operations(self) -> int:
        return len(self.history.operations)

    def introduction(self) -> list[str]:
        form, model = self.taken_for.split(", ", 1)
        lines = [f"{self.path}: {form}, {len(self.history.events)} events; {model}"]
        lines += [f"note: {note}" for note in (self.imported.family.note, *self.imported.notes) if note]
        if self.imported.origin is not None:
            lines.append(f"judged as {self.judgement.facts.read_guarantee}; {self.imported.origin.sentence}")
        return lines

    def document(self) -> dict[str, Any]:
        from fencepost.harness.judging.stand_alone import document

        return document(self.imported, self.judgement, str(self.path))

    def write_page(self, output: Path) -> None:
        from fencepost.harness.cli.check.file_report import write_report

        write_report(output, self.imported, self.judgement, self.path)

    def question(self) -> "ToolQuestion":
        from fencepost.harness.cli.check.second_opinions import question_of_file

        family = self.imported.family
        if self.consistency is not None:
            family = msgspec.structs.replace(family, guarantee=self.consistency)
        return question_of_file(self.history, family, self.judgement.validity)


def judge(path: Path, reading: Reading) -> Judged:
    """Judge one file without a plan; raises UsageError."""
    if reading.spark_master is not None:
        from fencepost.harness.cli.check.by_spark import judge_by_spark

        return judge_by_spark(path, reading)
    from fencepost.harness.interchange.formats.recognise import read_foreign

    imported = read_foreign(
        path, form=reading.form, model=reading.model, keyed=reading.keyed, order=reading.order, ignore=reading.ignore
    )
    if reading.initial:
        from fencepost.harness.interchange.formats.initial import with_initial

        imported = with_initial(imported, reading.initial, str(path))
    judged = judge_imported(imported, path, reading.consistency)
    broken = judged.judgement.validity is Validity.INVALID
    return _with_weaker(judged, path, reading) if broken and reading.model is None and path.is_file() else judged


def _with_weaker(judged: "JudgedHistory", path: Path, reading: Reading) -> "JudgedHistory":
    """Say whether the history keeps a model that promises less than the guessed one, which it breaks."""
    from fencepost.harness.interchange.formats.family import WEAKER

    name = judged.imported.family.name
    other = WEAKER.get(name)
    if other is None or judge(path, msgspec.structs.replace(reading, model=other)).judgement.validity != Validity.VALID:
        return judged
    note = f"the model {name} was guessed; {other}, which promises less, is kept: --model {other}"
    imported = msgspec.structs.replace(judged.imported, notes=(*judged.imported.notes, note))
    return msgspec.structs.replace(judged, imported=imported)


def judge_imported(imported: "Imported", path: Path, consistency: str | None) -> JudgedHistory:
    """Judge a history that was read; `path` names it in messages."""
    from fencepost.harness.judging.stand_alone import judge_foreign

    judgement = judge_foreign(imported, str(path), consistency)
    return JudgedHistory(path=path, imported=imported, judgement=judgement, consistency=consistency)


def conclude(judged: Judged, *, as_json: bool, others: "OtherTools | None", report: Path | None = None) -> int:
    """Print the verdict, write the page, then ask the other tools, if any.

    Returns:
        The exit code of the verdict, or 255 when another tool contradicts it.
    """
    judgement = judged.judgement
    for line in judged.introduction():
        _err(line)
    if not as_json:
        from fencepost.harness.cli.output.verdict_text import say_judgement

        say_judgement(judgement, judged.history)
        sys.stdout.flush()
    if report is not None:
        judged.write_page(report)
        _err(f"report: {report}")
    elif not as_json and judged.history is not None and (more := _not_drawn(judgement)):
        _err(f"{more} more witness{'' if more == 1 else 'es'}: --report FILE.html draws {'it' if more == 1 else 'all'}")
    ours = int(judgement.exit_code)
    document = judged.document() if as_json else {}
    if others is None:
        if as_json:
            print_document(document)
        return ours
    from fencepost.harness.cli.check.second_opinions import exit_code, say_opinions, with_opinions

    opinions = others.opinions(judged.question())
    if as_json:
        print_document(with_opinions(document, opinions, ours))
    say_opinions(opinions, as_json=as_json)
    return exit_code(ours, opinions)


def _not_drawn(judgement: "Judgement") -> int:
    """Witnesses of what is broken, but for the first."""
    return max(sum(len(v.witnesses) for v in judgement.verdicts if v.validity is Validity.INVALID) - 1, 0)


def export(path: Path, form: str, output: Path | None) -> int:
    """Write the history of a run or of another tool in the form asked for; says what had no place in it."""
    from fencepost.harness.interchange.formats.exported import EXPORTS
    from fencepost.harness.interchange.formats.imported import comment, origin_of

    history = _history(path)
    chosen = EXPORTS[form]
    lines = chosen.write(history.events)
    if form == "edn" and path.is_dir() and is_run(path):
        lines = chain([comment(origin_of(store.find_run_folder(path), history.events))], lines)
    _write(lines, output)
    lost = chosen.lost(history.events)
    _err(f"{len(history.events)} events read" + (f"; left out: {lost} {chosen.without}" if lost else ""))
    return int(ExitCode.VALID)


def _history(path: Path) -> History:
    from fencepost.harness.interchange.formats.recognise import read_foreign
    from fencepost.harness.results.reader import read_history

    if path.is_dir() and is_run(path):
        return read_history(store.find_run_folder(path))
    if path.suffix in (".parquet", ".jsonl"):
        return read_history(path)
    return read_foreign(path).history


def _write(lines: Iterable[str], output: Path | None) -> None:
    """To standard output, or to a new file."""
    if output is None:
        sys.stdout.writelines(lines)
        sys.stdout.flush()
        return
    from fencepost.harness.base.files import write_new

    write_new(output, lines, what="a history", hint="give another -o")


def _err(text: str) -> None:
    click.echo(text, err=True)
