"""Which rules about transactions could have fired: every anomaly that is found had its chance."""

import random

import pytest

from fencepost.checkers.transactions.anomalies import TransactionVerdict, check_list_append, check_register
from fencepost.checkers.transactions.history import check_lists
from fencepost.harness.verdict import Cause, Validity
from fencepost.harness.verdict.consistency_models import NAMES
from tests.checkers.transactions.test_transaction_history import FACTS
from tests.checkers.transactions.test_transaction_history import told as run
from tests.checkers.transactions.test_transactions import LIST_ANOMALIES, REGISTER_ANOMALIES
from tests.checkers.transactions.transaction_histories import Shape, columns, simulated, small, told
from tests.seeds import shares


def chances(verdict: TransactionVerdict) -> dict[str, int]:
    return {rule.name: rule.chances for rule in verdict.rules}


def rule_for(anomaly: str, rules: dict[str, int]) -> str:
    """The rule that an anomaly counts under: its own, that with real time, or that of every such cycle."""
    base = anomaly.removesuffix("-process")
    if base.startswith(("observed-", "fractured-", "causality-")) and anomaly not in rules:
        return rule_for("G-single" + anomaly[len(base) :], rules)
    return anomaly if anomaly in rules else f"{base}-realtime"


def assert_had_their_chance(verdict: TransactionVerdict) -> None:
    counts = chances(verdict)
    for anomaly in set(verdict.anomalies) - set(verdict.allowed):
        assert counts[rule_for(anomaly, counts)] > 0, (anomaly, verdict)


@pytest.mark.parametrize("name", LIST_ANOMALIES)
def test_each_anomaly_of_lists_had_its_chance(name: str) -> None:
    assert_had_their_chance(check_list_append(columns(told(*LIST_ANOMALIES[name][0]))))


@pytest.mark.parametrize("name", REGISTER_ANOMALIES)
def test_each_anomaly_of_registers_had_its_chance(name: str) -> None:
    assert_had_their_chance(check_register(columns(told(*REGISTER_ANOMALIES[name][0]))))


def _compare(seeds: range) -> None:
    seen: set[str] = set()
    for seed in seeds:
        for lists in (True, False):
            rng = random.Random(f"rules {lists} {seed}")
            check = check_list_append if lists else check_register
            verdict = check(columns(small(rng, lists=lists)), model=rng.choice(NAMES))
            assert_had_their_chance(verdict)
            seen |= set(verdict.anomalies)
    assert len(seen) > 15, seen


@pytest.mark.parametrize("seeds", shares(1_000, quick=300, rest=pytest.mark.slow))
def test_every_anomaly_of_random_histories_had_its_chance(seeds: range) -> None:
    _compare(seeds)


@pytest.mark.long
def test_every_anomaly_of_random_histories_had_its_chance_at_length() -> None:
    _compare(range(1_000, 30_000))


@pytest.mark.parametrize("isolation", ["serializable", "snapshot", "read-committed", "read-uncommitted"])
def test_a_long_history_has_a_chance_for_every_rule_about_answers(isolation: str) -> None:
    rng = random.Random(isolation)
    shape = Shape(transactions=200, isolation=isolation, info=0.05, fails=0.1, keys=4)
    verdict = check_list_append(columns(simulated(rng, shape)))
    assert_had_their_chance(verdict)
    counts = chances(verdict)
    assert counts.pop("no-serial-order-realtime") == 0
    assert all(counts.values()), counts


def test_a_verdict_names_the_rules_that_had_no_chance_and_why() -> None:
    """Two transactions of one operation each: no cycle without real time can join them."""
    verdict = check_list_append(columns(told("ax1", "rx")), model="serializable")
    counts = chances(verdict)
    assert {name for name, count in counts.items() if count} == {
        "garbage-read",
        "duplicate-elements",
        "no-serial-order",
    }
    lacks = {rule.name: rule.lacks for rule in verdict.rules}
    assert lacks["garbage-read"] == ""
    assert lacks["G1a"] == "no ok transaction read a key that a failed one writes"
    assert lacks["G-single"] == "no ok transaction read what another one writes, and did more besides"


def test_a_history_in_which_no_rule_could_have_fired_is_unknown() -> None:
    (verdict,) = check_lists(run(("ok", [["append", "x", 1]], [["append", "x", 1]])), FACTS)
    assert (verdict.validity, verdict.cause) == (Validity.UNKNOWN, Cause.NO_EXPOSURE)
    assert verdict.rules and not any(rule.chances for rule in verdict.rules)
    assert all(rule.lacks for rule in verdict.rules)


def test_only_rules_that_can_rule_out_the_model_are_named() -> None:
    rows = columns(told("rx ay1", "ry ax1", "ax2 !fail"))
    weak = chances(check_list_append(rows, model="read-uncommitted"))
    assert set(weak) == {"G0", "duplicate-elements", "garbage-read"}
    causal = chances(check_list_append(rows, model="causal"))
    assert "causality-violation" in causal and "G-single" not in causal and "G2-item" not in causal
    strict = chances(check_list_append(rows))
    assert {"G2-item", "G2-item-realtime"} <= set(strict) and "G2-item-process" not in strict
