"""`fencepost check A B DIR`: many histories in one call, judged on every core, as a table with one exit code.

Imports are paid once: the smallest file is judged first, and forked processes take the others, the largest first. Each
writes its rows into a file of its own, so that one that dies (of memory, in native code) loses only its own history.
"""

import json
import os
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO, Final

import click
import msgspec

from fencepost.harness.base.errors import ExitCode, FencepostError, UsageError, command_line, gravest
from fencepost.harness.base.files import write_whole
from fencepost.harness.base.signals import interruptible
from fencepost.harness.cli.check.foreign import Judged, Reading, judge, takes_for_run
from fencepost.harness.cli.output.help import print_document
from fencepost.harness.interchange.formats.recognise import STANDARD_INPUT, is_one_history, text_form
from fencepost.harness.judging.judgement import Judgement
from fencepost.harness.judging.stand_alone import FORMAT
from fencepost.harness.results import run_folder as store
from fencepost.harness.verdict import Validity

#: Endings of the files that are taken from a folder; a file that is named itself may have any.
_ENDINGS: Final = (".edn", ".json", ".jsonl", ".parquet", ".gz", ".zst")
#: Endings of text that may be anything: those are taken that begin like a history.
_TEXTS: Final = (".log", ".txt")
_BEGINNING: Final = 4096
_REFUSED: Final = "refused"
_FAILED: Final = "failed"
_INDEX_BYTES: Final = 4


class FileRow(msgspec.Struct, frozen=True, kw_only=True):
    """What came out for one file: `verdict` is its validity, or that it was refused or failed, with the message."""

    file: str
    verdict: str
    exit_code: int
    text: str
    taken_for: str = ""
    operations: int | None = None
    hint: str | None = None
    #: The first anomaly and its witness in sentences.
    anomaly: str = ""
    steps: tuple[str, ...] = ()
    #: As `--json` prints it, where that was asked for.
    document: str = ""


def histories_in(path: Path) -> list[Path]:
    """The histories that `path` stands for: itself, or those of a folder, by name; none in an empty one."""
    if not path.is_dir() or _is_one(path):
        return [path]
    inside = sorted(child for child in path.iterdir() if not child.name.startswith("."))
    return [one for child in inside if child.is_dir() or _is_history(child) for one in histories_in(child)]


def _is_history(file: Path) -> bool:
    if file.suffix not in _TEXTS:
        return file.suffix in _ENDINGS
    with suppress(OSError), file.open("rb") as text:
        return text_form(text.read(_BEGINNING)) is not None
    return False


def _is_one(folder: Path) -> bool:
    """Whether a folder is one history: a run, a test of Jepsen, or the part files of a table."""
    alone = any((folder / name).is_file() for name in (store.PLAN, store.HISTORY, store.HISTORY_LINES))
    return alone or is_one_history(folder) or next(folder.glob("*.parquet"), None) is not None


def stands_for_many(folder: Path) -> bool:
    """Whether a folder that is given alone means the histories in it; a folder of runs means its newest run."""
    if _is_one(folder):
        return False
    inside = histories_in(folder)
    return bool(inside) and all(path.is_file() or is_one_history(path) for path in inside)


def check_many(paths: Sequence[Path], reading: Reading, *, as_json: bool, junit: Path | None) -> int:
    """Judge every history; print a table, and return one exit code."""
    if STANDARD_INPUT in map(str, paths):
        raise UsageError("-: standard input is judged alone", hint="write it into a file, or give no other file")
    files = list(dict.fromkeys(file for path in paths for file in histories_in(path) or [path]))
    with interruptible():
        rows = _judged(files, reading, as_json=as_json)
    code = gravest([row.exit_code for row in rows])
    if as_json:
        documents = [json.loads(row.document) if row.document else _refusal(row) for row in rows]
        print_document({"format": FORMAT, "exit_code": int(code), "files": documents})
    else:
        _say(rows)
    for row in rows:
        if row.verdict in (_REFUSED, _FAILED):
            click.echo(f"error: {row.text}" + (f"\nhint: {row.hint}" if row.hint else ""), err=True)
    if junit is not None:
        write_junit(junit, rows)
    return int(code)


def _refusal(row: FileRow) -> dict[str, object]:
    return {"file": row.file, "exit_code": row.exit_code, "error": row.text, "hint": row.hint}


def _say(rows: Sequence[FileRow]) -> None:
    """A line for each file, and how many there are of each verdict."""
    cells = [("file", "taken for", "operations", "verdict", "")]
    for row in rows:
        text = "" if row.verdict in (Validity.VALID, _REFUSED, _FAILED) else row.text
        counted = "" if row.operations is None else str(row.operations)
        cells.append((row.file, row.taken_for, counted, row.verdict, text))
    widths = [max(len(line[column]) for line in cells) for column in range(4)]
    for file, taken_for, counted, verdict, text in cells:
        line = f"{file:{widths[0]}}  {taken_for:{widths[1]}}  {counted:>{widths[2]}}  {verdict:{widths[3]}}  {text}"
        click.echo(line.rstrip())
    tally = Counter(row.verdict for row in rows)
    click.echo(f"{len(rows)} histories: {', '.join(f'{number} {verdict}' for verdict, number in tally.most_common())}")
    worst = next((row for row in rows if row.verdict == Validity.INVALID), None)
    if worst is not None:
        click.echo(f"Next: {command_line('check', worst.file)}  # its witness")


# --- on every core


def _judged(files: Sequence[Path], reading: Reading, *, as_json: bool) -> list[FileRow]:
    order = sorted(range(len(files)), key=lambda index: (_size(files[index]), index), reverse=True)
    # What the smallest needs has been imported when the others are judged.
    done = {order[-1]: _row(files[order[-1]], reading, as_json)}
    cores = len(os.sched_getaffinity(0))
    while waiting := [index for index in order if index not in done]:
        jobs = min(cores, len(waiting))
        by_others = dict(_forked(files, reading, waiting, as_json, jobs)) if jobs > 1 else {}
        # Where no other process can do anything, this one does it.
        done |= by_others or {index: _row(files[index], reading, as_json) for index in waiting}
    return [done[index] for index in range(len(files))]


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def _forked(
    files: Sequence[Path], reading: Reading, waiting: Sequence[int], as_json: bool, jobs: int
) -> Iterator[tuple[int, FileRow]]:
    """Judge in `jobs` processes; what they did not come to, since they died, is left out."""
    children: list[int] = []
    with ExitStack() as stack:
        stack.callback(_end, children)
        tickets, *outputs = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(jobs + 1))
        tickets.write(b"".join(index.to_bytes(_INDEX_BYTES, "big") for index in waiting))
        tickets.flush()
        # The processes share this position: each read takes the next file.
        os.lseek(tickets.fileno(), 0, os.SEEK_SET)
        for output in outputs:
            child = os.fork()
            if child == 0:
                _work(files, reading, tickets.fileno(), output, as_json)
            children.append(child)
        for output in outputs:
            status = os.waitpid(children[0], 0)[1]
            del children[0]
            output.seek(0)
            index: int | None = None
            for line in output:
                if index is None:
                    index = int(line)
                elif line.endswith(b"\n"):
                    yield index, msgspec.json.decode(line, type=FileRow)
                    index = None
            if index is not None:
                why = f"the process that judged it ended with status {os.waitstatus_to_exitcode(status)}"
                hint = "judge it alone; if memory is short, allow more"
                yield index, _failure(files[index], f"{files[index]}: {why}", hint)


def _end(children: Sequence[int]) -> None:
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _work(files: Sequence[Path], reading: Reading, tickets: int, output: BinaryIO, as_json: bool) -> None:
    """Judge the next file until none is left, in a forked process; never returns."""
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        while ticket := os.read(tickets, _INDEX_BYTES):
            index = int.from_bytes(ticket, "big")
            output.write(b"%d\n" % index)
            output.flush()
            output.write(msgspec.json.encode(_row(files[index], reading, as_json)) + b"\n")
            output.flush()
        os._exit(0)
    finally:
        os._exit(int(ExitCode.INTERNAL))


# --- one file


def _row(path: Path, reading: Reading, as_json: bool) -> FileRow:
    try:
        if path.is_dir() and not _is_one(path):
            raise UsageError(f"{path}: there is no history in this folder", hint=f"endings: {', '.join(_ENDINGS)}")
        if takes_for_run(path, reading):
            return _row_of_run(path)
        return row_of(path, judge(path, reading), as_json=as_json)
    except FencepostError as error:
        refused = error.exit_code is ExitCode.USAGE
        return FileRow(
            file=str(path),
            verdict=_REFUSED if refused else _FAILED,
            exit_code=int(error.exit_code),
            text=error.message,
            hint=error.hint,
        )
    except Exception as error:
        hint = f"`{command_line('check', path)}` tells more"
        return _failure(path, f"{path}: fencepost failed: {type(error).__name__}: {error}", hint)


def _failure(path: Path, text: str, hint: str) -> FileRow:
    return FileRow(file=str(path), verdict=_FAILED, exit_code=int(ExitCode.INTERNAL), text=text, hint=hint)


def row_of(path: Path, judged: Judged, *, as_json: bool = False) -> FileRow:
    """The row of a file that was judged."""
    document = json.dumps(judged.document(), default=str) if as_json else ""
    return _judgement_row(path, judged.judgement, judged.taken_for, judged.operations, document)


def _row_of_run(path: Path) -> FileRow:
    from fencepost.harness.run.conclude import judge_stored

    result = judge_stored(store.find_run_folder(path), progress=lambda _: None)
    document = json.dumps({"file": str(path), **result.document})
    return _judgement_row(path, result.judgement, f"run of {result.judgement.facts.workload}", None, document)


def _judgement_row(path: Path, judgement: Judgement, taken_for: str, operations: int | None, document: str) -> FileRow:
    broken = (v for v in judgement.verdicts if v.validity is Validity.INVALID and v.witnesses)
    verdict = min(broken, key=lambda v: not judgement.facts.decides(v.guarantee), default=None)
    witness = verdict.witnesses[0] if verdict is not None else None
    return FileRow(
        file=str(path),
        verdict=judgement.validity.value,
        exit_code=int(judgement.exit_code),
        text=judgement.headline,
        taken_for=taken_for,
        operations=operations,
        anomaly=witness.anomaly if witness is not None else "",
        steps=witness.steps if witness is not None else (),
        document=document,
    )


# --- JUnit


def check_junit(path: Path) -> None:
    """Raises UsageError when no file can be written there; one that is there is replaced."""
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageError(f"--junit: {path} cannot be written", hint="name a file in a folder that exists")


def write_junit(path: Path, rows: Sequence[FileRow]) -> None:
    """Write one test case for each file; what is not valid and not invalid is an error."""
    from fencepost.harness.report.junit import JUnitCase, JUnitSuite, NotPassed, junit_xml

    cases = []
    for row in rows:
        case = JUnitCase(classname="fencepost.check", name=row.file)
        if row.verdict != Validity.VALID:
            case = msgspec.structs.replace(
                case,
                ended=NotPassed.FAILURE if row.verdict == Validity.INVALID else NotPassed.ERROR,
                message=row.text,
                kind=row.anomaly or row.verdict,
                text="\n".join((row.taken_for, *row.steps, row.hint or "")).strip(),
            )
        cases.append(case)
    write_whole(path, junit_xml([JUnitSuite(name="fencepost check", cases=tuple(cases))]))
