"""The ZooKeeper client, its questions and its readiness against three real servers, under real faults."""

from pathlib import Path
from typing import Any

import pytest

from fencepost.systems.zookeeper.system import ZOOKEEPER
from tests.lab_scenario import run_scenario

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def faults() -> dict[str, Any]:
    """One cluster, every fault after the other; asyncio's loop."""
    result: dict[str, Any] = run_scenario("tests.systems.zookeeper.zookeeper_scenarios:faults", timeout_s=220)
    return result


@pytest.fixture(scope="module")
def semantics() -> dict[str, Any]:
    """One cluster whose majority stands; uvloop."""
    result: dict[str, Any] = run_scenario(
        "tests.systems.zookeeper.zookeeper_scenarios:semantics", timeout_s=220, uvloop=True
    )
    return result


@pytest.mark.parametrize(
    ("fault", "request_", "kind", "code"),
    [
        ("dropped", "in flight", "cancelled", "timeout"),
        ("dropped", "opening", "definite", "not-connected"),
        ("reset", "in flight", "indefinite", "connection-lost"),
        ("reset", "after", "not-sent", "not-sent"),
        ("reset", "opening", "definite", "not-connected"),
        ("reset", "same session, healed", "not-sent", "not-sent"),
        ("minority", "write", "indefinite", "connection-lost"),
        ("minority", "after", "not-sent", "not-sent"),
        ("minority", "opening", "definite", "not-serving"),
        ("killed", "during", "indefinite", "connection-lost"),
        ("killed", "after", "not-sent", "not-sent"),
        ("killed", "opening", "definite", "not-connected"),
    ],
)
def test_a_fault_ends_as_the_table_says(
    faults: dict[str, Any], fault: str, request_: str, kind: str, code: str
) -> None:
    assert faults[fault][request_] == [kind, code]


def test_after_a_dropped_link_the_session_goes_on_and_answers_are_not_mixed_up(faults: dict[str, Any]) -> None:
    kind, reply = faults["dropped"]["same session, healed"]
    assert kind == "ok"
    assert "value=b'1'" in reply


def test_a_session_and_what_it_asked_outlive_five_seconds_of_pause(semantics: dict[str, Any]) -> None:
    paused = semantics["paused"]
    assert paused["opening"] == ["definite", "not-connected"]
    assert paused["answered"][0] == "ok", paused
    assert paused["session kept"]
    assert paused["after"][0] == "ok", paused
    assert paused["said"] is None


def test_a_leader_without_majority_steps_down_within_its_bound(faults: dict[str, Any]) -> None:
    minority = faults["minority"]
    assert minority["plain read"][0] == "ok"
    # (syncLimit 5 + 2) ticks of 200 ms, and what a busy machine may keep both sides waiting. One that did not look for
    # its followers would claim for as long as it was asked (20 s).
    assert 0 < minority["claims"] < 8
    assert minority["said"] == "not serving"
    assert f"{minority['leader']} is not serving" in minority["unhealthy"]


def test_a_killed_leader_comes_back_with_what_was_acknowledged(faults: dict[str, Any]) -> None:
    killed = faults["killed"]
    assert killed["ready"] == [False, True]
    assert "silent" in killed["unhealthy"]
    assert killed["value"] in ("kept", "lost")  # "lost" was in flight: it may have happened


def test_every_epoch_has_one_leader_by_the_logs(faults: dict[str, Any]) -> None:
    epochs = sorted(epoch for of_node in faults["killed"]["epochs"].values() for epoch in of_node)
    assert len(epochs) == len(set(epochs)) >= 3
    assert faults["killed"]["epoch"] == epochs[-1]


def test_reads_writes_and_conditions(semantics: dict[str, Any]) -> None:
    store = semantics["store"]
    assert store["absent"] is None
    assert store["values"] == ["1", "1"]
    assert store["value positions"] == [True, True]
    assert store["positions grow"]
    assert [store["created"][0][0], store["created"][1]] == ["ok", ["definite", "exists"]]
    assert [store["conditional"][0][0], store["conditional"][1]] == ["ok", ["definite", "cas-mismatch"]]
    assert store["again"] == ["definite", "exists"]
    assert store["members"][0] == [4, 30, 100]
    assert store["unknown"] == ["definite", "no-node"]


def test_kazoo_agrees(semantics: dict[str, Any]) -> None:
    kazoo = semantics["kazoo"]
    assert kazoo["they see ours"] == ["ours", True, True]
    assert kazoo["we see theirs"] == ["theirs", True, True]
    assert kazoo["members"]
    assert kazoo["stat"] == [True, True]
    assert kazoo["last zxid"]


def test_watch_events_come_in_order_and_before_the_change_is_read(semantics: dict[str, Any]) -> None:
    watches = semantics["watches"]
    assert watches["order"], watches
    assert watches["kinds"] == [3, 1, 3, 4, 3]
    assert watches["zxids"], watches


def test_znodes_of_a_session_end_with_it(semantics: dict[str, Any]) -> None:
    own = semantics["own"]
    assert own["sequence"] == 1
    assert own["owner"]
    assert own["gone"] == ["definite", "no-node"]
    assert own["full"] == ["definite", "not-empty"]


def test_a_stale_holder_is_fenced_however_late_its_write_arrives(semantics: dict[str, Any]) -> None:
    locks = semantics["locks"]
    assert locks["held"] == ["definite", "held"]
    assert locks["late"] == ["definite", "fenced"]
    assert locks["own"] == ["definite", "fenced"]
    assert locks["unfenced"] == "ok"  # a plain write knows nothing of the lock: that is what fencing is for
    assert locks["expired"] == ["definite", "lease-expired"]
    assert locks["late release"] == ["definite", "not-held"]
    assert locks["after release"] == ["definite", "fenced"]
    assert [locks[name] for name in ("written", "good", "released", "renewed")] == ["ok"] * 4
    assert locks["value"] == "third"


def test_tokens_grow_and_only_grants_are_counted(semantics: dict[str, Any]) -> None:
    locks = semantics["locks"]
    assert locks["tokens grow"]
    assert locks["grants"] == ["1", "2", "3"]
    assert locks["counted"] == 3


def test_the_start_up_archive_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = Path(ZOOKEEPER.releases.resolve(ZOOKEEPER.releases.default).paths["archive"])
    assert made.stat().st_size > 10 << 20
    assert [path.suffix for path in sorted(made.parent.iterdir())] == [".archive", ".lock"]
    before = made.stat()
    again = ZOOKEEPER.releases.resolve(ZOOKEEPER.releases.default)
    assert again.paths["archive"] == str(made)
    assert (made.stat().st_ino, made.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
