"""Whether ZooKeeper and KRaft hold the same topics while a migrating Kafka writes to both, by the disks of both.

With each change that it has written to ZooKeeper the KRaft controller raises the offset in /migration. At that moment
ZooKeeper must hold the topics, and the state of each of their partitions, that KRaft's log makes up to this offset, and
no others. Compared at each such moment; accused is what still differs at the last one, since a later synchronisation
may mend it. Judged if the run came to a phase in which KRaft writes to both stores, and until its first roll-back:

"both-stores-agree"
  missing-in-zookeeper   KRaft's log has a topic or partition up to the offset, and ZooKeeper does not have its znode
  left-in-zookeeper      ZooKeeper has one that KRaft's log does not make, or has removed

A roll-back would lose what is missing. And a later change of such a partition fails in ZooKeeper, whereupon the
controller tells brokers in ZooKeeper mode none of the changes that came with it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from fencepost.checkers.facts.controllers import committed
from fencepost.checkers.findings.finding import Finding
from fencepost.checkers.findings.ladder import Findings
from fencepost.checkers.findings.rules import rule
from fencepost.checkers.metadata.image import Image
from fencepost.harness.history import History, LogEntry, MigrationEvent, NodeLog
from fencepost.harness.verdict import Facts, Verdict

CHECKER: Final = "both-stores"
GUARANTEE: Final = "both-stores-agree"
GUARANTEES: Final = (GUARANTEE,)
MISSING: Final = "missing-in-zookeeper"
LEFT: Final = "left-in-zookeeper"
_PHASES: Final = frozenset({"hybrid", "dual-write"})
_BACK: Final = "rolled-back"
#: Begins the types of entries that repeat the other store.
_COPIED: Final = "copied-"
_ZNODE: Final = re.compile(r"/brokers/topics/([^/]+)(?:/partitions/(\d+)/state)?")


class _Thing(msgspec.Struct, frozen=True, order=True):
    """A topic, or one of its partitions."""

    topic: str
    partition: int = -1

    def __str__(self) -> str:
        return f"topic {self.topic}" if self.partition < 0 else f"partition {self.topic}-{self.partition}"

    @property
    def znode(self) -> str:
        topic = f"/brokers/topics/{self.topic}"
        return topic if self.partition < 0 else f"{topic}/partitions/{self.partition}/state"


class _Difference(msgspec.Struct, frozen=True):
    """Since transaction `since`, where /migration named `offset`, one store alone has this."""

    thing: _Thing
    anomaly: str
    since: int
    offset: int


def check(history: History, facts: Facts) -> list[Verdict]:
    """Compare the topics of both stores at each offset in /migration.

    Returns:
        One verdict; none if KRaft never wrote to both stores, or if a store's disks were not kept whole.

    Source: KIP-866, "Dual Write Mode"; KRaftMigrationZkWriter of Kafka 3.6 to 3.9.

    Cost: O(n log n) for n log entries, and O(k) for k topics at each offset in /migration.
    """
    phases = [event.phase for event in history.of(MigrationEvent)]
    kraft = _whole_log(history)
    if not _PHASES & set(phases) or _BACK in phases or kraft is None:
        return []
    written = committed(history, facts)
    if not written:
        return []
    offsets, seen, differences = _compared(written, kraft)
    lacks = "no transaction raised the offset in /migration"
    counts = {name: sum(d.anomaly == name for d in differences) for name in (MISSING, LEFT)}
    return [
        Findings(
            checker=CHECKER,
            guarantee=GUARANTEE,
            findings=[_finding(history, difference) for difference in differences],
            broken=f"{counts[MISSING]} topics and partitions are missing in ZooKeeper,"
            f" {counts[LEFT]} are there that KRaft does not have",
            exposure=seen,
            exposure_of="topics and partitions that were compared",
            untested=lacks,
            rules=(rule(MISSING, seen, lacks), rule(LEFT, seen, lacks)),
            kept=f"{seen} topics and partitions, compared at {offsets} offsets in /migration, are in both stores or in"
            " neither at the last one",
            figures={"offsets_compared": offsets},
        ).verdict(facts)
    ]


def _whole_log(history: History) -> NodeLog | None:
    """The longest log of KRaft that begins with its first entry; only ZooKeepers log the elections of controllers."""
    logs = history.logs.values()
    zookeeper = {log.of for log in logs if any(entry.type == "election" for entry in log.entries)}
    whole = [log for log in logs if log.of not in zookeeper and log.start_offset == 0 and log.entries]
    return max(whole, key=lambda log: log.entries[-1].offset, default=None) if zookeeper else None


def _compared(written: Sequence[LogEntry], kraft: NodeLog) -> tuple[int, int, list[_Difference]]:
    """Compare at each offset that /migration reached.

    Returns:
        How many offsets there were, how many things were compared, and what differs at the last offset.
    """
    replay = _Replay(kraft.entries)
    held: set[_Thing] = set()
    open_: dict[_Thing, _Difference] = {}
    seen: set[_Thing] = set()
    offsets, reached = 0, -1
    for transaction in written:
        for path, made in _changes(transaction):
            _apply(held, path, made=made)
        offset = transaction.fields.get("migrated_to", reached)
        if offset <= reached or offset > kraft.entries[-1].offset:
            continue
        reached = offset
        offsets += 1
        wanted = replay.things(offset)
        seen |= wanted | held
        sides = {**dict.fromkeys(wanted - held, MISSING), **dict.fromkeys(held - wanted, LEFT)}
        open_ = {
            thing: open_[thing]
            if thing in open_ and open_[thing].anomaly == anomaly
            else _Difference(thing, anomaly, transaction.offset, offset)
            for thing, anomaly in sides.items()
        }
    return offsets, len(seen), sorted(open_.values(), key=lambda difference: (difference.since, difference.thing))


class _Replay:
    """KRaft's log, applied up to one offset after another."""

    def __init__(self, entries: Iterable[LogEntry]) -> None:
        self._entries = iter(entries)
        self._next: LogEntry | None = next(self._entries, None)
        self._image = Image()

    def things(self, offset: int) -> set[_Thing]:
        """The topics and partitions that there are once the entry at `offset` is applied; offsets must grow."""
        while self._next is not None and self._next.offset <= offset:
            # What was copied from ZooKeeper makes KRaft's state like any other record.
            self._image.apply(msgspec.structs.replace(self._next, type=self._next.type.removeprefix(_COPIED)))
            self._next = next(self._entries, None)
        objects = self._image.objects
        names = {key[1]: str(fields["name"]) for key, fields in objects.items() if key[0] == "topic"}
        partitions = {
            _Thing(names[key[1]], int(key[2])) for key in objects if key[0] == "partition" and key[1] in names
        }
        return {*map(_Thing, names.values()), *partitions}


def _changes(transaction: LogEntry) -> Iterator[tuple[str, bool]]:
    """The znodes that one transaction made (True) or deleted (False)."""
    kind, fields = transaction.type.removeprefix(_COPIED), transaction.fields
    if kind == "topic":
        yield _Thing(fields["name"]).znode, True
    elif kind == "partition-state" and fields["version"] == 0:
        yield _Thing(fields["topic"], fields["partition"]).znode, True
    elif kind in ("create", "delete"):
        yield fields["path"], kind == "create"
    for change in fields.get("changes", ()):
        word, _, path = change.partition(" ")
        if word in ("create", "delete"):
            yield path, word == "create"


def _apply(held: set[_Thing], path: str, *, made: bool) -> None:
    match = _ZNODE.fullmatch(path)
    if match is None:
        return
    thing = _Thing(match.group(1), int(match.group(2) or -1))
    if made:
        held.add(thing)
    else:
        held.discard(thing)


def _finding(history: History, difference: _Difference) -> Finding:
    thing = difference.thing
    where = f"KRaft's log up to offset {difference.offset}"
    steps = (
        f"Transaction {difference.since:#x} says in /migration that ZooKeeper has {where}.",
        f"{where} has {thing}; ZooKeeper has no {thing.znode}."
        if difference.anomaly == MISSING
        else f"ZooKeeper has {thing.znode}; {where} has no {thing}.",
        "That is still so at the last offset in /migration.",
    )
    return Finding(anomaly=difference.anomaly, steps=steps, from_ns=history.end_ns, to_ns=history.end_ns)
