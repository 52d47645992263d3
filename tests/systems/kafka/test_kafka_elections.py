"""Transactional producers on real brokers: who is superseded, what is refused, and what the log shows of it."""

from typing import Any

import pytest

from fencepost.harness.plugins import registry
from fencepost.systems.kafka.server.versions import numbers
from fencepost.systems.kafka.zookeeper_mode import KAFKA_ZK
from tests.lab_scenario import run_scenario
from tests.systems.kafka.kafka_releases import needs

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

#: From 3.6 on a partition's leader asks whether it is in the transaction before it takes a record (KIP-890).
_VERIFIES_SINCE = (3, 6)
_SUPERSEDED = ["definite", "producer-fenced"]
_FENCED = ["definite", "fenced"]
_NOT_COORDINATOR = ["indefinite", "not-coordinator"]
REFUSALS = {
    "nothing to end": ["definite", "invalid-txn-state"],
    "opened": ["ok", ""],
    "opened again": ["ok", ""],
    "old opens": _SUPERSEDED,
    "old ends": _SUPERSEDED,
    "stranger opens": ["definite", "invalid-producer-id-mapping"],
    "stranger ends": ["definite", "invalid-producer-id-mapping"],
    "unknown topic": ["indefinite", "unknown-topic-or-partition"],
    "begin elsewhere": _NOT_COORDINATOR,
    "open elsewhere": _NOT_COORDINATOR,
    "end elsewhere": _NOT_COORDINATOR,
    "describe elsewhere": ["definite", "not-coordinator"],
    "describe": ["ok", ""],
    "describe nothing": ["definite", "transactional-id-not-found"],
    "begin while open": ["definite", "concurrent-transactions"],
    "the one before ends": _SUPERSEDED,
    "too long": ["definite", "invalid-transaction-timeout"],
    "no name": ["definite", "invalid-request"],
}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("kraft", "4.3.1"), marks=needs("kraft", "4.3.1")),
        pytest.param(("kraft", "3.6.0"), marks=pytest.mark.long),
        pytest.param(("kafka-zk", "3.9.2"), marks=pytest.mark.long),
        pytest.param(("kafka-zk", "3.6.0"), marks=pytest.mark.long),
    ],
    ids="-".join,
)
def played(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """The release, and what two of its brokers said."""
    system, version = request.param
    options: dict[str, object] = {} if system == "kafka-zk" else {"brokers": 2}
    chosen = registry.system(system)
    members = chosen.members(2 if chosen is KAFKA_ZK else 1, chosen.profile.parse_options(options))
    found: dict[str, Any] = run_scenario(
        "tests.systems.kafka.kafka_election_scenarios:elections",
        {"version": version, "options": options},
        nodes=members,
        timeout_s=280,
    )
    return version, found


def test_a_producer_that_was_superseded_does_nothing_more(played: tuple[str, dict[str, Any]]) -> None:
    terms = played[1]["terms"]
    coordinator, brokers = terms["coordinator"]
    assert coordinator in brokers
    assert [kind for kind, _, _ in terms["first acts"]] == ["ok", "ok"]
    assert terms["seen"]
    assert terms["grew"]
    assert terms["renewed"][0] == "ok"
    # The record of a transaction that the producer still believes in meets the partition's leader, which was told of
    # the next epoch by the marker that aborted it.
    for step in ("old term acts", "old term acts again"):
        assert terms[step][:2] == _FENCED
        assert "error 47" in terms[step][2]
    for step in ("old term in another session", "acts after that"):
        assert terms[step][:2] == _FENCED
        assert "error 90" in terms[step][2]
    assert terms["old term renews"][:2] == ["definite", "lease-expired"]
    assert terms["old term resigns"][:2] == ["definite", "not-held"]
    assert (
        terms["second acts"][0] == terms["second acts on"][0] == terms["resigned"][0] == terms["last acts"][0] == "ok"
    )
    assert terms["later"]


def test_another_session_does_not_guess_where_the_term_stands(played: tuple[str, dict[str, Any]]) -> None:
    assert played[1]["terms"]["first term in another session"][:2] == ["definite", "sequence-unknown"]


def test_the_trail_holds_what_was_committed_and_what_no_producer_did(played: tuple[str, dict[str, Any]]) -> None:
    terms = played[1]["terms"]
    assert terms["old term acts blindly"][0] == "ok"
    assert terms["trail"] == [[1, 1], [1, 2], [2, 5], [1, 8], [2, 9], [4, 11]]
    assert terms["in the log"]
    assert terms["read alike"]
    assert terms["epochs along the log"]


def test_refusals_end_as_the_table_says(played: tuple[str, dict[str, Any]]) -> None:
    version, found = played
    requests = {name: said[:2] for name, said in found["requests"].items()}
    assert {name: requests[name] for name in REFUSALS} == REFUSALS
    late = requests["not in the transaction"]
    assert late == (["definite", "invalid-txn-state"] if numbers(version)[:2] >= _VERIFIES_SINCE else ["ok", ""])
    # A successor's transaction is open, or being aborted: Kafka looks at that before it looks who asks.
    assert requests["the one before resumes"] in (["definite", "concurrent-transactions"], _SUPERSEDED)
