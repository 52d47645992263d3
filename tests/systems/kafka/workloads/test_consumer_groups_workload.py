"""The consumer-groups workload against a coordinator in memory: what members do, and every planted bug is found."""

from collections import Counter

import pytest

from fencepost.harness.history import Outcome, PhaseName
from fencepost.harness.plugins import registry
from fencepost.harness.verdict import Validity
from tests.fakes.group_store import BUGS, FACTS, NODES, run_fake_groups
from tests.fakes.playing import assert_found_within_ten_seeds
from tests.seeds import seeds


@pytest.mark.parametrize("bug", BUGS)
def test_every_planted_bug_is_found_within_ten_seeds(bug: str) -> None:
    assert_found_within_ten_seeds(
        BUGS[bug], lambda seed: registry.checker("consumer-groups")(run_fake_groups(bug, seed), FACTS)
    )


@pytest.mark.parametrize("seed", seeds(10, quick=3))
def test_a_correct_coordinator_passes_and_was_put_to_the_test(seed: int) -> None:
    for verdict in registry.checker("consumer-groups")(run_fake_groups(None, seed), FACTS):
        assert verdict.validity is Validity.VALID, (verdict.guarantee, verdict.reason, verdict.witnesses[:1])


def test_members_join_fall_behind_and_leave_on_every_node() -> None:
    history = run_fake_groups(None, 1)
    ended = Counter((o.f, o.type) for o in history.operations)
    assert ended["join", Outcome.OK] > 20
    assert ended["leave", Outcome.OK] >= 2
    assert ended["late-commit", Outcome.FAIL] > 5
    assert ended["late-commit", Outcome.OK] == 0
    assert ended["offset-commit", Outcome.OK] > 200
    assert "rebalance-in-progress" in {o.error for o in history.operations if o.f == "beat"}
    assert {(o.node, o.key) for o in history.operations if o.f == "join"} == {
        (node, key) for node in NODES for key in ("g0", "g1")
    }


def test_the_end_reads_every_group_until_it_answers_the_same_three_times() -> None:
    history = run_fake_groups(None, 2)
    final = history.phases[PhaseName.FINAL]
    reads = [o for o in history.operations if o.invoked_ns >= final[0]]
    for key in ("g0", "g1"):
        assert len({o.result for o in reads if o.key == key}) == 1
        assert len([o for o in reads if o.key == key]) >= 3
    assert len({o.node for o in reads}) > 1
