"""How each partition's leader and in-sync replicas changed, by the metadata log on disk of the run's last leader.

Entries have no time; their order is that of the log. "eligible" are replicas that left the in-sync set when it became
smaller than `min.insync.replicas`, and still hold every committed record (KIP-966, from 4.1 on). ZooKeeper mode keeps
the same in /brokers/topics/.../state.

How far nodes' logs were behind the leader's high watermark comes from the leader's own answers ("behind 4=12 2=3"). The
numbers are node ids, in the order of the cluster's nodes from 1 on; what they count are offsets of the log.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

from fencepost.harness.history import BeliefEvent, Claim, History, LogEntry, NodeLog, PhaseName
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


IN_SYNC_TABLE: Final = DerivedTable(table=IN_SYNC, derive=in_sync_table)


LAGS: Final = FactTable(
    name="lags",
    row="a node whose log was behind the leader's high watermark in some answer of the leader, from the main phase on",
    columns=columns(
        ("node", TEXT, "the node"),
        ("offsets_max", LONG, "the most offsets that its log was behind"),
        ("at_ns", LONG, "when the leader said so"),
        ("leader", TEXT, "the leader that said so"),
        ("answers", LONG, "how many answers say that it was behind"),
        ("event", LONG, "the row of the history"),
    ),
)

_BEHIND: Final = re.compile(r"behind((?: \d+=\d+)+)")
_ONE: Final = re.compile(r"(\d+)=(\d+)")


def lags_table(history: History, facts: Facts) -> Any:
    """The largest lag of each node from the main phase on (-> LAGS); no rows where no answer tells of one."""
    since_ns, _ = history.phases.get(PhaseName.MAIN, (0, 0))
    largest: dict[str, dict[str, Any]] = {}
    times: dict[str, int] = {}
    for event in history.events:
        if type(event) is not BeliefEvent or event.claims is not Claim.YES or event.time_ns < since_ns:
            continue
        match = _BEHIND.fullmatch(event.detail or "")
        for number, offsets in _ONE.findall(match.group(1)) if match else ():
            if not 0 < int(number) <= len(facts.nodes):
                continue
            node = facts.nodes[int(number) - 1]
            times[node] = times.get(node, 0) + 1
            if int(offsets) > largest.get(node, {}).get("offsets_max", 0):
                largest[node] = {
                    "node": node,
                    "offsets_max": int(offsets),
                    "at_ns": event.answered_ns,
                    "leader": event.node,
                    "event": event.index,
                }
    return LAGS.of_rows([{**largest[node], "answers": times[node]} for node in facts.nodes if node in largest])


LAGS_TABLE: Final = DerivedTable(table=LAGS, derive=lags_table)
