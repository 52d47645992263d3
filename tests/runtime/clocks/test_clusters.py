"""`clock-skew` on real servers in the lab: Go (etcd) and the JVM (ZooKeeper), as root and as an ordinary user."""

from typing import Any

import pytest

from fencepost.harness.runtime.clocks.process import why_not_here
from tests.lab_scenario import run_scenario

SCENES = "tests.runtime.clocks.clock_scenes"
#: A Date has whole seconds, a connection's time milliseconds; an answer may take long on a busy machine.
NEAR_S = {"etcd": 3.0, "zookeeper": 2.0}
SYSTEMS = ["etcd", "zookeeper"]
DAY_S = 86_400

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(why_not_here() is not None, reason=str(why_not_here()))]


def play(scene: str, **args: Any) -> Any:
    return run_scenario(f"{SCENES}:{scene}", args, timeout_s=110)


@pytest.mark.parametrize("system", SYSTEMS)
def test_an_offset_is_told_by_the_server_itself_and_by_no_other(system: str) -> None:
    found = play("offsets", system=system, faults=["clock-skew:n1:offset=2m", "clock-skew:n1:offset=-1d"])
    near_s = NEAR_S[system]
    for step, offset_s in zip(found["steps"], (120, -DAY_S), strict=True):
        assert step["outcome"] == "installed", step["proof"]
        assert "n1 itself reports" in step["proof"]
        assert step["own_s"] == pytest.approx(offset_s, abs=near_s)
        assert step["others_s"] == pytest.approx([0, 0], abs=near_s)
        assert step["healed"] == "healed", step["healed_proof"]
        assert step["after_s"] == pytest.approx(0, abs=near_s)
        assert step["left"] == []
    assert [event["offset_ns"] for event in found["events"]] == [120 * 10**9, 0, -DAY_S * 10**9, 0]
    assert all(event["certain"] for event in found["events"])


@pytest.mark.long
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_drift_gains_what_the_history_says(system: str) -> None:
    found = play("drift", system=system, clock="wall", rate=3, seconds=4)
    assert found["outcome"] == "installed", found["proof"]
    assert found["gained_s"] > 7
    assert found["gained_s"] == pytest.approx(found["said_s"], abs=NEAR_S[system])
    assert found["healed"] == "healed", found["healed_proof"]
    assert found["kept_s"] == pytest.approx(0, abs=NEAR_S[system])
    assert found["left"] == []


@pytest.mark.long
def test_a_monotonic_drift_stays_where_it_was_and_the_cluster_healthy() -> None:
    found = play("drift", system="zookeeper", clock="monotonic", rate=1.5, seconds=4)
    assert found["outcome"] == "installed", found["proof"]
    assert "waits translated" in found["proof"]
    assert found["gained_s"] == pytest.approx(found["said_s"], abs=1.0)
    assert found["healed"] == "healed", found["healed_proof"]
    assert found["event"]["rate"] == 1.0
    assert found["event"]["offset_ns"] / 1e9 > 1.9
    assert found["kept_s"] == pytest.approx(found["event"]["offset_ns"] / 1e9, abs=1.0)
    # Its clock may not go back, so it stays armed, and watched over, until it is started anew.
    assert [left for left in found["left"] if "armed" not in left and "daemon" not in left] == []


@pytest.mark.long
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_strobe_shows_both_sides_and_ends_by_itself(system: str) -> None:
    found = play("strobe", system=system)
    assert found["outcome"] == "installed", found["proof"]
    if found["in_time"]:
        assert set(found["ahead_h"]) == {0, 1}
    assert set(found["after_h"]) == {0}
    assert found["healed"] == "healed"
    assert found["left"] == []


@pytest.mark.long
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_restarted_server_s_first_line_is_skewed(system: str) -> None:
    found = play("restart", system=system)
    assert found["outcome"] == "installed"
    assert len(found["lines_h"]) > 10
    assert set(found["lines_h"]) == {2}
    assert found["own_s"] == pytest.approx(7200, abs=NEAR_S[system])
    wrong, how = found["reading"]
    assert not wrong
    assert "before its first instruction" in how
    assert found["healed"] == "healed", found["healed_proof"]
    assert found["left"] == []
    assert [(e["incarnation"], e["offset_ns"]) for e in found["events"][:3]] == [
        (0, 7200 * 10**9),
        (1, 7200 * 10**9),
        (1, 0),
    ]
    assert found["after_s"] == pytest.approx(0, abs=NEAR_S[system])
