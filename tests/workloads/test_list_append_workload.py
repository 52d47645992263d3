"""The list-append workload against a store in memory: what its transactions look like, and every bug is found."""

from collections import Counter

import pytest

from fencepost.harness.history import Outcome, PhaseName
from fencepost.harness.verdict import Validity
from tests.fakes.list_store import BUGS, judge_lists, run_fake_lists
from tests.fakes.playing import assert_found_within_ten_seeds
from tests.seeds import seeds


@pytest.mark.parametrize("bug", BUGS)
def test_every_planted_bug_is_found_within_ten_seeds(bug: str) -> None:
    assert_found_within_ten_seeds(BUGS[bug], lambda seed: judge_lists(run_fake_lists(bug, seed)))


@pytest.mark.parametrize("seed", seeds(10, quick=3))
def test_a_correct_store_passes_and_was_put_to_the_test(seed: int) -> None:
    (verdict,) = judge_lists(run_fake_lists(None, seed))
    assert verdict.validity is Validity.VALID
    assert (verdict.tested or 0) > 500


def test_reads_come_first_and_no_number_is_appended_twice() -> None:
    history = run_fake_lists(None, 1)
    sizes = Counter(len(op.value) for op in history.operations)
    assert set(sizes) == {1, 2, 3, 4}
    numbers = [value for op in history.operations for f, _, value in op.value if f == "append"]
    assert len(numbers) == len(set(numbers)) > 500
    for op in history.operations:
        kinds = [f for f, _, _ in op.value]
        assert kinds == sorted(kinds, reverse=True)
        appended = [key for f, key, _ in op.value if f == "append"]
        assert len(appended) == len(set(appended))


def test_appending_again_appends_to_one_list_twice() -> None:
    history = run_fake_lists(None, 1, {"appends": "again"})
    appended = [[key for f, key, _ in op.value if f == "append"] for op in history.operations]
    assert any(len(keys) > len(set(keys)) for keys in appended)


def test_the_end_reads_every_list_from_every_node() -> None:
    history = run_fake_lists(None, 2)
    last = history.phases[PhaseName.FINAL]
    keys = {key for op in history.operations for _, key, _ in op.value}
    finals = [op for op in history.operations if op.invoked_ns >= last[0]]
    assert {f for op in finals for f, _, _ in op.value} == {"r"}
    assert len(keys) > 12
    answered = {key for op in finals if op.type is Outcome.OK for _, key, _ in op.value}
    assert answered <= keys
    assert len(answered) > len(keys) - 4 * 4
