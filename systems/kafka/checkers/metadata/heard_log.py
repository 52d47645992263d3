"""What each listener of the metadata log was told: entries by offset, which of them are committed, and what broke.

A listener has one operation under way at a time, so its operations are in order. An entry is committed for it once a
leader names a higher high watermark while the listener holds it. Committed entries stay: a leader that says that the
logs part below them withdraws what was committed, and so does one that tells another entry at the same offset.
"""

from typing import Final, NamedTuple

from fencepost.checkers.rules import Rule
from fencepost.checkers.violations.finding import Finding
from fencepost.harness.history import History, LogEntry, Operation, Outcome

ORDER: Final = "metadata-listener-order"
MISSED: Final = Rule(
    guarantee=ORDER,
    anomaly="listener-missed-offset",
    tested="answers that told a listener of entries",
    lacks="no listener was told of an entry",
)
FELL: Final = Rule(
    guarantee=ORDER, anomaly="listener-epoch-fell", tested="entries of which a listener was told after another one"
)
WITHDRAWN: Final = Rule(
    guarantee=ORDER,
    anomaly="committed-entry-withdrawn",
    tested="committed entries that were told again, and answers by later leaders",
    lacks="no listener was told again of what was committed, nor answered by a later leader",
)


class Told(NamedTuple):
    """An entry, and the answer by which it was told."""

    entry: LogEntry
    by: Operation


class Snapshot(NamedTuple):
    """The state that a listener was sent in place of all entries below `end`."""

    end: int
    entries: tuple[LogEntry, ...]
    by: Operation


class HeardLog:
    """The log as one listener was told it."""

    def __init__(self, name: str, operations: list[Operation]) -> None:
        self.name: Final = name
        #: Its answered operations, in order.
        self.answers: Final = [o for o in operations if o.type is Outcome.OK]
        #: Committed entries, each with the answer that told it, and with the one by which it was known to be committed.
        self.committed: Final[dict[int, Told]] = {}
        self.known_by: Final[dict[int, Operation]] = {}
        self.snapshots: Final[list[Snapshot]] = []
        self.missed: Final[list[Finding]] = []
        self.fell: Final[list[Finding]] = []
        self.withdrawn: Final[list[Finding]] = []
        #: Answers with entries, and those that said that the logs part.
        self.with_entries: Final[list[Operation]] = []
        self.parted: Final[list[Operation]] = []
        #: Answers of a leader of a later epoch than the answer before: what it lacks would show there.
        self.of_new_leaders: Final[list[Operation]] = []
        #: How many entries were told again at an offset that was known to be committed.
        self.told_again = 0
        #: What the listener holds: every offset is below `_end`. Everything below `_below` is known to be committed.
        self._held: dict[int, Told] = {}
        self._end = 0
        self._below = 0
        epoch = None
        for answer in self.answers:
            if epoch is not None and answer.result[0] > epoch:
                self.of_new_leaders.append(answer)
            epoch = answer.result[0]
            self._take(answer)

    def _take(self, answer: Operation) -> None:
        (first, _), (_, high_watermark, items) = answer.value, answer.result
        # A listener that lost an answer asks for the same again.
        self._drop(first)
        expected = first
        entries = [
            LogEntry(offset=o, epoch=e, type=t, fields=f)
            for kind, *rest in items
            if kind == "entry"
            for o, e, t, f in [rest]
        ]
        if entries:
            self.with_entries.append(answer)
        for entry in entries:
            if entry.offset != expected:
                self._missed(answer, expected, entry)
            self._add(answer, entry)
            expected = entry.offset + 1
        for kind, *rest in items:
            if kind == "parts":
                self.parted.append(answer)
                self._part(answer, rest[0], rest[1])
            elif kind == "snapshot":
                state = tuple(LogEntry(offset=rest[0] - 1, epoch=rest[1], type=t, fields=f) for t, f in rest[2])
                self.snapshots.append(Snapshot(rest[0], state, answer))
        newly = range(self._below, min(high_watermark, self._end))
        self._below = max(self._below, high_watermark)
        for offset in (*newly, *(entry.offset for entry in entries)):
            if offset < self._below and offset in self._held and offset not in self.committed:
                self.committed[offset] = self._held[offset]
                self.known_by[offset] = answer

    def _add(self, answer: Operation, entry: LogEntry) -> None:
        before = self._held.get(entry.offset - 1)
        if before is not None and entry.epoch < before.entry.epoch:
            steps = (
                f"{self.name} was told of the entry at offset {entry.offset - 1}, of epoch {before.entry.epoch}.",
                f"The next one, at offset {entry.offset}, has epoch {entry.epoch}.",
            )
            self.fell.append(FELL.finding(*_both(before.by, answer), steps=steps))
        known = self.committed.get(entry.offset)
        self.told_again += known is not None
        if known is not None and known.entry != entry:
            steps = (
                f"{self.name} was told of {shown(known.entry)} at offset {entry.offset}, as committed.",
                f"Later {answer.node} told it {shown(entry)} at the same offset.",
            )
            self.withdrawn.append(WITHDRAWN.finding(*_both(known.by, answer), steps=steps))
        self._held[entry.offset] = Told(entry, answer)
        self._end = max(self._end, entry.offset + 1)

    def _part(self, answer: Operation, epoch: int, end: int) -> None:
        later = (offset for offset in sorted(self._held) if self._held[offset].entry.epoch > epoch)
        keeps = min(end, next(later, end))
        gone = [offset for offset in sorted(self.committed) if offset >= keeps]
        if gone:
            first = self.committed[gone[0]]
            steps = (
                f"{self.name} was told of {shown(first.entry)} at offset {gone[0]}, as committed.",
                f"Later {answer.node} said that its log has nothing of that: epoch {epoch} ends at offset {end}.",
            )
            self.withdrawn.append(WITHDRAWN.finding(*_both(first.by, answer), steps=steps))
        self._drop(keeps)

    def _drop(self, offset: int) -> None:
        for held in range(offset, self._end):
            self._held.pop(held, None)
        self._end = min(self._end, offset)

    def _missed(self, answer: Operation, expected: int, entry: LogEntry) -> None:
        steps = (
            f"{self.name} asked {answer.node} for the entries from offset {answer.value[0]} on.",
            f"After those below offset {expected} it was told of {shown(entry)} at offset {entry.offset}.",
        )
        self.missed.append(MISSED.finding(answer, steps=steps))


def heard_logs(history: History) -> list[HeardLog]:
    """One for each listener of the history."""
    by_name: dict[str, list[Operation]] = {}
    for operation in history.operations:
        if operation.f == "listen" and operation.key is not None:
            by_name.setdefault(operation.key, []).append(operation)
    return [HeardLog(name, own) for name, own in by_name.items()]


def shown(entry: LogEntry) -> str:
    fields = ", ".join(f"{name}={value!r}" for name, value in entry.fields.items())
    return f"{entry.type}({fields[:200]}) of epoch {entry.epoch}"


def _both(one: Operation, other: Operation) -> tuple[Operation, ...]:
    return (one,) if one is other else (one, other)
