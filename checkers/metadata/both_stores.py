"""Whether ZooKeeper and KRaft hold the same topics while a migrating Kafka writes to both, by the disks of both.

With each change that it has written to ZooKeeper the KRaft controller raises the offset in /migration. At that moment
ZooKeeper must hold what KRaft's log makes up to this offset: the topics, their settings, and of each partition the
leader, its epoch and the replicas in sync. Accused is what differs at the last such offset, since a later
synchronisation may mend what differs before; a second look says since when. Judged if the run came to a phase in which
KRaft writes to both stores, and had no roll-back:

"both-stores-agree"
  missing-in-zookeeper   KRaft's log has a topic or partition up to the offset, and ZooKeeper does not have its znode
  left-in-zookeeper      ZooKeeper has one that KRaft's log does not make, or has removed
  old-in-zookeeper       ZooKeeper has other settings of a topic, or another state of a partition

A roll-back would lose what is missing. And a later change of such a partition fails in ZooKeeper, whereupon the
controller tells brokers in ZooKeeper mode none of the changes that came with it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Final, NamedTuple

import msgspec

from fencepost.checkers.facts.controllers import COPIED, committed, written_by
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
OLD: Final = "old-in-zookeeper"
_RULES: Final = (MISSING, LEFT, OLD)
_PHASES: Final = frozenset({"hybrid", "dual-write"})
_BACK: Final = "rolled-back"
_TOPIC_SETTINGS: Final = "2"
_ZNODE: Final = re.compile(r"/brokers/topics/([^/]+)(?:/partitions/(\d+)/state)?|/config/topics/([^/]+)")


class _Thing(NamedTuple):
    """A topic, one of its partitions, or its settings."""

    topic: str
    partition: int = -1
    settings: bool = False

    def __str__(self) -> str:
        if self.settings:
            return f"settings of {self.topic}"
        return f"topic {self.topic}" if self.partition < 0 else f"partition {self.topic}-{self.partition}"

    @property
    def znode(self) -> str:
        if self.settings:
            return f"/config/topics/{self.topic}"
        topic = f"/brokers/topics/{self.topic}"
        return topic if self.partition < 0 else f"{topic}/partitions/{self.partition}/state"


#: What a store holds: the settings of a topic, the state of a partition, nothing more of a topic.
_Store = dict[_Thing, Mapping[str, Any]]
#: Stands for the content of a znode that the kept log does not name.
_UNREAD: Final[Mapping[str, Any]] = {"unread": True}


class _Difference(NamedTuple):
    """Since `offset` in /migration, which transaction `since` wrote, the stores differ; how they do at the last one."""

    thing: _Thing
    anomaly: str
    since: int
    offset: int
    wanted: Mapping[str, Any] | None
    held: Mapping[str, Any] | None


def check(history: History, facts: Facts) -> list[Verdict]:
    """Compare both stores at the last offset in /migration.

    Returns:
        One verdict; none if KRaft never wrote to both stores, or if a store's disks were not kept whole.

    Source: KIP-866, "Dual Write Mode"; KRaftMigrationZkWriter of Kafka 3.6 to 3.9.

    Cost: O(n log n) for n log entries; O(k) for k topics at each offset in /migration if the stores differ.
    """
    phases = [event.phase for event in history.of(MigrationEvent)]
    kraft = _whole_log(history)
    if not _PHASES & set(phases) or _BACK in phases or kraft is None:
        return []
    written = committed(history, facts)
    if not written:
        return []
    both = _Both(written, kraft)
    offsets, wanted, held = both.at_last()
    things = {*wanted, *held}
    differences = both.since({thing for thing in things if not _same(wanted.get(thing), held.get(thing))})
    counts = {name: sum(d.anomaly == name for d in differences) for name in _RULES}
    lacks = "no offset in /migration stands for a topic"
    return [
        Findings(
            checker=CHECKER,
            guarantee=GUARANTEE,
            findings=[_finding(history, difference) for difference in differences],
            broken=f"of {len(things)} topics, settings and partitions {counts[MISSING]} are missing in ZooKeeper,"
            f" {counts[LEFT]} are only there, and {counts[OLD]} are others there",
            exposure=len(things),
            exposure_of="topics, settings and partitions that were compared",
            untested=lacks,
            rules=tuple(rule(name, len(things), lacks) for name in _RULES),
            kept=f"{len(things)} topics, settings and partitions are the same in both stores at the last of {offsets}"
            " offsets in /migration",
            figures={"offsets": offsets},
        ).verdict(facts)
    ]


def _whole_log(history: History) -> NodeLog | None:
    """The longest log of KRaft that begins with its first entry; only ZooKeepers log the elections of controllers."""
    logs = history.logs.values()
    zookeeper = {log.of for log in logs if any(entry.type == "election" for entry in log.entries)}
    whole = [log for log in logs if log.of not in zookeeper and log.start_offset == 0 and log.entries]
    return max(whole, key=lambda log: log.entries[-1].offset, default=None) if zookeeper else None


class _Both:
    """Both stores, replayed to one offset in /migration after another."""

    def __init__(self, written: Sequence[LogEntry], kraft: NodeLog) -> None:
        self._written: Final = written
        self._records: Final = kraft.entries

    def at_last(self) -> tuple[int, _Store, _Store]:
        """How many offsets there were, what KRaft's log makes up to the last one, and what ZooKeeper held by then."""
        image, held, then = Image(), _Store(), _Store()
        offsets = 0
        for _ in self._raises(image, held):
            offsets += 1
            then = dict(held)
        there = {thing: content for thing in then if (content := _content(then, thing)) is not None}
        return offsets, _made(image), there

    def since(self, differing: set[_Thing]) -> list[_Difference]:
        """Find of each thing that differs at the last offset since which offset it did."""
        differences: dict[_Thing, _Difference] = {}
        image, held = Image(), _Store()
        topics = {thing.topic for thing in differing}
        for transaction, offset in self._raises(image, held) if differing else ():
            wanted = _made(image, topics)
            for thing in differing:
                one, other = wanted.get(thing), _content(held, thing)
                anomaly = MISSING if other is None else LEFT if one is None else OLD
                before = differences.pop(thing, None)
                if _same(one, other):
                    continue
                if before is None or before.anomaly != anomaly:
                    before = _Difference(thing, anomaly, transaction, offset, one, other)
                differences[thing] = before._replace(wanted=one, held=other)
        return sorted(differences.values(), key=lambda difference: (difference.since, difference.thing))

    def _raises(self, image: Image, held: _Store) -> Iterator[tuple[int, int]]:
        """Yield each transaction that raised the offset, and the offset; `image` and `held` are brought up to it."""
        records = iter(self._records)
        record = next(records, None)
        reached = -1
        for transaction in self._written:
            _apply(held, transaction)
            offset = transaction.fields.get("migrated_to", reached)
            if offset <= reached or offset > self._records[-1].offset:
                continue
            reached = offset
            while record is not None and record.offset <= offset:
                # What was copied from ZooKeeper makes KRaft's state like any other record.
                image.apply(msgspec.structs.replace(record, type=record.type.removeprefix(COPIED)))
                record = next(records, None)
            yield transaction.offset, offset


def _made(image: Image, topics: Set[str] | None = None) -> _Store:
    """The topics, settings and partitions of KRaft's state: all, or of these topics."""
    names = {
        key[1]: str(fields["name"])
        for key, fields in image.objects.items()
        if key[0] == "topic" and (topics is None or fields["name"] in topics)
    }
    store: _Store = {_Thing(name): {} for name in names.values()}
    for key, fields in image.objects.items():
        if key[0] == "partition" and key[1] in names:
            store[_Thing(names[key[1]], int(key[2]))] = _state(fields)
        elif key[:2] == ("config", _TOPIC_SETTINGS) and (topics is None or key[2] in topics):
            thing = _Thing(key[2], settings=True)
            store[thing] = {**store.get(thing, {}), key[3]: fields.get("value", "")}
    return store


def _content(held: _Store, thing: _Thing) -> Mapping[str, Any] | None:
    """What ZooKeeper has of this; a topic without settings has an empty znode of them or none, which is the same."""
    content = held.get(thing)
    return None if thing.settings and not content else content


def _same(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    if _UNREAD in (one, other):
        return None not in (one, other)
    return one == other


def _state(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "leader": fields.get("leader", -1),
        "leader_epoch": fields.get("leader_epoch", 0),
        "isr": sorted(fields.get("isr", ())),
    }


def _apply(held: _Store, transaction: LogEntry) -> None:
    """Make, set and delete what one transaction does."""
    fields = transaction.fields
    for change in fields.get("changes", ()):
        word, _, path = change.partition(" ")
        _apply_path(held, word, path)
        if word == "set" and (thing := _thing(path)) is not None:
            held[thing] = _UNREAD
    kind, written = written_by(transaction)
    match kind:
        case "topic":
            held[_Thing(written["name"])] = {}
        case "partition-state":
            held[_Thing(written["topic"], written["partition"])] = _state(written)
        case "config":
            held[_Thing(written["resource_name"], settings=True)] = {written["name"]: written["value"]}
        case "configs":
            held[_Thing(written["resource_name"], settings=True)] = written["settings"]
        case "create" | "delete" as word:
            _apply_path(held, word, written["path"])


def _apply_path(held: _Store, word: str, path: str) -> None:
    thing = _thing(path)
    if thing is None:
        return
    if word == "delete":
        held.pop(thing, None)
    elif word == "create":
        held[thing] = _UNREAD if thing.settings or thing.partition >= 0 else {}


def _thing(path: str) -> _Thing | None:
    match = _ZNODE.fullmatch(path)
    if match is None:
        return None
    topic, partition, of_settings = match.groups()
    return _Thing(of_settings, settings=True) if of_settings else _Thing(topic, int(partition or -1))


def _finding(history: History, difference: _Difference) -> Finding:
    thing = difference.thing
    where = f"KRaft's log up to offset {difference.offset}"
    sentences = {
        MISSING: f"{where} has {thing}; ZooKeeper has no {thing.znode}.",
        LEFT: f"ZooKeeper has {thing.znode}; {where} has no {thing}.",
        OLD: f"{thing}: {_content_text(difference.wanted)} in KRaft, {_content_text(difference.held)} in ZooKeeper.",
    }
    steps = (
        f"Transaction {difference.since:#x} says in /migration that ZooKeeper has {where}.",
        sentences[difference.anomaly],
        "They still differ at the last offset in /migration.",
    )
    return Finding(anomaly=difference.anomaly, steps=steps, from_ns=history.end_ns, to_ns=history.end_ns)


def _content_text(content: Mapping[str, Any] | None) -> str:
    return ", ".join(f"{name} {value}" for name, value in (content or {}).items()) or "nothing"
