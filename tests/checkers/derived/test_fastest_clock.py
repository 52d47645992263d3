"""How soon a length of time may be over by clocks that are fast, were put forward, strobe, or are not known."""

from typing import Any

import pytest

from fencepost.checkers.derived.clocks import FastestClock
from fencepost.harness.history import Clock
from tests.checkers.build import MS, Tale

MONOTONIC = Clock.MONOTONIC


def reached_ms(tale: Tale, from_ms: float, length_ms: float, clocks: tuple[Clock, ...] = (MONOTONIC,)) -> float:
    tale.write("a", 1, at=(99_000, 99_001))
    return FastestClock(tale.history(), clocks).reached_ns(round(from_ms * MS), round(length_ms * MS)) / MS


@pytest.mark.parametrize(
    ("at", "change", "from_ms", "expected"),
    [
        # True time, and what cannot make it shorter.
        ((50_000, 50_001), {"offset_ms": 9000}, 1000, 4000),
        ((2000, 2000), {"rate": 0.5}, 1000, 4000),
        ((2000, 2000), {"offset_ms": -9000}, 1000, 4000),
        # Twice as fast from 2 s on: a second, then two in one.
        ((2000, 2000), {"rate": 2.0}, 1000, 3000),
        ((500, 500), {"rate": 2.0}, 1000, 2500),
        # Put forward by a second, somewhere in the change.
        ((2000, 2100), {"offset_ms": 1000}, 1000, 3000),
        ((2000, 2000), {"offset_ms": 5000}, 1000, 2000),
        ((900, 1100), {"offset_ms": 1000}, 1000, 3000),
        ((900, 1000), {"offset_ms": 1000}, 1000, 4000),
        # Strobing by half a second from 2 s on, for a second: whoever reads it may meet its height.
        ((2000, 2000), {"period_ms": 10, "delta_ms": 500, "length_ms": 1000}, 1000, 3500),
        ((2000, 2000), {"period_ms": 10, "delta_ms": -500, "length_ms": 1000}, 1000, 3500),
        ((2000, 2000), {"period_ms": 10, "delta_ms": 500, "length_ms": 1000}, 3100, 6100),
        # Nobody knows what it shows.
        ((2000, 2100), {"certain": False}, 1000, 2000),
        ((500, 600), {"certain": False}, 1000, 1000),
    ],
)
def test_when_three_seconds_may_be_over(
    at: tuple[float, float], change: dict[str, Any], from_ms: float, expected: float
) -> None:
    tale = Tale()
    tale.clock("n1", MONOTONIC, at, **change)
    assert reached_ms(tale, from_ms, 3000) == pytest.approx(expected, abs=0.01)


def test_while_a_rate_is_changed_the_faster_of_the_two_may_hold() -> None:
    for rates in ((2.0, 1.0), (1.0, 2.0)):
        tale = Tale()
        tale.clock("n1", MONOTONIC, (0, 0), rate=rates[0])
        tale.clock("n1", MONOTONIC, (2000, 3000), rate=rates[1])
        assert reached_ms(tale, 2000, 3000) == pytest.approx(3000 + 1000 / rates[1], abs=0.01)


def test_a_strobe_s_height_counts_also_for_what_begins_during_it() -> None:
    tale = Tale()
    tale.clock("n1", MONOTONIC, (2000, 2000), period_ms=10, delta_ms=500, length_ms=1000)
    assert reached_ms(tale, 2500, 3000) == pytest.approx(5000, abs=0.01)


def test_the_fastest_of_all_nodes_counts_and_only_clocks_of_these_kinds() -> None:
    def tale() -> Tale:
        told = Tale()
        told.clock("n1", MONOTONIC, (0, 0), rate=1.5)
        told.clock("n2", MONOTONIC, (0, 0), rate=3.0)
        told.clock("n3", Clock.WALL, (0, 0), rate=10.0)
        return told

    assert reached_ms(tale(), 1000, 3000) == pytest.approx(2000, abs=0.01)
    assert reached_ms(tale(), 1000, 3000, tuple(Clock)) == pytest.approx(1300, abs=0.01)


def test_a_clock_that_is_known_again_counts_from_then_on() -> None:
    tale = Tale()
    tale.clock("n1", MONOTONIC, (2000, 2100), certain=False)
    tale.clock("n1", MONOTONIC, (3000, 3100), rate=1.0)
    assert reached_ms(tale, 3200, 3000) == pytest.approx(6200)


def test_the_rows_are_the_changes_that_reach_into_the_time() -> None:
    tale = Tale()
    for at_ms in (1000, 2000, 3000):
        tale.clock("n1", MONOTONIC, (at_ms, at_ms + 10), rate=1.0)
    tale.write("a", 1, at=(99_000, 99_001))
    fastest = FastestClock(tale.history(), (MONOTONIC,))
    assert fastest.rows(1500 * MS, 2500 * MS) == (1,)
    assert fastest.rows(1005 * MS, 3000 * MS) == (0, 1)
