"""Generators by simulation: what each combinator promises, and that none depends on the order of completions."""

from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.generators import (
    PENDING,
    Context,
    Draw,
    Generator,
    Invocation,
    Offer,
    Step,
    draws,
    each_worker,
    limit,
    mix,
    on_workers,
    once,
    phases,
    repeat,
    reserve,
    sequence,
    sleep,
    stagger,
    time_limit,
    until_ok,
    validate,
)
from fencepost.harness.history import Completion, OpEvent, Outcome
from fencepost.harness.history import validate as validate_history
from fencepost.harness.testing.simulation import respond, simulate

MS = 1_000_000


def named(f: str) -> Generator:
    return draws(lambda worker, i, draw: Offer(f, value=[worker, i, draw.below(1000)]))


def invocations(events: list[OpEvent]) -> list[OpEvent]:
    return [event for event in events if event.type is Outcome.INVOKE]


def names(events: list[OpEvent]) -> list[str]:
    return [event.f for event in invocations(events)]


def test_draws_depend_on_seed_worker_and_count_only() -> None:
    by_latency = []
    for latency_ns in (1, 1000, MS):
        events = simulate(limit(300, named("a")), workers=5, seed=7, respond=respond(latency_ns))
        # Limits cut the workers at different counts, so compare what both have.
        by_latency.append({tuple(e.value[:2]): e.value[2] for e in invocations(events)})
    common = set.intersection(*(set(values) for values in by_latency))
    assert len(common) > 100
    assert all(len({values[at] for values in by_latency}) == 1 for at in common)
    other = {tuple(e.value[:2]): e.value[2] for e in invocations(simulate(limit(300, named("a")), workers=5, seed=8))}
    assert sum(other[at] == by_latency[0][at] for at in common & set(other)) < 5


@given(st.integers(0, 2**64), st.integers(0, 100), st.integers(0, 10**6), st.integers(1, 2**40))
def test_draws_stay_in_range(seed: int, worker: int, i: int, n: int) -> None:
    draw = Draw(seed, worker, i)
    assert 0 <= draw.below(n) < n
    assert 0.0 <= draw.random() < 1.0
    assert draw.exponential(5.0) >= 0.0
    assert draw.choice("abc") in "abc"


def test_draws_look_uniform_and_streams_differ() -> None:
    cells = Counter(Draw(3, worker, i).below(10) for worker in range(20) for i in range(2000))
    assert all(3600 < cells[cell] < 4400 for cell in range(10))
    pairs = Counter((Draw(3, 0, i).below(2), Draw(3, 0, i, 1).below(2)) for i in range(4000))
    assert all(850 < pairs[pair] < 1150 for pair in pairs)
    assert len(pairs) == 4


def test_once_limit_and_repeat_count() -> None:
    assert names(simulate(once(Offer("a")))) == ["a"]
    assert len(names(simulate(limit(17, named("a"))))) == 17
    assert names(simulate(limit(0, named("a")))) == []
    assert names(simulate(repeat(sequence(once(Offer("a")), once(Offer("b"))), 3))) == ["a", "b"] * 3
    assert names(simulate(repeat(limit(2, named("a")), 0))) == []
    assert len(names(simulate(limit(50, repeat(once(Offer("a"))))))) == 50
    assert names(simulate(repeat(limit(0, named("a"))))) == []


def test_operations_spread_over_idle_workers_in_rotation() -> None:
    events = simulate(limit(300, stagger(MS, named("a"))), workers=6, respond=respond(MS // 10))
    counts = Counter(event.process % 6 for event in invocations(events))
    assert set(counts) == set(range(6))
    assert max(counts.values()) - min(counts.values()) <= 10


def test_time_limit_bounds_new_operations_from_the_first_question() -> None:
    g = phases(sleep(50 * MS), time_limit(100 * MS, stagger(MS, named("a"))))
    events = simulate(g, respond=respond(30 * MS))
    times = [event.time_ns for event in invocations(events)]
    assert min(times) >= 50 * MS
    assert max(times) < min(times) + 100 * MS
    assert events[-1].time_ns > times[-1]


def test_time_limit_ends_what_is_pending() -> None:
    events = simulate(sequence(time_limit(10 * MS, sleep(10**15)), once(Offer("b"))))
    assert names(events) == ["b"]


def test_time_limit_does_not_wait_for_an_operation_beyond_its_end() -> None:
    slow = time_limit(10 * MS, stagger(1000 * MS, named("a")))
    events = simulate(sequence(slow, once(Offer("b"))))
    assert names(events) == ["a", "b"]
    assert invocations(events)[1].time_ns <= 10 * MS


def test_time_limit_goes_on_while_a_busy_worker_may_have_an_earlier_operation() -> None:
    """The only free worker's next operation lies beyond the end; those of the busy one do not."""
    load = reserve((1, stagger(10_000 * MS, named("seldom"))), default=named("quick"))
    times = [e.time_ns for e in invocations(simulate(time_limit(100 * MS, load), workers=2, respond=respond(5 * MS)))]
    assert 50 * MS < times[-1] < 100 * MS


def test_stagger_holds_the_total_rate_with_uniform_gaps() -> None:
    events = simulate(limit(4000, stagger(MS, named("a"))), workers=8, respond=respond(2 * MS))
    times = [event.time_ns for event in invocations(events)]
    gaps = [b - a for a, b in pairwise(times)]
    assert 0.95 * MS < sum(gaps) / len(gaps) < 1.05 * MS
    assert max(gaps) <= 2 * MS + 10 * MS
    assert sum(gap < MS // 2 for gap in gaps) > len(gaps) // 6
    assert stagger(0, once(Offer("a"))) == once(Offer("a"))


def test_stagger_skips_what_a_stall_missed() -> None:
    """One operation hangs for a second on the only worker; afterwards no burst follows."""

    def stall(event: OpEvent, draw: Draw) -> tuple[int, Completion]:
        return (1000 * MS if event.value[1] == 50 else 1), Completion(Outcome.OK)

    times = [
        event.time_ns for event in invocations(simulate(limit(200, stagger(MS, named("a"))), workers=1, respond=stall))
    ]
    after = [t for t in times if t > 1000 * MS]
    assert len(after) == 149
    # 149 operations at 1 ms, less the 10 ms of slack that may be caught up.
    assert after[-1] - after[0] > 120 * MS


def test_stagger_catches_a_little_lateness_up() -> None:
    def now_and_then(event: OpEvent, draw: Draw) -> tuple[int, Completion]:
        return (4 * MS if event.value[1] % 10 == 0 else 1), Completion(Outcome.OK)

    g = limit(400, stagger(MS, named("a")))
    times = [event.time_ns for event in invocations(simulate(g, workers=1, respond=now_and_then))]
    assert 360 * MS < times[-1] - times[0] < 440 * MS


def test_mix_draws_by_weight_and_drops_what_is_over() -> None:
    events = simulate(limit(4000, mix((3, named("a")), (1, named("b")))), workers=4, respond=respond())
    counts = Counter(names(events))
    assert 2800 < counts["a"] < 3200
    assert counts["a"] + counts["b"] == 4000
    assert Counter(names(simulate(mix(limit(5, named("a")), limit(50, named("b")))))) == {"a": 5, "b": 50}
    assert names(simulate(mix())) == []
    assert Counter(names(simulate(mix(sleep(10 * MS), limit(3, named("a")))))) == {"a": 3}
    with pytest.raises(HarnessError, match="weight"):
        mix((0, named("a")))


def test_the_part_drawn_by_mix_does_not_depend_on_latency() -> None:
    seen = []
    for latency_ns in (1, MS):
        events = simulate(limit(400, mix(named("a"), named("b"))), workers=4, seed=3, respond=respond(latency_ns))
        seen.append({tuple(e.value[:2]): e.f for e in invocations(events)})
    common = set(seen[0]) & set(seen[1])
    assert len(common) > 200
    assert all(seen[0][at] == seen[1][at] for at in common)


def test_reserve_gives_each_share_its_own_workers() -> None:
    g = reserve((2, limit(40, named("a"))), (1, limit(40, named("b"))), default=limit(40, named("c")))
    events = simulate(g, workers=6, respond=respond())
    by_name = defaultdict(set)
    for event in invocations(events):
        by_name[event.f].add(event.process % 6)
    assert by_name == {"a": {0, 1}, "b": {2}, "c": {3, 4, 5}}
    assert Counter(names(events)) == {"a": 40, "b": 40, "c": 40}


def test_reserve_lets_no_share_starve_another() -> None:
    """Operations of one share never end; the other goes on."""

    def hang(event: OpEvent, draw: Draw) -> tuple[int, Completion]:
        return (10**12 if event.f == "slow" else MS), Completion(Outcome.OK)

    g = time_limit(100 * MS, reserve((2, named("slow")), default=named("quick")))
    counts = Counter(names(simulate(g, workers=4, respond=hang)))
    assert counts["slow"] == 2
    assert counts["quick"] > 150


def test_reserve_with_too_few_workers_says_how_many() -> None:
    with pytest.raises(HarnessError, match="too few") as raised:
        simulate(reserve((2, named("a")), (2, named("b")), default=named("c")), workers=4)
    assert raised.value.hint == "use at least 5 workers"


def test_workers_outside_every_share_stay_idle() -> None:
    events = simulate(reserve((2, each_worker(limit(3, named("a"))))), workers=5, respond=respond())
    assert Counter(event.process % 5 for event in invocations(events)) == {0: 3, 1: 3}


def test_on_workers_asks_and_tells_these_only() -> None:
    events = simulate(on_workers([1, 3], limit(20, named("a"))), workers=5, respond=respond())
    assert {event.process % 5 for event in invocations(events)} == {1, 3}


def test_each_worker_has_its_own_copy() -> None:
    g = each_worker(sequence(once(Offer("a")), once(Offer("b"))))
    events = simulate(g, workers=4, respond=respond(fail=0, info=0.3))
    for worker in range(4):
        assert [e.f for e in invocations(events) if e.process % 4 == worker] == ["a", "b"]


def test_phases_wait_for_all_workers() -> None:
    events = simulate(phases(limit(20, named("a")), limit(20, named("b"))), workers=5, respond=respond())
    last_a = max(e.time_ns for e in events if e.f == "a")
    first_b = min(e.time_ns for e in events if e.f == "b")
    assert first_b >= last_a
    overlapping = simulate(sequence(limit(20, named("a")), limit(20, named("b"))), workers=5, respond=respond())
    assert min(e.time_ns for e in overlapping if e.f == "b") < max(e.time_ns for e in overlapping if e.f == "a")


def test_until_ok_repeats_until_one_of_its_own_is_ok() -> None:
    def third_time(event: OpEvent, draw: Draw) -> tuple[int, Completion]:
        types = [Outcome.FAIL, Outcome.INFO, Outcome.OK]
        attempts.append(event)
        return MS, Completion(types[len(attempts) - 1])

    attempts: list[OpEvent] = []
    g = sequence(until_ok(once(Offer("try"))), once(Offer("then")))
    events = simulate(
        on_workers([0], g),
        workers=2,
        respond=lambda e, d: third_time(e, d) if e.f == "try" else (1, Completion(Outcome.OK)),
    )
    assert names(events) == ["try", "try", "try", "then"]
    assert [e.process for e in invocations(events)] == [0, 0, 2, 2]


def test_until_ok_in_parallel_stops_at_the_first() -> None:
    events = simulate(until_ok(repeat(once(Offer("try")))), workers=3, respond=respond(MS, fail=0.9, info=0))
    first_ok = next(e.time_ns for e in events if e.type is Outcome.OK)
    assert all(e.time_ns <= first_ok for e in invocations(events))


def test_until_ok_does_not_count_what_began_before_it() -> None:
    def slow_is_ok(event: OpEvent, draw: Draw) -> tuple[int, Completion]:
        if event.f == "slow":
            return 5 * MS, Completion(Outcome.OK)
        return MS, Completion(Outcome.OK if event.time_ns > 20 * MS else Outcome.FAIL)

    g = sequence(once(Offer("slow")), until_ok(repeat(once(Offer("try")))))
    events = simulate(g, workers=2, respond=slow_is_ok)
    assert max(e.time_ns for e in invocations(events)) > 20 * MS


def test_sleep_waits() -> None:
    events = simulate(sequence(once(Offer("a")), sleep(30 * MS), once(Offer("b"))))
    assert invocations(events)[1].time_ns - invocations(events)[0].time_ns >= 30 * MS


class _Fixed:
    """Answers anything, to be found out."""

    def __init__(self, answer: Callable[[Context], object]) -> None:
        self.answer = answer

    def op(self, ctx: Context) -> Step:
        return self.answer(ctx), self  # type: ignore[return-value]

    def update(self, ctx: Context, event: OpEvent) -> Generator:
        return self


@pytest.mark.parametrize(
    ("answer", "rule"),
    [
        (lambda ctx: Invocation(99, Offer("a"), ctx.time_ns), "not one of the free"),
        (lambda ctx: Invocation(0, Offer("a"), ctx.time_ns - 1), "past"),
        (lambda ctx: Invocation(0, cast(Any, "a"), ctx.time_ns), "must be an Offer"),
        (lambda ctx: Invocation(0, Offer("a", cast(Any, 5)), ctx.time_ns), "must be an Offer"),
        (lambda ctx: Offer("a"), "an Invocation, PENDING or None"),
    ],
)
def test_validate_names_the_rule(answer: Callable[[Context], object], rule: str) -> None:
    with pytest.raises(HarnessError, match=rule):
        simulate(validate(_Fixed(answer)))


def test_a_generator_that_is_pending_for_ever_is_said_so() -> None:
    with pytest.raises(HarnessError, match="pending"):
        simulate(_Fixed(lambda ctx: PENDING), time_ns_max=1000 * MS)


GENERATORS = st.recursive(
    st.sampled_from([named("a"), limit(5, named("b")), once(Offer("c")), sleep(5 * MS)]),
    lambda inner: st.one_of(
        inner.map(lambda g: limit(20, g)),
        inner.map(lambda g: stagger(MS, g)),
        inner.map(lambda g: time_limit(20 * MS, g)),
        inner.map(each_worker),
        inner.map(until_ok),
        inner.map(lambda g: repeat(g, 3)),
        st.tuples(inner, inner).map(lambda p: mix(*p)),
        st.tuples(inner, inner).map(lambda p: phases(*p)),
        inner.map(lambda g: reserve((1, g))),
    ),
    max_leaves=6,
)


@given(GENERATORS, st.integers(0, 1000))
def test_any_combination_gives_a_valid_history_twice(g: Generator, seed: int) -> None:
    def run() -> list[OpEvent]:
        bounded = time_limit(100 * MS, limit(60, validate(reserve((2, g), default=g))))
        return simulate(bounded, workers=4, seed=seed, respond=respond(MS // 2, fail=0.1, info=0.1))

    events = run()
    validate_history(events)
    assert events == run(), "a generator is a value: asking it changes nothing"
