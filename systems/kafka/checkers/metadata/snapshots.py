"""Snapshots of the metadata: does a server begin from the one that it saved, and does it hold what the log makes?

The first is told by the server's own log (`CatchUpEvent`): a run of a server, begun after an earlier one had saved a
snapshot, reads the log to its end (`difference`). If it loaded no snapshot before, it read the log from its beginning.
That takes the longer the more was ever changed, and it only works as long as nothing was cut off there.

The second is told by the disks. A node writes a snapshot of the state that it has in memory: of what it began from, a
snapshot or nothing, and of every record since. So it shows whether the node got, by its own way of catching up, to the
state that a replay of the whole log gives at the same offset (`image`). That log begins at offset 0, and its record
right below the snapshot's end has the snapshot's epoch: by log matching it is then the log that the snapshot was made
of. A log whose beginning was deleted is not replayed, and a snapshot with records that this product cannot read is not
compared.

Source: KIP-630, "Snapshots" and "Loading snapshots"; KIP-595 (log matching); KAFKA-15076.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from fencepost.checkers.rules import Rule, verdict
from fencepost.checkers.violations.finding import Doubt, Finding
from fencepost.harness.history import History, NodeLog
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.harness.verdict.figures import Traced
from fencepost.systems.kafka.checkers.metadata.image import Fields, Key, MetadataImage, differences, plain
from fencepost.systems.kafka.facts.snapshots import Start, nodes_with_loaded_snapshots, starts_after_snapshots

NOT_LOADED: Final = Rule(
    guarantee="snapshots-are-loaded",
    anomaly="snapshot-not-loaded",
    tested="starts of servers that had saved a snapshot",
    lacks="no server that had saved a snapshot was started again",
)
CONTRADICTS: Final = Rule(
    guarantee="snapshots-match-log",
    anomaly="snapshot-contradicts-log",
    tested="snapshots that a whole log could be replayed beside",
    lacks="no node kept a snapshot whose records a whole log still holds",
)


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge every start of a server that had saved a snapshot before, and the snapshots that nodes kept.

    Returns:
        On starts: `invalid` with each one after which the log was read to its end and no snapshot was loaded; `unknown`
        if there was no such start. On contents: see `contents`; nothing where no log was kept.

    Source: KIP-630 (snapshots, so that a replica need not replay the whole log).

    Cost: O(n) for n events.
    """
    starts = starts_after_snapshots(history)
    findings = [_finding(start) for start in starts if not start.loaded]
    return [
        verdict(
            facts,
            NOT_LOADED.tally(findings, tuple(start.began for start in starts)),
            broken=f"{len(findings)} of {len(starts)} servers that had saved a snapshot read the whole log when they"
            " started again",
            kept=f"{len(starts)} servers that had saved a snapshot began from one",
        ),
        *([contents(history, facts)] if history.logs else []),
    ]


def _finding(start: Start) -> Finding:
    return NOT_LOADED.finding(
        steps=(
            f"{start.node} saved a snapshot of its metadata.",
            "Its server was started again. It read the log to its end, and had loaded no snapshot before.",
        ),
        counted_by=start.began,
        events=(start.saved, start.began),
        nodes=(start.node,),
        from_ns=start.saved_ns,
        to_ns=start.began_ns,
    )


class _Compared(msgspec.Struct, frozen=True, kw_only=True):
    """A node's snapshot beside a replay of the log of `source`; `differ` are the objects that are not the same."""

    log: NodeLog
    source: str
    kept: MetadataImage
    made: MetadataImage
    differ: tuple[Key, ...]


def contents(history: History, facts: Facts) -> Verdict:
    """Compare each node's newest snapshot with what the log makes.

    Returns:
        One verdict: `invalid` with each object that differs; `unknown` where no snapshot could be compared.

    Source: KIP-630; log matching (Ongaro & Ousterhout, 2014).

    Cost: O(n) in records, for each node with a snapshot.
    """
    compared = list(_compared(history))
    unread = sorted({kind for one in compared for kind in one.kept.unread | one.made.unread})
    began = nodes_with_loaded_snapshots(history)
    loaded = [one for one in compared if one.log.node in began]
    findings = [finding for one in compared for finding in _contradictions(one, history)]
    objects = sum(len(one.kept.objects) for one in compared)
    return verdict(
        facts,
        CONTRADICTS.tally(findings if not unread else (), objects),
        doubt=Doubt(Cause.UNDECIDED, f"records that cannot be read: {', '.join(unread)}") if unread else None,
        exposed=Traced(len(compared)),
        kept=f"{len(compared)} snapshots with {objects} objects are what the log makes; {len(loaded)} of them by nodes"
        " that had begun from a snapshot or were sent one",
        figures={"loaded_ones_compared": len(loaded), "objects_compared": objects},
    )


def _compared(history: History) -> Iterator[_Compared]:
    for log in history.logs.values():
        source = _whole_log(history, log)
        if source is None:
            continue
        made = MetadataImage(entry for entry in source.entries if entry.offset < log.snapshot_end)
        kept = MetadataImage(log.snapshot)
        yield _Compared(log=log, source=source.node, kept=kept, made=made, differ=tuple(differences(kept, made)))


def _whole_log(history: History, log: NodeLog) -> NodeLog | None:
    """A log from the first record on that the snapshot was made of: the node's own, or else another node's."""
    if not log.snapshot:
        return None
    epoch, last = log.snapshot[0].epoch, log.snapshot_end - 1
    others = (other for other in history.logs.values() if other.of == log.of and other is not log)
    for other in (log, *others):
        if other.start_offset == 0 and any(e.offset == last and e.epoch == epoch for e in other.entries):
            return other
    return None


def _contradictions(one: _Compared, history: History) -> Iterator[Finding]:
    log = one.log
    for key in one.differ:
        yield CONTRADICTS.on_disk(
            history,
            log.node,
            steps=(
                f"{log.node}'s snapshot of everything below offset {log.snapshot_end} has as {' '.join(key)}: "
                f"{_text(one.kept.objects.get(key))}.",
                f"The records below that offset in {one.source}'s log make of it: {_text(one.made.objects.get(key))}.",
            ),
        )


def _text(fields: Fields | None) -> str:
    shown: dict[str, Any] | None = plain(fields)
    if shown is None:
        return "nothing"
    return ", ".join(f"{name}={shown[name]}" for name in sorted(shown)) or "nothing but defaults"
