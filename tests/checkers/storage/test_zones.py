"""Registers whose values are each made once are judged by zones: as the reference does, and as the search does.

The same history goes to the search when a write of the initial value is added that nobody waits for.
"""

import random

import pytest

from fencepost.checkers import _core
from fencepost.checkers.storage.register_proofs import CAS, NEVER, READ, WRITE, ProofRow, explains, linearize
from tests.checkers.storage.test_linearizable import assert_longest_prefix, judge
from tests.histories.simulate import Shape, in_sequence, valid_history


def twist(rng: random.Random, rows: list[ProofRow]) -> list[ProofRow]:
    """Change one row, or the precision of all times, so that every value is still made once."""
    at = rng.randrange(len(rows))
    row, other = rows[at], rng.choice(rows)
    seen = rng.choice([other.a, other.b if other.f == CAS else other.a, 0, len(rows) + 7])
    match rng.randrange(7):
        case 0 | 1 if row.f == READ:
            row = ProofRow(READ, seen, 0, row.invoked, row.returned)
        case 0 if row.f == WRITE:
            row = ProofRow(CAS, seen, row.a, row.invoked, row.returned)
        case 1 if row.f == CAS:
            row = ProofRow(CAS, seen, row.b, row.invoked, row.returned)
        case 2 if row.f != READ:
            row = ProofRow(row.f, row.a, row.b, row.invoked, NEVER)
        case 3 if row.returned != NEVER:
            row = ProofRow(row.f, row.a, row.b, row.returned - 0.5, row.returned)
        case 4 if row.returned != NEVER:
            row = ProofRow(row.f, row.a, row.b, row.invoked, row.invoked + 0.5)
        case 5 if row.returned != NEVER:
            row = ProofRow(row.f, row.a, row.b, row.invoked, row.returned + rng.choice([2.5, 8.5]))
        case 6:
            grain = rng.choice([2, 3, 5])
            coarse = {time: time if time == NEVER else time // grain for r in rows for time in (r.invoked, r.returned)}
            return in_sequence([ProofRow(r.f, r.a, r.b, coarse[r.invoked], coarse[r.returned]) for r in rows])
        case _:
            pass
    return in_sequence([*rows[:at], row, *rows[at + 1 :]])


def drawn_history(rng: random.Random, operations: int) -> list[ProofRow]:
    """A history whose values are each made once; valid, or perhaps not."""
    clients = rng.choice([1, 2, 3, 4, 6])
    rows = valid_history(rng, Shape(operations=operations, clients=clients, values=0, info=rng.choice([0, 0.1, 0.4])))
    if rng.random() < 0.4:  # fewer compare-and-sets, so that blocks are many
        rows = [ProofRow(WRITE, row.b, 0, row.invoked, row.returned) if row.f == CAS else row for row in rows]
    for _ in range(rng.choice([0, 1, 1, 2, 4])):
        if rows:
            rows = twist(rng, rows)
    return rows


def by_search(history: list[ProofRow]) -> list[ProofRow]:
    """The same question, put so that zones do not suit."""
    end = max((time for row in history for time in (row.invoked, row.returned) if time != NEVER), default=0)
    return [*history, ProofRow(WRITE, 0, 0, end + 1, NEVER)]


def compare(rng: random.Random, count: int, operations_max: int, *, reference: bool) -> int:
    """Judge `count` drawn histories by zones and by others; how many were found invalid by zones."""
    drawn = (drawn_history(rng, rng.randrange(1, operations_max + 1)) for _ in range(count))
    histories = [history for history in drawn if history]
    refused = undecided = 0
    first = first_by_search = 0
    searched = judge([by_search(history) for history in histories])
    for history, result, other in zip(histories, judge(histories), searched, strict=True):
        assert other.method == "search"
        if other.verdict == "unknown":  # all of many operations overlap: more orders than the search's budget
            undecided += 1
            first, first_by_search = first + len(history), first_by_search + len(history) + 1
            continue
        assert result.verdict == other.verdict, history
        if reference:
            assert result.verdict == ("invalid" if linearize(history) is None else "valid"), history
        if result.method == "zones":
            order = [row - first for row in result.order]
            if result.verdict == "valid":
                assert explains(history, order), (history, order)
            else:
                assert other.failed is not None
                refused += 1
                there = history[other.failed - first_by_search]
                assert_same_refusal(history, order, result, first, there, reference=reference)
        first += len(history)
        first_by_search += len(history) + 1
    assert undecided <= count // 100
    return refused


def assert_same_refusal(
    history: list[ProofRow], order: list[int], result: _core.KeyResult, first: int, there: ProofRow, *, reference: bool
) -> None:
    """The return that no order passes is the search's."""
    assert result.failed is not None
    failed = history[result.failed - first]
    assert failed.returned == there.returned, history
    # Of returns at one moment either may be named, and what else returns then may count or not.
    times = [time for row in history for time in (row.invoked, row.returned)]
    if times.count(failed.returned) == 1:
        assert failed is there
        if reference:
            assert_longest_prefix(history, order, result, first)


def test_zones_equal_reference_and_search_on_small_histories() -> None:
    assert compare(random.Random(20), 2_000, 12, reference=True) > 200


def test_zones_equal_search_on_longer_histories() -> None:
    compare(random.Random(21), 600, 60, reference=False)
    compare(random.Random(22), 10, 400, reference=False)


def op(f: int, a: int, b: int, invoked: float, returned: float = NEVER) -> ProofRow:
    return ProofRow(f, a, b, invoked, returned)


@pytest.mark.parametrize(
    ("history", "failed", "shown"),
    [
        ([op(WRITE, 1, 0, 0, 1), op(READ, 7, 0, 2, 3)], 1, {1}),
        ([op(READ, 1, 0, 0, 1), op(WRITE, 1, 0, 2, 3)], 0, {0}),
        ([op(CAS, 1, 2, 0), op(READ, 2, 0, 1, 2), op(WRITE, 1, 0, 3)], 1, {0, 1}),
        ([op(CAS, 1, 2, 0), op(CAS, 2, 1, 1), op(CAS, 1, 3, 2), op(READ, 3, 0, 3, 4)], 3, {0, 1, 2, 3}),
        ([op(CAS, 0, 1, 0, 3), op(CAS, 0, 2, 1, 2)], 0, {0, 1}),
        ([op(WRITE, 1, 0, 0), op(CAS, 1, 2, 1), op(READ, 2, 0, 2, 3), op(READ, 1, 0, 4, 5)], 3, {0, 1, 2, 3}),
        ([op(WRITE, 1, 0, 0, 1), op(WRITE, 2, 0, 2, 3), op(READ, 1, 0, 4, 5), op(READ, 1, 0, 6, 7)], 2, {0, 1, 2}),
        (
            [op(WRITE, 1, 0, 0), op(READ, 1, 0, 1, 2), op(WRITE, 2, 0, 3), op(READ, 2, 0, 4, 5), op(READ, 1, 0, 6, 7)],
            4,
            {0, 1, 2, 3, 4},
        ),
        ([op(WRITE, 1, 0, 0, 1), op(WRITE, 2, 0, 2, 3), op(CAS, 1, 4, 4, 5)], 2, {0, 1, 2}),
    ],
    ids=["unmade", "early", "early-by-a-step", "circular", "twice", "replaced", "stale", "back-again", "stale-cas"],
)
def test_each_kind_of_violation_is_named_and_proven(history: list[ProofRow], failed: int, shown: set[int]) -> None:
    (result,) = judge([history])
    assert (result.method, result.verdict, result.failed) == ("zones", "invalid", failed)
    assert result.minimal is not None
    assert {*result.minimal.must, *result.minimal.may} == shown
    assert linearize(history) is None


def test_a_write_of_unknown_outcome_is_open_only_if_somebody_sees_it() -> None:
    unseen, seen = ProofRow(WRITE, 2, 0, 2, NEVER), ProofRow(WRITE, 3, 0, 2, NEVER)
    stale = [ProofRow(WRITE, 1, 0, 0, 1), unseen, seen, ProofRow(READ, 0, 0, 3, 4), ProofRow(READ, 3, 0, 5, 6)]
    (result,) = judge([stale])
    assert (result.method, result.failed, result.open) == ("zones", 3, [2])


@pytest.mark.long
def test_zones_equal_reference_and_search_on_many_histories() -> None:
    compare(random.Random(23), 100_000, 16, reference=True)
    for seed in range(24, 124):
        compare(random.Random(seed), 1_000, 60, reference=False)
