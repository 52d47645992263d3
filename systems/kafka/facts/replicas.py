"""How each partition's leader and in-sync replicas changed, by the metadata log on disk of the run's last leader.

Entries have no time; their order is that of the log. "eligible" are replicas that left the in-sync set when it became
smaller than `min.insync.replicas`, and still hold every committed record (KIP-966, from 4.1 on). ZooKeeper mode keeps
the same in /brokers/topics/.../state.

How far nodes' logs were behind the leader's high watermark comes from the leader's own answers ("behind 4=12 2=3"). The
numbers are node ids, in the order of the cluster's nodes from 1 on; what they count are offsets of the log.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

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
#: The leader of a partition that nobody leads.
NOBODY: Final = -1
_INTERNAL: Final = "__"
#: Entries that make a partition, change it, and tell its whole state in ZooKeeper; a migration copies the first two.
_MAKE: Final = frozenset({"partition", "copied-partition"})
_CHANGE: Final = frozenset({"partition-change", "copied-partition-change"})
_STATE: Final = "partition-state"
#: By field of a state: what a record calls it.
_SETS: Final = {
    "replicas": "replicas",
    "in_sync": "isr",
    "eligible": "eligible_leader_replicas",
    "last_known": "last_known_elr",
    "adding": "adding_replicas",
    "removing": "removing_replicas",
}


class PartitionState(msgspec.Struct, frozen=True, kw_only=True):
    """What a log says of one partition, brokers by id; `version` is that of the state, -1 where no record names it.

    `last_known` is who led last, named where nobody is in sync or eligible. A reassignment adds and removes replicas.
    """

    leader: int = NOBODY
    version: int = -1
    replicas: frozenset[int] = frozenset()
    in_sync: frozenset[int] = frozenset()
    eligible: frozenset[int] = frozenset()
    last_known: frozenset[int] = frozenset()
    adding: frozenset[int] = frozenset()
    removing: frozenset[int] = frozenset()

    def after(self, entry: LogEntry) -> "PartitionState":
        """The state after a record; what it does not name stays."""
        fields = entry.fields
        named: dict[str, Any] = {
            own: frozenset(fields[name]) for own, name in _SETS.items() if fields.get(name) is not None
        }
        leader = fields.get("leader", SAME_LEADER if entry.type in _CHANGE else NOBODY)
        version = fields.get("version" if entry.type == _STATE else "partition_epoch", -1)
        return msgspec.structs.replace(
            self,
            leader=self.leader if leader == SAME_LEADER else int(leader),
            version=self.version + 1 if entry.type in _CHANGE else int(-1 if version is None else version),
            **named,
        )


class PartitionStep(NamedTuple):
    """An entry that changes a partition; `before` is None where the log did not tell of it before."""

    entry: LogEntry
    topic: str
    number: int
    before: PartitionState | None
    now: PartitionState


def in_order(log: NodeLog) -> tuple[LogEntry, ...]:
    """Every record once: a snapshot stands for the entries below its end, which may still be there."""
    if log.start_offset == 0:
        return log.entries
    return (*log.snapshot, *(entry for entry in log.entries if entry.offset >= log.snapshot_end))


class Partitions:
    """The partitions of a log so far, by topic and number; a topic by its id where no record names it."""

    def __init__(self) -> None:
        self.known: Final[dict[tuple[str, int], PartitionState]] = {}
        self._names: Final[dict[str, str]] = {}

    def read(self, entry: LogEntry) -> Iterator[PartitionStep]:
        """Take the next entry, and yield what it changes."""
        fields = entry.fields
        if entry.type in ("topic", "copied-topic"):
            self._names[str(fields.get("topic_id", ""))] = str(fields.get("name", ""))
        elif entry.type == "remove-topic":
            gone = self._names.get(topic_id := str(fields.get("topic_id", "")), topic_id)
            for place in [place for place in self.known if place[0] == gone]:
                del self.known[place]
        elif entry.type == "clear-elr":
            for (topic, number), before in self.known.items():
                if fields.get("topic_name", "") in ("", topic):
                    now = msgspec.structs.replace(before, eligible=frozenset())
                    yield self._step(entry, topic, number, before, now)
        elif entry.type == _STATE:
            topic, number = str(fields.get("topic", "")), int(fields.get("partition", 0))
            before_state = self.known.get((topic, number))
            yield self._step(entry, topic, number, before_state, (before_state or PartitionState()).after(entry))
        elif entry.type in _MAKE or entry.type in _CHANGE:
            topic_id = str(fields.get("topic_id", ""))
            topic, number = self._names.get(topic_id, topic_id), int(fields.get("partition_id", -1))
            made = self.known.get((topic, number)) if entry.type in _CHANGE else None
            yield self._step(entry, topic, number, made, (made or PartitionState()).after(entry))

    def _step(
        self, entry: LogEntry, topic: str, number: int, before: PartitionState | None, now: PartitionState
    ) -> PartitionStep:
        self.known[topic, number] = now
        return PartitionStep(entry, topic, number, before, now)


def partition_steps(log: NodeLog) -> Iterator[PartitionStep]:
    """Yield every change of a partition that a KRaft controller's or a ZooKeeper's log tells of, in its order."""
    partitions = Partitions()
    for entry in in_order(log):
        yield from partitions.read(entry)


def in_sync_table(history: History, facts: Facts) -> Any:
    """One row for each entry that says who leads a partition or who is in sync (-> IN_SYNC); none without a log."""
    log = max(history.logs.values(), key=_end, default=None)
    listed: list[dict[str, Any]] = []
    for step in () if log is None else partition_steps(log):
        after, before = (_columns(state, facts.nodes) for state in (step.now, step.before or PartitionState()))
        if after != before and not step.topic.startswith(_INTERNAL):
            place = {"topic": step.topic, "partition": step.number}
            listed.append({**place, "offset": step.entry.offset, "epoch": step.entry.epoch, **after})
    return IN_SYNC.of_rows(listed)


def _end(log: NodeLog) -> tuple[int, int]:
    return (log.entries[-1].epoch, log.entries[-1].offset) if log.entries else (-1, -1)


def _columns(state: PartitionState, nodes: tuple[str, ...]) -> dict[str, str]:
    return {
        "leader": _names([state.leader], nodes),
        "in_sync": _names(state.in_sync, nodes),
        "eligible": _names(state.eligible, nodes),
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
    for event in history.of(BeliefEvent):
        if event.claims is not Claim.YES or event.time_ns < since_ns:
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
