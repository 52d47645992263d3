"""How each partition's leader and in-sync replicas changed, by the metadata log on disk of the run's last leader.

Entries have no time; their order is that of the log. "eligible" are replicas that left the in-sync set when it became
smaller than `min.insync.replicas`, and still hold every committed record (KIP-966, from 4.1 on). ZooKeeper mode keeps
the same in /brokers/topics/.../state.
"""

from collections.abc import Iterable
from typing import Any, Final

from fencepost.harness.history import History, LogEntry, NodeLog
from fencepost.harness.verdict import Facts
from fencepost.harness.verdict.fact_tables import LONG, TEXT, DerivedTable, FactTable, columns

IN_SYNC: Final = FactTable(
    name="in_sync",
    row="an entry of Kafka's metadata log that changes a partition's leader or its in-sync replicas, as on disk",
    columns=columns(
        ("topic", TEXT, "the topic; those of Kafka's own are left out"),
        ("partition", LONG, "the partition"),
        ("offset", LONG, "where the entry stands (ZooKeeper mode: the zxid)"),
        ("epoch", LONG, "the epoch in which it was appended"),
        ("leader", TEXT, "the node that leads from then on; empty: none"),
        ("in_sync", TEXT, "the nodes whose replicas are in sync, by spaces"),
        ("eligible", TEXT, "the nodes that are not in sync and may lead all the same (KIP-966)"),
    ),
)

SAME_LEADER: Final = -2
_INTERNAL: Final = "__"
#: Entries that say who leads a partition or who is in sync; a migration copies the first two kinds.
_STATES: Final = frozenset(
    {"partition", "partition-change", "copied-partition", "copied-partition-change", "partition-state"}
)


def in_sync_table(history: History, facts: Facts) -> Any:
    """One row for each entry that says who leads a partition or who is in sync (-> IN_SYNC); none without a log."""
    if not history.logs:
        return IN_SYNC.of_rows([])
    log = max(history.logs.values(), key=_end)
    topics: dict[str, str] = {}
    known: dict[tuple[str, int], dict[str, Any]] = {}
    listed: list[dict[str, Any]] = []
    for entry in (*(log.snapshot if log.start_offset else ()), *log.entries):
        if entry.type in ("topic", "copied-topic"):
            topics[str(entry.fields.get("topic_id", ""))] = str(entry.fields.get("name", ""))
        elif entry.type in _STATES:
            which = _which(entry, topics)
            before = known.get(which, {"leader": "", "in_sync": "", "eligible": ""})
            after = _after(entry, before, facts.nodes)
            if after != before and not which[0].startswith(_INTERNAL):
                place = {"topic": which[0], "partition": which[1], "offset": entry.offset, "epoch": entry.epoch}
                listed.append({**place, **after})
            known[which] = after
    return IN_SYNC.of_rows(listed)


def _end(log: NodeLog) -> tuple[int, int]:
    return (log.entries[-1].epoch, log.entries[-1].offset) if log.entries else (-1, -1)


def _which(entry: LogEntry, topics: dict[str, str]) -> tuple[str, int]:
    if entry.type == "partition-state":
        return str(entry.fields.get("topic", "")), int(entry.fields.get("partition", 0))
    topic = str(entry.fields.get("topic_id", ""))
    return topics.get(topic, topic), int(entry.fields.get("partition_id", -1))


def _after(entry: LogEntry, before: dict[str, Any], nodes: tuple[str, ...]) -> dict[str, Any]:
    """The state that an entry leaves behind; what a change does not name stays."""
    fields = entry.fields
    leader = fields.get("leader", SAME_LEADER if entry.type == "partition-change" else -1)
    return {
        "leader": before["leader"] if leader == SAME_LEADER else _names([leader], nodes),
        "in_sync": _names(fields["isr"], nodes) if fields.get("isr") is not None else before["in_sync"],
        "eligible": _names(fields["eligible_leader_replicas"], nodes)
        if fields.get("eligible_leader_replicas") is not None
        else before["eligible"],
    }


def _names(numbers: Iterable[int], nodes: tuple[str, ...]) -> str:
    """Nodes by their numbers, which count from 1 in the order of the cluster's nodes; "" for none."""
    known = (nodes[n - 1] if 0 < n <= len(nodes) else str(n) for n in sorted(numbers) if n >= 0)
    return " ".join(known)


TABLE: Final = DerivedTable(table=IN_SYNC, derive=in_sync_table)
