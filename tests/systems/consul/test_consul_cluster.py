"""The Consul client, its questions and its readiness against three real servers, under real faults."""

from typing import Any

import pytest

from fencepost.systems.consul.system import CONSUL
from tests.lab_scenario import run_scenario

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

SCENARIOS = "tests.systems.consul.consul_scenarios"
DEFAULT = CONSUL.releases.default
OLDER = [release for release in CONSUL.releases.known() if release != DEFAULT]


@pytest.fixture(scope="module")
def faults() -> dict[str, Any]:
    """One cluster, every fault after the other; asyncio's loop."""
    result: dict[str, Any] = run_scenario(f"{SCENARIOS}:faults", {"version": DEFAULT}, timeout_s=200)
    return result


@pytest.fixture(scope="module")
def semantics() -> dict[str, Any]:
    """One cluster without faults, its log in the write-ahead log; uvloop."""
    args = {"version": DEFAULT, "log_store": "wal"}
    result: dict[str, Any] = run_scenario(f"{SCENARIOS}:semantics", args, timeout_s=120, uvloop=True)
    return result


@pytest.mark.parametrize(
    ("fault", "request_", "kind", "codes"),
    [
        ("dropped", "in flight", "indefinite", {"timeout"}),
        ("dropped", "opening", "definite", {"not-connected"}),
        ("dropped", "after giving up", "definite", {"not-connected"}),
        ("reset", "in flight", "indefinite", {"connection-lost"}),
        ("reset", "after", "definite", {"not-connected"}),
        ("reset", "opening", "definite", {"not-connected"}),
        ("reset", "same client, healed", "definite", {"not-connected"}),
        ("killed", "during", "indefinite", {"connection-lost"}),
        ("killed", "before", "definite", {"not-connected"}),
        ("killed", "opening", "definite", {"not-connected"}),
        ("killed", "restarted", "definite", {"not-connected"}),
        ("paused", "in flight", "indefinite", {"timeout"}),
        ("follower", "write", "definite", {"no-leader", "leader-not-tracked"}),
        ("follower", "strong", "definite", {"no-leader", "leader-not-tracked"}),
        ("minority", "write", "indefinite", {"leader-changed"}),
        ("minority", "later", "definite", {"no-leader", "leader-not-tracked"}),
        ("minority", "acquire", "definite", {"lease-not-granted"}),
    ],
)
def test_a_fault_ends_as_the_table_says(
    faults: dict[str, Any], fault: str, request_: str, kind: str, codes: set[str]
) -> None:
    said = faults[fault][request_]
    assert said[0] == kind and said[1] in codes, said


def test_a_server_that_is_cut_off_answers_in_mode_stale_alone(faults: dict[str, Any]) -> None:
    assert faults["minority"]["stale"][0] == "ok"
    assert faults["minority"]["strong"][0] != "ok"
    kind, value = faults["follower"]["stale"][:2]
    assert kind == "ok" and "value=b'0'" in value, "the old value: the new one was acknowledged after the cut"


def test_all_servers_say_who_leads(faults: dict[str, Any]) -> None:
    assert sorted(said["claims"] for said in faults["agree"]) == ["no", "no", "yes"]
    assert len({said["leader"] for said in faults["agree"]}) == 1
    assert faults["paused"]["says"]["claims"] == "silent"


def test_a_leader_that_is_cut_off_steps_down_within_its_bound(faults: dict[str, Any]) -> None:
    assert faults["minority"]["before"]["claims"] == "yes"
    assert faults["minority"]["stepped down"]["claims"] == "no"
    # 0.51 s by the rules, and as long again as a busy machine may keep each of both sides waiting.
    assert faults["minority"]["stepped down after"] < 8


def test_readiness_and_health_say_what_is_wrong(faults: dict[str, Any]) -> None:
    ready, wrong = faults["killed"]["dead"]
    assert not ready and "n2: who leads failed: " in wrong
    ready, wrong = faults["minority"]["unhealthy"]
    assert not ready and f"{faults['minority']['leader']}: it knows no leader" in wrong


def test_a_restarted_server_keeps_its_data(faults: dict[str, Any]) -> None:
    assert "value=b'1'" in faults["killed"]["kept"]


def test_terms_are_read_from_the_logs(faults: dict[str, Any]) -> None:
    epochs = faults["epochs in logs"]
    assert len(set(epochs)) == len(epochs) >= 2, "one leader per term, and the cut leader was replaced"
    assert faults["minority"]["before"]["epoch"] in epochs


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ("cas again", "cas-mismatch"),
        ("cas absent", "cas-mismatch"),
        ("create again", "exists"),
        ("write_if again", "cas-mismatch"),
        ("write_if absent again", "cas-mismatch"),
        ("empty key", "refused"),
        ("too large", "too-large"),
        ("add again", "exists"),
        ("closed", "not-connected"),
        ("renew without session", "lease-expired"),
        ("acquire held", "held"),
        ("acquire held by oneself", "held"),
        ("guarded, stale token", "fenced"),
        ("guarded, released", "fenced"),
        ("act, stale token", "fenced"),
        ("release, stale token", "not-held"),
        ("keep alive, revoked", "lease-expired"),
        ("attach, revoked", "lease-expired"),
        ("renew by another agent", "lease-expired"),
        ("leave by another agent", "lease-expired"),
        ("leave again", "lease-expired"),
        *(
            (f"{request_}, {delay}", code)
            for delay in ("no delay", "delay")
            for request_, code in (
                ("guarded, expired", "fenced"),
                ("release, expired", "not-held"),
                ("acquire, dead session", "lease-expired"),
            )
        ),
    ],
)
def test_what_did_not_happen_is_definite(semantics: dict[str, Any], request_: str, code: str) -> None:
    assert semantics[request_][:2] == ["definite", code], semantics[request_]


@pytest.mark.parametrize(
    "request_",
    [
        "cas",
        "create",
        "write_if",
        "write_if absent",
        "renew",
        "guarded",
        "act",
        "act, not guarded",
        "revoke",
        "late renewal",
        "acquire, new session, no delay",
        "acquire, new session, delay",
    ],
)
def test_what_happened_is_answered(semantics: dict[str, Any], request_: str) -> None:
    assert semantics[request_][0] == "ok", semantics[request_]


def test_what_answers_say(semantics: dict[str, Any]) -> None:
    assert semantics["positions agree"] == [True, True]
    assert semantics["absent"] == [None, True]
    assert semantics["members"] == [2, 10, 33] and semantics["no members"] == []
    assert semantics["modes"] == ["4", "4", "4"]
    assert semantics["leads"] and semantics["nobody leads"] is None
    assert semantics["positions grow"]
    assert semantics["guarded value"] == "1"
    assert semantics["deeds"] == ["b", "a"]
    assert semantics["ttl"] == [3000, 3000]
    assert semantics["bound"] == [1] and semantics["bound, revoked"] == []


def test_members_by_the_catalog_are_told_apart_dropped_and_back_by_a_late_renewal(semantics: dict[str, Any]) -> None:
    assert semantics["a member heard of the end"]
    for what in ("members of one id", "silent member is dropped", "dropped member is back", "member left"):
        assert semantics[what] is None, f"{what}: the list showed {semantics[what]}"


def test_a_session_ends_after_twice_its_time_to_live(semantics: dict[str, Any]) -> None:
    kind, after_s, codes = semantics["taken over, no delay"]
    assert kind == "ok" and {*codes} - {"stalled"} == {"held"}
    assert 1 < after_s < 10
    kind, delayed_s, codes = semantics["taken over, delay"]
    # Whoever asks a second late may have slept through the delay.
    assert kind == "ok" and {"held"} <= {*codes} <= {"held", "lock-delay", "stalled"} and len(codes) > 1
    assert delayed_s > 2 + 1


@pytest.mark.long
@pytest.mark.parametrize("version", OLDER)
def test_older_releases_answer_alike(semantics: dict[str, Any], version: str) -> None:
    older = run_scenario(f"{SCENARIOS}:semantics", {"version": version}, timeout_s=120)
    timed = {name for name in semantics if name.startswith("taken over")}

    def outcomes(found: dict[str, Any]) -> dict[str, Any]:
        return {name: said[:1] if said[:1] == ["ok"] else said[:2] for name, said in found.items() if _said(said)}

    assert outcomes(older) == outcomes(semantics)
    assert all(older[name][0] == "ok" for name in timed)


def _said(found: object) -> bool:
    return isinstance(found, list) and len(found) == 4
