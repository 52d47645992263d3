"""How long the final phase of a run lasts."""

from typing import Any

import pytest

from fencepost.harness.plan import Phases, Plan
from fencepost.harness.plugins.workload import Workload
from fencepost.harness.runner.phases import final_length_ns
from fencepost.systems.kafka.workloads.topics import TopicsWorkload
from fencepost.workloads.register import RegisterWorkload

S = 1_000_000_000


def plan(final: str) -> Plan:
    return Plan(system="kraft", workload="topics", nemesis="none", seed=1, phases=Phases(final=final))


@pytest.mark.parametrize("workload", [RegisterWorkload(), TopicsWorkload()])
def test_a_pause_of_the_workload_takes_nothing_of_the_time_for_its_reads(workload: Workload[Any]) -> None:
    length_ns = final_length_ns(plan("5s"), workload, spared_ns=2 * S, stopped=False)
    assert length_ns - workload.final_pause_ns == 7 * S


def test_topics_wait_as_long_as_they_say_before_they_ask() -> None:
    pause_ns = TopicsWorkload.final_pause_ns
    assert pause_ns > 0
    assert final_length_ns(plan("1s"), TopicsWorkload(), spared_ns=0, stopped=False) == pause_ns + S


def test_a_stop_by_hand_leaves_no_time_for_a_pause() -> None:
    assert final_length_ns(plan("5s"), TopicsWorkload(), spared_ns=9 * S, stopped=True) < 2 * S
