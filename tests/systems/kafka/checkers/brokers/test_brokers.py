"""Brokers in a run of the fake, with each bug and without. The cases are in `tests/cases/kafka-brokers.case`."""

import msgspec
import pytest

from fencepost.harness.history import History
from fencepost.harness.verdict import Facts, Validity, Verdict
from fencepost.harness.verdict.figures import values
from fencepost.systems.kafka.checkers import brokers
from tests.fakes.kept_brokers import BUGS, FACTS, run_fake_brokers


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
    figures = {name: value for v in verdicts for name, value in values(v.figures).items()}
    assert 3_200e6 <= figures["fenced_after_ns_max"] <= 3_300e6
    assert figures["served_without_controller_ns_max"] == 0
    assert figures["stopped_within_ns_max"] == 500e6


def test_a_broker_that_served_without_a_controller_is_measured_to_its_last_answer() -> None:
    served = verdict(run_fake_brokers("served-without-controller", 1), "broker-self-fencing")
    assert 9_700e6 < values(served.figures)["served_without_controller_ns_max"] <= 10_000e6


def test_a_system_without_brokers_gets_no_verdict() -> None:
    history = run_fake_brokers(None, 1)
    assert brokers.check(history, Facts(system="fake", workload="log", nodes=("n1",), guarantees=())) == []


def test_without_a_controlled_shutdown_nothing_is_said_of_one() -> None:
    assert of(run_fake_brokers(None, 0), "controlled-shutdown-unnoticed") == []


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
