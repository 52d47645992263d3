"""KRaft clusters of real servers in the lab: they start, are asked, and lose their active controller."""

from typing import Any

import pytest

from fencepost.systems.kafka.kraft import KRAFT
from tests.lab_scenario import run_scenario
from tests.systems.kafka.kafka_releases import needs

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300), *needs("kraft")]


def scenario(name: str, version: str, options: dict[str, object] | None = None, **args: Any) -> dict[str, Any]:
    members = KRAFT.members(3, KRAFT.profile.parse_options(options or {}))
    asked = {"version": version, "options": options or {}, **args}
    result: dict[str, Any] = run_scenario(
        f"tests.systems.kafka.kraft.kraft_scenarios:{name}", asked, nodes=members, timeout_s=240
    )
    return result


def test_the_default_release_starts_and_every_protocol_is_served() -> None:
    found = scenario("starts", KRAFT.releases.default)
    leader, epoch = found["raft"]
    assert found["controller"][0] == leader
    assert found["in the log"][leader][-1] == epoch
    assert found["fatal"] == []
    # The wanted figure is 900 MB; it does not depend on what else the machine does.
    assert found["resident_mib"] < 900
    at_controller, at_broker = found["operations"][leader], found["operations"]["b1"]
    for said in (at_controller, at_broker):
        assert said["alter"][0] == said["create"][0] == said["taken"][0] == "ok"
        assert "value=b'1'" in said["taken"][1]
        assert "value=None" in said["not taken"][1]
        assert "value=b'17'" in said["describe"][1]
        assert "value=None" in said["describe unset"][1]
    # A broker forwards a request twice when its connection is lost: there the first time may have made the name.
    assert at_controller["create again"] == ["definite", "exists"]
    assert at_broker["create again"] == ["indefinite", "topic-already-exists"]
    assert at_controller["append"] == at_controller["allocate"] == ["definite", "unsupported-api"]
    assert at_broker["allocate"][0] == "ok"
    assert "offset=0" in at_broker["append"][1]
    assert "value=b'x'" in at_broker["poll"][1]


def test_a_cut_off_controller_of_the_default_release_resigns_and_comes_back() -> None:
    found = scenario("zombie", KRAFT.releases.default)
    old, epoch = found["old"], found["epoch"]
    # B is 1.5 s; one that does not resign claims for as long as it is cut off, which is 20 s then.
    assert found["replaced"]
    assert found["after"][1] > epoch
    assert found["wrong while cut"] is not None
    assert old in found["wrong while cut"]


@pytest.mark.long
def test_a_cut_off_controller_of_3_6_0_claims_for_the_whole_cut() -> None:
    """KAFKA-15489."""
    found = scenario("zombie", "3.6.0", hold_s=6)
    old, epoch = found["old"], found["epoch"]
    claims = {(subject, node, of): (first, last) for subject, node, of, first, last in found["claims"]}
    assert claims["raft", old, epoch][1] > 5.5
    assert any(of is not None and of > epoch and first < 5 for (s, n, of), (first, _) in claims.items() if s == "raft")


@pytest.mark.long
@pytest.mark.parametrize(
    ("version", "options"), [("3.6.0", {}), ("3.7.0", {}), ("3.9.2", {"combined": True}), ("4.4.0", {"brokers": 3})]
)
def test_other_releases_and_shapes_start(version: str, options: dict[str, object]) -> None:
    found = scenario("starts", version, options)
    assert found["raft"][0] == found["controller"][0]
    assert found["fatal"] == []
