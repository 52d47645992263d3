"""Who may be elected, in the metadata log: replicas in sync, and eligible leader replicas where there are such.

The records of one log are in order, so no clock is needed. Two verdicts:

"leaders-are-eligible"
  ineligible-leader    a partition got a leader that was neither in sync nor an eligible leader replica at that place
"eligible-replicas-kept" (KIP-966, from 4.1 on)
  dropped-eligible     a replica left the in-sync ones, or was eligible, and is not eligible when fewer are in sync than
                       appends need; a replica that comes back after an unclean end is left out rightly

A reassignment ends with the change by which the partition's leader counts all replicas that stay as in sync. It names
them, drops the removed ones, and may elect any that stays: it may lead if they are all in sync now and a leader was
there to say so. Who is no replica any more need not stay eligible.

An unclean election names nobody but its own leader, whose log is the partition's from then on. Nobody else can have
every record of that, so who could lead before need not stay eligible. The first verdict judges the election itself.

Where nobody is in sync or eligible, the last known leader may come back, as KIP-966 has it: its unclean end took it
from both.

Source: Kafka's documentation, "Unclean leader election"; KIP-966, "Eligible Leader Replicas"; KIP-455 (reassignments);
PartitionChangeBuilder.populateTargetElr, canElectLastKnownLeader and completeReassignmentIfNeeded;
PartitionReassignmentReplicas.maybeCompleteReassignment.
"""

from typing import Any, Final

import msgspec

from fencepost.checkers.findings.finding import Finding, Findings, rule
from fencepost.harness.history import History, LogEntry
from fencepost.harness.verdict import Facts, SessionBound, Verdict
from fencepost.systems.kafka.checkers.brokers.registrations import finding_in_log, in_order, log_gap, longest_log
from fencepost.systems.kafka.facts.replicas import SAME_LEADER

CHECKER: Final = "brokers"
ELECTED: Final = "leaders-are-eligible"
KEPT: Final = "eligible-replicas-kept"
INELIGIBLE: Final = "ineligible-leader"
DROPPED: Final = "dropped-eligible"
_FEATURE: Final = "eligible.leader.replicas.version"
_MIN_IN_SYNC: Final = "min.insync.replicas"
#: Types of resources that have configurations.
_TOPIC: Final = 2
_BROKER: Final = 4
#: Nobody leads.
_NOBODY: Final = -1


class _Partition(msgspec.Struct, kw_only=True):
    """Brokers by id; `last_known` is who led last, named by the log where nobody is in sync or eligible."""

    replicas: frozenset[int] = frozenset()
    in_sync: frozenset[int] = frozenset()
    eligible: frozenset[int] = frozenset()
    last_known: frozenset[int] = frozenset()
    #: Replicas that a reassignment adds or removes, and who leads.
    adding: frozenset[int] = frozenset()
    removing: frozenset[int] = frozenset()
    leader: int = _NOBODY

    @classmethod
    def after(cls, fields: dict[str, Any], before: "_Partition") -> "_Partition":
        """The state after a record; what it does not name stays."""

        def now(name: str, was: frozenset[int]) -> frozenset[int]:
            return was if fields.get(name) is None else frozenset(fields[name])

        leader = int(fields.get("leader", SAME_LEADER))
        return cls(
            adding=now("adding_replicas", before.adding),
            removing=now("removing_replicas", before.removing),
            leader=before.leader if leader == SAME_LEADER else leader,
            replicas=now("replicas", before.replicas),
            in_sync=now("isr", before.in_sync),
            eligible=now("eligible_leader_replicas", before.eligible),
            last_known=now("last_known_elr", before.last_known),
        )


class _Log:
    """What the log says so far, and what broke the rules."""

    def __init__(self, entries: list[LogEntry]) -> None:
        self._entries = entries
        self._partitions: dict[tuple[str, int], _Partition] = {}
        self._names: dict[str, str] = {}
        self._least: dict[str, int] = {}
        self._least_of_all = 1
        self.has_eligible = False
        #: Elections of a leader where not every replica was in sync, and changes that leave too few in sync.
        self.elections = 0
        self.short = 0
        #: Of the elections those by a change that gave the partition other replicas.
        self.reassigned = 0
        self.breaches: list[tuple[str, LogEntry, str]] = []
        for at, entry in enumerate(entries):
            self._read(at, entry)

    def _read(self, at: int, entry: LogEntry) -> None:
        fields = entry.fields
        match entry.type:
            case "topic":
                self._names[str(fields.get("topic_id", ""))] = str(fields.get("name", ""))
            case "feature-level" if fields.get("name") == _FEATURE:
                self.has_eligible = fields.get("feature_level", 0) > 0
            case "config" if fields.get("name") == _MIN_IN_SYNC:
                self._configure(fields)
            case "clear-elr":
                for (topic, _), partition in self._partitions.items():
                    if fields.get("topic_name", "") in ("", self._names.get(topic)):
                        partition.eligible = frozenset()
            case "partition":
                self._partitions[_which(entry)] = _Partition.after(fields, _Partition())
            case "partition-change" if _which(entry) in self._partitions:
                self._change(at, entry)

    def _configure(self, fields: dict[str, Any]) -> None:
        least = int(fields.get("value") or 1)
        if fields.get("resource_type") == _TOPIC:
            self._least[str(fields.get("resource_name", ""))] = least
        elif fields.get("resource_type") == _BROKER and not fields.get("resource_name"):
            self._least_of_all = least

    def _change(self, at: int, entry: LogEntry) -> None:
        fields, which = entry.fields, _which(entry)
        before = self._partitions[which]
        leader = int(fields.get("leader", SAME_LEADER))
        now = self._partitions[which] = _Partition.after(fields, before)
        may_lead = before.in_sync | before.eligible
        last_resort = frozenset() if may_lead else before.last_known
        unclean = leader >= 0 and leader not in may_lead | last_resort | _end_of_reassignment(before, now)
        if leader >= 0 and (before.replicas | now.replicas) - may_lead:
            self.elections += 1
            self.reassigned += now.replicas != before.replicas
            if unclean:
                what = f"broker {leader} leads; in sync were {_text(before.in_sync)}, eligible {_text(before.eligible)}"
                self.breaches.append((INELIGIBLE, entry, what))
        least = min(self._least.get(self._names.get(which[0], ""), self._least_of_all), len(now.replicas))
        if self.has_eligible and not unclean and len(now.in_sync) < least:
            self.short += 1
            for broker in sorted((may_lead & now.replicas) - now.in_sync - now.eligible):
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

    def findings(anomaly: str) -> list[Finding]:
        return [finding_in_log(log, *breach, names) for breach in read.breaches if breach[0] == anomaly]

    all_in_sync = "no partition got a leader while one of its replicas was neither in sync nor eligible"
    enough = (
        "no change left fewer replicas in sync than appends need"
        if read.has_eligible
        else f"the cluster has no eligible leader replicas: {_FEATURE} is 0"
    )
    return [
        Findings(
            checker=CHECKER,
            guarantee=ELECTED,
            findings=findings(INELIGIBLE),
            doubt=log_gap(log),
            exposure=read.elections,
            exposure_of="elections while a replica was neither in sync nor eligible",
            untested=all_in_sync,
            rules=(rule(INELIGIBLE, read.elections, all_in_sync),),
            kept=f"in {read.elections} elections the leader was in sync, or eligible, and other replicas were neither;"
            f" {read.reassigned} of them came with other replicas",
        ).verdict(facts),
        Findings(
            checker=CHECKER,
            guarantee=KEPT,
            findings=findings(DROPPED),
            doubt=log_gap(log),
            exposure=read.short,
            exposure_of="changes that left fewer replicas in sync than appends need",
            untested=enough,
            rules=(rule(DROPPED, read.short, enough),),
            kept=f"after {read.short} changes that left too few in sync, all that may have every record were eligible",
        ).verdict(facts),
    ]


def _end_of_reassignment(before: _Partition, now: _Partition) -> frozenset[int]:
    """The replicas that the end of a reassignment lets lead: a leader has said that all that stay are in sync."""
    ended = bool(before.adding | before.removing) and not now.adding | now.removing
    return now.in_sync if ended and before.leader != _NOBODY and now.replicas <= now.in_sync else frozenset()


def _which(entry: LogEntry) -> tuple[str, int]:
    return str(entry.fields.get("topic_id", "")), int(entry.fields.get("partition_id", -1))


def _text(brokers: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(brokers))) or "none"
