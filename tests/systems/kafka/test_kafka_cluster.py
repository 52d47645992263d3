"""Kafka's client and questions against real nodes of the default release: every operation, and every row of the error
table that can be provoked. `test_kafka_elections` has those about transactions, and `NOT_PROVOKED` the reasons of the
rest.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.harness.coordination.session import Row
from fencepost.systems.kafka.wire import errors
from tests.lab_scenario import run_scenario
from tests.systems.kafka.kafka_releases import needs
from tests.systems.kafka.test_kafka_elections import REFUSALS

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300), *needs("kraft")]

#: Words of the table that come of faults no test makes, or that a client of ours cannot cause; fakes answer with them
#: in `test_kafka_errors` and `test_kafka_connection`.
NOT_PROVOKED = {
    "unknown-server-error": "says that the server has an error of its own",
    "replica-not-available": "answers only readers of followers, of which our client is none",
    "coordinator-not-available": "there for a moment while a transaction log is made",
    "not-enough-replicas-after-append": "when a replica left while a produce waited, a time-out came (2.8.2 to 4.3.1)",
    "duplicate-resource": "our client names a credential once",
    "resource-not-found": "no credential is removed in these tests; `test_kafka_metadata_kinds` has the row",
    "illegal-generation": "no group is joined in these tests; `test_kafka_groups` has the row",
    "unknown-member-id": "no group is joined in these tests; `test_kafka_groups` has the row",
    "rebalance-in-progress": "no group is joined in these tests; `test_kafka_groups` has the row",
    "inconsistent-group-protocol": "our members all name one protocol",
    "invalid-group-id": "our groups have names",
    "invalid-session-timeout": "our sessions are as long as the servers allow",
    "unstable-offset-commit": "there for a moment while a transaction's offset is being committed",
    "transaction-abortable": "answers Produce from 11 on, and no request of these tests is outside its transaction",
    "security-disabled": "no ACL is asked for in these tests; `test_kafka_metadata_kinds` has the row",
    "unacceptable-credential": "our client's credentials fit; `test_kafka_metadata_kinds` has the row",
    "unsupported-sasl-mechanism": "our client names the mechanism that our servers have",
    "illegal-sasl-state": "our client does not authenticate itself",
    "sasl-authentication-failed": "our client does not authenticate itself",
    "topic-authorization-failed": "needs an authorizer; the servers have none",
    "cluster-authorization-failed": "needs an authorizer; the servers have none",
    "transactional-id-authorization-failed": "needs an authorizer; the servers have none",
    "unsupported-version": "our client asks only for what a node offers",
    "invalid-replica-assignment": "our client gives partitions no other replicas than they have",
    "preferred-leader-not-available": "no leader is moved in these tests to a broker that is gone",
    "unsupported-for-message-format": "releases with older formats of records are not run",
    "unsupported-compression-type": "our client never compresses",
    "duplicate-sequence-number": "a repeated batch is answered as the first, and an older one as out of order",
    "unknown-producer-id": "no release from 2.8 on answers with it",
    "kafka-storage-error": "a broker whose only disk fails ends",
    "fetch-session-id-not-found": "our client keeps no fetch sessions",
    "invalid-fetch-session-epoch": "our client keeps no fetch sessions",
    "topic-deletion-disabled": "a setting of servers that our systems do not make",
    "offset-not-available": "there for a moment after an election",
    "broker-id-not-registered": "answers requests of brokers",
    "stale-broker-epoch": "answers requests of brokers",
    "throttling-quota-exceeded": "needs quotas, which our client does not set",
    "unknown-topic-id": "our client fetches by name",
    "inconsistent-topic-id": "our client fetches by name",
    "duplicate-voter": "the fault `membership` adds a voter only while no list names it",
    "voter-not-found": "the fault `membership` removes a voter only while a list names it",
    "invalid-voter-key": "the fault `membership` names a voter by the directory that it has",
    "incomplete-answer": "a server that breaks the protocol",
    "unreadable-records": "a log that was damaged after it was checked",
}


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    """One node, controller and broker; uvloop."""
    result: dict[str, Any] = run_scenario(
        "tests.systems.kafka.kafka_scenarios:alone", nodes=1, timeout_s=270, uvloop=True
    )
    return result


@pytest.fixture(scope="module")
def together() -> dict[str, Any]:
    """Three nodes; asyncio's loop."""
    result: dict[str, Any] = run_scenario("tests.systems.kafka.kafka_quorum_scenarios:together", nodes=3, timeout_s=270)
    return result


def test_a_combined_node_is_what_its_listener_is(alone: dict[str, Any]) -> None:
    assert alone["roles"] == ["controller", "broker"]
    assert alone["ended"] == [None, None]
    assert [versions["CreateTopics"] for versions in alone["versions"]] == [7, 7]
    assert alone["versions"][1]["Fetch"] == 12


@pytest.mark.parametrize(
    ("step", "at_controller", "through_broker"),
    [
        ("possible", "ok", "ok"),
        ("still possible", "ok", "ok"),
        ("made", "ok", "ok"),
        ("again", ["definite", "topic-already-exists"], ["indefinite", "topic-already-exists"]),
        ("taken", ["definite", "topic-already-exists"], ["definite", "topic-already-exists"]),
        ("too many replicas", ["definite", "invalid-replication-factor"], ["indefinite", "invalid-replication-factor"]),
        ("bad name", ["definite", "invalid-topic"], ["definite", "invalid-topic"]),
        ("no partitions", ["definite", "invalid-partitions"], ["indefinite", "invalid-partitions"]),
        ("too many partitions", ["definite", "policy-violation"], ["definite", "policy-violation"]),
        ("bad config", ["definite", "invalid-config"], ["definite", "invalid-config"]),
        ("set", "ok", "ok"),
        ("set all", "ok", "ok"),
        ("tried", "ok", "ok"),
        ("set nowhere", ["definite", "unknown-topic-or-partition"], ["indefinite", "unknown-topic-or-partition"]),
        ("set for nobody", ["definite", "invalid-request"], ["definite", "invalid-request"]),
        ("set nonsense", ["definite", "invalid-config"], ["definite", "invalid-config"]),
        ("read nowhere", ["definite", "unknown-topic-or-partition"], ["definite", "unknown-topic-or-partition"]),
        ("taken back", "ok", "ok"),
        ("deleted", "ok", "ok"),
        ("delete nothing", ["definite", "unknown-topic-or-partition"], ["indefinite", "unknown-topic-or-partition"]),
    ],
)
def test_changes_end_as_the_table_says(
    alone: dict[str, Any], step: str, at_controller: str | list[str], through_broker: str | list[str]
) -> None:
    for where, expected in (("changes", at_controller), ("forwarded", through_broker)):
        found = alone[where][step]
        assert (found[0] if expected == "ok" else found) == expected, (where, found)


def test_who_is_who(alone: dict[str, Any]) -> None:
    who = alone["who"]
    assert who["quorum"] == [1, who["quorum"][1], [1], True]
    assert who["forwarded"] == who["quorum"][:2]
    assert who["topics"] == [["all", 0, 1], ["nowhere", 3, 0]]
    assert who["isr"] == [1]
    assert who["metadata at a controller"] == ["definite", "unsupported-api"]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("one acknowledgement", "ok"),
        ("none", ["indefinite", "no-acknowledgement"]),
        ("idempotent", "ok"),
        ("sequence left out", ["definite", "out-of-order-sequence-number"]),
        ("next epoch", "ok"),
        ("old epoch", ["definite", "invalid-producer-epoch"]),
        ("bad acks", ["definite", "invalid-required-acks"]),
        ("nowhere", ["indefinite", "unknown-topic-or-partition"]),
        ("no such partition", ["indefinite", "unknown-topic-or-partition"]),
        ("all of one replica", "ok"),  # min.insync.replicas=2: more than there are counts as all there are
        ("too large", ["definite", "message-too-large"]),
        ("larger than a segment", ["definite", "record-list-too-large"]),
        ("no key to compact by", ["definite", "invalid-record"]),
        ("of long ago", ["definite", "invalid-timestamp"]),
        ("damaged", ["definite", "corrupt-message"]),
        ("fetch behind the end", ["definite", "offset-out-of-range"]),
        ("fetch at a later epoch", ["definite", "unknown-leader-epoch"]),
        ("fetch nowhere", ["definite", "unknown-topic-or-partition"]),
        ("position nowhere", ["definite", "unknown-topic-or-partition"]),
        ("produce at a controller", ["definite", "unsupported-api"]),
    ],
)
def test_requests_about_the_log_end_as_the_table_says(
    alone: dict[str, Any], step: str, expected: str | list[str]
) -> None:
    found = alone["log"]["ends"][step]
    assert (found[0] if expected == "ok" else found) == expected, found


def test_the_log_holds_what_was_acknowledged_and_nothing_that_was_refused(alone: dict[str, Any]) -> None:
    log = alone["log"]
    assert log["first"] == 0
    assert log["values"] == ["a", "b", "c", "d", "e", "g"]
    assert log["offsets"] == [0, 1, 2, 3, 4, 5]
    assert log["epochs"] == [0]
    assert log["watermark"] == [6, 0, 6]
    assert log["rest"] == [3, 4, 5]
    assert log["late"] == [6]
    assert log["positions"] == [7, 0, 0]
    assert log["ends"]["idempotent again"] == log["ends"]["idempotent"]


def test_ids_are_given_once_the_broker_has_a_block(alone: dict[str, Any]) -> None:
    before = alone["log"]["no id yet"]
    assert before == ["definite", "coordinator-load-in-progress"] or before[0] == "ok"
    assert alone["log"]["ids"] == 20


def test_questions(alone: dict[str, Any]) -> None:
    said = alone["questions"]
    epoch = said["raft"][2]
    assert said == {
        "raft": ["yes", "n1", epoch, None],
        "controller": ["yes", "n1", None, None],
        "broker": ["no", "n1", epoch, "forwarded"],
    }
    assert epoch >= 1


def test_a_node_that_sleeps_and_one_that_dies(alone: dict[str, Any]) -> None:
    assert alone["dead"] == {
        "asleep": ["cancelled", "timeout"],
        "behind what the kernel has not taken": ["definite", "not-taken"],
        "opening": ["definite", "not-connected"],
        "awake": ["ok", alone["dead"]["awake"][1]],
        "dying": ["indefinite", "connection-lost"],
        "after": ["not-sent", "not-sent"],
        "gone": ["definite", "not-connected"],
    }


def test_a_follower_refuses(together: dict[str, Any]) -> None:
    assert together["at a follower"] == {
        "quorum": ["definite", "not-leader-or-follower"],
        "create": ["indefinite", "not-controller"],
        "validate": ["definite", "not-controller"],
        "delete": ["indefinite", "not-controller"],
        "alter": ["indefinite", "not-controller"],
    }
    assert together["not the partition's leader"] == ["indefinite", "not-leader-or-follower"]


def test_a_leader_that_is_cut_off_fails_its_changes_in_doubt_and_epochs_have_one_leader(
    together: dict[str, Any],
) -> None:
    assert together["epochs"] == {"old": True, "one leader each": True}
    assert together["change at the old leader"] in (
        ["indefinite", "not-controller"],
        ["indefinite", "request-timed-out"],
    )


def test_too_few_replicas_are_refused_before_the_append_and_late_ones_are_not(together: dict[str, Any]) -> None:
    assert together["all in step"][0] == "ok"
    assert together["waits for followers"] == ["indefinite", "request-timed-out"]
    assert set(together["before too few replicas"]) <= {"ok", "request-timed-out", "not-enough-replicas-after-append"}


def test_the_logs_say_it_too(together: dict[str, Any]) -> None:
    leader, epoch = together["led"]
    said = [change[:3] for change in together["log"][leader]]
    assert ["raft", True, epoch] in said
    assert ["raft", False, epoch] in said
    assert ["controller", True, epoch] in said
    claims = [(change[0], change[2]) for changes in together["log"].values() for change in changes if change[1]]
    assert len(claims) == len(set(claims)) >= 4


def test_an_epoch_that_is_over_and_a_partition_without_leader_are_told(together: dict[str, Any]) -> None:
    assert together["fetch of an earlier epoch"] == ["definite", "fenced-leader-epoch"]
    assert together["nobody leads"] == [5]


def words(one: object) -> Iterator[str]:
    if isinstance(one, dict):
        for value in one.values():
            yield from words(value)
    elif isinstance(one, list):
        if len(one) >= 2 and one[0] in ("definite", "indefinite", "not-sent"):
            yield one[1]
        for value in one:
            yield from words(value)


def test_every_row_is_provoked_or_has_its_reason(alone: dict[str, Any], together: dict[str, Any]) -> None:
    own = {row.code for row in vars(errors).values() if isinstance(row, Row)}
    table = own | {row.word for row in errors.CODES.values()}
    told = {errors.CODES[number].word for number in together["nobody leads"]}
    here = set(words(alone)) | set(words(together)) | told
    # A broker has its first block of ids at once, or is asked too early.
    elsewhere = {word for _, word in REFUSALS.values() if word} | {"coordinator-load-in-progress"}
    assert not here & set(NOT_PROVOKED), "it can be provoked"
    assert here | elsewhere | set(NOT_PROVOKED) >= table, table - here - elsewhere - set(NOT_PROVOKED)
    assert set(NOT_PROVOKED) <= table
