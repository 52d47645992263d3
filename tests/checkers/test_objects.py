"""The native objects agree with twins that a user would write, on random histories, valid and bent."""

import random
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from checkers import user_objects
from checkers.objects.queue_order import is_explained, replays, steps_of
from harness import registry
from harness.formats.family import choose
from harness.history import History
from harness.operation import Operation
from harness.verdict import Facts, Validity
from tests.checkers.object_twins import TWINS, AsModel, Drawn, QueueTwin, Twin, bend, draw, operations_of


def facts(parameter: str) -> Facts:
    return Facts(system="", workload="", nodes=(), guarantees=(), options={"parameter": parameter} if parameter else {})


def native(model: str, operations: list[Operation]) -> dict[str, int] | None:
    """What the checker of this model found; None where the budget ended."""
    family = choose(model, (), lambda f: None, "a test")
    history = cast(History, SimpleNamespace(operations=operations))
    verdict = registry.checker(family.checker)(history, facts(family.parameter))[0]
    assert (verdict.validity is Validity.INVALID) == bool(verdict.anomalies)
    return dict(verdict.anomalies)


def by_twin(twin: Twin, operations: list[Operation]) -> dict[str, int]:
    history = cast(History, SimpleNamespace(operations=operations))
    verdict = user_objects.judge("a twin", AsModel(twin), history, facts(""))[0]
    assert "not finished" not in verdict.reason
    return dict(verdict.anomalies)


def compare(twin: Twin, seeds: range, operations_max: int = 9) -> Counter[str]:
    """How often which verdict was given by both."""
    counted: Counter[str] = Counter()
    for seed in seeds:
        rng = random.Random(f"{type(twin).__name__} {seed}")
        calls = draw(rng, twin, rng.randrange(2, operations_max + 1), rng.randrange(1, 5), rng.choice((0, 0.1, 0.4)))
        bent = rng.random() < 0.8
        if bent:
            bend(rng, twin, calls)
        operations = operations_of(calls)
        expected = by_twin(twin, operations)
        assert bent or not expected, (type(twin).__name__, seed)
        for model in twin.models:
            found = native(model, operations)
            assert bool(found) == bool(expected), (model, seed, operations, found, expected)
        counted["invalid" if expected else "valid"] += 1
    return counted


@pytest.mark.parametrize("twin", TWINS, ids=[type(twin).__name__ for twin in TWINS])
def test_a_twin_says_the_same(twin: Twin) -> None:
    counted = compare(twin, range(100))
    assert min(counted["valid"], counted["invalid"]) >= 5, counted


@pytest.mark.long
@pytest.mark.parametrize("twin", TWINS, ids=[type(twin).__name__ for twin in TWINS])
def test_a_twin_says_the_same_of_thousands(twin: Twin) -> None:
    counted = compare(twin, range(100, 2100)) + compare(twin, range(10_000, 10_300), operations_max=14)
    assert min(counted["valid"], counted["invalid"]) >= 150, counted


class DistinctQueue(QueueTwin):
    """No element is enqueued twice."""

    def __init__(self) -> None:
        self.last = 0

    def draw(self, rng: random.Random, process: int) -> tuple[str, Any]:
        self.last += 1
        return ("enqueue", self.last) if rng.random() < 0.5 else ("dequeue", None)


def test_long_queues_need_no_search() -> None:
    """An order of distinct elements is found at once, and replayed."""
    explained = 0
    for seed in range(20):
        rng = random.Random(seed)
        operations = operations_of(draw(rng, DistinctQueue(), 300, 5, 0))
        explained += is_explained(operations)
    assert explained >= 18
    steps = steps_of(operations)
    assert not replays(steps, steps[:-1]) and not replays(steps, [*steps, steps[-1]])


@pytest.mark.parametrize(
    ("order", "wanted"),
    [
        ("0 1 2 3", True),
        ("1 0 2 3", False),
        ("0 1 3 2", False),
        ("0 2 1 3", True),
        ("0 1 2", False),
        ("2 0 1 3", False),
    ],
)
def test_an_order_of_a_queue_is_replayed(order: str, wanted: bool) -> None:
    """Two enqueues one after the other, and two dequeues beside each other and beside the second enqueue."""
    calls = [
        Drawn(0, "enqueue", 1, None, 0, 1, True),
        Drawn(0, "enqueue", 2, None, 2, 6, True),
        Drawn(1, "dequeue", None, 1, 3, 7, True),
        Drawn(2, "dequeue", None, 2, 4, 8, True),
    ]
    steps = steps_of(operations_of(calls))
    assert replays(steps, [steps[int(i)] for i in order.split()]) == wanted


def test_real_time_and_emptiness_are_replayed() -> None:
    one_after_the_other = [Drawn(0, "enqueue", 1, None, 0, 1, True), Drawn(0, "enqueue", 2, None, 2, 3, True)]
    steps = steps_of(operations_of(one_after_the_other))
    assert replays(steps, steps) and not replays(steps, steps[::-1])
    beside = [Drawn(0, "enqueue", 1, None, 0, 2, True), Drawn(1, "dequeue", None, None, 1, 3, True)]
    steps = steps_of(operations_of(beside))
    assert replays(steps, steps[::-1]) and not replays(steps, steps)
