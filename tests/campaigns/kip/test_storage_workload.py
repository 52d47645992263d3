"""The storage workload against a cluster in memory: the scenes that callers play."""

from collections import Counter

import pytest

from fencepost.harness.history import Operation, Outcome
from tests.fakes.plants import FAKES
from tests.fakes.runs import judge_fake, run_fake


def operations(seed: int) -> list[Operation]:
    return run_fake("storage", None, seed, faults=("pause",)).operations


@pytest.mark.parametrize("seed", range(3))
def test_a_caller_whose_put_got_no_answer_puts_again_and_then_fetches(seed: int) -> None:
    again = [op for op in operations(seed) if op.f == "put" and op.value[1]]
    assert again
    refused = {(op.process, op.key) for op in again if op.error == "exists"}
    fetched = {(op.process, op.key) for op in operations(seed) if op.f == "fetch"}
    assert refused
    assert refused <= fetched
    unknown = {op.value[0] for op in operations(seed) if op.f == "put" and op.type is Outcome.INFO}
    assert {number for op in again for number in op.value[1]} <= unknown


def test_an_update_of_an_absent_key_is_refused_and_its_caller_puts_the_key() -> None:
    history = operations(4)
    refused = [op for op in history if op.f == "update" and op.error == "absent"]
    assert len(refused) > 50
    puts = {op.key for op in history if op.f == "put"}
    assert sum(op.key in puts for op in refused) > 0.9 * len(refused)


def test_each_key_is_put_by_several_callers_and_one_wins() -> None:
    won = Counter(op.key for op in operations(5) if op.f == "put" and op.type is Outcome.OK)
    asked = Counter(op.key for op in operations(5) if op.f == "put")
    assert set(won.values()) == {1}
    assert sum(count > 2 for count in asked.values()) > 20


def test_updates_of_one_value_are_both_acknowledged_by_a_correct_store() -> None:
    """The interface compares nothing, so this is no bug of a store; the verdict is measured only."""
    history = run_fake("storage", None, 0)
    (verdict,) = [v for v in judge_fake(history, "storage", None).verdicts if v.guarantee == "update-loses-none"]
    assert verdict.counts["lost-update"] > 10
    assert "update-loses-none" in FAKES["storage"][0].unkept
