"""Stale reads, found fast and by the definition. The cases are in `tests/cases/freshness.case`."""

import random
from typing import Any

import pytest

from fencepost.checkers.derived.versions import find_stale
from tests.checkers.build import Tale


def shared_position(tale: Tale) -> None:
    tale.write("b", 1, at=(12, 22), node="n2", position=3)
    tale.write("b", 2, at=(14, 24), node="n1", position=3)


def stale_by_position(operations: list[Any]) -> int:
    """The definition, word by word."""
    writes = [w for w in operations if w.f == "write"]
    return sum(
        any(w.key == r.key and w.completed_ns < r.invoked_ns and w.position > r.value_position for w in writes)
        for r in operations
        if r.f == "read"
    )


def stale_by_time(operations: list[Any]) -> int:
    """The same of servers that number differently."""
    writes = [w for w in operations if w.f == "write"]
    makers = {id(r): [w for w in writes if (w.key, w.value) == (r.key, r.result)] for r in operations if r.f == "read"}
    return sum(
        bool(makers[id(r)])
        and any(
            w.key == r.key
            and w.completed_ns < r.invoked_ns
            and all(maker.completed_ns < w.invoked_ns for maker in makers[id(r)])
            for w in writes
        )
        for r in operations
        if r.f == "read"
    )


@pytest.mark.parametrize("consistent", [True, False])
@pytest.mark.parametrize("seed", range(30))
def test_the_fast_way_finds_what_the_definition_says(seed: int, consistent: bool) -> None:
    draw = random.Random(seed)
    tale = Tale()
    writes = []
    for _ in range(60):
        start, key, value = draw.randrange(1000), draw.choice("ab"), 1 if consistent else draw.randrange(6)
        if draw.random() < 0.5:
            length = draw.randrange(1, 200)
            writes.append((start + length * draw.random(), key, value, (start, start + length)))
        else:
            tale.read(key, value, at=(start, start + 5), value_position=draw.randrange(1, 30))
    # A store takes each write at an instant of its own.
    for position, (_, key, value, at) in enumerate(sorted(writes), 1):
        tale.write(key, value, at=at, position=position)
    if not consistent:
        shared_position(tale)
    history = tale.history()
    stale = find_stale(history).stale
    assert len(stale) == (stale_by_position if consistent else stale_by_time)(history.operations)
