"""Who may be elected, in the metadata log: replicas in sync, and eligible leader replicas where there are such.

The records of one log are in order, so no clock is needed. Two verdicts:

"leaders-are-eligible"
  ineligible-leader    a partition got a leader that was neither in sync nor an eligible leader replica at that place
"eligible-replicas-kept" (KIP-966, from 4.1 on)
  dropped-eligible     a replica left the in-sync ones, or was eligible, and is not eligible when fewer are in sync than
                       appends need; a replica that comes back after an unclean end is left out rightly

A reassignment ends with the change by which the partition's leader counts all replicas that stay as in sync, in 4.3.1
those that were added. It names them, drops the removed ones, and may elect any that it names: it may lead if a leader
was there to say so. Who is no replica any more need not stay eligible.

An unclean election names nobody but its own leader, whose log is the partition's from then on. Nobody else can have
every record of that, so who could lead before need not stay eligible. The first verdict judges the election itself.

Where nobody is in sync or eligible, the last known leader may come back, as KIP-966 has it: its unclean end took it
from both.

Source: Kafka's documentation, "Unclean leader election"; KIP-966, "Eligible Leader Replicas"; KIP-455 (reassignments);
PartitionChangeBuilder.populateTargetElr, canElectLastKnownLeader and completeReassignmentIfNeeded;
PartitionReassignmentReplicas.maybeCompleteReassignment.
"""

from typing import Any, Final

from fencepost.checkers.rules import Rule, verdict
from fencepost.harness.history import History, LogEntry
from fencepost.harness.verdict import Facts, SessionBound, Verdict
from fencepost.systems.kafka.checkers.brokers.registrations import finding_in_log, log_gap, longest_log
from fencepost.systems.kafka.facts.replicas import (
    NOBODY,
    SAME_LEADER,
    Partitions,
    PartitionState,
    PartitionStep,
    in_order,
)

INELIGIBLE: Final = Rule(
    guarantee="leaders-are-eligible",
    anomaly="ineligible-leader",
    tested="elections while a replica was neither in sync nor eligible",
    lacks="no partition got a leader while one of its replicas was neither in sync nor eligible",
)
DROPPED: Final = Rule(
    guarantee="eligible-replicas-kept",
    anomaly="dropped-eligible",
    tested="replicas that may have every record, while fewer are in sync than appends need",
)
_FEATURE: Final = "eligible.leader.replicas.version"
_MIN_IN_SYNC: Final = "min.insync.replicas"
#: Types of resources that have configurations.
_TOPIC: Final = 2
_BROKER: Final = 4


class _Log:
    """What the log says so far, and what broke the rules."""

    def __init__(self, entries: list[LogEntry]) -> None:
        self._entries = entries
        self._partitions = Partitions()
        self._least: dict[str, int] = {}
        self._least_of_all = 1
        self.has_eligible = False
        #: Elections of a leader where not every replica was in sync.
        self.elections = 0
        #: Replicas that were in sync or eligible, and are not in sync after a change that leaves too few.
        self.could_drop = 0
        #: Of the elections those by a change that gave the partition other replicas.
        self.reassigned = 0
        self.breaches: list[tuple[Rule, LogEntry, str]] = []
        for at, entry in enumerate(entries):
            if entry.type == "feature-level" and entry.fields.get("name") == _FEATURE:
                self.has_eligible = entry.fields.get("feature_level", 0) > 0
            elif entry.type == "config" and entry.fields.get("name") == _MIN_IN_SYNC:
                self._configure(entry.fields)
            for step in self._partitions.read(entry):
                if entry.type == "partition-change" and step.before is not None:
                    self._change(at, step, step.before)

    def _configure(self, fields: dict[str, Any]) -> None:
        least = int(fields.get("value") or 1)
        if fields.get("resource_type") == _TOPIC:
            self._least[str(fields.get("resource_name", ""))] = least
        elif fields.get("resource_type") == _BROKER and not fields.get("resource_name"):
            self._least_of_all = least

    def _change(self, at: int, step: PartitionStep, before: PartitionState) -> None:
        entry, now = step.entry, step.now
        leader = int(entry.fields.get("leader", SAME_LEADER))
        may_lead = before.in_sync | before.eligible
        last_resort = frozenset() if may_lead else before.last_known
        unclean = leader >= 0 and leader not in may_lead | last_resort | _end_of_reassignment(before, now)
        if leader >= 0 and (before.replicas | now.replicas) - may_lead:
            self.elections += 1
            self.reassigned += now.replicas != before.replicas
            if unclean:
                what = f"broker {leader} leads; in sync were {_text(before.in_sync)}, eligible {_text(before.eligible)}"
                self.breaches.append((INELIGIBLE, entry, what))
        least = min(self._least.get(step.topic, self._least_of_all), len(now.replicas))
        if self.has_eligible and not unclean and len(now.in_sync) < least:
            leave = (may_lead & now.replicas) - now.in_sync
            self.could_drop += len(leave)
            for broker in sorted(leave - now.eligible):
                if not self._comes_back(at, broker):
                    what = (
                        f"broker {broker} may not lead any more; in sync are {_text(now.in_sync)} of {least} that"
                        f" appends need, eligible {_text(now.eligible)}"
                    )
                    self.breaches.append((DROPPED, entry, what))

    def _comes_back(self, at: int, broker: int) -> bool:
        """Whether the change belongs to a registration of the broker: the changes stand before it in the log."""
        for number in range(at + 1, len(self._entries)):
            entry = self._entries[number]
            if entry.type != "partition-change":
                return entry.type == "register-broker" and entry.fields.get("broker_id", 0) == broker
        return False


def judge(history: History, bound: SessionBound, facts: Facts) -> list[Verdict]:
    """Judge the voters' longest log; nothing is said where no log has records of brokers."""
    log = longest_log(history)
    if log is None:
        return []
    read = _Log(list(in_order(log)))
    names = {number: node for node, number in bound.nodes.items()}
    gap = log_gap(log)
    ineligible, dropped = (
        [finding_in_log(log, *breach, names) for breach in read.breaches if breach[0] is rule]
        for rule in (INELIGIBLE, DROPPED)
    )
    no_feature = f"the cluster has no eligible leader replicas: {_FEATURE} is 0"
    return [
        verdict(
            facts,
            INELIGIBLE.tally(ineligible, read.elections),
            doubt=gap,
            kept=f"in {read.elections} elections the leader was in sync, or eligible, and other replicas were neither;"
            f" {read.reassigned} of them came with other replicas",
        ),
        verdict(
            facts,
            (DROPPED if read.has_eligible else DROPPED.here(lacks=no_feature)).tally(dropped, read.could_drop),
            doubt=gap,
            kept=f"while too few were in sync, all {read.could_drop} others that may have every record were eligible",
        ),
    ]


def _end_of_reassignment(before: PartitionState, now: PartitionState) -> frozenset[int]:
    """The replicas that the end of a reassignment lets lead: a leader has said that these are in sync."""
    ended = bool(before.adding | before.removing) and not now.adding | now.removing
    if not ended or before.leader == NOBODY:
        return frozenset()
    if now.replicas <= now.in_sync:
        return now.in_sync
    return before.adding if before.adding <= now.in_sync else frozenset()


def _text(brokers: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(brokers))) or "none"
