"""The partition-states workload against brokers in memory: its moves, its end, and every planted bug is found."""

from collections import Counter

import pytest

from fencepost.harness.history import Outcome, PhaseName
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.node import Member
from fencepost.harness.verdict import Validity
from fencepost.systems.kafka.broker_view import broker_view
from fencepost.systems.kafka.workloads.partition_states import PartitionStatesWorkload
from tests.fakes.partition_store import BUGS, FACTS, NODES, run_fake_partitions
from tests.fakes.playing import assert_found_within_ten_seeds
from tests.seeds import seeds


@pytest.mark.parametrize("bug", BUGS)
def test_every_planted_bug_is_found_within_ten_seeds(bug: str) -> None:
    assert_found_within_ten_seeds(
        BUGS[bug], lambda seed: registry.checker("partition-states")(run_fake_partitions(bug, seed), FACTS)
    )


@pytest.mark.parametrize("seed", seeds(10, quick=3))
def test_correct_brokers_pass_and_were_put_to_the_test(seed: int) -> None:
    for verdict in registry.checker("partition-states")(run_fake_partitions(None, seed), FACTS):
        # A broker that is cut off answers by an old copy, in two runs of three; nobody promises that it does not.
        cut = seed % 3 > 0
        if verdict.guarantee == "partition-states-fresh":
            assert verdict.validity is (Validity.INVALID if cut else Validity.VALID)
        elif verdict.guarantee == "stale-broker-is-fenced":
            assert verdict.validity is (Validity.VALID if cut else Validity.UNKNOWN)
        else:
            assert verdict.validity is Validity.VALID, (verdict.guarantee, verdict.reason, verdict.witnesses[:1])


def test_leaders_move_through_the_node_that_can_and_the_others_are_spared() -> None:
    history = run_fake_partitions(None, 0)
    moves = [o for o in history.operations if o.f == "move"]
    assert {o.node for o in moves if o.type is Outcome.OK} == {"b1"}
    refused = Counter(o.node for o in moves if o.error == "not-controller")
    # Once a second of 14 at most, and the views that come first.
    assert 2 <= refused.total() <= 2 * 14
    assert len({o.value[0] for o in moves}) == len({o.key for o in moves}) == 3
    # One in four leaves out a replica.
    sizes = Counter(len(o.value) for o in moves)
    assert all(len({*o.value}) == len(o.value) and {*o.value} <= {1, 2, 3} for o in moves)
    assert set(sizes) == {2, 3} and sizes[2] < sizes[3]


def test_the_end_asks_every_broker_until_all_said_the_same_twice() -> None:
    history = run_fake_partitions(None, 1)
    final = history.phases[PhaseName.FINAL]
    last = [broker_view(o.result) for o in history.operations if o.invoked_ns >= final[0]]
    assert len(last) >= 2 * len(NODES)
    assert all(view.says_the_same(last[-1]) for view in last[-2 * len(NODES) :])
    assert {view.broker for view in last[-len(NODES) :]} == {1, 2, 3}


def test_it_plays_on_brokers_only() -> None:
    members = (
        Member("n1", ("controller",)),
        Member("b1", ("broker",), votes=False),
        Member("z1", ("zookeeper",)),
        Member("n2", ("controller", "broker")),
    )
    assert PartitionStatesWorkload().nodes(members) == ("b1", "n2")
