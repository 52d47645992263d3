"""The offsets of each change in the voters' logs, and which changes are certainly committed.

An entry names its change by its content, since every change has a value of its own. But a request may be handed over
twice, so the tail of a superseded leader and the log of the next one may both hold it: a change is committed in one
entry, which is the same in every log that has it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from fencepost.harness.history import History, LogEntry, NodeLog, Operation, Outcome
from fencepost.harness.verdict import Facts

_CHANGES: Final = frozenset({"alter", "create"})


#: Of a setting: what it belongs to and its value; of a topic: its name.
_Name = tuple[str, ...]


def placed_changes(history: History, facts: Facts) -> "Placed":
    """Every change of the history in the logs that were kept of it."""
    return Placed(history, {node: Log(log) for node, log in history.logs.items()}, facts)


class Log:
    """One node's log: entries by offset, and where it ends."""

    def __init__(self, log: NodeLog) -> None:
        self.node: Final = log.node
        self.log: Final = log
        self.at: Final[dict[int, LogEntry]] = {entry.offset: entry for entry in log.entries}
        self.end: Final = log.entries[-1].offset + 1 if log.entries else log.start_offset
        self.last_epoch: Final = log.entries[-1].epoch if log.entries else -1


class Placed:
    """The offsets of each change in each node's log."""

    def __init__(self, history: History, logs: Mapping[str, Log], facts: Facts) -> None:
        self._logs: Final = logs
        self._voters: Final = facts.voters
        changes = [o for o in history.operations if o.f in _CHANGES]
        by_name: dict[_Name, dict[str, list[int]]] = {}
        snapshots: dict[_Name, set[str]] = {}
        for log in logs.values():
            for entry in log.log.entries:
                name = _name_of(entry)
                if name is not None:
                    by_name.setdefault(name, {}).setdefault(log.node, []).append(entry.offset)
            for entry in log.log.snapshot:
                name = _name_of(entry)
                if name is not None:
                    snapshots.setdefault(name, set()).add(log.node)
        makers = _makers(changes)
        #: Each change with the offsets at which each node's log holds it.
        self.items: Final = [(o, by_name.get(_name(o), {}) if makers.get(_name(o), o) is o else {}) for o in changes]
        self.in_snapshot: Final = {o.invoke_index: snapshots.get(_name(o), set()) for o in changes}
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
        """Whether a majority of the voters hold this very entry."""
        holders = [
            node for node in self._voters if node in self._logs and self._logs[node].at.get(entry.offset) == entry
        ]
        return len(holders) > len(self._voters) // 2

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


def _makers(changes: Iterable[Operation]) -> dict[_Name, Operation]:
    """Choose for each name the request that took it: the acknowledged one, else the first that may have taken it."""
    makers: dict[_Name, Operation] = {}
    for change in changes:
        if change.f != "create" or change.type is Outcome.FAIL:
            continue
        maker = makers.setdefault(_name(change), change)
        if change.type is Outcome.OK and maker.type is not Outcome.OK:
            makers[_name(change)] = change
    return makers


def _name(change: Operation) -> _Name:
    """Return what identifies a change's entry: a topic's name, or a setting's owner and value, which is unique."""
    if change.f == "alter":
        return "config", str(change.key), str(change.value)
    return "topic", str(change.key)


def _name_of(entry: LogEntry) -> _Name | None:
    fields = entry.fields
    if entry.type == "config":
        return "config", str(fields.get("resource_name", "")), str(fields.get("value", ""))
    return ("topic", str(fields.get("name", ""))) if entry.type == "topic" else None
