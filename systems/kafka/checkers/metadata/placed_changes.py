"""The offsets of each change in the voters' logs, and which changes are certainly committed.

An entry names its change by its content, since every change has a value of its own. But a request may be handed over
twice, so the tail of a superseded leader and the log of the next one may both hold it: a change is committed in one
entry, which is the same in every log that has it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from fencepost.harness.base.quorum import majority
from fencepost.harness.history import History, LogEntry, NodeLog, Operation, Outcome
from fencepost.harness.verdict import Facts
from fencepost.systems.kafka.facts.controllers import electorates

_CHANGES: Final = frozenset({"alter", "create"})


#: What stands in an entry, and which one: of a setting its owner and value, of a topic its name.
Name = tuple[str, ...]
#: Every log that this product reads shows these; others only where a log has some of them.
ALWAYS_SHOWN: Final = frozenset({"config", "topic"})
_LEAST_ITERATIONS: Final = 4096
_QUOTA: Final = "producer_byte_rate"
_BROKER: Final = 4


def placed_changes(history: History, facts: Facts) -> "Placed":
    """Every change of the history in the logs that were kept of it."""
    return Placed(history, {node: NodeEntries(log) for node, log in history.logs.items()}, facts)


class NodeEntries:
    """One node's log: entries by offset, and where it ends."""

    def __init__(self, log: NodeLog) -> None:
        self.node: Final = log.node
        self.log: Final = log
        self.at: Final[dict[int, LogEntry]] = {entry.offset: entry for entry in log.entries}
        self.end: Final = log.entries[-1].offset + 1 if log.entries else log.start_offset
        self.last_epoch: Final = log.entries[-1].epoch if log.entries else -1


class Placed:
    """The offsets of each change in each node's log."""

    def __init__(self, history: History, logs: Mapping[str, NodeEntries], facts: Facts) -> None:
        self._logs: Final = logs
        self._electorates: Final = tuple(electorates(history, facts).values())
        by_name: dict[Name, dict[str, list[int]]] = {}
        snapshots: dict[Name, set[str]] = {}
        for log in logs.values():
            for entry in log.log.entries:
                name = entry_name(entry)
                if name is not None:
                    by_name.setdefault(name, {}).setdefault(log.node, []).append(entry.offset)
            for entry in log.log.snapshot:
                name = entry_name(entry)
                if name is not None:
                    snapshots.setdefault(name, set()).add(log.node)
        kinds: dict[str, set[str]] = {log.log.of: set() for log in logs.values()}
        for name, nodes in (*by_name.items(), *snapshots.items()):
            for node in nodes:
                kinds[logs[node].log.of].add(name[0])
        # A change that one of several stores does not show may have been made there.
        shown = ALWAYS_SHOWN.union(set.intersection(*kinds.values()) if kinds else ())
        named = [
            (o, name) for o in history.operations if o.f in _CHANGES and (name := change_name(o)) and name[0] in shown
        ]
        makers = _makers(o for o, _ in named)
        #: Each change with the offsets at which each node's log holds it.
        self.items: Final = [(o, by_name.get(name, {}) if makers.get(name, o) is o else {}) for o, name in named]
        self.in_snapshot: Final = {o.invoke_index: snapshots.get(name, set()) for o, name in named}
        self._acknowledged: Final[dict[str, int]] = {}
        for change, places in self.items:
            if change.type is Outcome.OK:
                for node, offset in self._committed_places(places):
                    self._acknowledged[node] = max(self._acknowledged.get(node, -1), offset)

    def committed_in(self, places: Mapping[str, list[int]]) -> list[str]:
        """Return the nodes in whose logs an entry lies below an acknowledged change, and so is committed itself."""
        return [node for node, offsets in places.items() if offsets[0] <= self._acknowledged.get(node, -1)]

    def entries(self, places: Mapping[str, list[int]]) -> list[LogEntry]:
        """The different entries that hold a change: a request that was handed over twice may have two."""
        entries: list[LogEntry] = []
        for node, offsets in places.items():
            for offset in offsets:
                entry = self._logs[node].at[offset]
                if entry not in entries:
                    entries.append(entry)
        return entries

    def on_majority(self, entry: LogEntry) -> bool:
        """Whether a majority of the voters of one log hold this very entry."""
        return any(
            sum(node in self._logs and self._logs[node].at.get(entry.offset) == entry for node in voters)
            >= majority(voters)
            for voters in self._electorates
        )

    def committed_offsets(self, places: Mapping[str, list[int]]) -> list[int]:
        """The offsets at which a change is certainly committed, ascending."""
        return sorted(
            {
                offset
                for node, offsets in places.items()
                for offset in offsets
                if offset <= self._acknowledged.get(node, -1) or self.on_majority(self._logs[node].at[offset])
            }
        )

    def _committed_places(self, places: Mapping[str, list[int]]) -> Iterator[tuple[str, int]]:
        """Yield the entries at which a change is certainly committed: its only one, or those that a majority holds."""
        entries = self.entries(places)
        for node, offsets in places.items():
            for offset in offsets:
                if len(entries) == 1 or self.on_majority(self._logs[node].at[offset]):
                    yield node, offset

    def outcome(self, change: Operation, places: Mapping[str, list[int]], *, whole: bool) -> str:
        """What became of a change of unknown outcome; `whole`: every log reaches back to the beginning."""
        held = any(map(self.on_majority, self.entries(places)))
        if self.committed_in(places) or self.in_snapshot[change.invoke_index] or held:
            return "info_took_effect"
        return "info_took_no_effect" if whole and not places else "info_undecided"


def _makers(changes: Iterable[Operation]) -> dict[Name, Operation]:
    """Choose for each name the request that took it: the acknowledged one, else the first that may have taken it."""
    makers: dict[Name, Operation] = {}
    for change in changes:
        if change.f != "create" or change.type is Outcome.FAIL:
            continue
        maker = makers.setdefault(("topic", str(change.key)), change)
        if change.type is Outcome.OK and maker.type is not Outcome.OK:
            makers["topic", str(change.key)] = change
    return makers


def change_name(change: Operation) -> Name | None:
    """Return what identifies a change's entry: a name, or an owner and a value, which is unique; None of a removal.

    A new partition has an entry of its own that does not say how many there are.
    """
    if change.f != "alter":
        return "topic", str(change.key)
    kind, slash, name = str(change.key).partition("/")
    if change.value is None or (slash and kind == "partitions"):
        return None
    if not slash:
        return "config", str(change.key), str(change.value)
    return (kind, name) if kind in ("topic", "acl") else (kind, name, str(change.value))


def entry_name(entry: LogEntry) -> Name | None:
    fields = entry.fields
    match entry.type:
        case "config":
            kind = "broker" if fields.get("resource_type") == _BROKER else "config"
            return kind, str(fields.get("resource_name", "")), str(fields.get("value", ""))
        case "topic":
            return "topic", str(fields.get("name", ""))
        case "access-control-entry":
            return "acl", str(fields.get("resource_name", ""))
        case "user-scram-credential":
            return "scram", str(fields.get("name", "")), str(fields.get("iterations", 0) - _LEAST_ITERATIONS)
        case "client-quota" if fields.get("key") == _QUOTA and not fields.get("remove"):
            name = "".join(part.get("entity_name", "") for part in fields.get("entity", ()))
            return "quota", name, str(round(fields.get("value", 0)))
    return None


def shown(entry: LogEntry) -> str:
    """Say what an entry holds."""
    fields = ", ".join(f"{name}={value!r}" for name, value in entry.fields.items())
    return f"{entry.type}({fields[:200]}) of epoch {entry.epoch}"
