"""The tables that only pages of Kafka's runs show."""

import msgspec

from fencepost.systems.kafka.facts.replicas import IN_SYNC, LAGS
from fencepost.systems.kafka.report.in_sync import in_sync_table
from fencepost.systems.kafka.report.lags import lags_tables
from tests.report import sample


def test_the_replica_that_stood_alone_is_named() -> None:
    case = sample.zookeeper_invalid()
    assert in_sync_table(case) is None
    first = {
        "topic": "log",
        "partition": 0,
        "offset": 1,
        "epoch": 1,
        "leader": "b1",
        "in_sync": "b1 b2",
        "eligible": "",
    }
    states = (
        first,
        {**first, "in_sync": "b2", "leader": "b2"},
        {**first, "in_sync": "", "leader": "", "eligible": "b2"},
    )
    table = IN_SYNC.of_rows(list(states))
    made = in_sync_table(msgspec.structs.replace(case, derived={**case.derived, IN_SYNC.name: table}))
    assert made is not None
    assert [tuple(map(str, row)) for row in made.rows] == [("log-0", "2", "b1, b2", "0", "b2", "1", "b2")]


def test_how_far_nodes_were_behind_is_shown_where_a_leader_said_so() -> None:
    case = sample.zookeeper_invalid()
    assert not lags_tables(case)
    row = {"node": "b1", "offsets_max": 12, "at_ns": 2_500_000_000, "leader": "n2", "answers": 7, "event": 3}
    (made,) = lags_tables(msgspec.structs.replace(case, derived={**case.derived, LAGS.name: LAGS.of_rows([row])}))
    assert [str(cell) for cell in made.rows[0]] == ["b1", "12 offsets", "2.500 s", "n2", "7"]
