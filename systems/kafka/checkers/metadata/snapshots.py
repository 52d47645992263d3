"""Snapshots of the metadata: does a server begin from the one that it saved, and does it hold what the log makes?

The second is told by the disks (`snapshot_contents`), the first by the server's own log (`CatchUpEvent`): a run of a
server, begun after an earlier one had saved a snapshot, reads the log to its end (`difference`). If it loaded no
snapshot before, it read the log from its beginning. That takes the longer the more was ever changed, and it only works
as long as nothing was cut off there.

Source: KIP-630; KAFKA-15076.
"""

from typing import Final

from fencepost.checkers.rules import Rule, verdict
from fencepost.checkers.violations.finding import Finding
from fencepost.harness.history import History
from fencepost.harness.verdict import Facts, Verdict
from fencepost.systems.kafka.checkers.metadata import snapshot_contents
from fencepost.systems.kafka.facts.snapshots import Start, starts_after_snapshots

NOT_LOADED: Final = Rule(
    checker="snapshots",
    guarantee="snapshots-are-loaded",
    anomaly="snapshot-not-loaded",
    tested="starts of servers that had saved a snapshot",
    lacks="no server that had saved a snapshot was started again",
)


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge every start of a server that had saved a snapshot before, and the snapshots that nodes kept.

    Returns:
        On starts: `invalid` with each one after which the log was read to its end and no snapshot was loaded; `unknown`
        if there was no such start. On contents: see `snapshot_contents.judge`; nothing where no log was kept.

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
        *([snapshot_contents.judge(history, facts)] if history.logs else []),
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
