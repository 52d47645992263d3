"""Does a server that has saved a snapshot begin from one when it starts again?

By its own log (`CatchUpEvent`): a run of a server, begun after an earlier one had saved a snapshot, reads the log to
its end (`difference`). If it loaded no snapshot before, it read the log from its beginning. That takes the longer the
more was ever changed, and it only works as long as nothing was cut off there.

Source: KIP-630; KAFKA-15076.
"""

from collections.abc import Iterator
from typing import Final

from fencepost.checkers.findings.finding import Finding
from fencepost.checkers.findings.ladder import Findings
from fencepost.checkers.findings.rules import rule
from fencepost.harness.history import CatchUp, CatchUpEvent, History
from fencepost.harness.verdict import Facts, Verdict

CHECKER: Final = "snapshots"
GUARANTEE: Final = "snapshots-are-loaded"
ANOMALY: Final = "snapshot-not-loaded"
_LACKS: Final = "no server that had saved a snapshot was started again"


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge every start of a server that had saved a snapshot before.

    Returns:
        One verdict: `invalid` with each start after which the log was read to its end and no snapshot was loaded;
        `unknown` if there was no such start.

    Source: KIP-630 (snapshots, so that a replica need not replay the whole log).

    Cost: O(n) for n events.
    """
    starts = list(_starts(history))
    findings = [_finding(saved, own) for saved, own in starts if own.change is CatchUp.DIFFERENCE]
    return [
        Findings(
            checker=CHECKER,
            guarantee=GUARANTEE,
            findings=findings,
            broken=f"{len(findings)} of {len(starts)} servers that had saved a snapshot read the whole log when they"
            " started again",
            exposed=tuple(own.index for _, own in starts),
            exposure_of="starts of servers that had saved a snapshot",
            untested=_LACKS,
            rules=(rule(ANOMALY, len(starts), _LACKS),),
            kept=f"{len(starts)} servers that had saved a snapshot began from one",
        ).verdict(facts)
    ]


def _starts(history: History) -> Iterator[tuple[CatchUpEvent, CatchUpEvent]]:
    """Yield, of each start, the last snapshot that was saved before, and the first event that says how it began."""
    saved: dict[str, CatchUpEvent] = {}
    judged: set[tuple[str, int]] = set()
    for event in history.events:
        if type(event) is not CatchUpEvent:
            continue
        if event.change is CatchUp.SAVED:
            saved[event.node] = event
        elif event.change in (CatchUp.LOADED, CatchUp.DIFFERENCE):
            before = saved.get(event.node)
            start = event.node, event.incarnation
            if before is not None and before.incarnation < event.incarnation and start not in judged:
                judged.add(start)
                yield before, event


def _finding(saved: CatchUpEvent, own: CatchUpEvent) -> Finding:
    return Finding(
        anomaly=ANOMALY,
        steps=(
            f"{own.node} saved a snapshot of its metadata.",
            "Its server was started again. It read the log to its end, and had loaded no snapshot before.",
        ),
        counted_by=own.index,
        events=(saved.index, own.index),
        nodes=(own.node,),
        from_ns=saved.time_ns,
        to_ns=own.time_ns,
    )
