"""The metadata log on a node's disk: segments and snapshots of `__cluster_metadata-0`, read after the run.

A killed server may leave an incomplete batch, or one with a wrong checksum, at the very end of the log; there the log
ends. Anywhere else such a batch is `Malformed`.

Source: KIP-595 and KIP-630; KafkaMetadataLog, BatchFileWriter of Kafka 3.6 to 4.3.
"""

import re
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fencepost.harness.history import LogEntry, NodeLog
from fencepost.systems.kafka.wire.metadata_entries import read_entries

FOLDER: Final = "__cluster_metadata-0"
_SEGMENT: Final = re.compile(r"(\d{20})\.log")
_SNAPSHOT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


def read_archive(archive: Path, node: str) -> NodeLog | None:
    """Read the metadata log from a node's kept data (tar.gz); None without one. Raises `Malformed` or OSError."""
    files: dict[str, bytes] = {}
    with tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            folder, _, name = member.name.rpartition("/")
            if not member.isfile() or folder.rpartition("/")[2] != FOLDER:
                continue
            if _SEGMENT.fullmatch(name) or _SNAPSHOT.fullmatch(name):
                file = tar.extractfile(member)
                assert file is not None
                files[name] = file.read()
    return read_files(files, node)


def read_files(files: Mapping[str, bytes], node: str) -> NodeLog | None:
    """Read the log from the files of one `__cluster_metadata-0`, by their names."""
    segments = sorted(name for name in files if _SEGMENT.fullmatch(name))
    if not segments:
        return None
    entries: list[LogEntry] = []
    torn = False
    for name in segments:
        last = name == segments[-1]
        read, torn = read_entries(files[name], name, may_be_torn=last)
        entries += read
    snapshots = sorted(name for name in files if _SNAPSHOT.fullmatch(name))
    end = int(snapshots[-1][:20]) if snapshots else 0
    # A new cluster begins with a snapshot of offset 0.
    state = read_entries(files[snapshots[-1]], snapshots[-1], may_be_torn=False)[0] if end else []
    return NodeLog(
        node=node,
        start_offset=int(segments[0][:20]),
        entries=tuple(entries),
        snapshot_end=end,
        snapshot=tuple(state),
        torn=torn,
    )
