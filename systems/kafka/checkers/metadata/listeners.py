"""Listeners of the metadata log: is each told of every committed change, once, in the log's order?

Two verdicts:

"metadata-listener-order"
  listener-missed-offset       an answer goes on behind the offset that was asked for, or leaves one out, or repeats one
  listener-epoch-fell          an entry has a lower epoch than the one before it
  committed-entry-withdrawn    what a leader had named as committed is not in a later leader's log, or is another entry
  listeners-differ             two listeners were told of different committed entries at one offset
  listener-differs-from-disk   a node's disk holds another entry there, of the same or a later epoch, or agrees later on

"metadata-listener-complete"
  change-not-heard   an acknowledged change is not among the entries of a listener that was told of a change that was
                     asked for after that acknowledgement

A listener that stays behind is late: `unknown`. A removal has no value of its own, so no entry names it, and what a
snapshot stands for may have been overwritten before: neither is looked for.

Source: KIP-595 (the log, the high watermark, diverging epochs), KIP-630 (snapshots); log matching (Ongaro & Ousterhout,
2014).

A listener has one operation under way at a time, so its operations are in order. An entry is committed for it once a
leader names a higher high watermark while the listener holds it. Committed entries stay: a leader that says that the
logs part below them withdraws what was committed, and so does one that tells another entry at the same offset.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final, NamedTuple

from fencepost.checkers.derived.evidence import number_of, row, rows
from fencepost.checkers.derived.positions import by_name, completed_ns
from fencepost.checkers.rules import Rule, verdict
from fencepost.checkers.violations.finding import Doubt, Finding
from fencepost.harness.history import History, LogEntry, NodeLog, Operation, Outcome
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.harness.verdict.figures import Traced, most
from fencepost.systems.kafka.checkers.metadata.changes import UNTOUCHED, controller_risk
from fencepost.systems.kafka.checkers.metadata.placed_changes import ALWAYS_SHOWN, Name, change_name, entry_name, shown

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
    return [HeardLog(name, own) for name, own in by_name(history, {"listen"}).items()]


def _both(one: Operation, other: Operation) -> tuple[Operation, ...]:
    return (one,) if one is other else (one, other)


DIFFER: Final = Rule(
    guarantee=ORDER, anomaly="listeners-differ", tested="committed entries that two listeners were told of"
)
FROM_DISK: Final = Rule(
    guarantee=ORDER, anomaly="listener-differs-from-disk", tested="committed entries whose offset a disk holds"
)
NOT_HEARD: Final = Rule(
    guarantee="metadata-listener-complete",
    anomaly="change-not-heard",
    tested="acknowledged changes that something disturbed, and that a listener was told of",
    lacks="no listener was told of an acknowledged change",
)


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge what the listeners of a history were told.

    Returns:
        The two verdicts above: `unknown` if no listener was told of an entry, or of an acknowledged change that
        something disturbed; the second one also if a listener had not heard the newest acknowledged change at the end.

    Source: KIP-595: records below the high watermark are never truncated, and every replica reads them by offset.

    Cost: O(n) in entries, for each pair of listeners and each log on disk.
    """
    logs = heard_logs(history)
    return [_order(logs, history, facts), _complete(logs, history, facts)]


def _order(logs: list[HeardLog], history: History, facts: Facts) -> Verdict:
    differ = list(_differences(logs))
    from_disk = [finding for log in logs for disk in history.logs.values() for finding in _from_disk(log, disk)]
    entries = sum(len(log.committed) for log in logs)
    parted = [answer for log in logs for answer in log.parted]
    later = [answer for log in logs for answer in log.of_new_leaders]
    shared = sum(len(one.committed.keys() & other.committed.keys()) for one, other in combinations(logs, 2))
    on_disk = sum(entry.offset in log.committed for log in logs for d in history.logs.values() for entry in d.entries)
    answers = [answer for log in logs for answer in log.with_entries]
    again = len(later) + len(parted) + sum(log.told_again for log in logs)
    return verdict(
        facts,
        MISSED.tally([f for log in logs for f in log.missed], rows(answers)),
        FELL.tally([f for log in logs for f in log.fell], max(0, entries - len(logs))),
        WITHDRAWN.tally([f for log in logs for f in log.withdrawn], again),
        DIFFER.tally(differ, shared),
        FROM_DISK.tally(from_disk, on_disk),
        kept=f"{entries} committed entries were told in order, to {len(logs)} listeners; logs parted"
        f" {len(parted)} times, and later leaders answered {len(later)} times",
        figures={
            "answers_of_later_leaders": number_of(later),
            "answers_that_parted": number_of(parted),
            "entries_told": entries,
            "entries_compared_with_disks": on_disk,
        },
    )


def _differences(logs: Sequence[HeardLog]) -> Iterator[Finding]:
    for one, other in combinations(logs, 2):
        for offset in sorted(one.committed.keys() & other.committed.keys()):
            mine, theirs = one.committed[offset], other.committed[offset]
            if mine.entry != theirs.entry:
                steps = (
                    f"{one.name} was told by {mine.by.node} of {shown(mine.entry)} at offset {offset}, as committed.",
                    f"{other.name} was told by {theirs.by.node} of {shown(theirs.entry)} there, as committed.",
                )
                yield DIFFER.finding(mine.by, theirs.by, steps=steps)
                break


def _from_disk(log: HeardLog, disk: NodeLog) -> Iterator[Finding]:
    """Find the first entry on a disk that contradicts; an earlier epoch's may be the tail of a superseded leader."""
    there = {entry.offset: entry for entry in disk.entries if entry.offset in log.committed}
    agreed = max((offset for offset, entry in there.items() if log.committed[offset].entry == entry), default=-1)
    for offset in sorted(there):
        mine, entry = log.committed[offset], there[offset]
        if entry != mine.entry and (entry.epoch >= mine.entry.epoch or offset < agreed):
            steps = (
                f"{log.name} was told by {mine.by.node} of {shown(mine.entry)} at offset {offset}, as committed.",
                f"After the run the disk of {disk.node} holds {shown(entry)} there.",
            )
            yield FROM_DISK.finding(mine.by, steps=steps)
            return


def _complete(logs: list[HeardLog], history: History, facts: Facts) -> Verdict:
    changes = [o for o in history.operations if o.type is Outcome.OK and o.f in ("alter", "create")]
    named = [(change, name) for change in changes if (name := change_name(change)) is not None]
    risk = controller_risk(history, facts)
    findings: list[Finding] = []
    heard: dict[int, Operation] = {}
    looked_for = 0
    behind: list[str] = []
    lags: list[Traced[int]] = []
    for log in logs:
        own = _Named(log)
        expected = [(change, name) for change, name in named if name[0] in own.kinds]
        reached = max((pair for pair in expected if pair[1] in own.at), key=_invoked_ns, default=None)
        late = False
        for change, name in expected:
            if name in own.at:
                heard[change.invoke_index] = change
                looked_for += 1
                known = log.known_by[own.at[name]]
                after_ns = (known.completed_ns or 0) - (change.completed_ns or 0)
                lags.append(Traced(after_ns, (row(change), row(known))))
            elif name in own.in_snapshots or own.may_be_hidden(change):
                continue
            elif reached is not None and completed_ns(change) < _invoked_ns(reached):
                findings.append(_not_heard(log, change, reached[0], log.committed[own.at[reached[1]]]))
            else:
                late = True
        if late:
            behind.append(log.name)
    at_risk = [change for change in heard.values() if risk.runs(change)]
    latest = most(lags)
    who = ", ".join(behind)
    return verdict(
        facts,
        NOT_HEARD.tally(findings, looked_for + len(findings)),
        doubt=Doubt(Cause.UNDECIDED, f"not told of every acknowledged change by the end: {who}") if behind else None,
        exposed=rows(at_risk),
        untested=UNTOUCHED if heard else NOT_HEARD.lacks,
        kept=f"each of {len(logs)} listeners was told of each of {len(heard)} acknowledged changes",
        figures={"heard_after_ns_max": latest} if latest.value > 0 else {},
    )


class _Named:
    """The changes that one listener was told of: the offset of the first entry of each."""

    def __init__(self, log: HeardLog) -> None:
        self.at: Final[dict[Name, int]] = {}
        for offset in sorted(log.committed):
            name = entry_name(log.committed[offset].entry)
            if name is not None:
                self.at.setdefault(name, offset)
        names = (entry_name(entry) for snapshot in log.snapshots for entry in snapshot.entries)
        self.in_snapshots: Final = {name for name in names if name is not None}
        self.kinds: Final = ALWAYS_SHOWN | {name[0] for name in (*self.at, *self.in_snapshots)}
        self._sent_ns: Final = max((completed_ns(snapshot.by) for snapshot in log.snapshots), default=-1)

    def may_be_hidden(self, change: Operation) -> bool:
        """Whether a snapshot may stand for the change, with a later one of the same thing."""
        return change.invoked_ns < self._sent_ns


def _not_heard(log: HeardLog, change: Operation, reached: Operation, later: Told) -> Finding:
    steps = (
        f"{change.f} of {change.key} to {change.value!r} through {change.node} was acknowledged.",
        f"{reached.f} of {reached.key} to {reached.value!r} was asked for after that.",
        f"{log.name} was told of the second one, at offset {later.entry.offset}, and of no entry of the first.",
    )
    return NOT_HEARD.finding(reached, later.by, change, steps=steps, key=change.key)


def _invoked_ns(named: tuple[Operation, Name]) -> int:
    return named[0].invoked_ns
