"""Recognises the format of a history by its first bytes, because names can be wrong and standard input has none."""

import gc
import gzip
import io
import os
import re
import select
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from fencepost.harness.base.errors import UsageError, unknown_choice
from fencepost.harness.history import OpEvent
from fencepost.harness.interchange.formats.family import ModelChoice, choose, sampler
from fencepost.harness.interchange.formats.imported import (
    Imported,
    ImportedHistory,
    InFile,
    check_values,
    json_text,
    stated_origin,
)
from fencepost.harness.interchange.formats.operation_maps import (
    ORDERS,
    MapReader,
    ReadingChoices,
    read_edn_rows,
)
from fencepost.harness.results import run_folder as store

#: Files in Jepsen's folder of a test; the second has Jepsen's own binary format.
JEPSEN_EDN: Final = "history.edn"
JEPSEN_BINARY: Final = "test.jepsen"
#: Files in a folder of reports of robustness tests, one for each client.
REPORTS: Final = "client-*/operations.json"
FORMS: Final = ("edn", "json", "log", "awdit", "plume", "porcupine", "jsonl", "parquet", "operations", "transactions")
#: Forms of tables in Parquet.
_TABLES: Final = ("operations", "transactions")
#: Forms that are read as rows of Jepsen's operations.
_ROWS: Final = ("edn", "json", "log", "awdit", "plume")
STANDARD_INPUT: Final = "-"
#: How long to wait for a writer of a named pipe.
PIPE_WAIT_S: Final = 5
_PEEKED: Final = 64 << 10
#: A name that only Porcupine's operations have.
_PORCUPINE: Final = re.compile(rb'\{\s*"[^{}]*"(input|call)"\s*:|\{\s*"(input|call)"', re.IGNORECASE)


#: By form of text, what its first lines look like.
_TEXTS: Final = {
    "log": re.compile(rb"^(?:.*[ \t])?(?:\d+|:nemesis)[ \t]+:(?:invoke|ok|fail|info)[ \t]+:", re.MULTILINE),
    "awdit": re.compile(rb"\A\s*[rw][ \t]+\d+[ \t]+\d+[ \t\r]*(\n|\Z)"),
    "plume": re.compile(rb"\A\s*[rw]\(\d+,\d+,\d+,-?\d+\)"),
}
#: Forms whose operations have no order but that of their sessions.
_WITHOUT_TIMES: Final = frozenset({"awdit", "plume"})
#: The compressions that are undone, by the first bytes.
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"


class _Wish(msgspec.Struct, frozen=True, kw_only=True):
    """The user's choices about a file; None where the file decides."""

    form: str | None
    model: ModelChoice
    keyed: bool | None
    choices: ReadingChoices


def read_foreign(
    path: Path,
    *,
    form: str | None = None,
    model: ModelChoice = None,
    keyed: bool | None = None,
    order: str | None = None,
    ignore: Sequence[str] = (),
) -> Imported:
    """Read the history at `path`: a file, one of Jepsen's folders, or `-` for standard input.

    `model` is as `family.choose` takes it. `form` is a name in `FORMS`; None means to recognise the format. `order` is
    one of `ORDERS`; `ignore` names operations to leave out. Raises UsageError with file, line and column.
    """
    if order is not None and order not in ORDERS:
        raise unknown_choice("order", order, list(ORDERS))
    wish = _Wish(form=form, model=model, keyed=keyed, choices=ReadingChoices(order=order, ignore=tuple(ignore)))
    if form is not None and form not in FORMS:
        raise unknown_choice("format", form, list(FORMS))
    if str(path) == STANDARD_INPUT:
        return _read(sys.stdin.buffer, "standard input", None, wish)
    if form in (None, "parquet", *_TABLES) and is_table(path):
        if keyed is not None or wish.choices != ReadingChoices():
            raise UsageError(f"{path}: --keyed, --order and --ignore are not for tables", hint="leave them out")
        from fencepost.harness.interchange.formats.tables import read_table

        return read_table(path, form=form if form in _TABLES else None, model=model)
    is_reports = path.is_dir() and next(path.glob(REPORTS), None) is not None
    path = path / JEPSEN_EDN if path.is_dir() and not is_reports else path
    try:
        if is_reports:
            from fencepost.harness.interchange.formats.robustness import read_robustness

            return read_robustness(path)
        with _opened(path) as file, _uncollected():
            return _read(file, str(path), path, wish)
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}", hint="give a file that holds a history, or a run's folder"
        ) from None


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open the file; wait until a named pipe has a writer. Raises UsageError when no writer comes."""
    if not path.is_fifo():
        with path.open("rb") as file:
            yield file
        return
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        poll = select.poll()
        poll.register(file, select.POLLIN | select.POLLHUP)
        if not poll.poll(PIPE_WAIT_S * 1000) and _has_no_writer(file.fileno()):
            raise UsageError(
                f"{path}: no program wrote to this pipe within {PIPE_WAIT_S} s",
                hint="first start the program that writes the history, or use standard input: fencepost check -",
            )
        os.set_blocking(file.fileno(), True)
        yield file


def _has_no_writer(descriptor: int) -> bool:
    """Say whether nobody has this empty pipe open for writing; with a writer, reading it would block."""
    try:
        return os.read(descriptor, 1) == b""
    except BlockingIOError:
        return False


@contextmanager
def _uncollected() -> Iterator[None]:
    """Stop garbage collection: a million events hold no cycles, and the collector would only go through them again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _read(stream: BinaryIO, source: str, path: Path | None, wish: _Wish) -> Imported:
    buffered = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(stream)  # type: ignore[type-var]
    start = buffered.peek(_PEEKED)
    if start.startswith((_GZIP, _ZSTD)):
        try:
            return _read(_unpacked(buffered, start), source, None, wish)
        except (EOFError, OSError, zlib.error) as error:
            raise UsageError(
                f"{source}: cannot be unpacked: {error}", hint="the file is cut off or broken; copy or write it again"
            ) from None
    form = wish.form or _form_of(start, source)
    if form not in _ROWS and wish.keyed is not None:
        raise UsageError(f"{source}: --keyed is an option for EDN only; {form} names its keys")
    if form not in _ROWS and wish.choices != ReadingChoices():
        raise UsageError(
            f"{source}: --order and --ignore are options for Jepsen's operations, in EDN or JSON, not for {form}"
        )
    if form in _ROWS:
        from fencepost.harness.interchange.formats.jepsen import read_edn

        origin = stated_origin(start)
        keyed = origin.keyed if origin is not None and wish.keyed is None else wish.keyed
        read_rows = _row_reader(form)
        read = read_edn(buffered, source, model=wish.model, keyed=keyed, choices=wish.choices, read_rows=read_rows)
        return msgspec.structs.replace(read, origin=origin, form=form, has_times=form not in _WITHOUT_TIMES)
    if form == "porcupine":
        from fencepost.harness.interchange.formats.porcupine import read_porcupine

        return read_porcupine(buffered, source, model=wish.model)
    if path is None:
        raise UsageError(
            f"{source}: the format {form} can only be read from a file", hint="give the file's name, not compressed"
        )
    return _own(path, form, wish.model)


def _row_reader(form: str) -> MapReader:
    if form == "edn":
        return read_edn_rows
    if form == "json":
        from fencepost.harness.interchange.formats.json_objects import read_json_rows

        return read_json_rows
    from fencepost.harness.interchange.formats import texts

    readers = {"log": texts.read_log_rows, "awdit": texts.read_awdit_rows, "plume": texts.read_plume_rows}
    return readers[form]


def _unpacked(packed: "io.BufferedReader[Any]", start: bytes) -> "io.BufferedReader[Any]":
    """Return the stream that a compressed one holds."""
    if start.startswith(_GZIP):
        return io.BufferedReader(gzip.GzipFile(fileobj=packed))
    import pyarrow as pa  # A fifth of a second to import, for few files.

    return io.BufferedReader(pa.CompressedInputStream(packed, "zstd"))


def _own(path: Path, form: str, model: ModelChoice) -> Imported:
    """Read a history in our own format, without the plan of its run."""
    if path.suffix != f".{form}":
        raise UsageError(
            f"{path}: to be read as {form}, the file's name must end in .{form}",
            hint="rename the file, or leave out --format: its first bytes show the format",
        )
    from fencepost.harness.results.reader import read_history

    read = read_history(path)
    if read.torn and not read.events:
        raise UsageError(
            f"{path}: its {path.stat().st_size} bytes hold no complete line; expected one JSON event per line",
            hint="the file is cut off, or its lines do not end with a newline",
        )
    if read.torn:
        sys.stderr.write(f"{path}: ends in half a line, which is left out\n")
    functions = {event.f for event in read.events if type(event) is OpEvent}
    family = choose(model, {"read" if f == "members" else f for f in functions}, sampler(read.events), str(path))

    def text(event: int) -> str:
        row = read.events[event]
        return json_text(row.value) if type(row) is OpEvent else ""

    noun, first = ("line", 1) if form == "jsonl" else ("event", 0)
    in_file = InFile(lambda event: f"{noun} {event + first}", text)
    history = ImportedHistory(read.events, family, source=str(path), in_file=in_file, checked=True)
    check_values(history, lambda event: f"{path}: {in_file.place(event)}")
    keyed = any(type(event) is OpEvent and event.key is not None for event in read.events)
    return Imported(history=history, form=form, keyed=keyed)


def is_one_history(folder: Path) -> bool:
    """Say whether a folder is one history of another tool, or a table."""
    return (folder / JEPSEN_EDN).is_file() or next(folder.glob(REPORTS), None) is not None or is_table(folder)


def is_table(path: Path) -> bool:
    """Say whether a file of Parquet, or a folder of part files, says nothing of being a history of ours."""
    if path.is_dir():
        own = any((path / name).is_file() for name in (store.PLAN, store.HISTORY, JEPSEN_EDN))
        return not own and next(path.glob("*.parquet"), None) is not None
    try:
        # What a pipe holds can be read once only, and may not be there yet.
        with path.open("rb") if path.is_file() else io.BytesIO() as file:
            if file.read(4) != b"PAR1":
                return False
    except OSError:
        return False
    # Pyarrow takes a fifth of a second to import, for few files.
    from fencepost.harness.results.columns import is_history

    return not is_history(path)


def text_form(start: bytes) -> str | None:
    """Recognise lines of text by their beginning; None for those of no history."""
    return next((form for form, looks in _TEXTS.items() if looks.search(start)), None)


def _form_of(start: bytes, source: str) -> str:
    """Recognise the format by its first bytes; an empty file is an empty history in EDN."""
    if start.startswith(b"PAR1"):
        return "parquet"
    text = re.sub(rb"\A(\s|;[^\n]*\n)*", b"", start)
    if re.match(rb'[\[\s]*\{\s*"kind"', text):
        return "jsonl"
    if re.match(rb'(\[\s*)?\{\s*":?(type|f|process|time|index|value|client)"', text) and not _PORCUPINE.search(text):
        return "json"
    if re.match(rb'(\[\s*)?\{\s*"', text) or re.match(rb"\[\s*\]\s*\Z", text):
        return "porcupine"
    if not text or text[:1] in b"{[(#":
        return "edn"
    if (named := text_form(start)) is not None:
        return named
    raise UsageError(
        f"{source}: line 1, column 1: not the start of a history; expected EDN, JSON, a log or Parquet",
        hint=f"instead of Jepsen's {JEPSEN_BINARY} give {JEPSEN_EDN}; --format names the format: {', '.join(FORMS)}",
    )
