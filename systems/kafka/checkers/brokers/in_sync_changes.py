"""Changes of in-sync replicas that a controller acknowledged: do they stand where the controllers keep them?

The leader of a partition asks the controller for such a change (AlterPartition), and logs what it was told: the
replicas, and the version of the partition's state that has them. Each of them must stand under that version in the
metadata log, or in ZooKeeper under /brokers/topics/.../state. A controller that was superseded, and says yes all the
same, writes nothing that stays; the leader then counts on replicas that nobody else takes for in sync.

"in-sync-changes-are-kept"
  unlogged-in-sync-change   a leader was told of in-sync replicas that never stood under that version

The version grows by one with every record about a partition. Versions before the beginning of a log are not judged,
and those beyond all logs that were kept only if every voter's was. What was logged before a voter began on a
new disk is not judged.

Source: KIP-497 (AlterIsr: the controller persists a change before the leader takes it up), KIP-841.
"""

from typing import Final

from fencepost.checkers.rules import Rule, verdict
from fencepost.checkers.violations.finding import Doubt, Finding, seconds
from fencepost.harness.history import NEW_DISK, History, LogEvent, Logged
from fencepost.harness.verdict import Cause, Facts, Verdict
from fencepost.systems.kafka.facts.replicas import partition_steps

_NO_LOG: Final = "no log with the states of partitions was kept"
UNLOGGED: Final = Rule(
    guarantee="in-sync-changes-are-kept",
    anomaly="unlogged-in-sync-change",
    tested="changes of in-sync replicas that a controller acknowledged to a leader",
    lacks="no leader's log tells of a change of in-sync replicas with its version",
)
#: A partition by topic and number, with the version of its state.
_State = tuple[str, int, int]


class KeptInSync:
    """The in-sync replicas of every version of every partition's state, by all logs that were kept."""

    def __init__(self, history: History, facts: Facts) -> None:
        #: Whether the log of every voter was kept: only then no log has what is beyond those that were kept.
        self._whole: Final = set(facts.electorate) <= history.logs.keys()
        #: What was logged before may have gone with the disk of a voter that began on a new one.
        self._since_ns: Final = max(
            (fault.began_ns for fault in history.faults if NEW_DISK in fault.details), default=0
        )
        self._of: Final[dict[tuple[str, int], dict[int, set[frozenset[int]]]]] = {}
        for log in history.logs.values():
            # KRaft counts on from the version that a migration copied from ZooKeeper; what it writes there repeats it.
            for step in partition_steps(log):
                if step.entry.type != "clear-elr" and (step.entry.type != "partition-state" or step.now.version >= 0):
                    own = self._of.setdefault((step.topic, step.number), {})
                    own.setdefault(step.now.version, set()).add(step.now.in_sync)

    def __bool__(self) -> bool:
        return bool(self._of)

    def at(self, state: _State) -> set[frozenset[int]]:
        """The in-sync replicas of one version: none where no log has it, several where logs differ."""
        return self._of.get(state[:2], {}).get(state[2], set())

    def reaches(self, state: _State, at_ns: int) -> bool:
        """Whether the logs would have this version, which a leader knew at that time.

        They would unless one begins after it, or ends before it while another is missing, or disks were new since.
        """
        if at_ns < self._since_ns:
            return False
        own = self._of.get(state[:2])
        if own is None:
            return self._whole
        return min(own) <= state[2] and (self._whole or state[2] <= max(own))

    def between(self, topic: str, number: int, since: int, until: int | None) -> list[set[frozenset[int]]]:
        """The in-sync replicas of the partition's versions from `since` on and before `until`, in order.

        None at all where some version of these is not kept.
        """
        own = self._of.get((topic, number), {})
        end = max(own, default=-1) + 1 if until is None else until
        return [own[version] for version in range(since, end)] if own.keys() >= set(range(since, end)) else []


def judge(history: History, facts: Facts, kept: KeptInSync) -> Verdict:
    """Judge every change that a leader's log tells of, by all logs that were kept."""
    lines = [
        (event, state)
        for event in history.of(LogEvent)
        if event.change is Logged.IN_SYNC
        and (state := _state_of(event)) is not None
        and kept.reaches(state, event.time_ns)
    ]
    findings = [
        _finding(event, state, kept.at(state)) for event, state in lines if replicas_in(event) not in kept.at(state)
    ]
    return verdict(
        facts,
        UNLOGGED.tally(findings, tuple(event.index for event, _ in lines)),
        doubt=None if kept or not lines else Doubt(Cause.UNDECIDED, _NO_LOG),
        untested=UNLOGGED.lacks if kept else _NO_LOG,
        kept=f"{len(lines)} changes of in-sync replicas that leaders were told of stand under their versions",
    )


def _state_of(event: LogEvent) -> _State | None:
    """The partition and version of a line; None where it has no version, as one that tells of a new leader."""
    if event.position is None or event.key is None:
        return None
    topic, _, number = event.key.rpartition("-")
    return topic, int(number), event.position


def replicas_in(event: LogEvent) -> frozenset[int]:
    """The in-sync replicas that a leader's line names."""
    return frozenset(int(number) for number in (event.detail or "").split(",") if number)


def _finding(event: LogEvent, state: _State, kept: set[frozenset[int]]) -> Finding:
    topic, number, version = state
    others = " or ".join(", ".join(map(str, sorted(replicas))) or "none" for replicas in kept)
    steps = (
        f"By {event.node}'s log, read at {seconds(event.time_ns)}, the controller made {event.detail} the in-sync"
        f" replicas of {topic}-{number}, in version {version} of its state.",
        f"Where the controllers keep it, that version has {others}."
        if kept
        else "The controllers keep no such version of it.",
    )
    return UNLOGGED.finding(
        steps=steps,
        counted_by=event.index,
        events=(event.index,),
        from_ns=event.asked_ns,
        to_ns=event.time_ns,
        nodes=(event.node,),
    )
