"""Does each node's view of a setting only move forward, within one run of its server?

A node went back when an answer shows a change that is certainly older than one that the same server had shown before.
A change of unknown outcome may take effect late, and a forwarded one twice: only provable steps back count.
"""

from collections.abc import Iterator
from typing import Final

from fencepost.checkers.derived.evidence import Newest, number_of
from fencepost.checkers.derived.servers import Incarnations
from fencepost.checkers.rules import NothingOlder, Statement, verdict
from fencepost.checkers.violations.finding import duration
from fencepost.harness.history import Operation
from fencepost.harness.verdict import Facts, Verdict
from fencepost.systems.kafka.checkers.metadata.changes import MetadataChanges, completed
from fencepost.systems.kafka.checkers.metadata.staleness import Staleness, staleness_figures


def _steps(before: Statement, read: Statement) -> Iterator[str]:
    assert isinstance(before.by, Operation) and isinstance(read.by, Operation)
    change, shown, now = before.because[-1], before.by.result, read.by.result
    yield (
        f"{read.by.node} answered that {read.by.key} is {shown!r}, which process {change.process} had set through "
        f"{change.node}."
    )
    later = duration(read.asked_ns - before.known_ns)
    yield f"{later} later the same server was asked again, and answered {now!r}."
    yield (
        f"{now!r} had been set, for good, before {shown!r} was asked for."
        if read.because
        else "It was so before the first change of this run, and nobody set it to that again."
    )


WENT_BACK: Final = NothingOlder(
    guarantee="metadata-forward",
    anomaly="view-went-back",
    tested="answered reads of a setting through a node that had shown a change of it before",
    lacks="no node was read again after it had shown a change",
    steps=_steps,
)


def judge(changes: MetadataChanges, incarnations: Incarnations, stale: Staleness, facts: Facts) -> Verdict:
    """Judge whether each server's view only moved forward; how `stale` answers were is told beside it.

    Returns:
        `invalid` if a server's answer lacks a change that the same run of the server had shown; `unknown` if no server
        was read again after it had shown a change.

    Cost: O(n log n) for n operations.
    """
    views: dict[object, list[Statement]] = {}
    straddling: list[Operation] = []
    for read in changes.reads:
        incarnation = incarnations.of(read)
        if incarnation is None:
            straddling.append(read)
            continue
        server, shown, high = (read.node, incarnation, read.key), changes.shown(read), changes.last_by(read)
        # What it shows was made after its change was asked for, and for the last time by `last_by`.
        low = shown.invoked_ns if shown else None
        high = high if low is None or high is None else max(low, high)
        statement = Statement(read, server, low, high, read.invoked_ns, completed(read))
        views.setdefault(server, []).append(statement._replace(because=(shown.operation,) if shown else ()))
    judged = WENT_BACK.judge(statement for own in views.values() for statement in own)
    return verdict(
        facts,
        judged,
        kept=f"{judged.number} answers went back behind no change that their node had shown",
        figures={
            "describes": number_of(changes.reads),
            "describes_across_a_restart": number_of(straddling),
            "steps_back_not_provable": number_of(read for own in views.values() for read in _doubtful(changes, own)),
            **staleness_figures(stale),
        },
    )


def _doubtful(changes: MetadataChanges, answers: list[Statement]) -> Iterator[Operation]:
    """Yield the reads of one server that show an older change than before, which may have been made once more."""
    newest = Newest(
        (statement.low, statement.known_ns, statement) for statement in answers if statement.low is not None
    )
    for statement in answers:
        assert isinstance(statement.by, Operation)
        before, shown = newest.before(statement.asked_ns), changes.shown(statement.by)
        if before is None or statement.high is not None or shown is None or shown.first_by_ns is None:
            continue
        if before.low != shown.invoked_ns and shown.first_by_ns < before.low:
            yield statement.by
