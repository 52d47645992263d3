"""Whether both stores of a migrating Kafka hold the same topics: found, and not accused."""

from typing import Any

import pytest

from fencepost.harness.history import History, LogEntry, MigrationEvent, NodeLog
from fencepost.harness.verdict import Validity, Verdict
from fencepost.systems.kafka.bridge import KAFKA_BRIDGE
from fencepost.systems.kafka.checkers.metadata import both_stores
from tests.checkers.build import Tale, facts

KEEPERS, CONTROLLERS = ("z1", "z2", "z3"), ("c1", "c2", "c3")
FACTS = facts(
    nodes=(*KEEPERS, *CONTROLLERS),
    electorate=(*KEEPERS, *CONTROLLERS),
    guarantees=tuple(g for g in KAFKA_BRIDGE.promises() if g.name in both_stores.GUARANTEES),
)
CLAIM = {"node": "c1", "broker": 4, "controller_epoch": 2, "version": 2, "kraft_epoch": 1, "session": "c1"}


def kraft_log(*records: tuple[str, dict[str, Any]]) -> tuple[LogEntry, ...]:
    return tuple(LogEntry(offset=at, epoch=1, type=kind, fields=fields) for at, (kind, fields) in enumerate(records))


def created(name: str, topic_id: str = "", copied: str = "") -> list[tuple[str, dict[str, Any]]]:
    """The records of a topic with one partition."""
    topic_id = topic_id or name
    partition = {
        "topic_id": topic_id,
        "partition_id": 0,
        "leader": 7,
        "leader_epoch": 0,
        "isr": [7],
        "partition_epoch": 0,
    }
    return [(f"{copied}topic", {"name": name, "topic_id": topic_id}), (f"{copied}partition", partition)]


def znodes(name: str, word: str = "create") -> list[tuple[str, dict[str, Any]]]:
    """The transactions in which KRaft makes or deletes a topic's znodes."""
    topic = f"/brokers/topics/{name}"
    state = f"{topic}/partitions/0/state"
    return [("copied-multi", {"changes": ["set /migration", f"{word} {path}"]}) for path in (topic, state)]


def history_of(
    kraft: tuple[LogEntry, ...], zookeeper: list[tuple[str, dict[str, Any]]], *phases: str, start: int = 0
) -> History:
    tale = Tale()
    for number, phase in enumerate(phases or ("hybrid",)):
        tale.tell(MigrationEvent, 1_000 * (number + 1), phase=phase, length_ns=0, text="")
    tale.op("describe", "k1", at=(29_990, 30_000))
    history = tale.history()
    written = tuple(
        LogEntry(offset=zxid, epoch=0, type=kind, fields={"session": "c1", **fields})
        for zxid, (kind, fields) in enumerate([("election", CLAIM), *zookeeper])
    )
    history.logs = {n: NodeLog(node=n, start_offset=0, entries=written, of="zookeeper") for n in KEEPERS}
    history.logs |= {n: NodeLog(node=n, start_offset=start, entries=kraft, of="kraft") for n in CONTROLLERS}
    return history


def reached(offset: int) -> tuple[str, dict[str, Any]]:
    return "set", {"path": "/migration", "migrated_to": offset}


def told(in_zookeeper: str, in_kraft: str) -> History:
    """Both stores have these topics, and /migration names the last offset of KRaft's log."""
    kraft = kraft_log(*(record for name in in_kraft.split() for record in created(name)))
    made = [transaction for name in in_zookeeper.split() for transaction in znodes(name)]
    return history_of(kraft, [*made, reached(len(kraft) - 1)])


def judged(history: History) -> Verdict:
    (verdict,) = both_stores.check(history, FACTS)
    return verdict


@pytest.mark.parametrize(
    ("in_zookeeper", "in_kraft", "found"),
    [
        ("t1 t2", "t1 t2", {}),
        ("t1", "t1 t2", {"missing-in-zookeeper": 2}),
        ("t1 t2", "t1", {"left-in-zookeeper": 2}),
    ],
)
def test_a_topic_and_its_partition_are_in_both_or_in_none(
    in_zookeeper: str, in_kraft: str, found: dict[str, int]
) -> None:
    verdict = judged(told(in_zookeeper, in_kraft))
    assert (verdict.anomalies, verdict.exposure) == (found, 4)
    if found:
        assert "t2" in verdict.witnesses[0].steps[1]


def test_a_partition_without_its_state_is_missing_though_its_topic_is_there() -> None:
    """Seen on 3.9.2: the claim came between the transactions that make a topic."""
    kraft = kraft_log(*created("t1", copied="copied-"))
    verdict = judged(history_of(kraft, [("topic", {"name": "t1"}), reached(1)]))
    assert verdict.anomalies == {"missing-in-zookeeper": 1}
    assert "partition t1-0" in verdict.witnesses[0].steps[1]


def test_a_topic_that_is_made_again_under_its_name_must_be_made_again_in_zookeeper() -> None:
    """Seen on 3.9.2: a new controller found the old topic's znode, and deleted it after it had failed to make it."""
    records = [*created("t1", "old"), ("remove-topic", {"topic_id": "old"}), *created("t1", "new")]
    kraft = kraft_log(*records)
    synchronised = [*znodes("t1"), reached(1), ("refused", {"errors": [-110]}), *znodes("t1", "delete")]
    assert judged(history_of(kraft, [*synchronised, reached(4)])).anomalies == {"missing-in-zookeeper": 2}
    assert judged(history_of(kraft, [*synchronised, *znodes("t1"), reached(4)])).validity is Validity.VALID


def test_what_a_broker_in_zookeeper_mode_made_and_deleted_itself_is_read_from_its_own_transactions() -> None:
    state = {"topic": "t1", "partition": 0, "version": 0, "leader": 7, "leader_epoch": 0, "isr": [7]}
    made: list[tuple[str, dict[str, Any]]] = [("topic", {"name": "t1"}), ("partition-state", state)]
    kraft = kraft_log(*created("t1", copied="copied-"), ("remove-topic", {"topic_id": "t1"}))
    assert judged(history_of(kraft, [*made, reached(1)])).validity is Validity.VALID
    gone = [("delete", {"path": path}) for path in ("/brokers/topics/t1/partitions/0/state", "/brokers/topics/t1")]
    assert judged(history_of(kraft, [*made, reached(1), *gone, reached(2)])).anomalies == {}
    assert judged(history_of(kraft, [*made, reached(1), reached(2)])).anomalies == {"left-in-zookeeper": 2}


def of_partition(leader: int, epoch: int, *in_sync: int) -> dict[str, Any]:
    state = {"topic": "t1", "partition": 0, "leader": leader, "leader_epoch": epoch, "isr": list(in_sync)}
    change = "set /brokers/topics/t1/partitions/0/state"
    return {"changes": ["set /migration", change], "wrote": {"type": "partition-state", "version": 1, **state}}


def of_settings(**settings: str) -> dict[str, Any]:
    changes = ["set /migration", "set /config/topics/t1"]
    return {"changes": changes, "wrote": {"type": "configs", "resource_name": "t1", "settings": settings}}


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ([of_partition(8, 1, 8, 7), of_settings(a="1", b="2")], {}),
        ([of_partition(7, 0, 7), of_settings(a="1", b="2")], {"old-in-zookeeper": 1}),
        ([of_partition(8, 1, 8), of_settings(a="1")], {"old-in-zookeeper": 2}),
        ([of_partition(8, 1, 7, 8)], {"missing-in-zookeeper": 1}),
        ([of_partition(8, 1, 7, 8), of_settings(a="1", b="2"), of_settings()], {"missing-in-zookeeper": 1}),
    ],
)
def test_settings_and_the_state_of_partitions_are_compared(
    written: list[dict[str, Any]], found: dict[str, int]
) -> None:
    """Seen on 3.9.2: of an event that failed in ZooKeeper, no partition's state came there."""
    change = {"topic_id": "t1", "partition_id": 0, "leader": 8, "isr": [7, 8]}
    settings = [
        ("config", {"resource_type": 2, "resource_name": "t1", "name": name, "value": value})
        for name, value in (("a", "1"), ("b", "2"))
    ]
    kraft = kraft_log(*created("t1"), ("partition-change", change), *settings)
    history = history_of(kraft, [*znodes("t1"), *(("copied-multi", fields) for fields in written), reached(4)])
    verdict = judged(history)
    assert verdict.anomalies == found
    if found == {"old-in-zookeeper": 1}:
        assert "leader 8, leader_epoch 1, isr [7, 8] in KRaft, leader 7" in verdict.witnesses[0].steps[1]


def test_other_kinds_of_metadata_are_compared() -> None:
    """Seen on 3.6.1: a quota of a user whose name is not plain never comes to ZooKeeper (KAFKA-16222)."""
    entity = [{"entity_type": "user", "entity_name": "a b"}]
    kraft = kraft_log(("client-quota", {"entity": entity, "key": "producer_byte_rate", "value": 7.0}))
    right, wrong = (
        ("set", {"path": path, "content": {"config": {"producer_byte_rate": "7.0"}}})
        for path in ("/config/users/a%20b", "/config/users/a b")
    )
    assert judged(history_of(kraft, [right, reached(0)])).validity is Validity.VALID
    verdict = judged(history_of(kraft, [wrong, reached(0)]))
    assert verdict.anomalies == {"missing-in-zookeeper": 1, "left-in-zookeeper": 1}
    assert "/config/users/a%20b" in " ".join(step for witness in verdict.witnesses for step in witness.steps)


def test_the_witness_names_only_what_differs() -> None:
    settings = [("config", {"resource_type": 2, "resource_name": "t1", "name": n, "value": "1"}) for n in ("a", "b")]
    held = of_settings(a="1", b="2")
    verdict = judged(history_of(kraft_log(*created("t1"), *settings), [*znodes("t1"), ("multi", held), reached(3)]))
    assert verdict.witnesses[0].steps[1] == "settings of t1: b 1 in KRaft, b 2 in ZooKeeper."


def test_the_message_counts_what_was_compared_by_its_kind() -> None:
    verdict = judged(told("t1 t2", "t1 t2"))
    assert verdict.reason.endswith(
        "4 objects are the same in both stores at the last of 1 offsets in /migration: 2 partitions, 2 topics"
    ), verdict.reason


def test_of_a_znode_whose_content_was_not_kept_only_the_presence_counts() -> None:
    """Logs that were kept by earlier versions name the znode and not what was written."""
    change = {"topic_id": "t1", "partition_id": 0, "leader": 8, "isr": [7, 8]}
    kraft = kraft_log(*created("t1"), ("partition-change", change))
    fields = {"changes": ["set /migration", "set /brokers/topics/t1/partitions/0/state"]}
    history = history_of(kraft, [*znodes("t1"), ("copied-multi", fields), reached(2)])
    assert judged(history).validity is Validity.VALID


def test_the_witness_says_since_when_the_stores_differ() -> None:
    kraft = kraft_log(*created("t1"), *created("t2"), *created("t3"))
    verdict = judged(history_of(kraft, [*znodes("t1"), reached(1), reached(3), *znodes("t3"), reached(5)]))
    assert verdict.anomalies == {"missing-in-zookeeper": 2}
    assert verdict.witnesses[0].steps[0].startswith("Transaction 0x4 ")
    assert "offset 3" in verdict.witnesses[0].steps[0]


def test_what_the_next_synchronisation_mended_is_not_accused() -> None:
    kraft = kraft_log(*created("t1"), *created("t2"))
    verdict = judged(history_of(kraft, [*znodes("t2"), reached(1), *znodes("t1"), reached(3)]))
    assert (verdict.validity, verdict.exposure) == (Validity.VALID, 4)


def test_what_stands_beyond_the_offset_is_not_compared_yet() -> None:
    kraft = kraft_log(*created("t1"), *created("t2"))
    assert judged(history_of(kraft, [*znodes("t1"), reached(1)])).validity is Validity.VALID


def test_an_offset_that_the_kept_log_does_not_reach_is_not_compared() -> None:
    verdict = judged(history_of(kraft_log(*created("t1")), [*znodes("t1"), reached(1), *znodes("t2"), reached(9)]))
    assert (verdict.anomalies, verdict.figures.others["offsets"]) == ({}, 1)


def test_an_aborted_transaction_of_kraft_makes_nothing() -> None:
    kraft = kraft_log(("begin-transaction", {"name": "x"}), *created("t1"), ("abort-transaction", {}), *created("t2"))
    assert judged(history_of(kraft, [*znodes("t2"), reached(5)])).validity is Validity.VALID


def test_without_an_offset_nothing_was_compared() -> None:
    verdict = judged(history_of(kraft_log(*created("t1")), []))
    assert (verdict.validity, verdict.exposure) == (Validity.UNKNOWN, 0)


def test_other_runs_are_not_judged() -> None:
    kraft = kraft_log(*created("t1"))
    assert both_stores.check(history_of(kraft, [reached(1)], "provisioned"), FACTS) == []
    assert both_stores.check(history_of(kraft, [reached(1)], "hybrid", "rolled-back"), FACTS) == []
    assert both_stores.check(history_of(kraft, [reached(1)], start=5), FACTS) == [], "the log's beginning is missing"
    assert both_stores.check(Tale().history(), FACTS) == []
