"""Brokers that a controller keeps, by what logs and disks show of them; and planted bugs.

n1 leads all the time. b2 is cut off from it for ten seconds and is fenced after three. b3 is told to end, hands over
its partition, ends and comes back under a new broker epoch. Somebody tries to register b1's id, and is refused.
"""

import random
from typing import Any, Final

import msgspec

from fencepost.harness.history import History, LogEntry, LogEvent, Logged, NodeChange, NodeLog, Outcome, PhaseName
from fencepost.harness.verdict import LeadershipBound, SessionBound, Standing, Thresholds
from fencepost.systems.kafka.broker_view import BrokerView
from tests.checkers.build import MS, Tale
from tests.fakes.store import facts_of

VOTERS: Final = ("n1", "n2", "n3")
BROKERS: Final = {"b1": 4, "b2": 5, "b3": 6}
SESSION_NS: Final = 3_000 * MS
GUARANTEES: Final = (
    "broker-fenced-in-time",
    "broker-self-fencing",
    "broker-states",
    "broker-epochs",
    "one-broker-per-id",
    "controlled-shutdown",
    "controlled-shutdown-unnoticed",
    "orderly-restart-unnoticed",
    "in-sync-changes-are-kept",
    "appends-need-replicas",
    "fencing-is-told",
    "leaders-are-eligible",
    "eligible-replicas-kept",
)
FACTS: Final = facts_of(
    "log",
    (*VOTERS, *BROKERS),
    GUARANTEES,
    electorate=VOTERS,
    leadership=LeadershipBound(
        bound_ns=None, source="tests/fakes", standing=Standing.MEASURED, one_leader_per_epoch=False
    ),
    sessions=SessionBound(nodes=BROKERS, session_ns=SESSION_NS, held_by_leader=True, source="tests/fakes"),
    thresholds=Thresholds(ok_operations_min=1),
)
#: What each bug does.
BUGS: Final = {
    "broker-not-fenced": "n1 never fences b2",
    "served-without-controller": "b2 takes appends all the time",
    "fenced-broker-counted-as-alive": "b1 is not told that b2 is fenced",
    "fenced-broker-elected": "a partition moves to b2 while it is fenced",
    "fenced-broker-in-sync": "b2 counts as in sync while it is fenced",
    "broker-epoch-went-back": "b3 comes back with a lower broker epoch",
    "stale-broker-epoch": "b3 reports under its first broker epoch when it has come back",
    "second-registration": "the second process gets b1's id",
    "unlogged-in-sync-change": "a controller that was superseded tells b1 that b3 is no longer in sync",
    "acknowledged-with-too-few": "b1 takes an append while it is the only one in sync",
    "ineligible-leader": "b2 comes back and leads, though it is neither in sync nor eligible",
    "dropped-eligible": "b3 is fenced as one of the last two in sync, and is not eligible",
    "left-as-leader": "b3 still leads when it is let go",
    "ended-without-leave": "b3 ends before a controller lets it",
    "unavailable-partition": "nobody leads b3's partition for two seconds",
    "unavailable-in-restart": "nobody leads b3's partition for two seconds after b3 has ended",
}
_CUT_MS: Final = (2_000, 12_000)
_STOP_MS: Final = 14_000
#: How long after b3 is told to end its partition has no leader, by the bug.
_GONE_MS: Final = {"unavailable-partition": 0, "unavailable-in-restart": 1_250}
#: When b1 is the only one of p4's replicas in sync.
_ALONE_MS: Final = (5_500, 9_000)
_END_MS: Final = 22_000


class _Log:
    """n1's metadata log while it grows."""

    def __init__(self) -> None:
        self.entries: list[LogEntry] = []

    def add(self, kind: str, **fields: Any) -> int:
        self.entries.append(LogEntry(offset=len(self.entries), epoch=1, type=kind, fields=fields))
        return len(self.entries) - 1

    def register(self, broker: int, incarnation: str, epoch: int | None = None) -> int:
        epoch = 10 + len(self.entries) if epoch is None else epoch
        self.add("register-broker", broker_id=broker, incarnation_id=incarnation, broker_epoch=epoch)
        return epoch

    def change(self, broker: int, epoch: int, **fields: int) -> None:
        self.add("broker-registration-change", broker_id=broker, broker_epoch=epoch, **fields)

    def lead(self, partition: int, leader: int, in_sync: list[int], **fields: Any) -> None:
        self.add("partition-change", topic_id="t", partition_id=partition, leader=leader, isr=in_sync, **fields)


def run_fake_brokers(bug: str | None, seed: int) -> History:
    """The history of one run; a correct one is told to end b3 in two runs of three."""
    draw = random.Random(f"kept-brokers-{seed}")
    tale, log = Tale(), _Log()
    late_ms = draw.randrange(100)
    tale.phase(PhaseName.MAIN, 0)
    tale.health(0, _END_MS)
    tale.claims("n1", 1, [float(ms) for ms in range(100, _END_MS, 200)], subject="controller")
    log.add("feature-level", name="eligible.leader.replicas.version", feature_level=1)
    log.add("topic", topic_id="t", name="log")
    log.add("config", resource_type=2, resource_name="log", name="min.insync.replicas", value="2")
    epochs = {name: log.register(number, f"{name}-0") for name, number in BROKERS.items()}
    for place, (name, number) in enumerate(BROKERS.items()):
        tale.node(name, NodeChange.STARTED, 1 + place)
        logged(tale, name, Logged.UNFENCED, 300 + place)
        log.change(number, epochs[name], fenced=-1)
        log.add(
            "partition",
            topic_id="t",
            partition_id=place,
            leader=number,
            isr=[4, 5, 6],
            replicas=[4, 5, 6],
            partition_epoch=0,
        )
    tale.cut("b2", *_CUT_MS)
    _fence_b2(tale, log, bug, epochs, late_ms)
    if bug == "second-registration":
        epochs["b1"] = log.register(4, "an impostor")
        log.change(4, epochs["b1"], fenced=-1)
    else:
        tale.tell(
            LogEvent, 13_000, node="n1", incarnation=0, change=Logged.DUPLICATE_ID, asked_ns=12_990 * MS, source="log"
        )
    stops = bug is not None or seed % 3 > 0
    if stops:
        _end_b3(tale, log, bug, epochs, late_ms)
    _append(tale, bug, draw, stops=stops)
    _append_alone(tale, log, bug, draw)
    _view(tale, bug, draw)
    _short_of_replicas(log, bug, epochs)
    history = tale.history()
    history.logs = {"n1": NodeLog(node="n1", start_offset=0, entries=tuple(log.entries))}
    return history


def _fence_b2(tale: Tale, log: _Log, bug: str | None, epochs: dict[str, int], late_ms: int) -> None:
    if bug == "broker-not-fenced":
        return
    logged(tale, "b2", Logged.FENCED, _CUT_MS[0] + 3_200 + late_ms)
    if bug != "fenced-broker-elected":
        log.lead(1, 4, [4, 6])
    log.change(5, epochs["b2"], fenced=1)
    if bug == "fenced-broker-elected":
        log.lead(1, 5, [4, 5, 6])
    if bug == "fenced-broker-in-sync":
        log.lead(1, 4, [4, 5, 6])
    log.lead(0, 4, [4, 6])
    _tell_leader(tale, bug, (4, 6))
    logged(tale, "b2", Logged.UNFENCED, _CUT_MS[1] + 300 + late_ms)
    log.change(5, epochs["b2"], fenced=-1)
    log.lead(0, 4, [4, 5, 6])


def _tell_leader(tale: Tale, bug: str | None, in_sync: tuple[int, ...]) -> None:
    """b1's log tells of the first change of its partition p0, after which b2 is not in sync."""
    told = in_sync if bug != "unlogged-in-sync-change" else (4, 5)
    _told_in_sync(tale, _CUT_MS[0] + 3_300, 0, 1, told)


def _told_in_sync(tale: Tale, at_ms: int, partition: int, version: int, in_sync: tuple[int, ...]) -> None:
    tale.tell(
        LogEvent,
        at_ms,
        node="b1",
        incarnation=0,
        change=Logged.IN_SYNC,
        asked_ns=(at_ms - 100) * MS,
        source="log",
        key=f"log-{partition}",
        position=version,
        detail=",".join(map(str, in_sync)),
    )


def _append_alone(tale: Tale, log: _Log, bug: str | None, draw: random.Random) -> None:
    """b1 leads p4, alone in sync for a while in which it refuses every append."""
    first_ms, last_ms = _ALONE_MS
    log.add("partition", topic_id="t", partition_id=4, leader=4, isr=[4, 5, 6], replicas=[4, 5, 6], partition_epoch=0)
    log.lead(4, 4, [4], eligible_leader_replicas=[5, 6])
    log.lead(4, 4, [4, 5, 6], eligible_leader_replicas=[])
    _told_in_sync(tale, first_ms, 4, 1, (4,))
    _told_in_sync(tale, last_ms, 4, 2, (4, 5, 6))
    for ms in range(first_ms - 500, last_ms + 500, 250):
        at_ms = ms + draw.randrange(20)
        refused = first_ms - 100 < at_ms < last_ms and bug != "acknowledged-with-too-few"
        tale.op(
            "append",
            node="b1",
            key="p4",
            value=at_ms,
            at=(at_ms, at_ms + 5),
            type=Outcome.FAIL if refused else Outcome.OK,
            error="not-enough-replicas" if refused else None,
        )


def _short_of_replicas(log: _Log, bug: str | None, epochs: dict[str, int]) -> None:
    """Only b1 stays in sync, and is fenced: b3 is eligible and leads again, b2 must not."""
    log.add("partition", topic_id="t", partition_id=3, leader=4, isr=[4, 5, 6], replicas=[4, 5, 6])
    log.lead(3, 4, [4, 6])
    log.lead(3, 4, [4], eligible_leader_replicas=[] if bug == "dropped-eligible" else [6])
    log.change(4, epochs["b1"], fenced=1)
    log.lead(3, -1, [], eligible_leader_replicas=[4, 6])
    eligible = [6]
    if bug == "ineligible-leader":
        log.lead(3, 5, [5], eligible_leader_replicas=[4, 6])
        eligible = [5, 6]
    # b1 comes back after an unclean end, which takes it out.
    log.lead(3, -1, [], eligible_leader_replicas=eligible)
    log.register(4, "b1-1")
    log.lead(3, 6, [6], eligible_leader_replicas=eligible[:-1])


def _end_b3(tale: Tale, log: _Log, bug: str | None, epochs: dict[str, int], late_ms: int) -> None:
    at_ms = _STOP_MS + late_ms
    logged(tale, "b3", Logged.STOPPING, at_ms, source="log")
    # Of a topic that was removed nothing is left to lead.
    log.add("topic", topic_id="g", name="gone")
    log.add("partition", topic_id="g", partition_id=0, leader=6, isr=[4, 6], replicas=[4, 6], partition_epoch=0)
    log.add("remove-topic", topic_id="g")
    log.change(6, epochs["b3"], in_controlled_shutdown=1)
    if bug != "left-as-leader":
        log.lead(2, 4, [4, 5])
    log.change(6, epochs["b3"], fenced=1)
    if bug != "ended-without-leave":
        logged(tale, "b3", Logged.MAY_STOP, at_ms + 500, source="log")
    tale.node("b3", NodeChange.EXITED, at_ms + 900)
    tale.node("b3", NodeChange.STARTED, at_ms + 1_500, incarnation=1)
    tale.node("b3", NodeChange.READY, at_ms + 3_100, incarnation=1)
    first = epochs["b3"]
    epochs["b3"] = log.register(6, "b3-1", epoch=first - 1 if bug == "broker-epoch-went-back" else None)
    log.change(6, first if bug == "stale-broker-epoch" else epochs["b3"], fenced=-1)
    logged(tale, "b3", Logged.UNFENCED, at_ms + 3_000)


def _append(tale: Tale, bug: str | None, draw: random.Random, *, stops: bool) -> None:
    """Appends to a partition of each broker; those of b3 go to b1 from its end on."""
    for partition, name in enumerate(BROKERS):
        for ms in range(500, _END_MS - 1_000, 150):
            at_ms = ms + draw.randrange(20)
            away = name == "b2" and _CUT_MS[0] <= at_ms < _CUT_MS[1] and bug != "served-without-controller"
            gone = (
                name == "b3"
                and bug in _GONE_MS
                and _STOP_MS + _GONE_MS[bug] <= at_ms < _STOP_MS + _GONE_MS[bug] + 2_000
            )
            tale.op(
                "append",
                node="b1" if name == "b3" and stops and at_ms > _STOP_MS else name,
                key=f"p{partition}",
                value=at_ms,
                at=(at_ms, at_ms + 5),
                type=Outcome.FAIL if away or gone else Outcome.OK,
                error="not-leader" if away or gone else None,
            )


def _view(tale: Tale, bug: str | None, draw: random.Random) -> None:
    """b1 and b3 say who is alive, by a copy that is half a second old at most."""
    for name in ("b1", "b3"):
        for ms in range(400, _END_MS - 1_000, 300):
            knows = name == "b3" or bug != "fenced-broker-counted-as-alive"
            away = knows and _CUT_MS[0] + 3_300 + draw.randrange(500) < ms < _CUT_MS[1] + 300
            view = BrokerView(BROKERS[name], (4, 6) if away else (4, 5, 6), ())
            tale.op("view", None, node=name, at=(ms, ms + 3), result=msgspec.to_builtins(view))


def logged(tale: Tale, node: str, change: Logged, at_ms: int, *, source: str = "n1's log") -> None:
    tale.tell(LogEvent, at_ms, node=node, incarnation=0, change=change, asked_ns=(at_ms - 50) * MS, source=source)
