"""Reads histories in both forms: JSON lines of a running or interrupted run, and the sealed Parquet.

Both are validated in the same way. An error names the file, the line or event, and the rule; no file is changed. The
last JSON line may be incomplete after a kill -9: it is dropped, and `History.torn` says so. `seal` turns the lines into
Parquet, and removes them only after reading the Parquet back.

The replicated logs of a run's nodes are read once from the kept data, stored in the run's folder, and judged later.
nodes/<name>/metadata-log.jsonl has one line about the log, then one line for each entry, in the order of offsets.
"""

import os
import tarfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec

from fencepost.harness.base.errors import HarnessError, MalformedHistory, UsageError
from fencepost.harness.base.files import write_whole
from fencepost.harness.history import Event, History, LogEntry, NodeLog, OpEvent
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.run_folder import HISTORY, HISTORY_LINES, RESERVE

_CHUNK: Final = 4 << 20
#: Exceptions of the decoder for a line that is no event.
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

#: Of a folder with a plan alone, such as that of a run whose processes were killed before its cluster started.
_NEVER_BEGAN: Final = "a run that ended before its cluster had started recorded nothing: fencepost run FOLDER/plan.toml"


def read_history(path: Path) -> History:
    """Read the history in a `.jsonl` or `.parquet` file, or in a run's folder.

    Raises:
        MalformedHistory: names file, line or event, and the rule.
        UsageError: there is no history here.
    """
    path = _file_of(path) if path.is_dir() else path
    if not path.is_file():
        raise UsageError(f"{path}: no such file", hint="give a run's folder, a .jsonl or a .parquet")
    if path.suffix == ".parquet":
        from fencepost.harness.results.columns import is_torn, read_parquet

        events = list(chain.from_iterable(read_parquet(path)))
        return History(events, source=str(path), torn=is_torn(path))
    if path.suffix == ".jsonl":
        events, torn = _read_lines(path)
        return History(events, source=str(path), torn=torn, lines=True)
    raise UsageError(f"{path}: not a history", hint="a history ends in .jsonl or .parquet")


def require_history(folder: Path) -> None:
    """Check, without reading its rows, that a run's folder holds a history; raises as `read_history` does."""
    path = _file_of(folder)
    if path.name == HISTORY:
        from fencepost.harness.results.columns import check_parquet

        check_parquet(path)


def _file_of(folder: Path) -> Path:
    files = [folder / name for name in (HISTORY, HISTORY_LINES) if (folder / name).is_file()]
    if not files:
        raise UsageError(f"{folder}: neither {HISTORY} nor {HISTORY_LINES} is here", hint=_NEVER_BEGAN)
    return files[0]


def to_parquet(events: Sequence[Event], path: Path, *, torn: bool = False) -> None:
    """Write the events to a new file, completely or not at all, and verify it by reading it back."""
    from fencepost.harness.results.columns import read_parquet, write_parquet

    if path.exists():
        raise UsageError(f"{path} exists already; a history is never overwritten")
    hidden = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write_parquet(events, hidden, torn=torn)
        _verify(events, read_parquet(hidden), path)
        _fsync(hidden)
        os.link(hidden, path)  # unlike rename, this refuses to replace a file that was made meanwhile
        _fsync(path.parent)
    finally:
        hidden.unlink(missing_ok=True)


def seal(folder: Path) -> Path:
    """Turn a run's JSON lines into verified Parquet, then remove them; return the Parquet file. Idempotent.

    Raises:
        MalformedHistory: the lines break a rule; they are not changed.
    """
    lines, parquet = folder / HISTORY_LINES, folder / HISTORY
    if lines.is_file():
        history = read_history(lines)
        if parquet.is_file():
            # Interrupted between the two steps, or the file is somebody else's.
            from fencepost.harness.results.columns import read_parquet

            _verify(history.events, read_parquet(parquet), parquet)
        else:
            to_parquet(history.events, parquet, torn=history.torn)
        lines.unlink()
        (folder / RESERVE).unlink(missing_ok=True)
    elif not parquet.is_file():
        raise UsageError(f"{folder}: neither {HISTORY} nor {HISTORY_LINES} is here", hint=_NEVER_BEGAN)
    return parquet


def _verify(events: Sequence[Event], batches: Iterator[list[Event]], path: Path) -> None:
    at = 0
    for batch in batches:
        if batch != list(events[at : at + len(batch)]):
            wrong = next((i for i, e in enumerate(batch) if at + i >= len(events) or e != events[at + i]), 0)
            raise HarnessError(f"{path}: event {at + wrong} does not read back as it was recorded; the lines are kept")
        at += len(batch)
    if at != len(events):
        raise HarnessError(f"{path}: {at} of {len(events)} events read back; the lines are kept")


def _fsync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _read_lines(path: Path) -> tuple[list[Event], bool]:
    """Read all complete lines; return whether an incomplete one followed them."""
    decoder = msgspec.json.Decoder(Event)
    events: list[Event] = []
    shared: dict[str | None, str | None] = {}
    rest = b""
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            whole, newline, rest = (rest + chunk).rpartition(b"\n")
            if newline:
                events += _decoded(path, decoder, whole, len(events), shared)
    if not rest.strip():
        return events, False
    try:
        return [*events, decoder.decode(rest)], False
    except _UNREADABLE:
        return events, True


def _decoded(
    path: Path, decoder: "msgspec.json.Decoder[Event]", text: bytes, before: int, shared: dict[str | None, str | None]
) -> list[Event]:
    try:
        batch = decoder.decode_lines(text)
        if len(batch) != text.count(b"\n") + 1:
            raise msgspec.DecodeError("empty lines")
    except _UNREADABLE:
        batch = _one_by_one(path, decoder, text, before)
    share = msgspec.structs.force_setattr
    for event in batch:
        if type(event) is OpEvent:
            # A million events have the same few texts: share one object for each. No other code has seen them yet.
            share(event, "f", shared.setdefault(event.f, event.f))
            share(event, "node", shared.setdefault(event.node, event.node))
            share(event, "key", shared.setdefault(event.key, event.key))
    return batch


def _one_by_one(path: Path, decoder: "msgspec.json.Decoder[Event]", text: bytes, before: int) -> list[Event]:
    out = []
    for number, line in enumerate(text.split(b"\n"), start=before + 1):
        try:
            out.append(decoder.decode(line))
        except _UNREADABLE as error:
            shown = line[:120].decode(errors="replace")
            why = "nested too deeply" if isinstance(error, RecursionError) else error
            raise MalformedHistory(
                f"{path}: line {number}: {why}: {shown!r}", hint="the file was not changed; correct or remove it"
            ) from None
    return out


LOG: Final = "metadata-log.jsonl"
ARCHIVE: Final = "data.tar.gz"

#: Reads the log in a node's kept data, given file and node; returns None when there is none.
LogReader = Callable[[Path, str], NodeLog | None]


def keep_logs(folder: Path, read: LogReader) -> list[str]:
    """Write the log of every node whose data was kept; return what could not be read, one sentence each."""
    problems = []
    for archive in sorted((folder / store.NODES).glob(f"*/{ARCHIVE}")):
        node = archive.parent.name
        try:
            log = read(archive, node)
            if log is not None:
                write_log(log, archive.parent / LOG)
        except (OSError, EOFError, ValueError, tarfile.TarError, zlib.error) as error:
            problems.append(f"the log on the disk of {node} could not be read: {error}")
    return problems


def write_log(log: NodeLog, path: Path) -> None:
    """Write the log, completely or not at all."""
    head = msgspec.structs.replace(log, entries=())
    write_whole(path, b"".join(msgspec.json.encode(part) + b"\n" for part in (head, *log.entries)))


def read_logs(folder: Path) -> dict[str, NodeLog]:
    """Read the logs in a run's folder, by node; raise UsageError for a file that is no log."""
    return {path.parent.name: _read_log(path) for path in sorted((folder / store.NODES).glob(f"*/{LOG}"))}


def _read_log(path: Path) -> NodeLog:
    head, _, lines = path.read_bytes().partition(b"\n")
    try:
        log = msgspec.json.decode(head, type=NodeLog)
        entries = msgspec.json.Decoder(LogEntry).decode_lines(lines)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"{path}: not a metadata log: {error}") from None
    return msgspec.structs.replace(log, entries=tuple(entries))
