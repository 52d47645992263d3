"""Faults of several workers meet on real processes and links: each is proven or says why not, and nothing stays."""

import pytest

from tests.lab_scenario import run_scenario

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.parametrize("nodes", [3, pytest.param(5, marks=pytest.mark.long)])
def test_after_the_faults_of_three_workers_everything_is_as_before(seed: int, nodes: int) -> None:
    found = run_scenario("tests.runtime.lab.worker_scenarios:meet", {"seed": seed, "each": 3}, nodes=nodes, uvloop=True)
    assert found["doubtful"] == []
    assert found["installed"] >= 3
    assert found["after"] == found["before"]
