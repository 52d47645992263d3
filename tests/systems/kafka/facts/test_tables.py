"""The tables of facts that only Kafka's runs fill: how far nodes lagged, and how in-sync replicas changed."""

from typing import Any

from fencepost.harness.history import BeliefEvent, Claim, History, LogEntry, NodeLog, PhaseEvent, PhaseName
from fencepost.harness.plugins import registry
from tests.checkers.derived.test_derive import facts, recorded


def rows(history: History, name: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = registry.derive()(history, facts())[name].to_pylist()
    return listed


def test_every_run_has_them() -> None:
    assert rows(History([]), "lags") == rows(History([]), "in_sync") == []


def test_the_largest_lag_of_each_node_is_what_the_leader_said() -> None:
    own = {
        "subject": "raft",
        "node": "n1",
        "incarnation": 0,
        "claims": Claim.YES,
        "asked_ns": 0,
        "source": "describe-quorum",
    }
    history = recorded(
        (5, BeliefEvent, {**own, "detail": "behind 2=90"}),
        (10, PhaseEvent, {"phase": PhaseName.MAIN}),
        (20, BeliefEvent, {**own, "detail": "behind 2=3 3=1"}),
        (30, BeliefEvent, {**own, "detail": "behind 3=12 99=5"}),
        (35, BeliefEvent, {**own, "claims": Claim.NO, "detail": "not leader"}),
    )
    found = [(row["node"], row["offsets_max"], row["leader"], row["answers"]) for row in rows(history, "lags")]
    assert found == [("n2", 3, "n1", 1), ("n3", 12, "n1", 2)]


def test_in_sync_replicas_change_as_the_longest_log_says() -> None:
    entries: tuple[tuple[str, dict[str, Any]], ...] = (
        ("topic", {"name": "log", "topic_id": "A"}),
        ("partition", {"partition_id": 0, "topic_id": "A", "isr": [1, 2, 3], "leader": 1}),
        ("partition-change", {"partition_id": 0, "topic_id": "A", "isr": [1, 3]}),
        ("partition-change", {"partition_id": 0, "topic_id": "A", "isr": [1], "eligible_leader_replicas": [3]}),
        ("partition-change", {"partition_id": 0, "topic_id": "A", "leader": -1, "isr": []}),
        ("topic", {"name": "__consumer_offsets", "topic_id": "B"}),
        ("partition", {"partition_id": 0, "topic_id": "B", "isr": [1], "leader": 1}),
        ("partition-state", {"topic": "zk", "partition": 4, "isr": [9, 2], "leader": 2}),
    )
    own = tuple(LogEntry(offset=i, epoch=7, type=kind, fields=fields) for i, (kind, fields) in enumerate(entries))
    history = History([])
    history.logs = {
        "n1": NodeLog(node="n1", start_offset=0, entries=own),
        "n2": NodeLog(node="n2", start_offset=0, entries=own[:3]),
    }
    found = [
        (r["topic"], r["partition"], r["offset"], r["leader"], r["in_sync"], r["eligible"])
        for r in rows(history, "in_sync")
    ]
    assert found == [
        ("log", 0, 1, "n1", "n1 n2 n3", ""),
        ("log", 0, 2, "n1", "n1 n3", ""),
        ("log", 0, 3, "n1", "n1", "n3"),
        ("log", 0, 4, "", "", "n3"),
        ("zk", 4, 7, "n2", "n2 9", ""),
    ]
