"""One suite for every runtime: the lab, and containers whose links are enforced in each of the possible ways.

`kinds` names the runtimes and, with the reason, everything in which they are expected to differ.
"""

import pytest

from tests.conformance import links, servers
from tests.conformance.stage import Stage

SCENARIOS = [
    *(servers.serves, servers.log, servers.kill, servers.own_death),
    *(servers.pause, servers.kill_while_paused, servers.restart_with_data, servers.hooks),
    *(servers.failed_start, servers.cancelled_start, servers.copy),
    *(links.effects, links.two_faults, links.heal_all, links.fault_with_proof, links.client_cut_off),
    *(links.restart_under_partition, links.dead_node, links.open_connection, links.streams),
]


@pytest.mark.parametrize("scenario", [f"{one.__module__}:{one.__name__}" for one in SCENARIOS])
def test_every_runtime_fulfils(stage: Stage, scenario: str) -> None:
    stage.play(scenario)


@pytest.mark.parametrize("text", links.SHAPES)
def test_every_shape_of_a_partition_is_exact(stage: Stage, text: str) -> None:
    stage.play("tests.conformance.links:shape", text=text)
