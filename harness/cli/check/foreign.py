"""`fencepost check FILE` and `fencepost export`: histories of other tools, judged and written."""

import json
import sys
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from fencepost.harness.base.errors import ExitCode
from fencepost.harness.history import FaultEvent, History, OpEvent, Outcome, pair
from fencepost.harness.results import run_folder as store
from fencepost.harness.verdict import Validity

if TYPE_CHECKING:
    from fencepost.harness.cli.check.second_opinions import OtherTools
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
        from fencepost.harness.interchange.formats.recognise import JEPSEN_EDN

        return (path / store.PLAN).is_file() or not (path / JEPSEN_EDN).is_file()
    if not path.exists() and str(path) != "-":
        return not path.suffix
    return path.name in _OF_A_RUN and (path.parent / store.PLAN).is_file()


def is_table(path: Path) -> bool:
    """Whether `path` is Parquet that says nothing of being a history of ours: a file, or a folder of part files."""
    if path.is_dir():
        from fencepost.harness.interchange.formats.recognise import JEPSEN_EDN

        own = any((path / name).is_file() for name in (store.PLAN, store.HISTORY, JEPSEN_EDN))
        return not own and next(path.glob("*.parquet"), None) is not None
    if not path.is_file():
        # What a pipe holds can be read once only, and may not be there yet.
        return False
    try:
        with path.open("rb") as file:
            if file.read(4) != b"PAR1":
                return False
    except OSError:
        return False
    from fencepost.harness.cli.check.operations import has_operations

    return has_operations(path)


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How a file is read and judged, as the flags say; None where the file itself decides."""

    form: str | None = None
    model: str | None = None
    #: Whether values are pairs of a key and a value.
    keyed: bool | None = None
    consistency: str | None = None


def check_file(
    path: Path, reading: Reading, *, as_json: bool, others: "OtherTools | None", report: Path | None = None
) -> int:
    """Judge one history without a plan, then ask the other tools, if any.

    Args:
        reading: what the flags say of the file; the rest is guessed from it.
        report: where the HTML page goes; None for no page.

    Returns:
        The exit code of the verdict, or 255 when another tool contradicts it.
    """
    from fencepost.harness.cli.output.verdict_text import say_judgement
    from fencepost.harness.interchange.formats.recognise import read_foreign
    from fencepost.harness.judging.stand_alone import document, judge_foreign

    imported = read_foreign(path, form=reading.form, model=reading.model, keyed=reading.keyed)
    source, consistency = str(path), reading.consistency
    judgement = judge_foreign(imported, source, consistency)
    keys = ", keyed" if imported.keyed else ""
    _err(f"{source}: {imported.form}, {len(imported.history.events)} events; model {imported.family.name}{keys}")
    if imported.family.note:
        _err(f"note: {imported.family.note}")
    if imported.origin is not None:
        _err(f"judged as {judgement.facts.read_guarantee}; {imported.origin.sentence}")
    ours = int(judgement.exit_code)
    if not as_json:
        say_judgement(judgement, imported.history)
        sys.stdout.flush()
    if report is not None:
        from fencepost.harness.cli.check.file_report import write_report

        write_report(report, imported, judgement, path)
        _err(f"report: {report}")
    elif not as_json and (more := _not_drawn(judgement)):
        _err(f"{more} more witness{'' if more == 1 else 'es'}: --report FILE.html draws {'it' if more == 1 else 'all'}")
    printed = document(imported, judgement, source) if as_json else {}
    if others is None:
        if as_json:
            _print_document(printed)
        return ours
    from fencepost.harness.cli.check.second_opinions import exit_code, question_of_file, say_opinions, with_opinions

    family = imported.family
    if consistency is not None:
        family = msgspec.structs.replace(family, guarantee=consistency)
    opinions = others.opinions(question_of_file(imported.history, family, judgement.validity))
    if as_json:
        _print_document(with_opinions(printed, opinions, ours))
    say_opinions(opinions, as_json=as_json)
    return exit_code(ours, opinions)


def _print_document(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document, indent=2, default=str) + "\n")


def _not_drawn(judgement: "Judgement") -> int:
    """Witnesses of what is broken, but for the first."""
    return max(sum(len(v.witnesses) for v in judgement.verdicts if v.validity is Validity.INVALID) - 1, 0)


def export(path: Path, form: str, output: Path | None) -> int:
    """Write the history of a run or of another tool in the form asked for; says what had no place in it."""
    from fencepost.harness.interchange.formats.imported import comment, origin_of
    from fencepost.harness.interchange.formats.jepsen import write_edn
    from fencepost.harness.interchange.formats.porcupine import write_porcupine

    history = _history(path)
    lines: Iterable[str]
    match form:
        case "edn":
            from_run = path.is_dir() and is_run(path)
            head = [comment(origin_of(store.find_run_folder(path), history.events))] if from_run else []
            lines = chain(head, write_edn(history.events))
            lost = sum(type(event) not in (OpEvent, FaultEvent) for event in history.events)
            what = "events that are neither operations nor faults"
        case "porcupine":
            operations = pair(history.events)
            lines = write_porcupine(operations)
            failed = sum(op.type is Outcome.FAIL for op in operations)
            lost = failed + sum(type(event) is not OpEvent for event in history.events)
            what = "events that are no operations, and operations that failed"
        case _:
            lines = (msgspec.json.encode(event).decode() + "\n" for event in history.events)
            lost, what = 0, ""
    _write(lines, output)
    _err(f"{len(history.events)} events read" + (f"; left out: {lost} {what}" if lost else ""))
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
    from fencepost.harness.base.new_file import write_new

    write_new(output, lines, what="a history", hint="give another -o")


def _err(text: str) -> None:
    click.echo(text, err=True)
