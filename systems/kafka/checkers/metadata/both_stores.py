"""Whether ZooKeeper and KRaft hold the same metadata while a migrating Kafka writes to both, by the disks of both.

With each change that it has written to ZooKeeper the KRaft controller raises the offset in /migration. At that moment
ZooKeeper must hold what KRaft's log makes up to this offset, znode by znode (`stored_metadata`). Accused is what
differs at the last such offset, since a later synchronisation may mend what differs before; a second look says since
when. Judged if the run came to a phase in which KRaft writes to both stores, and had no roll-back:

"both-stores-agree"
  missing-in-zookeeper   KRaft's log makes an object up to the offset, and ZooKeeper does not have its znode
  left-in-zookeeper      ZooKeeper has one that KRaft's log does not make, or has removed
  old-in-zookeeper       ZooKeeper has another content of it

A roll-back would lose what is missing. And a later change of such a partition fails in ZooKeeper, whereupon the
controller tells brokers in ZooKeeper mode none of the changes that came with it.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from fencepost.checkers.rules import Rule, sorted_out, verdict
from fencepost.checkers.violations.finding import Finding
from fencepost.harness.history import History, LogEntry, MigrationEvent, NodeLog
from fencepost.harness.verdict import Facts, Verdict
from fencepost.systems.kafka.checkers.metadata.image import MetadataImage
from fencepost.systems.kafka.checkers.metadata.stored_metadata import (
    Content,
    Znodes,
    apply,
    is_known,
    kind_of,
    same,
    there,
    znode_in_words,
    znodes_of,
)
from fencepost.systems.kafka.facts.controllers import COPIED, committed

MISSING, LEFT, OLD = _RULES = [
    Rule(
        guarantee="both-stores-agree",
        anomaly=f"{how}-in-zookeeper",
        tested="objects that were compared",
        lacks="no offset in /migration stands for any metadata",
    )
    for how in ("missing", "left", "old")
]
_PHASES: Final = frozenset({"hybrid", "dual-write"})
_BACK: Final = "rolled-back"


class _Difference(NamedTuple):
    """Since `offset` in /migration, which transaction `since` wrote, the stores differ; how they do at the last one."""

    path: str
    broken: Rule
    since: int
    offset: int
    wanted: Content | None
    held: Content | None


def check(history: History, facts: Facts) -> list[Verdict]:
    """Compare both stores at the last offset in /migration.

    Returns:
        One verdict; none if KRaft never wrote to both stores, or if a store's disks were not kept whole.

    Source: KIP-866, "Dual Write Mode"; KRaftMigrationZkWriter of Kafka 3.6 to 3.9.

    Cost: O(n log n) for n log entries; O(k) for k objects at each offset in /migration if the stores differ.
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
    paths = {path for path in {*wanted, *held} if is_known(path, held.get(path))}
    differences = both.since({path for path in paths if not same(wanted.get(path), held.get(path))})
    counts = Counter(difference.broken for difference in differences)
    return [
        verdict(
            facts,
            *sorted_out(
                [_finding(history, difference) for difference in differences], dict.fromkeys(_RULES, len(paths))
            ),
            broken=f"of {len(paths)} objects {counts[MISSING]} are missing in ZooKeeper,"
            f" {counts[LEFT]} are only there, and {counts[OLD]} are others there",
            kept=f"{len(paths)} objects are the same in both stores at the last of {offsets} offsets in /migration:"
            f" {_by_kind(paths)}",
            figures={"offsets": offsets},
        )
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

    def at_last(self) -> tuple[int, Znodes, Znodes]:
        """How many offsets there were, what KRaft's log makes up to the last one, and what ZooKeeper held by then."""
        image, held, then = MetadataImage(), Znodes(), Znodes()
        offsets = 0
        for _ in self._raises(image, held):
            offsets += 1
            then = dict(held)
        known = {path: content for path in then if (content := there(then, path)) is not None}
        return offsets, znodes_of(image), known

    def since(self, differing: set[str]) -> list[_Difference]:
        """Find of each path that differs at the last offset since which offset it did."""
        differences: dict[str, _Difference] = {}
        image, held = MetadataImage(), Znodes()
        for transaction, offset in self._raises(image, held) if differing else ():
            wanted = znodes_of(image, differing)
            for path in differing:
                one, other = wanted.get(path), there(held, path)
                broken = MISSING if other is None else LEFT if one is None else OLD
                before = differences.pop(path, None)
                if same(one, other):
                    continue
                if before is None or before.broken is not broken:
                    before = _Difference(path, broken, transaction, offset, one, other)
                differences[path] = before._replace(wanted=one, held=other)
        return sorted(differences.values(), key=lambda difference: (difference.since, difference.path))

    def _raises(self, image: MetadataImage, held: Znodes) -> Iterator[tuple[int, int]]:
        """Yield each transaction that raised the offset, and the offset; `image` and `held` are brought up to it."""
        records = iter(self._records)
        record = next(records, None)
        reached = -1
        for transaction in self._written:
            apply(held, transaction)
            offset = transaction.fields.get("migrated_to", reached)
            if offset <= reached or offset > self._records[-1].offset:
                continue
            reached = offset
            while record is not None and record.offset <= offset:
                # What was copied from ZooKeeper makes KRaft's state like any other record.
                image.apply(msgspec.structs.replace(record, type=record.type.removeprefix(COPIED)))
                record = next(records, None)
            yield transaction.offset, offset


def _by_kind(paths: Collection[str]) -> str:
    """ "24 partitions, 3 topics"."""
    counts = Counter(str(kind_of(path)) for path in paths)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _finding(history: History, difference: _Difference) -> Finding:
    path, name = difference.path, znode_in_words(difference.path)
    where = f"KRaft's log up to offset {difference.offset}"
    in_kraft, in_zookeeper = _where_they_differ(difference.wanted, difference.held)
    sentences = {
        MISSING: f"{where} has {name}; ZooKeeper has no {path}.",
        LEFT: f"ZooKeeper has {path}; {where} has no {name}.",
        OLD: f"{name}: {in_kraft} in KRaft, {in_zookeeper} in ZooKeeper.",
    }
    steps = (
        f"Transaction {difference.since:#x} says in /migration that ZooKeeper has {where}.",
        sentences[difference.broken],
        "They still differ at the last offset in /migration.",
    )
    return difference.broken.on_disk(history, steps=steps)


def _where_they_differ(one: Content | None, other: Content | None) -> tuple[str, str]:
    """Both contents in words, without the parts that they share."""
    one, other = one or {}, other or {}
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    texts = (", ".join(f"{name} {each[name]}" for name in names if name in each) for each in (one, other))
    first, second = (text or "nothing" for text in texts)
    return first, second
