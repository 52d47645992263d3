"""Which rules about objects could have fired: each anomaly has its rule, and a plant that shows it."""

from collections import defaultdict
from typing import Any

import pytest

from fencepost.checkers.objects.judging import judge
from fencepost.checkers.objects.kind import NON_LINEARIZABLE
from fencepost.checkers.objects.models import MODELS, model_of
from fencepost.harness.plugins import registry
from fencepost.harness.verdict import Cause, Facts, Validity, Verdict
from tests.checkers.build import Tale, assert_each_had_a_chance
from tests.checkers.objects.object_twins import TWINS
from tests.checkers.objects.test_object_proofs import drawn, judged

FACTS = Facts(system="", workload="", nodes=(), guarantees=())
NAMES = [f"{name}:1" if name == "semaphore" else name for name in MODELS]

#: What random histories hardly show: (f, value, result), one after the other, and whether the last two overlap.
PLANTS: dict[str, tuple[str, list[tuple[str, Any, Any]], bool]] = {
    "duplicate-token": ("fenced-mutex", [("acquire", None, 3), ("acquire", None, 3)], True),
    "duplicate-offset": ("append-log", [("append", "a", [0, "a"]), ("append", "a", [0, "a"])], True),
    "duplicate-element": ("linearizable-set", [("add", 1, None), ("members", None, [1, 1])], False),
    "reordered-element": (
        "queue",
        [("enqueue", 1, None), ("enqueue", 2, None), ("dequeue", None, 2), ("dequeue", None, 1)],
        False,
    ),
    "duplicate-element of a stack": ("stack", [("push", 1, None), ("pop", None, 1), ("pop", None, 1)], False),
    "reordered-element of integers": (
        "priority-queue",
        [("enqueue", 2, None), ("enqueue", 1, None), ("dequeue", None, 2), ("dequeue", None, 1)],
        False,
    ),
    "wrong-total": ("bank", [("read", None, {"a": 5, "b": 5}), ("read", None, {"a": 5, "b": 6})], False),
    "overdraft": (
        "bank",
        [("read", None, {"a": 5, "b": 5}), ("transfer", {"from": "a", "to": "b", "amount": 6}, None)],
        False,
    ),
    "fractured-read": (
        "multi-register",
        [
            ("txn", [["w", "x", 1], ["w", "y", 1]], [["w", "x", 1], ["w", "y", 1]]),
            ("txn", [["w", "x", 2], ["w", "y", 2]], [["w", "x", 2], ["w", "y", 2]]),
            ("txn", [["r", "x", None], ["r", "y", None]], [["r", "x", 1], ["r", "y", 2]]),
        ],
        True,
    ),
}


def verdict_on(checker: str, calls: list[tuple[str, Any, Any]], *, overlap: bool = False) -> Verdict:
    tale = Tale()
    for i, (f, value, result) in enumerate(calls):
        after = len(calls) - i
        begin = 10 * (i - 1) + 1 if overlap and after == 1 else 10 * i
        at = (begin, 10 * i + (30 if overlap and after == 2 else 5))
        tale.op(f, "x", value, result=result, at=at)
    return registry.checker(checker)(tale.history(), FACTS)[0]


@pytest.mark.parametrize("anomaly", PLANTS)
def test_a_plant_fires_its_rule(anomaly: str) -> None:
    checker, calls, overlap = PLANTS[anomaly]
    verdict = verdict_on(checker, calls, overlap=overlap)
    assert list(verdict.anomalies) == [anomaly.partition(" ")[0]]
    assert_each_had_a_chance(verdict)


def test_every_rule_fires_in_some_history() -> None:
    """But that of what has no better name."""
    fired, rules = defaultdict[str, set[str]](set), dict[str, set[str]]()
    for checker, calls, overlap in PLANTS.values():
        verdict = verdict_on(checker, calls, overlap=overlap)
        fired[verdict.checker] |= set(verdict.anomalies)
    for twin in TWINS:
        for model in twin.models:
            for seed in range(200):
                verdict = judged(model, drawn(twin, str(seed), 12, bent=True))
                fired[verdict.checker] |= set(verdict.anomalies)
                rules[verdict.checker] = {rule.name for rule in verdict.rules}
                if rules[verdict.checker] - fired[verdict.checker] == {NON_LINEARIZABLE}:
                    break
    assert {name: own - fired[name] for name, own in rules.items()} == {name: {NON_LINEARIZABLE} for name in rules}


@pytest.mark.parametrize("name", NAMES)
def test_a_history_without_an_answer_is_unknown_and_says_what_it_lacked(name: str) -> None:
    (verdict,) = judge(model_of(name), Tale().history(), FACTS)
    assert (verdict.validity, verdict.cause) == (Validity.UNKNOWN, Cause.NO_EXPOSURE)
    assert verdict.rules and all(rule.lacks and not rule.chances for rule in verdict.rules)


def test_a_lone_transaction_could_have_read_what_it_writes_later() -> None:
    verdict = verdict_on("multi-register", [("txn", [["r", "x", None], ["w", "x", 1]], [["r", "x", 1], ["w", "x", 1]])])
    assert list(verdict.anomalies) == ["stale-read"]
    assert_each_had_a_chance(verdict)


def test_one_call_could_have_shown_little() -> None:
    verdict = verdict_on("mutex", [("acquire", None, None)])
    assert {rule.name: rule.chances for rule in verdict.rules} == {
        "two-holders": 0,
        "released-while-free": 0,
        NON_LINEARIZABLE: 0,
    }
    lacks = {rule.name: rule.lacks for rule in verdict.rules}
    assert lacks["two-holders"] == "no acquire was answered beside another acquire"
    assert lacks["released-while-free"] == "no release was answered"
