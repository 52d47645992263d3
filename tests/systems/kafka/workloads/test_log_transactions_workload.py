"""The log-transactions workload against a cluster in memory: what producers do, and every planted bug is found."""

from collections import Counter

import pytest

from fencepost.harness.history import Outcome, PhaseName
from fencepost.harness.verdict import Validity
from fencepost.systems.kafka.checkers.log_transactions.view import TransactionsView
from tests.fakes.playing import assert_found_within_ten_seeds
from tests.fakes.transaction_store import BUGS, NODES, judge_transactions, run_fake_transactions
from tests.seeds import seeds


@pytest.mark.parametrize("bug", BUGS)
def test_every_planted_bug_is_found_within_ten_seeds(bug: str) -> None:
    assert_found_within_ten_seeds(BUGS[bug], lambda seed: judge_transactions(run_fake_transactions(bug, seed)))


@pytest.mark.parametrize("seed", seeds(10, quick=3))
def test_a_correct_cluster_passes_and_was_put_to_the_test(seed: int) -> None:
    for verdict in judge_transactions(run_fake_transactions(None, seed)):
        assert verdict.validity is Validity.VALID, (verdict.guarantee, verdict.reason, verdict.witnesses[:1])


def test_producers_supersede_each_other_and_some_wait_inside_a_transaction_meanwhile() -> None:
    history = run_fake_transactions(None, 3)
    ended = Counter((o.f, o.type) for o in history.operations)
    assert ended["begin", Outcome.OK] > 40
    assert ended["transact", Outcome.OK] > 60
    assert ended["transform", Outcome.OK] > 60
    assert {o.error for o in history.operations if o.type is Outcome.FAIL} >= {"fenced", "timeout"}
    assert ended["transact", Outcome.INFO] + ended["transform", Outcome.INFO] > 2
    begins = {(o.node, o.key) for o in history.operations if o.f == "begin"}
    assert begins == {(node, key) for node in NODES for key in ("x0", "x1", "c0", "c1", "m2")}


def test_the_end_reads_every_partition_in_both_ways_to_its_end() -> None:
    history = run_fake_transactions(None, 2)
    view = TransactionsView(history)
    assert view.unread == []
    assert all(partition.complete and partition.logged for partition in view.partitions.values())
    assert set(view.consumed) == {"c0", "c1", "m2"}
    final = history.phases[PhaseName.FINAL]
    assert not [o for o in history.operations if o.invoked_ns >= final[0] and o.f in ("transact", "transform", "begin")]
