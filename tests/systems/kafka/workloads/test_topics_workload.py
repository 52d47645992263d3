"""The topics workload against topics in memory: names are used again, and every planted bug is found."""

from collections import Counter

import pytest

from fencepost.harness.generators import PENDING, Context
from fencepost.harness.history import Outcome, PhaseName
from fencepost.harness.plugins import registry
from fencepost.harness.verdict import Validity
from fencepost.systems.kafka.workloads.topics import _Lives, _Slot
from tests.fakes.playing import assert_found_within_ten_seeds
from tests.fakes.topic_store import BUGS, FACTS, NODES, run_fake_topics
from tests.seeds import seeds


@pytest.mark.parametrize("bug", BUGS)
def test_every_planted_bug_is_found_within_ten_seeds(bug: str) -> None:
    assert_found_within_ten_seeds(BUGS[bug], lambda seed: registry.checker("topics")(run_fake_topics(bug, seed), FACTS))


@pytest.mark.parametrize("seed", seeds(10, quick=3))
def test_a_correct_store_passes_and_was_put_to_the_test(seed: int) -> None:
    for verdict in registry.checker("topics")(run_fake_topics(None, seed), FACTS):
        assert verdict.validity is Validity.VALID, (verdict.guarantee, verdict.reason, verdict.witnesses[:1])
        assert all(rule.chances for rule in verdict.rules)


def test_names_live_twice_and_most_then_stay_dropped() -> None:
    history = run_fake_topics(None, 1)
    made = Counter(o.key for o in history.operations if o.f == "make-topic" and o.type is Outcome.OK)
    dropped = Counter(o.key for o in history.operations if o.f == "drop-topic" and o.type is Outcome.OK)
    assert set(made.values()) <= {1, 2} and Counter(made.values())[2] > 20
    assert set(dropped.values()) <= {1, 2}
    left = {name for name, times in made.items() if times == 2} - {name for name, n in dropped.items() if n == 2}
    assert {"n0", "n8", "n16"} <= left
    assert sum(o.f == "put-record" and o.type is Outcome.OK for o in history.operations) > 500


def test_the_end_asks_every_node_for_its_topics_twice_and_reads_each_of_them_from_everywhere() -> None:
    history = run_fake_topics(None, 2)
    final = history.phases[PhaseName.FINAL]
    last = [o for o in history.operations if o.invoked_ns >= final[0]]
    lists = [o for o in last if o.f == "list-topics"]
    assert all(sum(o.node == node for o in lists) >= 2 for node in NODES)
    known = {name for o in lists for name in o.result if name.startswith("n")}
    assert known and {(o.node, o.key) for o in last if o.f == "read-topic"} == {(n, k) for n in NODES for k in known}
    assert {o.error for o in last if o.f == "read-topic" and o.type is Outcome.FAIL} == {"not-leader"}


def test_workers_that_are_all_free_begin_something() -> None:
    slots = tuple(_Slot(name=f"n{i}", there=True, leads=i % 3) for i in range(8))
    lives, free = _Lives(slots=slots, nodes=3, lives=2, records=8, names=8), tuple(range(12))
    assert all(lives.op(Context(0, free, free, (0,) * 12, 12, seed))[0] is not PENDING for seed in range(3000))
