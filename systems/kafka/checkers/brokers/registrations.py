"""Brokers in the metadata log: who may lead, who may report, and to whom an id belongs.

The records of one log are in order, so no clock is needed. Four verdicts:

"broker-states"
  fenced-broker-elected    a partition got a leader that was fenced, or in its controlled shutdown, at that place
  fenced-broker-in-sync    a partition's in-sync replicas got such a broker
"broker-epochs"
  broker-epoch-went-back   a registration has no higher broker epoch than the one before it of the same id
  stale-broker-epoch       a change was accepted from a registration that a later one had replaced
"one-broker-per-id"
  second-registration      an id was given to another process while the first was neither fenced nor restarted

"controlled-shutdown"
  left-as-leader           a broker was fenced at the end of its controlled shutdown and still led a partition that
                           another replica in sync could have led

Source: KIP-631, "Broker states", "Broker registration" and "The controller's fencing of brokers" (broker epochs,
DUPLICATE_BROKER_REGISTRATION); KIP-841 (a fenced broker is never added to the in-sync replicas).
"""

from typing import Final

import msgspec

from fencepost.checkers.derived.servers import starts
from fencepost.checkers.rules import Judged, Rule, verdict
from fencepost.checkers.violations.finding import Doubt, Finding
from fencepost.harness.history import History, LogEntry, LogEvent, Logged, NodeLog
from fencepost.harness.verdict import Cause, Facts, SessionBound, Verdict
from fencepost.harness.verdict.figures import Traced
from fencepost.systems.kafka.checkers.brokers.shutdown import CONTROLLED
from fencepost.systems.kafka.facts.replicas import SAME_LEADER, Partitions, PartitionState, PartitionStep, in_order

_BESIDE: Final = "no broker was fenced or in its controlled shutdown when a partition changed"
_AGAIN: Final = "registrations of an id after its first one, and changes of such a broker"
ELECTED, IN_SYNC = (
    Rule.of("broker-states", anomaly, "changes of a partition one of whose replicas was fenced or stopping", _BESIDE)
    for anomaly in ("fenced-broker-elected", "fenced-broker-in-sync")
)
WENT_BACK: Final = Rule.of("broker-epochs", "broker-epoch-went-back", _AGAIN, "no broker registered again")
STALE: Final = Rule.of(
    "broker-epochs",
    "stale-broker-epoch",
    _AGAIN,
    "no broker registered again and changed its state after that",
)
SECOND: Final = Rule.of(
    "one-broker-per-id",
    "second-registration",
    "attempts to register the id of a living broker",
    "nobody tried to register the id of a living broker",
)
LEFT: Final = Rule.of(
    CONTROLLED,
    "left-as-leader",
    "partitions led by a broker that began its controlled shutdown",
    "no broker that led a partition began its controlled shutdown",
)

_FENCE: Final = 1
_UNFENCE: Final = -1


class _Broker(msgspec.Struct, kw_only=True):
    """What the log says of one id so far."""

    epoch: int
    incarnation: str
    offset: int
    fenced: bool = True
    stopping: bool = False
    #: Registered before: a report of the earlier registration would be stale.
    replaced: bool = False


class _Read(msgspec.Struct, kw_only=True):
    """The breaches in one log by anomaly, with the chances of each rule; and what the log says so far."""

    brokers: dict[int, _Broker] = {}
    partitions: Partitions
    handed_over: int = 0
    breaches: list[tuple[Rule, LogEntry, str]] = []
    elections_beside: int = 0
    in_sync_beside: int = 0
    registered_again: int = 0
    reports_after: int = 0


def judge(history: History, bound: SessionBound, facts: Facts) -> list[Verdict]:
    """Judge the voters' longest log; nothing is said where no log has records of brokers."""
    log = longest_log(history)
    if log is None:
        return []
    names = {number: node for node, number in bound.nodes.items()}
    read = read_log(log, _restarts(history, bound))
    attempts = tuple(e.index for e in history.events if type(e) is LogEvent and e.change is Logged.DUPLICATE_ID)

    def tally(rule: Rule, chances: int) -> Judged:
        return rule.tally(
            [finding_in_log(log, *breach, names) for breach in read.breaches if breach[0] is rule], chances
        )

    second = tally(SECOND, 0).number + len(attempts)
    gap = log_gap(log)
    return [
        verdict(
            facts,
            tally(ELECTED, read.elections_beside),
            tally(IN_SYNC, read.in_sync_beside),
            doubt=gap,
            exposed=Traced(read.elections_beside + read.in_sync_beside),
            kept=f"in {read.elections_beside} elections no fenced or stopping broker was elected",
        ),
        verdict(
            facts,
            tally(WENT_BACK, read.registered_again),
            tally(STALE, read.reports_after),
            doubt=gap,
            exposed=Traced(read.registered_again + read.reports_after),
            kept=f"{read.registered_again} brokers that registered again had a higher epoch, and only it counted",
        ),
        verdict(
            facts,
            tally(SECOND, second),
            doubt=gap,
            exposed=Traced(second, attempts),
            kept=f"{len(attempts)} second registrations of a living broker's id were refused",
        ),
        verdict(
            facts,
            tally(LEFT, read.handed_over),
            doubt=gap,
            kept=f"{read.handed_over} partitions had another leader before their broker was let go",
        ),
    ]


def longest_log(history: History) -> NodeLog | None:
    """The longest of the voters' logs; None where it has no records of brokers."""
    log = max(history.logs.values(), key=_end, default=None)
    if log is None or not any(e.type == "register-broker" for e in (*log.snapshot, *log.entries)):
        return None
    return log


def log_gap(log: NodeLog) -> Doubt | None:
    """Why a log does not tell everything: its beginning was replaced by a snapshot."""
    if not log.start_offset:
        return None
    return Doubt(Cause.UNDECIDED, f"{log.node}'s log begins at offset {log.start_offset}")


def _end(log: NodeLog) -> int:
    return log.entries[-1].offset if log.entries else log.start_offset


def _restarts(history: History, bound: SessionBound) -> dict[int, int]:
    """How often the server of each id was started after the first time."""
    started = starts(history)
    return {number: max(0, len(started.get(node, ())) - 1) for node, number in bound.nodes.items()}


def read_log(log: NodeLog, restarts: dict[int, int]) -> _Read:
    """Go through one log; `restarts` are the registrations by other processes of ours that each id may have."""
    read, left = _Read(partitions=Partitions()), dict(restarts)
    for entry in in_order(log):
        match entry.type:
            case "register-broker":
                _register(read, entry, left)
            case "unregister-broker":
                read.brokers.pop(_broker_id(entry), None)
            case "broker-registration-change":
                _change(read, entry)
            case _:
                for step in read.partitions.read(entry):
                    if entry.type in ("partition", "partition-change"):
                        _partition(read, step)
    return read


def _broker_id(entry: LogEntry) -> int:
    return int(entry.fields.get("broker_id", 0))


def _register(read: _Read, entry: LogEntry, left: dict[int, int]) -> None:
    fields, number = entry.fields, _broker_id(entry)
    before = read.brokers.get(number)
    now = _Broker(
        epoch=int(fields.get("broker_epoch", 0)),
        incarnation=str(fields.get("incarnation_id", "")),
        offset=entry.offset,
        fenced=bool(fields.get("fenced", True)),
        stopping=bool(fields.get("in_controlled_shutdown", False)),
        replaced=before is not None and before.epoch != int(fields.get("broker_epoch", 0)),
    )
    if before is not None:
        read.registered_again += 1
        # A process that had no answer in time registers once more, and keeps its epoch.
        same = now.incarnation == before.incarnation
        if now.epoch < before.epoch or (now.epoch == before.epoch and not same):
            read.breaches.append((WENT_BACK, entry, f"epoch {now.epoch} follows epoch {before.epoch}"))
        if now.incarnation != before.incarnation:
            left[number] = left.get(number, 0) - 1
            if not before.fenced and left[number] < 0:
                read.breaches.append((SECOND, entry, f"the process of offset {before.offset} was alive and not fenced"))
    read.brokers[number] = now


def _change(read: _Read, entry: LogEntry) -> None:
    number, fields = _broker_id(entry), entry.fields
    broker = read.brokers.get(number)
    if broker is None:
        return
    epoch = int(fields.get("broker_epoch", 0))
    read.reports_after += broker.replaced
    if epoch != broker.epoch:
        read.breaches.append((STALE, entry, f"epoch {epoch} reports, and epoch {broker.epoch} is the newest"))
    fenced = int(fields.get("fenced", 0))
    if fields.get("in_controlled_shutdown", 0) == 1 and not broker.stopping:
        broker.stopping = True
        read.handed_over += len(_led(read, number))
    if fenced == _FENCE and broker.stopping and not broker.fenced and (left := _led(read, number)):
        read.breaches.append((LEFT, entry, f"broker {number} had been let go and still led {len(left)} partitions"))
    broker.fenced = fenced == _FENCE or (broker.fenced and fenced != _UNFENCE)


def _led(read: _Read, number: int) -> list[PartitionState]:
    """The partitions that this broker leads and that another replica could lead."""
    barred = _barred(read) | {number}
    return [p for p in read.partitions.known.values() if p.leader == number and p.in_sync - barred]


def _barred(read: _Read) -> set[int]:
    """The brokers that may not lead."""
    return {number for number, broker in read.brokers.items() if broker.fenced or broker.stopping}


def _partition(read: _Read, step: PartitionStep) -> None:
    entry, before, now = step.entry, step.before or PartitionState(), step.now.in_sync
    leader = int(entry.fields.get("leader", SAME_LEADER))
    barred = _barred(read)
    if leader >= 0:
        read.elections_beside += bool(barred & (before.in_sync | now | {leader}))
        if leader in barred:
            read.breaches.append((ELECTED, entry, f"broker {leader} was fenced or stopping, and became the leader"))
    if entry.fields.get("isr") is not None:
        read.in_sync_beside += bool(barred)
        for number in sorted((now - before.in_sync) & barred) if before.in_sync else ():
            read.breaches.append((IN_SYNC, entry, f"broker {number} was fenced or stopping, and counts as in sync"))


def finding_in_log(log: NodeLog, rule: Rule, entry: LogEntry, what: str, names: dict[int, str]) -> Finding:
    """A finding that one entry shows, about its broker where it names one."""
    about = names.get(_broker_id(entry), log.node)
    return Finding(
        anomaly=rule.anomaly,
        steps=(f"{log.node}'s metadata log, offset {entry.offset} ({entry.type}, epoch {entry.epoch}): {what}.",),
        from_ns=0,
        to_ns=0,
        nodes=(about,),
    )
