"""The native objects agree with twins that a user would write, on random histories, valid and bent."""

import random
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from fencepost.checkers.facts.answers import is_ok
from fencepost.checkers.objects import user_objects
from fencepost.checkers.objects.calls import Calls
from fencepost.checkers.objects.queue_order import Step, replays, steps_of, walked
from fencepost.harness.history import History, Operation
from fencepost.harness.interchange.formats.family import choose
from fencepost.harness.plugins import registry
from fencepost.harness.verdict import Budget, Facts, Stop, Validity
from tests.checkers.build import assert_each_had_a_chance
from tests.checkers.objects.object_twins import TWINS, AsModel, Drawn, QueueTwin, Twin, bend, draw, operations_of


def order_of(operations: list[Operation]) -> list[Step] | None:
    return walked(operations).order


def facts(parameter: str) -> Facts:
    return Facts(system="", workload="", nodes=(), guarantees=(), options={"parameter": parameter} if parameter else {})


def native(model: str, operations: list[Operation]) -> dict[str, int] | None:
    """What the checker of this model found; None where the budget ended."""
    family = choose(model, (), lambda f: (), "a test")
    history = cast(History, SimpleNamespace(operations=operations))
    verdict = registry.checker(family.checker)(history, facts(family.parameter))[0]
    assert (verdict.validity is Validity.INVALID) == bool(verdict.anomalies)
    assert_each_had_a_chance(verdict)
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
        explained += order_of(operations) is not None
    assert explained >= 18
    steps = steps_of(operations)
    assert not replays(steps, steps[:-1]) and not replays(steps, [*steps, steps[-1]])


@pytest.mark.parametrize(
    ("budget", "stop"),
    [({"steps": 10}, Stop.STEPS), ({"memory_bytes": 1_000}, Stop.MEMORY), ({"wall_s": 0.0}, Stop.DEADLINE)],
)
def test_a_search_that_did_not_end_says_why(budget: dict[str, Any], stop: Stop) -> None:
    calls = Calls()
    operations = operations_of(draw(random.Random(1), DistinctQueue(), 300, 5, 0.2))
    for op in operations:
        calls.add(op, "a counter", 0, 1)
    (result,) = calls.judged("counter", msgspec.structs.replace(Budget(), **budget))
    assert (result.verdict, result.stop, result.reason) == ("unknown", stop, stop.sentence)


class FewElements(QueueTwin):
    """A handful of elements, over and over."""

    def draw(self, rng: random.Random, process: int) -> tuple[str, Any]:
        return ("enqueue", rng.randrange(5)) if rng.random() < 0.55 else ("dequeue", None)


@pytest.mark.parametrize("info", [0, 0.05, 0.2])
@pytest.mark.parametrize(("kind", "least"), [(DistinctQueue, 12), (FewElements, 11)])
def test_unknown_outcomes_and_equal_elements_need_no_search(kind: type[QueueTwin], least: int, info: float) -> None:
    """Of correct queues nearly all are explained; the search left all of these without an answer."""
    explained = 0
    for seed in range(12):
        rng = random.Random(f"{seed} {info}")
        explained += order_of(operations_of(draw(rng, kind(), 200, 5, info))) is not None
    assert explained >= least


def test_nothing_is_explained_that_a_twin_refutes() -> None:
    """Small histories of few elements with many unknown outcomes, bent: an order that is found is one."""
    counted: Counter[bool] = Counter()
    for seed in range(150):
        rng = random.Random(f"few {seed}")
        calls = draw(rng, FewElements(), rng.randrange(4, 12), 3, 0.3)
        bend(rng, FewElements(), calls)
        operations = operations_of(calls)
        refuted = bool(by_twin(FewElements(), operations))
        assert not (refuted and order_of(operations)), operations
        counted[refuted] += 1
    assert min(counted.values()) >= 10, counted


class ManyElements(QueueTwin):
    def draw(self, rng: random.Random, process: int) -> tuple[str, Any]:
        return ("enqueue", rng.randrange(50)) if rng.random() < 0.5 else ("dequeue", None)


@pytest.mark.parametrize("plant", ["empty", "swapped"])
def test_violations_among_equal_elements_are_refuted_by_a_few_of_them(plant: str) -> None:
    """Hundreds of operations on fifty elements: the search left such histories without an answer."""
    for seed in range(3):
        rng = random.Random(f"planted {seed}")
        calls = draw(rng, ManyElements(), 400, 10, 0)
        taken = sorted((c for c in calls if c.f == "dequeue" and c.result is not None), key=lambda c: c.invoked)
        one, other = taken[90], next(c for c in taken[130:] if c.result != taken[90].result)
        one.result, other.result = (None, other.result) if plant == "empty" else (other.result, one.result)
        operations = operations_of(calls)
        found = walked(operations)
        assert found.order is None and found.stuck is not None
        assert native("queue", operations) in ({"lost-element": 1}, {"reordered-element": 1}, {"duplicate-element": 1})


def lost_behind(unknown: int) -> list[Operation]:
    """Three elements, of which only the last is taken, with some dequeues of unknown result."""
    calls = [Drawn(0, "enqueue", value, None, 2 * value, 2 * value + 1, True) for value in range(3)]
    calls += [Drawn(9 + i, "dequeue", None, None, 8 + i, 90 + i, False) for i in range(unknown)]
    calls.append(Drawn(1, "dequeue", None, 2, 20, 21, True))
    calls.append(Drawn(99, "dequeue", None, None, 50, 51, False))
    return operations_of(calls)


@pytest.mark.parametrize("unknown", [0, 1, 2])
def test_dequeues_of_unknown_result_take_one_element_each(unknown: int) -> None:
    """The one that was invoked when all was over does not count."""
    found = native("queue", lost_behind(unknown))
    assert found == ({"lost-element": 1} if unknown < 2 else {})
    assert bool(by_twin(QueueTwin(), lost_behind(unknown))) == bool(found)


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


def test_what_a_dequeue_of_unknown_result_took_is_replayed() -> None:
    operations = lost_behind(2)
    order = order_of(operations)
    assert order is not None
    steps = [step for step in order if step.op.f == "enqueue" or is_ok(step.op)]
    assert replays(steps, order) and len(order) - len(steps) == 2
    takes = [step for step in order if step not in steps]
    again = [takes[0] if step is takes[1] else step for step in order]
    assert not replays(steps, again)
    assert not replays(
        steps, [msgspec.structs.replace(step, op=takes[0].op) if step in takes else step for step in order]
    )
    taken_by_known = [msgspec.structs.replace(step, op=order[-1].op) if step in takes else step for step in order]
    assert not replays(steps, taken_by_known)
    assert not replays(steps, [*takes, *steps])
