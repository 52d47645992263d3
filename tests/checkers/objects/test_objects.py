"""The native objects agree with twins that a user would write, on random histories, valid and bent."""

import random
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from fencepost.checkers import UNKNOWN
from fencepost.checkers.objects import user_objects
from fencepost.checkers.objects.collections import Queue
from fencepost.checkers.objects.models import model_of
from fencepost.checkers.objects.search import search
from fencepost.harness.base.errors import UsageError
from fencepost.harness.history import History, Operation
from fencepost.harness.interchange.formats.family import choose
from fencepost.harness.plugins import registry
from fencepost.harness.verdict import Facts, SearchBudget, Stop, Validity
from tests.checkers.build import assert_each_had_a_chance
from tests.checkers.objects.object_twins import TWINS, AsModel, Drawn, QueueTwin, Twin, bend, draw, operations_of


def facts(parameter: str) -> Facts:
    return Facts(system="", workload="", nodes=(), guarantees=(), options={"parameter": parameter} if parameter else {})


def native(model: str, operations: list[Operation]) -> dict[str, int] | None:
    """What the checker of this model found; None where the budget ended."""
    family = choose(model, (), lambda f: (), "a test")
    history = cast(History, SimpleNamespace(operations=operations))
    verdict = registry.checker(family.checker)(history, facts(family.parameter))[0]
    assert (verdict.validity is Validity.INVALID) == bool(verdict.anomalies)
    assert_each_had_a_chance(verdict)
    return dict(verdict.counts)


def explainable(twin: Twin, operations: list[Operation]) -> bool:
    """Whether some order explains what was answered: every one is tried."""
    model, visited = AsModel(twin), set[tuple[frozenset[int], Any]]()

    def extended(left: frozenset[int], state: Any) -> bool:
        answers = [at for i in left if (at := operations[i].complete_index) is not None]
        if not answers:
            return True
        if (left, state) in visited:
            return False
        visited.add((left, state))
        for i in left:
            op = operations[i]
            if op.invoke_index < min(answers):
                result = UNKNOWN if op.complete_index is None else op.result
                after = model.step(state, op.f, op.value, result)
                if after is not None and extended(left - {i}, after):
                    return True
        return False

    return extended(frozenset(range(len(operations))), model.init())


def by_twin(twin: Twin, operations: list[Operation]) -> dict[str, int]:
    """What is found where a user writes the twin as a model; every order says the same."""
    history = cast(History, SimpleNamespace(operations=operations))
    verdict = user_objects.judge("a twin", AsModel(twin), history, facts(""))[0]
    assert "not finished" not in verdict.reason
    assert bool(verdict.counts) != explainable(twin, operations), operations
    return dict(verdict.counts)


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


@pytest.mark.parametrize(
    ("budget", "stop"),
    [({"steps": 10}, Stop.STEPS), ({"memory_bytes": 1_000}, Stop.MEMORY), ({"wall_s": 0.0}, Stop.DEADLINE)],
)
def test_a_search_that_did_not_end_says_why(budget: dict[str, Any], stop: Stop) -> None:
    operations = operations_of(draw(random.Random(1), DistinctQueue(), 300, 5, 0.2))
    kind = Queue()
    (answer,) = search(kind, {None: kind.calls(operations)}, msgspec.structs.replace(SearchBudget(), **budget)).values()
    assert (answer.result.verdict, answer.result.stop, answer.result.reason) == ("unknown", stop, stop.sentence)


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
    "name", ["counter:x", "counter:[1]", "semaphore", "semaphore:0", "append-log:1", 'bank:{"a":true}']
)
def test_an_option_that_a_model_does_not_take(name: str) -> None:
    with pytest.raises(UsageError, match=r"does not take|a semaphore of"):
        model_of(name)
