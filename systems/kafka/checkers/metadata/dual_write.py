"""Whether ZooKeeper keeps up with KRaft while a migrating Kafka writes to both, by the disks of both.

Until the migration is final there is a way back to ZooKeeper, so every change that KRaft acknowledges is also written
to ZooKeeper, and /migration says up to which offset of KRaft's log that was done. Judged if the run ended in such a
phase, or with a roll-back from one:

"zookeeper-keeps-up"
  left-behind         a change that KRaft acknowledged stands in its log beyond the last offset in /migration, although
                      it was acknowledged, and all faults were healed, more than ten seconds before the end
  lost-in-roll-back   a topic that KRaft acknowledged before the roll-back was over stands in its log, and no
                      transaction of ZooKeeper names it

A roll-back would lose a change that was left behind. Changes that were made in ZooKeeper and copied to KRaft are none
of KRaft's. After a further migration nothing is said of a roll-back: the new controllers began on empty disks.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from fencepost.checkers.derived.evidence import number_of, rows
from fencepost.checkers.rules import Fate, Rule, Survives, verdict
from fencepost.checkers.violations.finding import Doubt, Finding
from fencepost.harness.history import History, LogEntry, MigrationEvent, Operation, Outcome
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.systems.kafka.checkers.metadata.placed_changes import placed_changes
from fencepost.systems.kafka.facts.controllers import committed
from fencepost.systems.kafka.facts.settled import acting, undisturbed_since

LEFT_BEHIND: Final = Rule(
    guarantee="zookeeper-keeps-up",
    anomaly="left-behind",
    tested="changes that KRaft acknowledged ten seconds before the end or earlier",
    lacks="KRaft acknowledged no change ten seconds before the end",
)
LOST: Final = Survives(
    guarantee="zookeeper-keeps-up",
    anomaly="lost-in-roll-back",
    tested="topics that KRaft acknowledged before the roll-back",
)
_PHASES: Final = frozenset({"hybrid", "dual-write"})
_BACK: Final = "rolled-back"
_TOPIC: Final = re.compile(r"/brokers/topics/([^/]+)")
#: A controller writes to ZooKeeper within milliseconds, and within a second after a failover; measured.
_BOUND_NS: Final = 10_000_000_000


class _Change(msgspec.Struct, frozen=True):
    """A change that KRaft acknowledged, and the first offset at which its log holds it."""

    operation: Operation
    offset: int

    @property
    def acknowledged_ns(self) -> int:
        assert self.operation.completed_ns is not None, "it was acknowledged"
        return self.operation.completed_ns


def check(history: History, facts: Facts) -> list[Verdict]:
    """Compare the last offset in /migration with the changes that KRaft acknowledged.

    Returns:
        One verdict; none if the run did not end in a phase in which KRaft writes to both stores, or right after one.

    Source: KIP-866, "Dual Write Mode"; KRaftMigrationDriver of Kafka 3.6 to 3.9.

    Cost: O(n log n) for n log entries.
    """
    phases = [event.phase for event in history.of(MigrationEvent)]
    if phases and phases[-1] == _BACK and phases.count(_BACK) == 1 and _PHASES & set(phases):
        return [_rolled_back(history, facts)]
    if not phases or phases[-1] not in _PHASES:
        return []
    written = [entry for entry in committed(history, facts) if "migrated_to" in entry.fields]
    reached = written[-1].fields["migrated_to"] if written else -1
    changes = _changes(history, facts)
    settled_ns = history.end_ns - _BOUND_NS
    healed_ns = undisturbed_since(acting(history), history.end_ns)
    due = [change for change in changes if change.acknowledged_ns <= settled_ns] if healed_ns <= settled_ns else []
    late = [change for change in due if change.offset > reached]
    early = healed_ns > settled_ns
    return [
        verdict(
            facts,
            LEFT_BEHIND.tally(
                [_finding(history, change, reached) for change in late], rows(change.operation for change in due)
            ),
            broken=f"{len(late)} of {len(due)} changes that KRaft acknowledged stand beyond offset {reached},"
            " the last one in /migration",
            doubt=Doubt(Cause.NO_EXPOSURE, "the last fault was healed less than ten seconds before the end")
            if early
            else None,
            kept=f"/migration reached offset {reached}, beyond all {len(due)} changes that KRaft acknowledged",
            figures={"acknowledged": number_of(change.operation for change in changes)},
        )
    ]


def _rolled_back(history: History, facts: Facts) -> Verdict:
    """Compare the topics that KRaft acknowledged with those that ZooKeeper ever had."""
    back_ns = next(event.time_ns for event in history.of(MigrationEvent) if event.phase == _BACK)
    topics = {name for entry in committed(history, facts) for name in _topics(entry)}
    only_made = _only_made(history)
    due = [
        change
        for change in _changes(history, facts)
        if change.operation.key in only_made and change.acknowledged_ns <= back_ns
    ]
    fates = [
        Fate(change.operation, True, None if change.operation.key in topics else _lost(change, back_ns))
        for change in due
    ]
    return verdict(facts, LOST.judge(fates), figures={"acknowledged": number_of(change.operation for change in due)})


def _topics(entry: LogEntry) -> Iterator[str]:
    """The names of topics in one transaction."""
    fields = entry.fields
    if entry.type in ("topic", "partition-state"):
        yield fields["name" if entry.type == "topic" else "topic"]
    for change in (fields.get("path", ""), *fields.get("changes", ())):
        yield from _TOPIC.findall(change)


def _only_made(history: History) -> set[str | None]:
    """Keys that nothing was done to but to make them and to look at them."""
    made = {operation.key for operation in history.operations if operation.f == "create"}
    return made - {operation.key for operation in history.operations if operation.f not in ("create", "exists")}


def _changes(history: History, facts: Facts) -> list[_Change]:
    logs = history.logs.values()
    # Only ZooKeepers log the elections of controllers.
    zookeeper = {log.of for log in logs if any(entry.type == "election" for entry in log.entries)}
    kraft = {log.node for log in logs if log.of not in zookeeper}
    changes = []
    for operation, places in placed_changes(history, facts).items:
        offsets = [offset for node, held in places.items() if node in kraft for offset in held]
        if offsets and operation.type is Outcome.OK:
            changes.append(_Change(operation, min(offsets)))
    return changes


def _finding(history: History, change: _Change, reached: int) -> Finding:
    waited_s = (history.end_ns - change.acknowledged_ns) / 1e9
    steps = (
        f"KRaft acknowledged this change {waited_s:.1f} s before the end, at offset {change.offset} of its log.",
        f"The last transaction that wrote /migration says that ZooKeeper has everything up to offset {reached}.",
    )
    return LEFT_BEHIND.finding(change.operation, steps=steps)


def _lost(change: _Change, back_ns: int) -> Finding:
    before_s = (back_ns - change.acknowledged_ns) / 1e9
    steps = (
        f"KRaft acknowledged this topic {before_s:.1f} s before the roll-back was over, at offset {change.offset} of"
        " its log.",
        "No transaction in the logs of the ZooKeepers names it.",
    )
    return LOST.finding(change.operation, steps=steps)
