"""The replicated logs of a run's nodes: read once from the kept data, stored in the run's folder, judged later.

nodes/<name>/metadata-log.jsonl has one line about the log, then one line for each entry, in the order of offsets.
"""

import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from fencepost.harness.base.errors import UsageError
from fencepost.harness.history import LogEntry, NodeLog
from fencepost.harness.results import run_folder as store

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
    hidden = path.with_name(f".{path.name}")
    head = msgspec.structs.replace(log, entries=())
    hidden.write_bytes(b"".join(msgspec.json.encode(part) + b"\n" for part in (head, *log.entries)))
    hidden.replace(path)


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
