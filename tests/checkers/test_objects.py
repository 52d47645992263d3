"""The native objects agree with twins that a user would write, on random histories, valid and bent."""

import random
from collections import Counter
from types import SimpleNamespace
from typing import cast

import pytest

from checkers import user_objects
from harness import registry
from harness.formats.family import choose
from harness.history import History
from harness.operation import Operation
from harness.verdict import Facts, Validity
from tests.checkers.object_twins import TWINS, AsModel, Twin, bend, draw, operations_of


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
