"""Views of partitions against each other, in short stories. Times are in ms."""

from typing import Any

import pytest

from fencepost.harness.history import NodeChange, PhaseName
from fencepost.harness.verdict import Validity, Verdict
from fencepost.systems.kafka.checkers.metadata import partition_states
from tests.checkers.build import Tale, facts, ns, only

ALL = (1, 2, 3)
FACTS = facts(nodes=("b1", "b2", "b3"), workload="partition-states", options={"fresh": "2s", "fenced": "6s"})


class Told(Tale):
    """Views of one partition, p0."""

    def view(
        self, node: str, epoch: int, at_ms: float, *, leader: int = 1, live: tuple[int, ...] = ALL, took_ms: float = 1
    ) -> None:
        says = [int(node[1:]), list(live), [[0, leader, epoch, list(ALL)]]]
        self.op("view", None, at=(at_ms, at_ms + took_ms), node=node, result=says)

    def judged(self, guarantee: str) -> Verdict:
        return only(partition_states.check(self.history(), FACTS), guarantee)


def late(until_ms: int, live: tuple[int, ...] = ALL) -> Told:
    """b1 names epoch 1 at 1 s; b2 names epoch 0 until `until_ms`, while b1 counts `live` as alive."""
    told = Told()
    told.view("b2", 0, 0)
    told.view("b1", 1, 1000)
    for at_ms in range(1500, until_ms + 1, 500):
        told.view("b1", 1, at_ms, live=live)
        told.view("b2", 0, at_ms + 100)
    return told


def test_two_brokers_that_name_one_leader_of_an_epoch_agree() -> None:
    told = Told()
    told.view("b1", 1, 0)
    told.view("b2", 1, 10)
    verdict = told.judged("partition-states-agree")
    assert (verdict.validity, verdict.exposure) == (Validity.VALID, 1)


def test_two_leaders_of_one_epoch_are_a_violation_and_no_leader_is_none() -> None:
    told = Told()
    told.view("b1", 1, 0, leader=1)
    told.view("b2", 1, 10, leader=-1)
    assert told.judged("partition-states-agree").validity is Validity.UNKNOWN
    told.view("b2", 1, 20, leader=2)
    verdict = told.judged("partition-states-agree")
    assert verdict.anomalies == {"two-leaders-of-one-epoch": 1}
    assert verdict.witnesses[0].nodes == ("b1", "b2")


def test_an_earlier_epoch_of_the_same_server_went_back() -> None:
    told = Told()
    told.view("b1", 2, 0)
    told.view("b1", 1, 10)
    assert told.judged("partition-states-forward").anomalies == {"partition-state-went-back": 1}


@pytest.mark.parametrize("between", ["restart", "overlap", "other broker"])
def test_an_earlier_epoch_is_no_way_back_after_a_restart_while_asked_or_elsewhere(between: str) -> None:
    told = Told()
    told.view("b1", 2, 0, took_ms=30 if between == "overlap" else 1)
    if between == "restart":
        told.node("b1", NodeChange.STARTED, 5, incarnation=1)
    told.view("b2" if between == "other broker" else "b1", 1, 10)
    assert told.judged("partition-states-forward").validity is Validity.UNKNOWN


def test_an_answer_within_the_bound_is_fresh_and_one_beyond_it_is_stale() -> None:
    within = late(3000).judged("partition-states-fresh")
    # The last one is asked 3.1 s - 1.001 s after epoch 1 was named, which is too late by 99 ms.
    assert (within.validity, within.figures.plain()["late_ns_max"]) == (Validity.INVALID, ns(2099))
    assert late(2500).judged("partition-states-fresh").validity is Validity.UNKNOWN
    fine = late(2500)
    fine.view("b2", 1, 3100)
    fresh = fine.judged("partition-states-fresh")
    assert (fresh.validity, fresh.exposure) == (Validity.VALID, 1)


def test_late_answers_in_succession_are_one_finding_and_the_oldest_is_shown() -> None:
    told = late(6000)
    told.view("b2", 1, 6200)
    told.view("b1", 2, 6300)
    told.view("b2", 1, 9000)
    verdict = told.judged("partition-states-fresh")
    assert verdict.anomalies == {"stale-partition-state": 2}
    (b2,) = verdict.figures.plain()["by_node"]
    assert (b2["node"], b2["stale"], b2["age_ns_max"]) == ("b2", 8, ns(6100 - 1001))
    assert verdict.witnesses[0].steps[-1].startswith("7 answers of b2 in succession were late, from 3.1")


def test_a_late_broker_that_all_others_count_as_alive_is_not_fenced() -> None:
    verdict = late(10_000).judged("stale-broker-is-fenced")
    assert verdict.anomalies == {"stale-broker-not-fenced": 1}
    # What b1 said from 9.5 s on, and b2 lacked still later.
    assert verdict.exposure == 2


def test_a_late_broker_that_was_left_out_once_is_fenced() -> None:
    told = late(10_000)
    told.view("b1", 1, 4300, live=(1, 3))
    assert told.judged("stale-broker-is-fenced").validity is Validity.VALID


@pytest.mark.parametrize("why", ["soon fresh", "ended"])
def test_nothing_is_said_of_a_broker_that_caught_up_or_ended_in_time(why: str) -> None:
    told = late(8500 if why == "soon fresh" else 10_000)
    if why == "ended":
        told.node("b2", NodeChange.EXITED, 5000)
    verdict = told.judged("stale-broker-is-fenced")
    assert (verdict.validity, verdict.exposure) == (Validity.UNKNOWN, 0)


def ended(*last: tuple[str, int, tuple[int, ...]], **more: Any) -> Verdict:
    told = Told()
    told.phase(PhaseName.MAIN, 0)
    told.view("b3", 0, 10)
    told.phase(PhaseName.FINAL, 1000)
    for i, (node, epoch, live) in enumerate(last):
        told.view(node, epoch, 1100 + 10 * i, live=live, **more)
    return told.judged("partition-states-converge")


def test_brokers_that_say_the_same_at_the_end_have_converged() -> None:
    assert ended(("b1", 1, ALL), ("b2", 0, ALL), ("b2", 1, ALL)).validity is Validity.VALID


@pytest.mark.parametrize(("epoch", "live"), [(0, ALL), (1, (1, 2))])
def test_brokers_that_differ_at_the_end_leave_it_open(epoch: int, live: tuple[int, ...]) -> None:
    verdict = ended(("b1", 1, ALL), ("b2", epoch, live))
    assert verdict.validity is Validity.UNKNOWN
    assert "b1" in verdict.reason and "b2" in verdict.reason


def test_one_broker_alone_or_none_says_nothing() -> None:
    assert ended(("b1", 1, ALL)).validity is Validity.UNKNOWN
    assert {v.validity for v in partition_states.check(Told().history(), FACTS)} == {Validity.UNKNOWN}
