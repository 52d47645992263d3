"""Key-value stores with numbered writes: each anomaly by name, and its neighbour that is none; simulated stores."""

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fencepost.checkers.confirm import ProofFails, confirm
from fencepost.checkers.storage.kv import etcd, states, zookeeper
from fencepost.checkers.storage.kv.acts import Dialect, Kind
from fencepost.checkers.storage.kv.etcd import ETCD
from fencepost.checkers.storage.kv.facts import Store
from fencepost.checkers.storage.kv.reading import operations_as_acts
from fencepost.checkers.storage.kv.refutation import PROVEN
from fencepost.checkers.storage.kv.replay import refusal
from fencepost.checkers.storage.kv.states import walked
from fencepost.checkers.storage.kv.zookeeper import ZOOKEEPER
from fencepost.harness.base.errors import MalformedHistory, UsageError
from fencepost.harness.cli import main
from fencepost.harness.history import Event, History, OpEvent, Outcome, pair
from fencepost.harness.results.reader import read_history
from fencepost.harness.verdict import Facts, Thresholds, Validity, Verdict
from tests.checkers.build import assert_each_had_a_chance
from tests.checkers.storage.kv_oracle import explained
from tests.checkers.storage.kv_stores import ETCD_BUGS, TXN_BUGS, ZOOKEEPER_BUGS, Simulated

FOUND = Path(__file__).parents[2] / "histories" / "found"


def facts(parameter: str = "", exposure_min: int = 0) -> Facts:
    return Facts(
        system="",
        workload="a store",
        nodes=(),
        guarantees=(),
        options={"parameter": parameter} if parameter else {},
        thresholds=Thresholds(exposure_min=exposure_min),
    )


def tell(*lines: str) -> History:
    """`0 write x 5` invokes, `0 ok {"revision": 7}` completes, `0 info`; `0 write x 5 -> {...}` does both at once.

    The key `-` is none.
    """
    events: list[Event] = []
    opened: dict[str, tuple[str, str | None, Any]] = {}

    def add(process: str, type_: Outcome, value: Any) -> None:
        f, key, _ = opened[process]
        index = len(events)
        events.append(
            OpEvent(
                index=index, time_ns=index * 1000, type=type_, process=int(process), f=f, node="n", key=key, value=value
            )
        )

    for line in lines:
        said, _, answer = line.partition(" -> ")
        process, word, *rest = said.split(maxsplit=3 if said.split()[1] not in ("ok", "fail", "info") else 2)
        if word in ("ok", "fail", "info"):
            value = json.loads(rest[0]) if rest else opened[process][2]
            add(process, Outcome(word), value)
            continue
        value = json.loads(rest[1]) if len(rest) > 1 else None
        opened[process] = word, rest[0] if rest and rest[0] != "-" else None, value
        add(process, Outcome.INVOKE, value)
        if answer:
            add(process, Outcome.OK, json.loads(answer))
    return History(events)


def judged(dialect: Dialect, *lines: str, parameter: str = "") -> Verdict:
    check = etcd.check if dialect is ETCD else zookeeper.check
    (verdict,) = check(tell(*lines), facts(parameter))
    return verdict


E, Z = ETCD, ZOOKEEPER
CASES: list[tuple[Dialect, list[str], str]] = [
    (E, ['0 write x 5 -> {"revision": 2}', '1 read x -> {"value": 5, "revision": 2, "mod-revision": 2}'], "valid"),
    # A write that was acknowledged is not in a state behind it.
    (
        E,
        ['0 write x 5 -> {"revision": 2}', '1 read x -> {"revision": 2}'],
        "lost-write",
    ),
    (
        E,
        [
            '0 write x 5 -> {"revision": 2}',
            '0 write x 6 -> {"revision": 3}',
            '1 read x -> {"value": 5, "revision": 4, "mod-revision": 2}',
        ],
        "lost-write",
    ),
    # Taken away at 5 by nobody who is known, and there again at 7.
    (
        E,
        [
            '0 write x 5 -> {"revision": 2}',
            "0 delete x",
            "0 info",
            '1 read x {"serializable": true} -> {"value": 5, "revision": 7, "mod-revision": 2}',
            '1 read x {"serializable": true} -> {"revision": 5}',
        ],
        "lost-write",
    ),
    # A state from before what had been answered.
    (
        E,
        [
            '0 write x 5 -> {"revision": 2}',
            '0 write x 6 -> {"revision": 3}',
            '1 read x -> {"value": 5, "revision": 2, "mod-revision": 2}',
        ],
        "stale-read",
    ),
    (
        E,
        [
            '0 write x 5 -> {"revision": 2}',
            '0 write x 6 -> {"revision": 3}',
            '1 read x {"serializable": true} -> {"value": 5, "revision": 2, "mod-revision": 2}',
        ],
        "valid",
    ),
    # What another read had shown, of a write without an answer.
    (
        E,
        [
            '0 write x 5 -> {"revision": 2}',
            "0 write x 6",
            "0 info",
            '1 read x -> {"value": 6, "revision": 3, "mod-revision": 3}',
            '1 read x -> {"value": 5, "revision": 2, "mod-revision": 2}',
        ],
        "stale-read",
    ),
    (E, ['0 write x 5 -> {"revision": 2}', '1 write y 6 -> {"revision": 2}'], "duplicate-revision"),
    # Of one key: which of the two was there then nobody says.
    (
        E,
        ['0 write x 5 -> {"revision": 2}', '1 write x 6 -> {"revision": 2}', '2 cas x [6, 7] -> {"revision": 3}'],
        "duplicate-revision",
    ),
    (E, ['0 write x 5 -> {"revision": 3}', '1 write y 6 -> {"revision": 2}'], "revision-went-back"),
    # A znode that was taken away cannot be changed, unless somebody may have made it again.
    (
        Z,
        [
            '0 create x 5 -> {"zxid": 2}',
            '0 delete x -> {"zxid": 3}',
            '0 write x 6 -> {"zxid": 4}',
            '1 read x -> {"value": 6, "zxid": 5, "mzxid": 4}',
        ],
        "write-to-nothing",
    ),
    (
        Z,
        [
            '0 create x 5 -> {"zxid": 2}',
            '0 delete x -> {"zxid": 3}',
            "1 create x 7",
            "1 info",
            '0 write x 6 -> {"zxid": 5}',
            '2 read x -> {"value": 6, "zxid": 5, "mzxid": 5}',
        ],
        "valid",
    ),
    (E, ['0 write x 5 -> {"revision": 2}', '0 delete x -> {"revision": 3}', '0 write x 6 -> {"revision": 4}'], "valid"),
    (
        E,
        ["0 write x 5", "1 write y 6", '0 ok {"revision": 3}', '1 ok {"revision": 2}'],
        "valid",
    ),
    (
        E,
        ['0 write x 5 -> {"revision": 2}', '1 read x -> {"value": 6, "revision": 2, "mod-revision": 2}'],
        "two-values",
    ),
    # Of a write that failed, and of one that nobody made.
    (
        E,
        [
            '0 write y 5 -> {"revision": 2}',
            "0 write x 6",
            "0 fail",
            '1 read x -> {"value": 6, "revision": 3, "mod-revision": 3}',
        ],
        "phantom-read",
    ),
    # One write of unknown outcome can have made one version only.
    (
        E,
        [
            '0 write y 5 -> {"revision": 2}',
            "0 write x 6",
            "0 info",
            '1 read x -> {"value": 6, "revision": 3, "mod-revision": 3}',
            '1 read x -> {"value": 6, "revision": 4, "mod-revision": 4}',
        ],
        "phantom-read",
    ),
    # Whoever wrote the value did so only after it had been read.
    (
        E,
        [
            '0 write y 5 -> {"revision": 2}',
            '1 read x -> {"value": 6, "revision": 3, "mod-revision": 3}',
            "2 write x 6",
            "2 info",
        ],
        "phantom-read",
    ),
    # Whoever took it away did so only after it had been missed.
    (E, ['0 write x 5 -> {"revision": 2}', '1 read x -> {"revision": 3}', "2 delete x", "2 info"], "lost-write"),
    # Others wrote before the history began, at 4 at last; and where a key was created is told only later.
    (E, ['0 write y 1 -> {"revision": 5}', '0 write x 2 -> {"revision": 9, "version": 9}'], "wrong-version"),
    (E, ['0 write y 1 -> {"revision": 5}', '0 write x 2 -> {"revision": 9, "version": 5}'], "valid"),
    (
        E,
        ['0 write x 1 -> {"revision": 6, "version": 4}', '0 write x 2 -> {"revision": 9, "create-revision": 4}'],
        "wrong-version",
    ),
    (
        E,
        ['0 write x 1 -> {"revision": 6, "version": 3}', '0 write x 2 -> {"revision": 9, "create-revision": 4}'],
        "valid",
    ),
    # It was there before the history began.
    (E, ['1 read x -> {"value": 6, "revision": 9, "mod-revision": 8, "version": 3}'], "valid"),
    # Versions count.
    (
        E,
        [
            '0 write x 5 -> {"revision": 9}',
            '1 read x -> {"value": 5, "revision": 9, "mod-revision": 9, "create-revision": 9, "version": 2}',
        ],
        "impossible-metadata",
    ),
    (
        E,
        [
            '0 create x 5 -> {"revision": 9}',
            '0 write x 6 -> {"revision": 12}',
            '1 read x -> {"value": 6, "revision": 12, "mod-revision": 12, "create-revision": 9, "version": 3}',
        ],
        "wrong-version",
    ),
    (
        E,
        [
            '0 create x 5 -> {"revision": 9}',
            "0 write x 7",
            "0 info",
            '2 write x 6 -> {"revision": 11}',
            '1 read x -> {"value": 6, "revision": 11, "mod-revision": 11, "create-revision": 9, "version": 3}',
        ],
        "valid",
    ),
    (
        E,
        [
            '0 create x 5 -> {"revision": 9}',
            '0 write x 6 -> {"revision": 10}',
            '1 read x -> {"value": 6, "revision": 10, "mod-revision": 10, "create-revision": 10}',
        ],
        "wrong-creation",
    ),
    # Conditions.
    (
        E,
        [
            '0 write x 5 -> {"revision": 2}',
            '0 write x 6 -> {"revision": 3}',
            '1 cas x {"value": 7, "mod-revision": 2} -> {"revision": 4}',
        ],
        "cas-on-wrong-revision",
    ),
    (
        E,
        ['0 write x 5 -> {"revision": 2}', '1 cas x {"value": 7, "mod-revision": 2} -> {"revision": 4}'],
        "valid",
    ),
    (
        E,
        ['0 write x 5 -> {"revision": 2}', '1 cas x {"value": 7, "mod-revision": 0} -> {"revision": 4}'],
        "cas-on-wrong-revision",
    ),
    (E, ['0 write x 5 -> {"revision": 2}', '1 cas x [6, 7] -> {"revision": 4}'], "cas-on-wrong-value"),
    (
        E,
        ["0 write x 6", "0 info", '2 write x 5 -> {"revision": 2}', '1 cas x [6, 7] -> {"revision": 4}'],
        "valid",
    ),
    (
        E,
        ["0 write x 6", "0 info", '2 write x 5 -> {"revision": 2}', '1 cas x [6, 7] -> {"revision": 3}'],
        "cas-on-wrong-value",
    ),
    (E, ['0 write x 5 -> {"revision": 2}', '1 create x 7 -> {"revision": 4}'], "create-over-existing"),
    (
        E,
        [
            '0 write x 5 -> {"revision": 2}',
            '0 delete x -> {"revision": 3}',
            '1 create x 7 -> {"revision": 4, "version": 1}',
        ],
        "valid",
    ),
    (
        E,
        ['0 write x 5 -> {"revision": 2}', '0 delete x -> {"revision": 3}', '1 delete x -> {"revision": 4}'],
        "delete-of-nothing",
    ),
    (
        E,
        [
            '0 write x 5 -> {"revision": 2}',
            '0 delete x -> {"revision": 3}',
            '1 delete x -> {"revision": 3, "deleted": 0}',
        ],
        "valid",
    ),
    # ZooKeeper: a session may be late, but never goes back.
    (
        Z,
        [
            '0 write x 5 -> {"zxid": 2}',
            '0 write x 6 -> {"zxid": 3}',
            '1 read x -> {"value": 5, "zxid": 2, "mzxid": 2}',
        ],
        "valid",
    ),
    (
        Z,
        [
            '0 write x 5 -> {"zxid": 2}',
            '0 write x 6 -> {"zxid": 3}',
            '1 read x -> {"value": 6, "zxid": 3, "mzxid": 3}',
            '1 read x -> {"value": 5, "zxid": 2, "mzxid": 2}',
        ],
        "session-went-back",
    ),
    # The same where replies tell of the znode only.
    (
        Z,
        [
            '0 write x 5 -> {"zxid": 2}',
            '0 write x 6 -> {"zxid": 3}',
            '1 read x -> {"value": 6, "mzxid": 3}',
            '1 read x -> {"value": 5, "mzxid": 2}',
        ],
        "session-went-back",
    ),
    (
        Z,
        [
            '0 write x 5 -> {"zxid": 2}',
            '0 write x 6 -> {"zxid": 3}',
            '1 read x -> {"value": 6, "zxid": 3, "mzxid": 3, "session": 7}',
            '2 read x -> {"value": 5, "zxid": 2, "mzxid": 2, "session": 7}',
        ],
        "session-went-back",
    ),
    # Behind a sync.
    (
        Z,
        [
            '0 write x 5 -> {"zxid": 2}',
            '0 write x 6 -> {"zxid": 3}',
            "1 sync -> null",
            '1 read x -> {"value": 5, "zxid": 2, "mzxid": 2}',
        ],
        "stale-after-sync",
    ),
    (
        Z,
        [
            '0 write x 5 -> {"zxid": 2}',
            '0 write x 6 -> {"zxid": 3}',
            '1 read x {"sync": true} -> {"value": 5, "mzxid": 2}',
        ],
        "stale-after-sync",
    ),
    # The write was answered only after the sync was invoked.
    (
        Z,
        [
            '0 write x 5 -> {"zxid": 2}',
            "0 write x 6",
            "1 sync",
            '0 ok {"zxid": 3}',
            "1 ok",
            '1 read x -> {"value": 5, "zxid": 2, "mzxid": 2}',
        ],
        "valid",
    ),
    (
        Z,
        [
            '0 create x 5 -> {"zxid": 2, "version": 0}',
            '0 cas x {"value": 6, "version": 0} -> {"zxid": 3, "version": 1}',
            '1 cas x {"value": 7, "version": 0} -> {"zxid": 4}',
        ],
        "cas-on-wrong-version",
    ),
    (
        Z,
        ['0 create x 5 -> {"zxid": 9}', '1 read x -> {"value": 5, "mzxid": 9, "zxid": 9, "pzxid": 8, "czxid": 9}'],
        "impossible-metadata",
    ),
    # Transactions: all writes at one revision.
    (
        E,
        [
            '0 txn - {"success": [["put", "x", 5], ["put", "y", 6]]} -> '
            '{"succeeded": true, "revision": 2, "responses": [null, null]}',
            '1 read x -> {"value": 5, "revision": 2, "mod-revision": 2}',
            '1 read y -> {"value": 6, "revision": 2, "mod-revision": 2}',
        ],
        "valid",
    ),
    (
        E,
        [
            '0 txn - {"success": [["put", "x", 5], ["put", "y", 6]]} -> '
            '{"succeeded": true, "revision": 2, "responses": [null, null]}',
            '1 read x -> {"value": 5, "revision": 2, "mod-revision": 2}',
            '1 read y -> {"revision": 2}',
        ],
        "torn-transaction",
    ),
    (
        E,
        [
            '0 write z 1 -> {"revision": 1}',
            '0 txn - {"success": [["put", "x", 5], ["put", "y", 6]]}',
            "0 info",
            '1 read x -> {"value": 5, "revision": 2, "mod-revision": 2}',
            '1 read y -> {"revision": 2}',
        ],
        "torn-transaction",
    ),
    (
        E,
        [
            '0 write z 1 -> {"revision": 1}',
            '0 txn - {"success": [["put", "x", 5], ["put", "y", 6]]}',
            "0 info",
            '1 read x -> {"value": 5, "revision": 2, "mod-revision": 2}',
            '1 read y -> {"value": 6, "revision": 3, "mod-revision": 3}',
        ],
        "phantom-read",
    ),
    # One of unknown outcome, whose delete may have found nothing.
    (
        E,
        [
            '0 write y 1 -> {"revision": 2}',
            '0 delete y -> {"revision": 3}',
            '0 txn - {"success": [["put", "x", 5], ["delete", "y"]]}',
            "0 info",
            '1 read x -> {"value": 5, "revision": 4, "mod-revision": 4}',
            '1 read y -> {"revision": 4}',
        ],
        "valid",
    ),
    # Either of two made both, and took y away at the number that x tells of.
    (
        E,
        [
            '0 write y 1 -> {"revision": 2}',
            '0 txn - {"success": [["put", "x", 5], ["delete", "y"]]}',
            "0 info",
            '2 txn - {"success": [["put", "x", 5], ["delete", "y"]]}',
            "2 info",
            '1 read x -> {"value": 5, "revision": 3, "mod-revision": 3}',
            '1 read y -> {"revision": 3}',
        ],
        "valid",
    ),
    # One of two made x, and it need not be the one that puts y as well.
    (
        E,
        [
            '0 write z 1 -> {"revision": 2}',
            '0 txn - {"success": [["put", "x", 5], ["put", "y", 6]]}',
            "0 info",
            '2 txn - {"success": [["put", "x", 5]]}',
            "2 info",
            '1 read x -> {"value": 5, "revision": 3, "mod-revision": 3}',
            '1 read y -> {"revision": 3}',
        ],
        "valid",
    ),
    (
        E,
        [
            '0 write z 1 -> {"revision": 2}',
            '0 txn - {"success": [["put", "x", 5], ["put", "y", 6]]}',
            "0 info",
            "2 write x 5",
            "2 info",
            '1 read x -> {"value": 5, "revision": 3, "mod-revision": 3}',
            '1 read y -> {"revision": 3}',
        ],
        "valid",
    ),
    # It reads what was there before, and what it wrote itself.
    (
        E,
        [
            '0 write x 4 -> {"revision": 2}',
            '0 txn - {"success": [["get", "x"], ["put", "x", 5], ["get", "x"]]} -> {"succeeded": true, "revision": 3, '
            '"responses": [{"value": 4, "mod-revision": 2}, null, {"value": 5, "mod-revision": 3, "version": 2}]}',
        ],
        "valid",
    ),
    (
        E,
        [
            '0 write x 4 -> {"revision": 2}',
            '0 txn - {"success": [["put", "x", 5], ["get", "x"]]} -> {"succeeded": true, "revision": 3, '
            '"responses": [null, {"value": 4, "mod-revision": 2}]}',
        ],
        "lost-write",
    ),
    # Reads of two keys from two revisions.
    (
        E,
        [
            '0 write x 4 -> {"revision": 2}',
            '0 write y 5 -> {"revision": 3}',
            '1 txn - {"success": [["get", "x"], ["get", "y"]]} -> {"succeeded": true, "revision": 3, "responses": '
            '[{"value": 4, "mod-revision": 2}, null]}',
        ],
        "lost-write",
    ),
    (
        E,
        [
            '0 write x 4 -> {"revision": 2}',
            '0 write y 5 -> {"revision": 3}',
            '1 txn - {"success": [["get", "x"], ["get", "y"]]} -> {"succeeded": true, "revision": 2, "responses": '
            '[{"value": 4, "mod-revision": 2}, null]}',
        ],
        "stale-read",
    ),
    (
        E,
        [
            '0 write x 4 -> {"revision": 2}',
            '0 write y 5 -> {"revision": 3}',
            '1 txn - {"serializable": true, "success": [["get", "x"], ["get", "y"]]} -> {"succeeded": true, '
            '"revision": 2, "responses": [{"value": 4, "mod-revision": 2}, null]}',
        ],
        "valid",
    ),
    (
        E,
        [
            '0 write x 4 -> {"revision": 3}',
            '1 txn - {"success": [["put", "y", 5]]} -> {"succeeded": true, "revision": 2, "responses": [null]}',
        ],
        "revision-went-back",
    ),
    (
        E,
        [
            '0 write x 4 -> {"revision": 2}',
            '1 txn - {"success": [["put", "y", 5]]} -> {"succeeded": true, "revision": 2, "responses": [null]}',
        ],
        "duplicate-revision",
    ),
    # Compares, of a key that is not written: just before it, and not at its own revision.
    *(
        (
            E,
            [
                '0 write x 4 -> {"revision": 2}',
                '0 write x 5 -> {"revision": 3}',
                f'1 txn - {{"compare": {compare}, "{branch}": [["put", "y", 5]]}} -> '
                f'{{"succeeded": {said}, "revision": 4, "responses": [null]}}',
            ],
            verdict,
        )
        for compare, said, verdict in (
            ('[["version", "x", "=", 2]]', "true", "valid"),
            ('[["version", "x", "=", 1]]', "true", "wrong-compare"),
            ('[["version", "x", "=", 2]]', "false", "wrong-compare"),
            ('[["version", "x", "=", 1]]', "false", "valid"),
            ('[["version", "x", "<", 2]]', "true", "wrong-compare"),
            ('[["version", "x", "<", 3]]', "true", "valid"),
            ('[["version", "x", ">", 2]]', "true", "wrong-compare"),
            ('[["version", "x", ">", 1]]', "true", "valid"),
            ('[["version", "x", ">", 1]]', "false", "wrong-compare"),
            ('[["version", "x", "<", 3]]', "false", "wrong-compare"),
            ('[["mod-revision", "x", "=", 3]]', "true", "valid"),
            ('[["mod-revision", "x", "=", 2]]', "true", "wrong-compare"),
            ('[["mod-revision", "x", "!=", 3]]', "true", "wrong-compare"),
            ('[["mod-revision", "x", "!=", 2]]', "true", "valid"),
            ('[["mod-revision", "x", "=", 0]]', "true", "wrong-compare"),
            ('[["create-revision", "x", "=", 2]]', "true", "valid"),
            ('[["create-revision", "x", "=", 3]]', "true", "wrong-compare"),
            ('[["create-revision", "z", "=", 0]]', "true", "valid"),
            ('[["create-revision", "z", ">", 0]]', "true", "wrong-compare"),
            ('[["value", "x", "=", 5]]', "true", "valid"),
            ('[["value", "x", "=", 4]]', "true", "wrong-compare"),
            ('[["value", "x", "!=", 5]]', "true", "wrong-compare"),
            ('[["value", "z", "!=", 5]]', "true", "wrong-compare"),
            ('[["value", "z", "=", 5]]', "false", "valid"),
            ('[["version", "x", "=", 2], ["version", "z", "=", 0]]', "true", "valid"),
            ('[["version", "x", "=", 2], ["version", "z", "=", 0]]', "false", "wrong-compare"),
            ('[["version", "x", "=", 1], ["version", "z", "=", 0]]', "false", "valid"),
            ('[["version", "x", "=", 2], ["version", "z", "=", 1]]', "false", "valid"),
        )
        for branch in ("success" if said == "true" else "failure",)
    ),
]


@pytest.mark.parametrize(("dialect", "lines", "said"), CASES)
def test_each_anomaly_and_its_neighbour(dialect: Dialect, lines: list[str], said: str) -> None:
    history = tell(*lines)
    verdict = judged(dialect, *lines)
    assert_each_had_a_chance(verdict)
    if said == "valid":
        assert verdict.validity is Validity.VALID and not verdict.anomalies
    else:
        assert verdict.validity is Validity.INVALID
        assert list(verdict.anomalies) == [said]
        assert 1 <= len(verdict.witnesses[0].events) <= 6
    document = {"verdicts": [msgspec.to_builtins(verdict)]}
    assert confirm(history, document) == 1
    acts = operations_as_acts(history.operations, dialect, signed=False)
    assert explained(acts, dialect) == (said == "valid")
    store = Store(acts, dialect)
    walks = [walked(store, key, {act.row for act in acts}, -1) for key in store.keys]
    assert said != "valid" or all(walk.explained for walk in walks)


@pytest.mark.parametrize("seed", range(40))
def test_a_correct_store_is_never_accused(seed: int) -> None:
    rng = random.Random(seed)
    told = Simulated(
        rng.choice((ETCD, ZOOKEEPER)),
        rng,
        steps=rng.choice((60, 600)),
        clients=rng.choice((1, 4, 8)),
        keys=rng.choice(("x", "vwxyz")),
        values=rng.choice((0, 3)),
        told=rng.choice((0.0, 0.5, 1.0)),
        unknown=rng.choice((0.0, 0.1, 0.4)),
        sparse=rng.random() < 0.5,
        headers=rng.choice((0.5, 1.0)),
    )
    if not told.late:
        told.drop(quiet(told.events))
    check = etcd.check if told.dialect is ETCD else zookeeper.check
    (verdict,) = check(told.history, facts())
    assert not verdict.anomalies, verdict.witnesses[0]
    if verdict.validity is Validity.UNKNOWN:
        assert "open" in verdict.reason or not any(op.type is Outcome.OK for op in pair(told.events))


def test_what_was_chosen_before_accuses_nobody() -> None:
    """A choice among writes of unknown outcome that stood farther back was once forgotten, and a store accused."""
    told = Simulated(
        ETCD,
        random.Random(0.09902913987582584),
        steps=900,
        clients=4,
        keys="vwxyz",
        told=0.5,
        unknown=0.2,
        sparse=True,
        headers=0.5,
    )
    (verdict,) = etcd.check(told.history, facts())
    assert verdict.validity is Validity.VALID


@pytest.mark.parametrize(("seed", "said"), [(534, "cas-on-wrong-value"), (912, "lost-write"), (2092, "wrong-version")])
def test_what_choices_leave_open_every_state_decides(seed: int, said: str) -> None:
    told = Simulated(ETCD, random.Random(seed), steps=26, clients=3, keys="x", values=2, unknown=0.4, headers=0.5)
    told.bend()
    (verdict,) = etcd.check(told.history, facts())
    assert_each_had_a_chance(verdict)
    assert list(verdict.anomalies) == [said] and confirm(told.history, msgspec.to_builtins(verdict)) == 1


def quiet(events: list[Event]) -> int:
    """Where the history could as well have begun: the last of the first moments at which nothing is open."""
    opened, found = 0, 0
    for at, event in enumerate(events[:60]):
        assert type(event) is OpEvent
        opened += 1 if event.type is Outcome.INVOKE else -1
        if event.type is Outcome.INFO:
            return found
        found = at + 1 if not opened else found
    return found


BUGS = [(ETCD, bug) for bug in ETCD_BUGS] + [(ZOOKEEPER, bug) for bug in ZOOKEEPER_BUGS]


@pytest.mark.parametrize(("dialect", "bug"), BUGS, ids=lambda value: value if isinstance(value, str) else value.name)
def test_a_bug_of_the_store_is_named(dialect: Dialect, bug: str) -> None:
    check = etcd.check if dialect is ETCD else zookeeper.check
    named = fired = 0
    for seed in range(12):
        told = Simulated(dialect, random.Random(seed), steps=240, unknown=0.03, sparse=True, bug=bug)
        (verdict,) = check(told.history, facts())
        assert told.fired or not verdict.anomalies
        assert_each_had_a_chance(verdict)
        fired += told.fired
        named += bug in verdict.anomalies or (bug == "wrong-version" and "impossible-metadata" in verdict.anomalies)
    assert fired >= 7
    # What was lost shows only where it is read before it is overwritten.
    assert named >= fired * (0.25 if bug == "lost-write" else 0.8)


def refuted_somewhere(store: Store, rng: random.Random) -> bool:
    """Whether any key is refuted by all answers, or by some of them behind any number."""
    for key, own in store.keys.items():
        rows = {told.row for told in (*own, *store.checks.get(key, ()))}
        some = {row for row in rows if rng.random() < 0.6}
        if any(walked(store, key, *window).explained is False for window in ((rows, -1), (some, rng.randint(-1, 8)))):
            return True
    return False


@pytest.mark.parametrize(
    ("seed", "count"), [(1, 900), *(pytest.param(seed, 20_000, marks=pytest.mark.long) for seed in range(2, 6))]
)
def test_the_verdict_is_that_of_trying_everything(seed: int, count: int) -> None:
    rng = random.Random(seed)
    met = dict.fromkeys(Validity, 0)
    for _ in range(count):
        dialect = rng.choice((ETCD, ZOOKEEPER))
        told = Simulated(
            dialect,
            random.Random(rng.random()),
            steps=rng.randint(8, 26),
            clients=rng.randint(1, 3),
            keys=rng.choice(("x", "xy")),
            values=rng.choice((0, 1, 2)),
            told=rng.choice((0.0, 0.5, 1.0)),
            unknown=rng.choice((0.0, 0.2, 0.4)),
            first=rng.choice((dialect.empty, 1, 2, 3)),
            sparse=rng.random() < 0.3,
            headers=rng.choice((1.0, 0.5)),
        )
        for _ in range(rng.choice((0, 1, 1, 2))):
            told.bend()
        if rng.random() < 0.15:
            told.drop(rng.randint(0, 3))
        acts = operations_as_acts(pair(told.events), told.dialect, signed=False)
        floating = sum(act.done is None or (act.kind is Kind.READ and act.at is None) for act in acts)
        if floating > 4:
            continue
        check = etcd.check if told.dialect is ETCD else zookeeper.check
        (verdict,) = check(told.history, facts())
        assert_each_had_a_chance(verdict)
        possible = explained(acts, told.dialect)
        store = Store(acts, told.dialect)
        assert not possible or not refuted_somewhere(store, rng), told.events
        if "was answered in" in verdict.reason:
            continue
        met[verdict.validity] += 1
        assert verdict.validity is Validity.UNKNOWN or (verdict.validity is Validity.VALID) == possible, told.events
        confirm(told.history, msgspec.to_builtins(verdict))
    assert met[Validity.UNKNOWN] <= count // 200
    assert min(met[Validity.VALID], met[Validity.INVALID]) >= count // 4


@pytest.mark.parametrize(
    ("seed", "count"), [(1, 160), *(pytest.param(seed, 10_000, marks=pytest.mark.long) for seed in range(2, 4))]
)
def test_the_verdict_on_transactions_is_that_of_trying_everything(seed: int, count: int) -> None:
    rng = random.Random(seed)
    met = dict.fromkeys(Validity, 0)
    for _ in range(count):
        told = Simulated(
            ETCD,
            random.Random(rng.random()),
            steps=rng.randint(8, 22),
            clients=rng.randint(1, 3),
            keys=rng.choice(("x", "xy", "xy")),
            values=rng.choice((0, 1, 2)),
            told=rng.choice((0.0, 0.5, 1.0)),
            unknown=rng.choice((0.0, 0.2, 0.4)),
            first=rng.choice((1, 1, 1, 2)),
            sparse=rng.random() < 0.3,
            txns=rng.choice((0.3, 0.6, 1.0)),
        )
        for _ in range(rng.choice((0, 1, 1, 2))):
            told.bend()
        acts = operations_as_acts(pair(told.events), ETCD, signed=False)
        if sum(act.done is None for act in acts) > 4:
            continue
        (verdict,) = etcd.check(told.history, facts())
        if "was answered in" in verdict.reason:
            continue
        assert_each_had_a_chance(verdict)
        possible = explained(acts, ETCD)
        met[verdict.validity] += 1
        assert verdict.validity is Validity.UNKNOWN or (verdict.validity is Validity.VALID) == possible, told.events
        confirm(told.history, msgspec.to_builtins(verdict))
        store = Store(acts, ETCD)
        assert not possible or not refuted_somewhere(store, rng), told.events
    assert met[Validity.UNKNOWN] <= count // 8
    assert min(met[Validity.VALID], met[Validity.INVALID]) >= count // 4


@pytest.mark.parametrize("bug", TXN_BUGS)
def test_a_bug_of_transactions_is_named(bug: str) -> None:
    named = accused = fired = 0
    for seed in range(20):
        told = Simulated(ETCD, random.Random(seed), steps=200, clients=2, unknown=0.02, txns=0.3, bug=bug)
        (verdict,) = etcd.check(told.history, facts())
        assert told.fired or not verdict.anomalies
        assert_each_had_a_chance(verdict)
        fired += told.fired
        accused += bool(verdict.anomalies)
        named += TXN_BUGS[bug] in verdict.anomalies
        confirm(told.history, msgspec.to_builtins(verdict))
    # A write that was never done may be seen by nobody, or as a version or a creation that do not follow.
    assert fired >= 10 and accused >= fired * 0.5 and named >= fired * (0.2 if bug == "torn-transaction" else 0.5)


def test_a_kept_proof_that_does_not_hold_is_refused() -> None:
    valid = tell(*CASES[0][1])
    (verdict,) = etcd.check(valid, facts())
    document: dict[str, Any] = msgspec.to_builtins(verdict)
    (proof,) = document["proofs"]
    for rows in (proof["rows"][::-1], proof["rows"][:1], [*proof["rows"], 2], [77]):
        with pytest.raises(UsageError):
            confirm(valid, {**document, "proofs": [{**proof, "rows": rows}]})
    stale = tell(*CASES[4][1])
    (verdict,) = etcd.check(stale, facts())
    document = msgspec.to_builtins(verdict)
    (witness,) = document["witnesses"]
    assert confirm(stale, document) == 1
    for change in ({"rows": [0, 4]}, {"rows": [4, 2]}, {"name": "lost-write"}, {"name": "phantom-read"}, {"rows": [9]}):
        with pytest.raises(ProofFails):
            confirm(stale, {**document, "witnesses": [{**witness, "proof": {**witness["proof"], **change}}]})


WINDOWS = [(dialect, lines, said) for dialect, lines, said in CASES if said != "valid" and said not in PROVEN]


@pytest.mark.parametrize(("dialect", "lines", "said"), WINDOWS)
def test_a_window_that_leaves_a_state_is_refused(dialect: Dialect, lines: list[str], said: str) -> None:
    """Without any one of its answers, or from behind them; and with one more write of unknown outcome that will do."""
    history = tell(*lines)
    document: dict[str, Any] = msgspec.to_builtins(judged(dialect, *lines))
    (witness,) = document["witnesses"]
    proof = witness["proof"]
    assert proof["name"] == said
    assert proof["kind"] == "window" or said == "wrong-compare"
    changes: list[dict[str, Any]] = [{"rows": [row for row in proof["rows"] if row != left]} for left in proof["rows"]]
    changes.append({"kind": "zone-pair"})
    if proof["kind"] == "window":
        changes += [{"key": "another"}, {"since": 99}]
    for change in changes:
        with pytest.raises(ProofFails):
            confirm(history, {**document, "witnesses": [{**witness, "proof": {**proof, **change}}]})
    with pytest.raises(ProofFails, match="invalid without a proof"):
        confirm(history, {**document, "witnesses": []})


_BOTH = (
    '0 write x 4 -> {"revision": 2}',
    '0 txn - {"compare": [["version", "x", "=", 1], ["version", "z", "=", 3]], "failure": [["put", "x", 5], '
    '["put", "y", 6]]} -> {"succeeded": false, "revision": 3, "responses": [null, null]}',
    '1 read x -> {"value": 5, "revision": 3, "mod-revision": 3}',
    '1 read y -> {"value": 6, "revision": 3, "mod-revision": 3}',
    '2 txn - {"failure": [["put", "x", 7]]}',
    "2 info",
    "3 write x 8",
    "3 info",
)
FORGED: list[tuple[Dialect, tuple[str, ...], dict[str, Any]]] = [
    # Both are of one transaction, as is what it wrote.
    (E, _BOTH, {"kind": "finding", "name": "duplicate-revision", "rows": [4, 6], "key": "y"}),
    (E, _BOTH, {"kind": "finding", "name": "duplicate-revision", "rows": [2, 2], "key": "y"}),
    # A write is no stale read, least of all one without an answer.
    (E, _BOTH, {"kind": "finding", "name": "stale-read", "rows": [6, 8], "key": "x"}),
    (E, _BOTH, {"kind": "finding", "name": "stale-read", "rows": [6, 10], "key": "x"}),
    (E, _BOTH, {"kind": "finding", "name": "torn-transaction", "rows": [2, 4, 6], "key": "y"}),
    # One of its compares did not hold; and what is none, or has none.
    (E, _BOTH, {"kind": "compares", "name": "wrong-compare", "rows": [2]}),
    (E, _BOTH, {"kind": "compares", "name": "wrong-compare", "rows": [0]}),
    (E, _BOTH, {"kind": "compares", "name": "wrong-compare", "rows": [8]}),
    (E, _BOTH, {"kind": "compares", "name": "wrong-compare", "rows": []}),
    (
        E,
        ('0 write x 1 -> {"revision": 6, "version": 4}', '0 write x 2 -> {"revision": 9, "create-revision": 4}'),
        {"kind": "order", "name": "", "rows": [0, 2]},
    ),
    (E, _BOTH, {"kind": "window", "name": "phantom-read", "rows": [2, 4, 6], "key": "x"}),
    (
        Z,
        ('0 write x 4 -> {"zxid": 2}', "0 sync -> null"),
        {"kind": "finding", "name": "stale-read", "rows": [0, 2], "key": "x"},
    ),
]


@pytest.mark.parametrize(("dialect", "lines", "proof"), FORGED)
def test_a_forged_proof_is_refused(dialect: Dialect, lines: tuple[str, ...], proof: dict[str, Any]) -> None:
    witness = {"anomaly": proof["name"], "proof": proof}
    document = {"checker": dialect.name, "validity": "invalid", "anomalies": {}, "witnesses": [witness]}
    with pytest.raises(ProofFails, match="does not hold"):
        confirm(tell(*lines), document)


def test_every_verdict_is_confirmed_and_names_change_nothing() -> None:
    """Renamed keys, processes and sessions, other times, and failures left out."""
    rng = random.Random(5)
    said = {Validity.VALID: 0, Validity.INVALID: 0}
    for seed in range(100):
        dialect = rng.choice((ETCD, ZOOKEEPER))
        told = Simulated(dialect, random.Random(seed), steps=80, values=rng.choice((0, 3)), unknown=0.1)
        if rng.random() < 0.5:
            told.bend()
        check = etcd.check if dialect is ETCD else zookeeper.check
        (verdict,) = check(told.history, facts())
        confirm(told.history, msgspec.to_builtins(verdict))
        changed = [
            msgspec.structs.replace(
                event, time_ns=7 * event.time_ns + 5, process=1000 - event.process, key=event.key and f"/a/{event.key}"
            )
            for event in told.events
            if type(event) is OpEvent
        ]
        (other,) = check(History(changed), facts())
        assert (other.validity, other.anomalies) == (verdict.validity, verdict.anomalies)
        failed = {op.invoke_index for op in told.history.operations if op.type is Outcome.FAIL}
        failed |= {op.complete_index for op in told.history.operations if op.type is Outcome.FAIL and op.complete_index}
        left = [event for event in told.events if event.index not in failed]
        (without,) = check(History([msgspec.structs.replace(e, index=i) for i, e in enumerate(left)]), facts())
        assert (without.validity, without.anomalies) == (verdict.validity, verdict.anomalies)
        if verdict.validity in said:
            said[verdict.validity] += 1
    assert min(said.values()) > 20


MALFORMED: list[tuple[Dialect, list[str], str]] = [
    (E, ['0 write x 5 -> {"revison": 2}'], "event 1: the reply of a write has the field 'revison'; expected "),
    (E, ["0 write x 5 -> 5"], "event 0: an ok write has no revision; expected the one that the store gave to it"),
    (E, ["0 write x 5 -> 6"], "event 0: a write completes with 6, but was invoked with 5"),
    (E, ['0 write x 5 -> {"revision": "2"}'], "event 0: revision is '2'; expected an integer from 0"),
    (E, ['0 write x 5 -> {"revision": 0}'], "event 0: the revision of an ok write is 0; expected an integer from 1"),
    (E, ['0 read x -> {"value": 5, "revision": 2}'], "event 0: a read of 5 has no mod-revision; expected"),
    (E, ['0 read x -> {"value": 5, "mod_revision": 2}'], "event 0: a read has no revision; expected that of the reply"),
    (
        E,
        ['0 read x {"sync": true} -> {"revision": 2}'],
        "event 0: the request of a read has the field 'sync'; expected serial",
    ),
    (E, ['0 read x 7 -> {"revision": 2}'], "event 0: the request of a read is 7; expected a map of serializable"),
    (
        E,
        ['0 cas x 7 -> {"revision": 2}'],
        "event 0: the value of a cas is 7; expected [old new], or a map of value and",
    ),
    (E, ['0 cas x [1] -> {"revision": 2}'], "event 0: the value of a cas is [1]; expected [old new]"),
    (
        E,
        ['0 cas x {"value": 1} -> {"revision": 2}'],
        "event 0: a cas compares with nothing; expected one of mod-revision",
    ),
    (
        E,
        ['0 cas x {"value": 1, "version": 1, "mod-revision": 2} -> {"revision": 2}'],
        "event 0: a cas compares with mod-revision and version; expected one of them",
    ),
    *(
        (E, [f"0 txn - {request}"], f"event 0: {said}")
        for request, said in (
            ("[1]", "the request of a txn is [1]; expected a map of compare, failure, serializable, success"),
            ('{"succes": []}', "the request of a txn has the field 'succes'; expected compare"),
            ('{"success": 5}', "success of a txn is 5; expected a list"),
            ('{"success": [["put", "x"]]}', "an operation of a txn is ['put', 'x']; expected [put key value]"),
            ('{"success": [["txn", {}]]}', "an operation of a txn is ['txn', {}]; expected [put key value]"),
            ('{"success": [["put", "x", null]]}', "a txn puts no value to 'x'"),
            ('{"success": [["get", null]]}', "a txn names the key None; expected text"),
            (
                '{"failure": [["put", "x", 1], ["delete", "x"]]}',
                "failure of a txn puts x and writes it again; etcd",
            ),
            ('{"compare": [["version", "x", 3]]}', "a txn compares ['version', 'x', 3]; expected [target key result"),
            ('{"compare": [["lease", "x", "=", 3]]}', "a txn compares 'lease'; expected one of mod-revision"),
            ('{"compare": [["version", "x", "==", 3]]}', "a txn compares by '=='; expected one of = != < >"),
            ('{"compare": [["value", "x", "<", 3]]}', "a txn compares values by <; expected = or !="),
            ('{"compare": [["version", "x", "=", "3"]]}', "version is '3'; expected an integer from 0"),
        )
    ),
    *(
        (E, [f'0 txn - {{"success": [["get", "x"], ["delete", "y"]]}} -> {reply}'], said)
        for reply, said in (
            ("5", "event 1: the reply of a txn is 5; expected a map of responses, revision, succeeded"),
            (
                '{"revision": 3, "responses": [null, null]}',
                "event 1: succeeded of a txn is None; expected true or false",
            ),
            ('{"succeeded": true, "responses": [null, null]}', "event 1: an ok txn has no revision"),
            ('{"succeeded": true, "revision": 3, "responses": []}', "event 1: a txn has 0 responses; expected 2, one"),
            (
                '{"succeeded": true, "revision": 3, "responses": [{"value": 3}, null]}',
                "event 1: a get of x has a value without mod-revision",
            ),
            (
                '{"succeeded": true, "revision": 3, "responses": [null, {"deleted": true}]}',
                "deleted is True; expected an integer from 0",
            ),
            (
                '{"succeeded": true, "revision": 0, "responses": [null, null]}',
                "event 1: the revision of a txn that wrote",
            ),
        )
    ),
    (
        E,
        ['0 txn - {"serializable": true, "success": [["put", "x", 1]]} -> {}'],
        "event 0: a txn that is serializable may write; expected get alone",
    ),
    (E, ["0 txn x {}"], "event 0: a txn has the key 'x'; expected none"),
    (Z, ["0 delete x -> null"], "event 0: an ok delete has no zxid"),
    (Z, ["0 sync x 5 -> null"], "event 0: the request of a sync is 5; expected a map of nothing"),
]


@pytest.mark.parametrize(("dialect", "lines", "said"), MALFORMED)
def test_what_cannot_be_read_is_refused(dialect: Dialect, lines: list[str], said: str) -> None:
    with pytest.raises(MalformedHistory) as refused:
        judged(dialect, *lines)
    assert said in refused.value.message
    assert refused.value.hint is not None


def test_a_parameter_is_the_sign_or_nothing() -> None:
    with pytest.raises(UsageError) as refused:
        judged(ETCD, *CASES[0][1], parameter="sync")
    assert "serializable" in (refused.value.hint or "")


@pytest.mark.parametrize(
    "compare", ['"version", "x", ">", 3', '"create-revision", "x", "<", 9', '"value", "x", "!=", 9']
)
def test_a_compare_that_nobody_can_tell_is_unknown(compare: str) -> None:
    """Of a key that may have been there before the history began, and that nobody else speaks of."""
    verdict = judged(
        ETCD,
        f'0 txn - {{"compare": [[{compare}]], "success": [["put", "y", 5]]}} -> '
        '{"succeeded": true, "revision": 50, "responses": [null]}',
    )
    assert verdict.validity is Validity.UNKNOWN and "at first" in verdict.reason


def test_one_number_for_two_keys_of_some_transaction_is_no_defect() -> None:
    """A transaction puts both keys, though another value: nothing that is small proves that it was two writes."""
    verdict = judged(
        ETCD,
        '0 write z 1 -> {"revision": 2}',
        '0 txn - {"success": [["put", "x", 5], ["put", "y", 6]]}',
        "0 info",
        "2 write y 7",
        "2 info",
        '1 read x -> {"value": 5, "revision": 3, "mod-revision": 3}',
        '1 read y -> {"value": 7, "revision": 3, "mod-revision": 3}',
    )
    assert verdict.validity is Validity.UNKNOWN and "duplicate-revision" in verdict.reason


def test_a_walk_that_gives_up_says_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Simulated(ETCD, random.Random(2), steps=200, unknown=0.3, values=2)
    acts = operations_as_acts(pair(told.events), ETCD, signed=False)
    store, rows = Store(acts, ETCD), {act.row for act in acts}
    assert all(walked(store, key, rows, -1).explained for key in store.keys)
    monkeypatch.setattr(states, "STATES_MAX", 5)
    assert all(walked(store, key, rows, -1).explained is None for key in store.keys)


def test_nothing_to_judge_is_unknown() -> None:
    (verdict,) = etcd.check(tell("0 write x 5", "0 info"), facts())
    assert verdict.validity is Validity.UNKNOWN and "was answered" in verdict.reason
    (verdict,) = etcd.check(tell('0 write x 5 -> {"revision": 2}'), facts(exposure_min=1))
    assert verdict.validity is Validity.UNKNOWN and verdict.reason.startswith("0 ok reads")


EDN = """\
{:process 0, :type :invoke, :f :write, :value [:x 5]}
{:process 0, :type :ok, :f :write, :value [:x {:revision 7}]}
{:process 1, :type :invoke, :f :read, :value [:x %s]}
{:process 1, :type :ok, :f :read, :value [:x {:value 5, :revision 9, :mod-revision 7, :version 3}]}
{:process 0, :type :invoke, :f :cas, :value [:x {:value 6, :mod-revision 7}]}
{:process 0, :type :ok, :f :cas, :value [:x {:revision 10}]}
{:process 1, :type :invoke, :f :read, :value [:x %s]}
{:process 1, :type :ok, :f :read, :value [:x {:value 5, :revision 9, :mod-revision 7}]}
"""


@pytest.mark.parametrize(
    ("sign", "model", "code"),
    [("nil", "etcd-kv", 1), ("{:serializable true}", "etcd-kv", 0), ("nil", "etcd-kv:serializable", 0)],
)
def test_in_edn_and_in_json_lines(
    sign: str, model: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, lines = tmp_path / "history.edn", tmp_path / "history.jsonl"
    path.write_text(EDN % (sign, sign), encoding="utf-8")
    assert main(["check", str(path), "--model", model, "--report", str(tmp_path / "out.html")]) == code
    assert ("1 stale read" in capsys.readouterr().out) == (code == 1)
    assert main(["export", str(path), "--format", "jsonl", "-o", str(lines)]) == 0
    assert main(["check", str(lines), "--model", model]) == code
    if model == "etcd-kv":
        assert main(["check", str(path)]) == code


TXN_EDN = """\
{:process 0, :type :invoke, :f :txn, :value {:compare [[:version :x := 0]], :success [[:put :x 5] [:put "y" 6]]}}
{:process 0, :type :ok, :f :txn, :value {:succeeded true, :revision 7, :responses [nil {}]}}
"""
READ_EDN = """\
{:process 1, :type :invoke, :f :read, :value [:x nil]}
{:process 1, :type :ok, :f :read, :value [:x {:value %s, :revision 7, :mod-revision 7}]}
"""


@pytest.mark.parametrize(("text", "code"), [(TXN_EDN, 2), (TXN_EDN + READ_EDN % 5, 0), (TXN_EDN + READ_EDN % 6, 1)])
def test_transactions_in_edn_and_in_json_lines(
    text: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside keyed reads or alone; a key is the same in both."""
    path = tmp_path / "history.edn"
    path.write_text(text, encoding="utf-8")
    assert main(["check", str(path)]) == code
    assert "model etcd-kv" in capsys.readouterr().err
    for form in ("jsonl", "edn"):
        again = tmp_path / f"again.{form}"
        assert main(["export", str(path), "--format", form, "-o", str(again)]) == 0
        assert main(["check", str(again), "--model", "etcd-kv"]) == code


def test_a_transaction_of_nothing_ends_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.edn"
    path.write_text(READ_EDN % 5 + "{:process 0, :type :invoke, :f :txn, :value nil}\n", encoding="utf-8")
    assert main(["check", str(path), "--model", "etcd-kv"]) == 254
    said = capsys.readouterr().err
    assert "event 2: the request of a txn is None; expected a map" in said and said.count("\n") == 2


def test_a_sync_tells_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """\
{:process 0, :type :invoke, :f :write, :value ["/x" 5]}
{:process 0, :type :ok, :f :write, :value ["/x" {:zxid 7}]}
{:process 1, :type :invoke, :f :sync, :value nil}
{:process 1, :type :ok, :f :sync, :value nil}
{:process 1, :type :invoke, :f :read, :value ["/x" nil]}
{:process 1, :type :ok, :f :read, :value ["/x" {:value 4, :mzxid 3, :czxid 2, :version 1}]}
"""
    (tmp_path / "history.edn").write_text(text, encoding="utf-8")
    assert main(["check", str(tmp_path / "history.edn")]) == 1
    said = capsys.readouterr()
    assert "model zookeeper-kv, keyed" in said.err and "1 stale read after a sync" in said.out
    (tmp_path / "history.edn").write_text(text.replace(":value 4", ":valu 4"), encoding="utf-8")
    assert main(["check", str(tmp_path / "history.edn")]) == 254
    assert "event 5: the reply of a read has the field 'valu'" in capsys.readouterr().err
    (tmp_path / "history.edn").write_text(text.replace(":value 4", ':value "4"'), encoding="utf-8")
    assert main(["check", str(tmp_path / "history.edn")]) == 254
    assert "a string" in capsys.readouterr().err


def test_an_order_is_refused_exactly_where_none_is() -> None:
    """Where every reply says where it stands and none is unknown there is one order: the check of it decides alone."""
    rng = random.Random(3)
    met = {True: 0, False: 0}
    for _ in range(1_500):
        dialect = rng.choice((ETCD, ZOOKEEPER))
        first = rng.choice((dialect.empty, 1, 3))
        told = Simulated(
            dialect, random.Random(rng.random()), steps=rng.randint(8, 30), unknown=0.0, told=rng.random(), first=first
        )
        for _ in range(rng.choice((0, 1, 2))):
            told.bend()
        told.drop(rng.choice((0, 0, 4)))
        acts = operations_as_acts(pair(told.events), dialect, signed=False)
        placed = [(act, act.at) for act in acts if act.kind is not Kind.SYNC and act.at is not None]
        if any(act.done is None for act in acts):
            continue
        order = sorted(placed, key=lambda p: (p[1], not p[0].writes, p[0].invoked))
        expected = explained(acts, dialect)
        met[expected] += 1
        assert (refusal(acts, dialect, order) is None) == expected, told.events
    assert min(met.values()) > 80


@pytest.mark.parametrize(("parameter", "said"), [("", Validity.VALID), ("sync", Validity.INVALID)])
def test_a_run_of_ours(parameter: str, said: Validity) -> None:
    """ZOOKEEPER-1675, as a run recorded it: its reads stand behind a sync, which the history itself does not say."""
    history = read_history(FOUND / "zookeeper-3.9.5-stale-after-sync")
    (verdict,) = zookeeper.check(history, facts(parameter, exposure_min=1))
    assert verdict.validity is said
    assert set(verdict.anomalies) == ({"stale-after-sync"} if parameter else set())
    assert all(witness.steps[0].startswith("read ") for witness in verdict.witnesses), "what is at fault is drawn so"
