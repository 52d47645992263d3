"""The picture of brokers and in-sync replicas: what the logs of controllers and leaders tell, as stretches of time."""

from typing import Any

import msgspec

from fencepost.harness.history import LogEvent, Logged
from fencepost.harness.verdict import Validity
from fencepost.systems.kafka.report.brokers import broker_states, brokers, in_sync
from tests.fakes.kept_brokers import FACTS, run_fake_brokers
from tests.report.sample import case

S = 10**9


def line(at_s: int, change: Logged, **fields: Any) -> LogEvent:
    given = {"node": "b1", "incarnation": 0, "asked_ns": at_s * S - 1, "source": "log", **fields}
    return LogEvent(index=at_s, time_ns=at_s * S, change=change, **given)


def test_a_change_that_every_controller_tells_of_counts_once() -> None:
    told = [
        line(1, Logged.REGISTERED, source="n1's log"),
        line(2, Logged.UNFENCED, source="n1's log"),
        line(3, Logged.UNFENCED, source="n2's log"),
        line(4, Logged.FENCED, node="b2"),
        line(5, Logged.STOPPING),
        line(6, Logged.MAY_STOP),
        line(7, Logged.FENCED, source="n1's log"),
    ]
    stays = broker_states(told, "b1", 9 * S)
    assert [(s.what, s.whole, s.from_ns // S, s.to_ns // S) for s in stays] == [
        ("fenced", False, 1, 2), ("online", True, 2, 5), ("stopping", False, 5, 7), ("fenced", False, 7, 9)
    ]  # fmt: skip


def test_in_sync_replicas_have_the_names_of_their_brokers() -> None:
    told = [
        line(1, Logged.IN_SYNC, key="log-0", detail="4,5"),
        line(2, Logged.IN_SYNC, key="log-0", detail="5,4"),
        line(3, Logged.IN_SYNC, key="log-0", detail="5"),
        line(4, Logged.IN_SYNC, key="log-1", detail="4"),
    ]
    stays = in_sync(told, {"4": "b1", "5": "b2"}, 9 * S)
    assert {key: [(s.what, s.whole) for s in own] for key, own in stays.items()} == {
        "log-0": [("b1, b2", True), ("b2", False)],
        "log-1": [("b1", True)],
    }


def test_brokers_are_drawn_where_the_system_has_any() -> None:
    history = run_fake_brokers(None, 1)
    sample = case(history, (), Validity.VALID, "kept", facts=FACTS)
    drawn = brokers(sample)
    assert drawn is not None
    assert "stopping, 14." in drawn.picture
    assert drawn.folded.endswith("in the course of the run: 1; drawn are 1.")
    assert brokers(msgspec.structs.replace(sample, facts=msgspec.structs.replace(FACTS, sessions=None))) is None
