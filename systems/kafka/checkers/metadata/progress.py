"""Whether a migration goes on, and whether every broker keeps up, once nothing disturbs them any more.

"migration-goes-on"
  phase-late     a phase did not begin within a minute after the last step before it, although no fault was in force in
                 that minute, and no server had ended by itself

"brokers-keep-up" (the workload `metadata`)
  left-behind    in the final phase a node showed a setting that is certainly older than one that had been acknowledged
                 ten seconds before the question, although no fault was in force in those ten seconds

Both count from the later of two instants: the step or the acknowledgement, and the end of the last fault.
"""

from typing import Final

from fencepost.checkers.derived.evidence import rows
from fencepost.checkers.derived.positions import completed_ns, in_final
from fencepost.checkers.derived.servers import ended_by_themselves
from fencepost.checkers.rules import Rule, verdict
from fencepost.checkers.violations.finding import Doubt, Finding, duration
from fencepost.harness.history import History, MigrationDelayEvent, MigrationEvent, Operation
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.systems.kafka.checkers.metadata.changes import (
    MetadataChange,
    MetadataChanges,
    newest_in_effect,
)
from fencepost.systems.kafka.facts.settled import acting, undisturbed_since

#: A phase that began, or that was given up.
_Wait = MigrationEvent | MigrationDelayEvent
LATE: Final = Rule(
    guarantee="migration-goes-on", anomaly="phase-late", tested="phases of the migration that were waited for"
)
LEFT_BEHIND: Final = Rule(
    guarantee="brokers-keep-up",
    anomaly="left-behind",
    tested="final answers about settings that changed during the migration, ten seconds after the last fault",
)
#: Without other faults the slowest phase that was measured began 3 s after the last step before it.
_PHASE_BOUND_NS: Final = 60_000_000_000
#: A broker shows a change within milliseconds, and within a second after a failover; measured.
_VIEW_BOUND_NS: Final = 10_000_000_000


def check(history: History, facts: Facts) -> list[Verdict]:
    """Judge the times of a migration's phases, and the final views of all nodes.

    Returns:
        Two verdicts; none if nothing migrated, only the first without settings that were read.

    Source: KIP-866: the migration begins once every broker has registered, and the controller sends brokers in
    ZooKeeper mode what it sends the others.

    Cost: O(n log n) for n operations.
    """
    if not history.of(MigrationEvent) and not history.of(MigrationDelayEvent):
        return []
    changes = MetadataChanges(history, facts)
    return [_goes_on(history, facts), *([_keep_up(history, changes, facts)] if changes.reads else [])]


def _goes_on(history: History, facts: Facts) -> Verdict:
    faults = acting(history)
    waits: list[_Wait] = [*history.of(MigrationEvent), *history.of(MigrationDelayEvent)]
    # Each wait with the part of it in which no fault was in force.
    quiet = [(e, e.time_ns - max(e.time_ns - e.length_ns, undisturbed_since(faults, e.time_ns))) for e in waits]
    fallen = {e.index: ended_by_themselves(history, e.time_ns) for e in waits}
    late = [(e, quiet_ns) for e, quiet_ns in quiet if quiet_ns > _PHASE_BOUND_NS and not fallen[e.index]]
    given_up = [(event, quiet_ns) for event, quiet_ns in quiet if isinstance(event, MigrationDelayEvent)]
    doubt = None
    if given_up:
        event, quiet_ns = given_up[0]
        waited = f"{duration(event.length_ns)}, {duration(quiet_ns)} of them without a fault"
        why = "".join(f"; {node} had ended by itself" for node in fallen[event.index])
        doubt = Doubt(Cause.UNDECIDED, f"{event.phase} had not begun after {waited}: {event.text}{why}")
    longest = max((quiet_ns for _, quiet_ns in quiet), default=0)
    return verdict(
        facts,
        LATE.tally([_late(event, quiet_ns) for event, quiet_ns in late], tuple(event.index for event in waits)),
        broken=f"{late[0][0].phase if late else ''} did not begin in time: {late[0][0].text if late else ''}",
        doubt=doubt,
        kept=f"{len(waits)} phases began in time, the slowest after {duration(longest)} without a step or a fault",
    )


def _late(event: _Wait, quiet_ns: int) -> Finding:
    steps = (
        f"The last step before {event.phase} ended {duration(event.length_ns)} before this event.",
        f"No fault was in force for {duration(quiet_ns)}, and {event.phase} had not begun: {event.text}.",
    )
    return LATE.finding(
        steps=steps,
        counted_by=event.index,
        events=(event.index,),
        from_ns=event.time_ns - event.length_ns,
        to_ns=event.time_ns,
    )


def _keep_up(history: History, changes: MetadataChanges, facts: Facts) -> Verdict:
    began_ns = min(event.time_ns for event in (*history.of(MigrationEvent), *history.of(MigrationDelayEvent)))
    faults = acting(history)
    required = {key: newest_in_effect(changes.of(key)) for key in changes.keys}
    last = {(read.node, read.key): read for read in changes.reads if in_final(history, read)}
    exposed: list[Operation] = []
    findings: list[Finding] = []
    for read in last.values():
        if read.key not in required or read.invoked_ns - undisturbed_since(faults, read.invoked_ns) < _VIEW_BOUND_NS:
            continue
        due = required[read.key].before(read.invoked_ns - _VIEW_BOUND_NS)
        if due is None or not due.acknowledged:
            continue
        if completed_ns(due.operation) > began_ns:
            exposed.append(read)
        last_by_ns = changes.last_by(read)
        if last_by_ns is not None and last_by_ns < due.invoked_ns:
            findings.append(_behind(read, due))
    behind = sorted({finding.operations[-1].node for finding in findings})
    return verdict(
        facts,
        LEFT_BEHIND.tally(findings, rows(exposed)),
        broken=f"{len(findings)} final answers of {', '.join(behind)} are older than what was acknowledged ten seconds"
        " before",
    )


def _behind(read: Operation, due: MetadataChange) -> Finding:
    change = due.operation
    steps = (
        f"Process {change.process} set {change.key} to {change.value!r} through {change.node}: acknowledged.",
        f"{duration(read.invoked_ns - completed_ns(change))} later, with no fault in force for ten seconds, {read.node}"
        f" answered that {read.key} is {read.result!r}, which is older.",
    )
    return LEFT_BEHIND.finding(change, read, steps=steps)
