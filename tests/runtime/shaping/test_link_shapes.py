"""Slow, lossy, narrow and disordered links in the lab, as root and as an ordinary user: felt, proven, and undone."""

from typing import Any

import pytest

from tests.lab_scenario import User, refuse, run_scenario
from tests.runtime.lab.test_ordinary_user import user as user  # a fixture

HERE = "tests.runtime.links.link_scenarios"
FAULTS = "tests.runtime.links.link_fault_scenarios"


@pytest.fixture(autouse=True)
def _packet_queues() -> None:
    from fencepost.harness.runtime.lab.provider import why_no_shaped_links

    refuse(why_no_shaped_links())


def assert_one_way(found: list[Any]) -> None:
    before, during, after, trip = found
    assert max(before) < 10
    assert during[0] >= 30
    assert during[1] >= 10
    assert max(after) < 10
    assert isinstance(trip, float)
    assert trip >= 40


def test_each_direction_has_its_own_delay() -> None:
    assert_one_way(run_scenario(f"{HERE}:one_way", nodes=2))


def test_as_an_ordinary_user(user: User | None) -> None:
    assert_one_way(run_scenario(f"{HERE}:one_way", nodes=2, user=user))
    assert run_scenario(f"{HERE}:resets", user=user) == [2, ["client-n1", "n1-n2"], 4]


EVERY = [
    "link:leader:latency=10ms",
    "link:n1:latency=30ms:jitter=20ms:direction=in:links=all",
    "link:n1:loss=20%:links=client",
    "link:n1:rate=64KB/s:direction=out",
    "link:n3:duplicate=20%:reorder=20%",
    "link:n3:rate=64KB/s:reorder=20%:direction=out",
    "link:n1:reset=yes:links=all",
    "link:n1:reset=yes:direction=in",
    "link:one:latency=5ms:loss=20%:rate=200KB/s:links=client:direction=in",
]


def test_every_kind_is_proven_while_it_lasts_and_gone_afterwards() -> None:
    for text, outcome, proof, healed, healing, left in run_scenario(f"{FAULTS}:faults", {"faults": EVERY}):
        assert (outcome, healed, left) == ("installed", "healed", []), f"{text}: {proof}; {healing}; {left}"


def test_faults_of_one_link_add_up_and_leave_one_by_one() -> None:
    outcomes, delay_ns, loss, left_ns, text = run_scenario(f"{FAULTS}:two_at_once")
    assert outcomes == ["installed", "installed", "healed", "healed"], text
    assert (delay_ns, loss, left_ns) == (50_000_000, 0.3, 30_000_000)
    assert text.startswith("0 of 4 links free again"), "the other fault still holds all of them"


def test_what_is_not_felt_is_not_installed() -> None:
    outcome, text = run_scenario(f"{FAULTS}:not_as_asked")
    assert outcome == "indeterminate"
    assert "client>n1 (the fastest took less than 20 ms)" in text


def test_streams_arrive_whole_over_a_disordered_link() -> None:
    assert run_scenario(f"{HERE}:streams_survive", nodes=2) is True


@pytest.mark.parametrize("uvloop", [False, True])
def test_any_order_of_cuts_and_shapes_gives_the_merge_and_heals_to_nothing(uvloop: bool) -> None:
    found = run_scenario(f"{HERE}:any_order", {"seed": 11, "steps": 120}, uvloop=uvloop)
    assert found == [[], [], ["open"], 0]


def test_without_the_shaper_packets_pass_and_the_harness_says_so() -> None:
    arrived, quick, said, reach = run_scenario(f"{HERE}:shaper_dies", nodes=2)
    assert (arrived, quick, reach) == (20, True, "open")
    assert said == "shaper, a process of the harness, has ended"


def test_a_shaper_that_is_put_off_loses_nothing() -> None:
    assert run_scenario(f"{HERE}:shaper_put_off", nodes=2) == 0


@pytest.mark.parametrize("kills", [False, True], ids=["cancelled", "companions killed"])
def test_what_is_cut_short_spoils_no_later_fault(kills: bool) -> None:
    found = run_scenario(f"{FAULTS}:cut_short", {"after_ms": [0, 5, 30, 60, 120, 200], "kills": kills})
    assert found == [["installed", "healed"]] * 6


def test_its_processes_end_with_the_lab() -> None:
    assert run_scenario(f"{HERE}:ends_with_the_lab", nodes=1) == [[True, True], [False, False]]


def test_idle_connections_are_reset_at_once() -> None:
    assert run_scenario(f"{HERE}:resets") == [2, ["client-n1", "n1-n2"], 4]
