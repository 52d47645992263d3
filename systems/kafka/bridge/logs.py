"""The two replicated logs of a migrating Kafka: ZooKeeper's transactions and KRaft's metadata log.

What a KRaft controller writes to ZooKeeper repeats its own log, in an order of its own: such a transaction also sets or
checks /migration. What it copies from ZooKeeper stands in one metadata transaction. The entries of both are named
"copied-..." and are no changes of their own.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from fencepost.harness.history import LogEntry, NodeLog
from fencepost.systems.kafka.kraft import metadata_log
from fencepost.systems.kafka.server.configuration import BRIDGE
from fencepost.systems.kafka.zookeeper_mode import transaction_log

ZOOKEEPER: Final = "zookeeper"
KRAFT: Final = "kraft"
#: What the metadata transaction of a copy is called.
_COPY: Final = "migration"


def read_archive(archive: Path, node: str) -> NodeLog | None:
    """The log in a node's kept data (tar.gz), of whichever store; None without one. Raises ValueError or OSError."""
    of_zookeeper = transaction_log.read_archive(archive, node)
    if of_zookeeper is not None:
        entries = tuple(map(of_one_store, of_zookeeper.entries))
        return msgspec.structs.replace(of_zookeeper, entries=entries, of=ZOOKEEPER)
    own = metadata_log.read_archive(archive, node)
    if own is None:
        return None
    return msgspec.structs.replace(own, entries=tuple(without_copies(own.entries)), of=KRAFT)


def without_copies(entries: Iterable[LogEntry]) -> Iterator[LogEntry]:
    """The entries in order; those of a copy have another type."""
    copying = False
    for entry in entries:
        if entry.type == "begin-transaction":
            copying = _COPY in str(entry.fields.get("name", "")).lower()
        elif entry.type in ("end-transaction", "abort-transaction"):
            copying = False
        elif copying:
            entry = msgspec.structs.replace(entry, type=f"copied-{entry.type}")
        yield entry


def of_one_store(entry: LogEntry) -> LogEntry:
    """A transaction of ZooKeeper as an entry of this cluster: what repeats KRaft's log is renamed, and so are nodes.

    A cluster in ZooKeeper mode alone has other numbers.
    """
    if entry.fields.get("by_kraft"):
        return msgspec.structs.replace(entry, type=f"copied-{entry.type}")
    broker = entry.fields.get("broker")
    if broker is None:
        return entry
    return msgspec.structs.replace(entry, fields={**entry.fields, "node": BRIDGE.node_name(broker)})
