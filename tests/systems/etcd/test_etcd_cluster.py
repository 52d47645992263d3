"""The etcd client, its questions and its readiness against three real servers, under real faults."""

from typing import Any

import pytest

from tests.lab_scenario import run_scenario

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def faults() -> dict[str, Any]:
    """One cluster, every fault after the other; asyncio's loop."""
    result: dict[str, Any] = run_scenario("tests.systems.etcd.etcd_scenarios:faults", timeout_s=170)
    return result


@pytest.fixture(scope="module")
def semantics() -> dict[str, Any]:
    """One cluster without faults; uvloop."""
    result: dict[str, Any] = run_scenario("tests.systems.etcd.etcd_scenarios:semantics", timeout_s=170, uvloop=True)
    return result


@pytest.mark.parametrize(
    ("fault", "request_", "kind", "code"),
    [
        ("dropped", "in flight", "indefinite", "timeout"),
        ("dropped", "opening", "definite", "not-connected"),
        ("reset", "in flight", "indefinite", "connection-lost"),
        ("reset", "after", "definite", "not-connected"),
        ("reset", "opening", "definite", "not-connected"),
        ("reset", "same client, healed", "definite", "not-connected"),
        ("killed", "during", "indefinite", "connection-lost"),
        ("killed", "before", "definite", "not-connected"),
        ("killed", "opening", "definite", "not-connected"),
        ("killed", "same client, restarted", "definite", "not-connected"),
        ("paused", "in flight", "indefinite", "timeout"),
        ("paused", "opening", "definite", "not-connected"),
        ("minority", "write", "indefinite", "request-timed-out"),
        ("minority", "strong read", "indefinite", "request-timed-out"),
        ("minority", "acquire", "definite", "lease-not-granted"),
    ],
)
def test_a_fault_ends_as_the_table_says(
    faults: dict[str, Any], fault: str, request_: str, kind: str, code: str
) -> None:
    assert faults[fault][request_][:2] == [kind, code], faults[fault][request_]


def test_what_needs_no_quorum_is_answered(faults: dict[str, Any]) -> None:
    assert faults["minority"]["plain read"][0] == "ok"
    assert faults["killed"]["fresh client, restarted"][0] == "ok"


def test_readiness_and_health_say_what_is_wrong(faults: dict[str, Any]) -> None:
    ready, wrong = faults["killed"]["dead"]
    assert not ready
    # If it led, the others have something to say as well.
    assert "n2: not-connected: " in wrong
    assert "refused the connection" in wrong
    assert faults["killed"]["alive"] == [True, None]
    ready, wrong = faults["minority"]["unhealthy"]
    assert not ready
    assert wrong == f"{faults['minority']['leader']}: etcdserver: no leader"


def test_a_leader_that_is_cut_off_steps_down_within_its_bound(faults: dict[str, Any]) -> None:
    beliefs = faults["beliefs"]
    assert beliefs["leads"]["claims"] == "yes"
    assert beliefs["cut off"]["claims"] == "no"
    # Twice 500 ms and 50 ms by the rules, and as long again as a busy machine may keep each of both sides waiting. One
    # that did not look for its quorum would claim for as long as it was asked (20 s).
    assert beliefs["stepped down after"] < 8


def test_a_node_is_heard_as_soon_as_it_can_answer(faults: dict[str, Any]) -> None:
    beliefs = faults["beliefs"]
    for silence in ("paused", "dropped"):
        assert beliefs[silence]["answers within the silence"] == 0
        assert beliefs[silence]["heard again"], silence
    # On the old one it would be heard only when TCP sends again, seconds after.
    assert beliefs["dropped"]["on another connection"]
    assert beliefs["killed"]["claims"] == "silent"
    assert beliefs["restarted"]["claims"] != "silent"


def test_epochs_are_read_from_the_logs(faults: dict[str, Any]) -> None:
    epochs = faults["beliefs"]["epochs in logs"]
    assert len(epochs) >= 2, "the cut leader was replaced at least once"
    assert len(set(epochs)) == len(epochs), "one leader per term"
    assert faults["beliefs"]["leads"]["epoch"] in epochs


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ("cas again", "cas-mismatch"),
        ("cas absent", "cas-mismatch"),
        ("create again", "exists"),
        ("update absent", "absent"),
        ("write_if again", "cas-mismatch"),
        ("write_if absent again", "cas-mismatch"),
        ("empty key", "invalid-argument"),
        ("add again", "exists"),
        ("closed", "not-connected"),
        ("renew without lease", "lease-expired"),
        ("acquire held", "held"),
        ("acquire, renewed", "held"),
        ("guarded, stale token", "fenced"),
        ("guarded, released", "fenced"),
        ("guarded, expired", "fenced"),
        ("release, stale token", "not-held"),
        ("release, expired", "not-held"),
        ("acquire, dead lease", "lease-expired"),
    ],
)
def test_what_did_not_happen_is_definite(semantics: dict[str, Any], request_: str, code: str) -> None:
    assert semantics[request_][:2] == ["definite", code], semantics[request_]


@pytest.mark.parametrize(
    "request_",
    [
        "absent",
        "cas",
        "create",
        "update",
        "append",
        "write_if",
        "write_if absent",
        "renew",
        "guarded",
        "release",
        "acquire, new lease",
        "renew, new lease",
    ],
)
def test_what_happened_is_ok(semantics: dict[str, Any], request_: str) -> None:
    assert semantics[request_][0] == "ok", semantics[request_]


def test_replies_carry_what_the_store_says(semantics: dict[str, Any]) -> None:
    assert semantics["stamps agree"] == [True, True, True]
    assert "value=None" in semantics["absent"][1]
    assert semantics["members"] == [[2, 10, 33], [2, 10, 33]]
    assert semantics["token grows"]


def test_a_transaction_on_lists_takes_effect_once_or_is_refused(semantics: dict[str, Any]) -> None:
    assert semantics["lists"] == [[2], [1, 3], []]
    assert semantics["each append is made or refused"]


def test_a_lease_that_is_not_renewed_gives_its_lock_away(semantics: dict[str, Any]) -> None:
    assert semantics["taken over"] == "ok"
    values = [semantics["guarded value"], semantics["guarded value, expired"]]
    assert values == ["1", "1"], "no fenced write got through"
