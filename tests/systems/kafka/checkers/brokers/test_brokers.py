"""Brokers without a controller, and brokers that end: what is proven, and what only looks like it."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from fencepost.harness.history import (
    NEW_DISK,
    Effects,
    History,
    LogEntry,
    LogEvent,
    Logged,
    NodeChange,
    NodeLog,
    Outcome,
    Stops,
)
from fencepost.harness.verdict import Facts, Validity, Verdict
from fencepost.systems.kafka.broker_view import BrokerView
from fencepost.systems.kafka.checkers import brokers
from tests.checkers.build import MS, Tale
from tests.fakes.kept_brokers import BROKERS, BUGS, FACTS, logged, run_fake_brokers

#: A session of 3 s: judged from 5.5 s on.
_KILLED_MS = 2_000


def verdict(history: History, guarantee: str, given: Facts = FACTS) -> Verdict:
    (found,) = [v for v in brokers.check(history, given) if v.guarantee == guarantee and v.exposure_of]
    return found


def of(history: History, guarantee: str) -> list[Verdict]:
    return [v for v in brokers.check(history, FACTS) if v.guarantee == guarantee]


@pytest.mark.parametrize("bug", BUGS)
def test_each_bug_is_found_by_its_own_name_alone(bug: str) -> None:
    found = {name for v in brokers.check(run_fake_brokers(bug, 1), FACTS) for name in v.anomalies}
    # What is unavailable in the shutdown is so in the restart.
    assert found == {bug} | ({"unavailable-in-restart"} if bug == "unavailable-partition" else set())


def test_a_correct_run_keeps_everything_and_says_how_long_it_took() -> None:
    verdicts = brokers.check(run_fake_brokers(None, 1), FACTS)
    assert {v.validity for v in verdicts} == {Validity.VALID}
    figures = {name: value for v in verdicts for name, value in v.figures.plain().items()}
    assert 3_200e6 <= figures["fenced_after_ns_max"] <= 3_300e6
    assert figures["served_without_controller_ns_max"] == 0
    assert figures["stopped_within_ns_max"] == 500e6


def test_a_broker_that_served_without_a_controller_is_measured_to_its_last_answer() -> None:
    served = verdict(run_fake_brokers("served-without-controller", 1), "broker-self-fencing")
    assert 9_700e6 < served.figures.plain()["served_without_controller_ns_max"] <= 10_000e6


def killed_broker(*, second_from_ms: float, fenced_ms: float | None) -> Tale:
    """b2 is killed at 2 s while n1 leads; n2 leads epoch 2 from `second_from_ms` on."""
    tale = Tale()
    tale.health(0, 20_000)
    tale.node("b2", NodeChange.STARTED, 1)
    logged(tale, "b2", Logged.UNFENCED, 300)
    tale.claims("n1", 1, [float(ms) for ms in range(100, 2_000, 200)], subject="controller")
    kill = Effects(stops=Stops.CERTAIN)
    tale.fault("kill", ("n1", "b2"), (_KILLED_MS - 10, _KILLED_MS, 18_000, 18_010), effects=kill)
    first = int(second_from_ms)
    tale.claims("n2", 2, [float(ms) for ms in range(first, 18_000, 200)], subject="controller")
    if fenced_ms is not None:
        logged(tale, "b2", Logged.FENCED, int(fenced_ms), source="n2's log")
    return tale


def test_a_new_controller_that_never_fences_a_dead_broker_is_found() -> None:
    found = verdict(killed_broker(second_from_ms=3_000, fenced_ms=None).history(), "broker-fenced-in-time")
    assert found.anomalies == {"broker-not-fenced": 1}
    assert "still not fenced 14." in " ".join(found.witnesses[0].steps)


@pytest.mark.parametrize(("fenced_ms", "validity"), [(8_400, Validity.VALID), (9_500, Validity.INVALID)])
def test_silence_counts_from_the_election_of_the_controller(fenced_ms: int, validity: Validity) -> None:
    found = verdict(killed_broker(second_from_ms=3_000, fenced_ms=fenced_ms).history(), "broker-fenced-in-time")
    assert found.validity is validity


@pytest.mark.parametrize(
    ("also_cut", "found", "exposure"), [((), {"fenced-broker-counted-as-alive": 1}, 1), (("b1",), {}, 0)]
)
def test_only_a_broker_that_reaches_a_controller_has_to_know_who_is_fenced(
    also_cut: Sequence[str], found: dict[str, int], exposure: int
) -> None:
    tale = Tale()
    tale.health(0, 15_000)
    tale.claims("n1", 1, [float(ms) for ms in range(100, 15_000, 200)], subject="controller")
    for node in ("b2", *also_cut):
        tale.cut(node, 2_000, 12_000)
    logged(tale, "b2", Logged.FENCED, 5_200)
    view = BrokerView(BROKERS["b1"], (4, 5, 6), ())
    tale.op("view", None, node="b1", at=(8_000, 8_003), result=msgspec.to_builtins(view))
    told = verdict(tale.history(), "fencing-is-told")
    assert (told.anomalies, told.exposure) == (found, exposure)


def test_while_nobody_led_long_enough_nobody_had_to_fence() -> None:
    found = verdict(killed_broker(second_from_ms=13_000, fenced_ms=None).history(), "broker-fenced-in-time")
    assert (found.validity, found.exposure) == (Validity.UNKNOWN, 0)


def test_where_voters_hold_the_sessions_a_broker_that_was_gone_before_the_election_is_not_missed() -> None:
    """Seen on ZooKeeper: the new controller logs who is alive, and nothing of a broker whose session had ended."""
    assert FACTS.sessions is not None
    held = msgspec.structs.replace(FACTS.sessions, held_by_leader=False)
    by_voters = msgspec.structs.replace(FACTS, sessions=held)
    gone_before = killed_broker(second_from_ms=3_000, fenced_ms=None).history()
    (found,) = [v for v in brokers.check(gone_before, by_voters) if v.guarantee == "broker-fenced-in-time"]
    assert (found.validity, found.exposure) == (Validity.UNKNOWN, 0)
    gone_later = killed_broker(second_from_ms=1_500, fenced_ms=None).history()
    (found,) = [v for v in brokers.check(gone_later, by_voters) if v.guarantee == "broker-fenced-in-time"]
    assert found.anomalies == {"broker-not-fenced": 1}


def test_a_stall_excuses_a_late_fencing() -> None:
    tale = killed_broker(second_from_ms=3_000, fenced_ms=None)
    tale.sample(5_000, lag_ms=900)
    found = verdict(tale.history(), "broker-fenced-in-time")
    assert found.validity is Validity.UNKNOWN
    assert "stalled" in found.reason


def test_a_broker_that_was_not_online_need_not_be_fenced() -> None:
    tale = killed_broker(second_from_ms=3_000, fenced_ms=None)
    logged(tale, "b2", Logged.FENCED, 1_000)
    assert verdict(tale.history(), "broker-fenced-in-time").exposure == 0


def test_a_system_without_brokers_gets_no_verdict() -> None:
    history = run_fake_brokers(None, 1)
    assert brokers.check(history, Facts(system="fake", workload="log", nodes=("n1",), guarantees=())) == []


def test_without_a_controlled_shutdown_nothing_is_said_of_one() -> None:
    assert of(run_fake_brokers(None, 0), "controlled-shutdown-unnoticed") == []


@pytest.mark.parametrize(
    ("nodes", "at_ms", "accused"),
    [
        ((), 0, True),
        (("b3",), 9_900, True),
        (("b1",), 7_000, True),
        (("b1",), 10_500, False),
        (("z1",), 8_500, False),
    ],
)
def test_a_broker_that_could_not_be_let_go_may_give_up(nodes: Sequence[str], at_ms: int, accused: bool) -> None:
    """Seen in a migration: the other broker was killed just then, and was not in sync before the last try."""
    tale = Tale()
    tale.health(0, 20_000)
    tale.node("b3", NodeChange.STARTED, 1)
    logged(tale, "b3", Logged.STOPPING, 10_000, source="log")
    tale.node("b3", NodeChange.EXITED, 12_000)
    if nodes:
        span = (at_ms - 10, at_ms, at_ms + 2_000, at_ms + 2_100)
        tale.fault("kill", tuple(nodes), span, effects=Effects(stops=Stops.CERTAIN))
    told = verdict(tale.history(), "controlled-shutdown")
    assert bool(told.anomalies) is accused
    assert told.exposure == int(accused)


def test_a_snapshot_beside_the_entries_that_it_stands_for_repeats_nothing() -> None:
    history = run_fake_brokers(None, 1)
    log = history.logs["n1"]
    history.logs = {"n1": msgspec.structs.replace(log, snapshot=log.entries[-9:], snapshot_end=len(log.entries))}
    assert {name for v in brokers.check(history, FACTS) for name in v.anomalies} == set()


def test_a_process_that_registers_once_more_keeps_its_epoch() -> None:
    history = run_fake_brokers(None, 0)
    log = history.logs["n1"]
    again = (log.entries[0], *log.entries)
    history.logs = {"n1": msgspec.structs.replace(log, entries=again)}
    assert {name for v in brokers.check(history, FACTS) for name in v.anomalies} == set()


def test_who_may_be_elected_needs_a_replica_that_may_not() -> None:
    cases: dict[str, tuple[list[int], list[int] | None, int, list[int], Validity]] = {
        "one in sync": ([4, 5], None, 5, [5], Validity.VALID),
        "one that is eligible": ([], [5], 5, [5], Validity.VALID),
        "one that is neither": ([4], [5], 6, [6], Validity.INVALID),
        "all in sync": ([4, 5, 6], None, 5, [4, 5, 6], Validity.UNKNOWN),
    }
    for name, (in_sync, eligible, leader, after, wanted) in cases.items():
        history = partition_log(in_sync, eligible, {"leader": leader, "isr": after})
        assert verdict(history, "leaders-are-eligible").validity is wanted, name


@pytest.mark.parametrize(
    ("adding", "leads", "change", "wanted"),
    [
        # A reassignment begins: only a replica in sync may lead.
        ([], 4, {"leader": 4, "replicas": [4, 5, 6, 7], "adding_replicas": [7]}, Validity.VALID),
        ([], 4, {"leader": 7, "replicas": [4, 5, 6, 7], "adding_replicas": [7]}, Validity.INVALID),
        # It takes replicas away.
        ([], 4, {"leader": 5, "replicas": [5, 6], "isr": [5]}, Validity.VALID),
        ([], 4, {"leader": 6, "replicas": [5, 6], "isr": [6]}, Validity.INVALID),
        # It ends: the added ones are all in sync, by the word of the leader before.
        ([6, 7], 4, {"leader": 7, "replicas": [6, 7], "adding_replicas": [], "isr": [6, 7]}, Validity.VALID),
        ([6, 7], 4, {"leader": 7, "replicas": [6, 7], "adding_replicas": [], "isr": [7]}, Validity.INVALID),
        ([6, 7], -1, {"leader": 7, "replicas": [6, 7], "adding_replicas": [], "isr": [6, 7]}, Validity.INVALID),
        ([6, 7], 4, {"leader": 7, "isr": [6, 7]}, Validity.INVALID),
    ],
)
def test_who_may_be_elected_in_a_reassignment(
    adding: list[int], leads: int, change: dict[str, Any], wanted: Validity
) -> None:
    history = partition_log([4, 5], None, change, adding=adding, leads=leads)
    judged = verdict(history, "leaders-are-eligible")
    assert judged.validity is wanted
    if wanted is Validity.VALID:
        assert "1 of them came with other replicas" in judged.reason


@pytest.mark.parametrize(
    ("leads", "change", "wanted"),
    [
        (4, {"leader": 6, "replicas": [6, 5], "removing_replicas": [], "isr": [5, 6]}, Validity.VALID),
        (4, {"leader": 6, "replicas": [6, 5], "removing_replicas": [], "isr": [6]}, Validity.INVALID),
        (-1, {"leader": 6, "replicas": [6, 5], "removing_replicas": [], "isr": [5, 6]}, Validity.INVALID),
        (4, {"leader": 6, "replicas": [6, 5], "isr": [5, 6]}, Validity.INVALID),
    ],
)
def test_who_may_be_elected_when_a_removed_leader_says_that_all_others_are_in_sync(
    leads: int, change: dict[str, Any], wanted: Validity
) -> None:
    """As 4.3.1 does in the answer to AlterPartition (seen on containers)."""
    history = partition_log([4, 5], None, change, removing=[4], leads=leads)
    assert verdict(history, "leaders-are-eligible").validity is wanted


def test_a_replica_that_is_taken_away_need_not_stay_eligible() -> None:
    for replicas, wanted in (([4, 5], Validity.VALID), ([4, 5, 6], Validity.INVALID)):
        change = {"leader": 4, "isr": [4], "replicas": replicas, "eligible_leader_replicas": [5]}
        history = partition_log([4, 5, 6], [], change)
        assert verdict(history, "eligible-replicas-kept").validity is wanted, replicas


def test_the_last_known_leader_may_come_back_where_nobody_else_may_lead() -> None:
    """As a killed broker does that has the one replica of a partition (seen on 4.3.1)."""
    for in_sync, leader, wanted in (([], 4, Validity.VALID), ([], 5, Validity.INVALID), ([6], 4, Validity.INVALID)):
        history = partition_log(in_sync, [], {"leader": leader, "isr": [leader]}, last_known=[4])
        assert verdict(history, "leaders-are-eligible").validity is wanted, (in_sync, leader)


def test_who_leaves_too_few_in_sync_stays_eligible_unless_it_comes_back_from_an_unclean_end() -> None:
    change: dict[str, Any] = {"leader": 4, "isr": [4], "eligible_leader_replicas": []}
    for fields, returns, wanted in (
        (change | {"eligible_leader_replicas": [5]}, None, Validity.VALID),
        (change, None, Validity.INVALID),
        (change, 5, Validity.VALID),
        (change, 6, Validity.INVALID),
        (change | {"isr": [4, 5]}, None, Validity.UNKNOWN),
    ):
        history = partition_log([4, 5], [], fields, returns=returns)
        assert verdict(history, "eligible-replicas-kept").validity is wanted, (fields, returns)
    without = partition_log([4, 5], [], change, level=0)
    assert verdict(without, "eligible-replicas-kept").validity is Validity.UNKNOWN


def test_an_unclean_election_is_no_loss_of_eligible_replicas_too() -> None:
    """Its leader's log is the partition's from then on (seen on 4.3.1 with unclean.leader.election.enable=true)."""
    unclean = {"leader": 6, "isr": [6], "eligible_leader_replicas": []}
    history = partition_log([4], [5], unclean)
    assert verdict(history, "leaders-are-eligible").validity is Validity.INVALID
    assert verdict(history, "eligible-replicas-kept").validity is Validity.UNKNOWN
    clean = partition_log([4], [5, 6], unclean)
    assert verdict(clean, "leaders-are-eligible").validity is Validity.UNKNOWN
    assert verdict(clean, "eligible-replicas-kept").validity is Validity.INVALID, "an eligible leader has every record"


def partition_log(
    in_sync: list[int],
    eligible: list[int] | None,
    change: Mapping[str, Any],
    *,
    level: int = 1,
    returns: int | None = None,
    last_known: Sequence[int] = (),
    adding: Sequence[int] = (),
    removing: Sequence[int] = (),
    leads: int = 4,
) -> History:
    """One partition of brokers 4 to 6, two of which appends need, and one change of it."""
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("feature-level", {"name": "eligible.leader.replicas.version", "feature_level": level}),
        ("topic", {"topic_id": "t", "name": "log"}),
        ("config", {"resource_type": 2, "resource_name": "log", "name": "min.insync.replicas", "value": "2"}),
        ("register-broker", {"broker_id": 4, "broker_epoch": 1}),
        (
            "partition",
            {
                "topic_id": "t",
                "partition_id": 0,
                "replicas": [4, 5, 6],
                "adding_replicas": list(adding),
                "removing_replicas": list(removing),
                "isr": in_sync,
                "eligible_leader_replicas": eligible,
                "last_known_elr": list(last_known),
                "leader": leads,
            },
        ),
        ("partition-change", {"topic_id": "t", "partition_id": 0, **change}),
    ]
    if returns is not None:
        kinds.append(("register-broker", {"broker_id": returns, "broker_epoch": 9}))
    history = Tale().history()
    entries = tuple(LogEntry(offset=i, epoch=1, type=kind, fields=fields) for i, (kind, fields) in enumerate(kinds))
    history.logs = {"n1": NodeLog(node="n1", start_offset=0, entries=entries)}
    return history


@pytest.mark.parametrize(
    ("version", "replicas", "wanted"),
    [
        (1, "4,5", Validity.VALID),
        (1, "4,6", Validity.INVALID),
        (2, "4,5", Validity.INVALID),
        (None, "4,6", Validity.UNKNOWN),
    ],
)
@pytest.mark.parametrize("mode", ["kraft", "zookeeper", "migrated", "changed-by-the-copy"])
def test_what_a_leader_was_told_of_in_sync_replicas_stands_in_the_log(
    version: int | None, replicas: str, wanted: Validity, mode: str
) -> None:
    tale = Tale()
    tale.tell(
        LogEvent,
        100,
        node="b1",
        incarnation=0,
        change=Logged.IN_SYNC,
        asked_ns=0,
        source="log",
        key="log-0",
        position=version,
        detail=replicas,
    )
    history = tale.history()
    place = {"topic_id": "t", "partition_id": 0}
    kinds: tuple[tuple[str, dict[str, Any]], ...] = (
        ("topic", {"topic_id": "t", "name": "log"}),
        ("partition", {**place, "isr": [4, 5, 6], "partition_epoch": 0}),
        ("partition-change", {**place, "isr": [4, 5]}),
    )
    if mode == "migrated":
        # Copied from ZooKeeper, where the partition had this version already.
        kinds = (*((f"copied-{kind}", fields) for kind, fields in kinds[:2]), kinds[2])
    if mode == "changed-by-the-copy":
        # The copy itself gave the partition a leader, which raised its version.
        kinds = (kinds[0], ("copied-partition", {**place, "isr": [4, 5, 6], "partition_epoch": -1}), *kinds[1:])
        kinds = (*kinds[:2], ("copied-partition-change", {**place, "leader": 4}), kinds[3])
    if mode == "zookeeper":
        kinds = tuple(
            ("partition-state", {"topic": "log", "partition": 0, "isr": isr, "version": at})
            for at, isr in enumerate(([4, 5, 6], [4, 5]))
        )
    entries = tuple(LogEntry(offset=i, epoch=1, type=kind, fields=fields) for i, (kind, fields) in enumerate(kinds))
    history.logs = {n: NodeLog(node=n, start_offset=0, entries=entries) for n in FACTS.electorate}
    assert verdict(history, "in-sync-changes-are-kept").validity is wanted
    if version == 2:
        # A voter whose log was not kept may have what lies beyond the others.
        history = tale.history()
        history.logs = {n: NodeLog(node=n, start_offset=0, entries=entries) for n in FACTS.electorate[1:]}
        assert verdict(history, "in-sync-changes-are-kept").validity is Validity.UNKNOWN


@pytest.mark.parametrize(("renewed_ms", "wanted"), [(50, Validity.INVALID), (150, Validity.UNKNOWN)])
def test_what_was_logged_before_a_new_disk_may_have_gone_with_the_old_one(renewed_ms: float, wanted: Validity) -> None:
    tale = Tale()
    own: dict[str, Any] = {"change": Logged.IN_SYNC, "source": "log", "key": "log-0", "position": 1, "detail": "4,6"}
    tale.tell(LogEvent, 100, node="b1", incarnation=0, asked_ns=0, **own)
    at = (renewed_ms, renewed_ms + 1, renewed_ms + 2, renewed_ms + 3)
    tale.fault("migrate", (FACTS.electorate[0],), at, effects=Effects(), details={NEW_DISK: True})
    history = tale.history()
    place = {"topic_id": "t", "partition_id": 0}
    kinds: tuple[tuple[str, dict[str, Any]], ...] = (
        ("topic", {"topic_id": "t", "name": "log"}),
        ("partition", {**place, "isr": [4, 5, 6], "partition_epoch": 1}),
    )
    entries = tuple(LogEntry(offset=i, epoch=1, type=kind, fields=fields) for i, (kind, fields) in enumerate(kinds))
    history.logs = {n: NodeLog(node=n, start_offset=0, entries=entries) for n in FACTS.electorate}
    assert verdict(history, "in-sync-changes-are-kept").validity is wanted


@pytest.mark.parametrize(
    ("states", "next_version", "next_ms", "wanted"),
    [
        ([[4, 5, 6], [4]], None, None, Validity.INVALID),
        ([[4, 5, 6], [4], [4, 5]], 2, 9_000, Validity.INVALID),
        # The leader took up the next version less than a second after the append.
        ([[4, 5, 6], [4], [4, 5]], 2, 5_900, Validity.UNKNOWN),
        # It may have learned of version 2 by the metadata, without a line.
        ([[4, 5, 6], [4], [4, 5], [4]], 3, 9_000, Validity.UNKNOWN),
        # No log has the version of its line, or not all of those between two lines.
        ([], 2, 9_000, Validity.UNKNOWN),
        ([[4, 5, 6], [4], None, [4]], 4, 9_000, Validity.UNKNOWN),
    ],
)
def test_an_append_is_acknowledged_while_too_few_replicas_are_in_sync(
    states: list[list[int] | None], next_version: int | None, next_ms: int | None, wanted: Validity
) -> None:
    tale = Tale()
    lines = [(1_000, 1, "4"), *([(next_ms, next_version, "4,5")] if next_ms is not None else [])]
    for at_ms, version, replicas in lines:
        tale.tell(
            LogEvent,
            at_ms,
            node="b1",
            incarnation=0,
            change=Logged.IN_SYNC,
            asked_ns=(at_ms - 50) * MS,
            source="log",
            key="log-0",
            position=version,
            detail=replicas,
        )
    tale.op("append", node="b1", key="p0", value=7, at=(5_000, 5_010))
    tale.op("append", node="b1", key="p0", value=8, at=(12_000, 12_010))
    history = tale.history()
    entries = tuple(
        LogEntry(
            offset=at,
            epoch=1,
            type="partition-state",
            fields={"topic": "log", "partition": 0, "isr": isr, "version": at},
        )
        for at, isr in enumerate(states)
        if isr is not None
    )
    history.logs = {"z1": NodeLog(node="z1", start_offset=0, entries=entries)}
    assert verdict(history, "appends-need-replicas").validity is wanted


@pytest.mark.parametrize(("states", "wanted"), [([[4, 5], [4]], Validity.INVALID), ([[4], [4, 5]], Validity.UNKNOWN)])
def test_a_leader_that_refused_once_knows_that_too_few_are_in_sync(states: list[list[int]], wanted: Validity) -> None:
    """Its log has no line about version 1, of which it learned by the metadata."""
    tale = Tale()
    tale.op("append", node="b1", key="p0", value=6, at=(900, 905))
    tale.op("append", node="b1", key="p0", value=7, at=(1_000, 1_005), type=Outcome.FAIL, error="not-enough-replicas")
    # Another leader's answers say nothing about b1.
    tale.op("append", node="b2", key="p0", value=8, at=(2_000, 2_005))
    tale.op("append", node="b1", key="p0", value=9, at=(3_000, 3_005))
    tale.tell(
        LogEvent,
        9_000,
        node="b1",
        incarnation=0,
        change=Logged.IN_SYNC,
        asked_ns=8_950 * MS,
        source="log",
        key="log-0",
        position=2,
        detail="4,5,6",
    )
    history = tale.history()
    kinds = enumerate((*states, [4, 5, 6]))
    entries = tuple(
        LogEntry(
            offset=at,
            epoch=1,
            type="partition-state",
            fields={"topic": "log", "partition": 0, "isr": isr, "version": at},
        )
        for at, isr in kinds
    )
    history.logs = {"z1": NodeLog(node="z1", start_offset=0, entries=entries)}
    found = verdict(history, "appends-need-replicas")
    assert (found.validity, found.exposure) == (wanted, 1 if wanted is Validity.INVALID else 0)
