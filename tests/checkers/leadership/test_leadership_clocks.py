"""Running time by a node's own clocks, against these clocks. The verdicts are in `tests/cases/leadership.case`."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fencepost.checkers.derived.clocks import OwnTime
from fencepost.harness.history import Clock, ClockEvent
from tests.checkers.build import Tale, ns

WALL, MONOTONIC = Clock.WALL, Clock.MONOTONIC


def test_the_rate_holds_from_before_the_change_until_after_the_next() -> None:
    tale = Tale()
    tale.clock("n1", MONOTONIC, (1000, 1100), rate=0.5)
    tale.clock("n1", MONOTONIC, (2000, 2100))
    tale.health(0, 4000)
    time = OwnTime(tale.history(), "n1", [])
    assert time.running_ns(0, ns(3000)) == ns(3000 - 1100 / 2)
    assert time.rows(ns(1500), ns(1600)) == (time.rows(0, ns(3000))[0],)


SETTINGS = st.fixed_dictionaries(
    {
        "rate": st.sampled_from([0.25, 0.5, 1.0, 1.5]),
        "offset_ms": st.integers(-2000, 2000),
        "period_ms": st.sampled_from([0, 50]),
        "delta_ms": st.integers(-500, 500),
        "length_ms": st.integers(0, 1000),
    }
)


#: The clock is changed at whole seconds: often at the very moment that is asked about.
MOMENTS = st.integers(0, 4000) | st.sampled_from([0, 1000, 2000, 3000, 4000])


@given(st.lists(SETTINGS, max_size=4), MOMENTS, MOMENTS)
def test_never_more_is_counted_than_the_clock_itself_did(settings: list[dict[str, Any]], a: int, b: int) -> None:
    """Nor more than true time; and a longer time never counts as longer by more than its length."""
    tale = Tale()
    for number, setting in enumerate(settings):
        tale.clock("n1", MONOTONIC, (1000 * number, 1000 * number), **setting)
    tale.health(0, 5000)
    history = tale.history()
    time = OwnTime(history, "n1", [], (MONOTONIC,))
    events = [e for e in history.events if isinstance(e, ClockEvent)]

    def shown(at_ns: int, by_ns: int) -> int:
        """By the last change that was made `by_ns`."""
        current = [e for e in events if e.time_ns <= by_ns]
        return at_ns + (current[-1].skew_ns(at_ns) if current else 0)

    from_ns, to_ns = ns(min(a, b)), ns(max(a, b))
    counted = time.running_ns(from_ns, to_ns)
    assert 0 <= counted <= to_ns - from_ns
    # A clock that ran ahead is put back by the next change, even where that has no offset.
    if all(e.rate == 1.0 and not e.offset_ns and not e.period_ns for e in events):
        assert counted == to_ns - from_ns
    height = max((abs(e.delta_ns) for e in events if e.period_ns), default=0)
    # What is changed at the end itself takes back nothing of what was counted up to it.
    assert counted <= max(0, shown(to_ns, to_ns - 1) - shown(from_ns, from_ns)) + height + len(events)
