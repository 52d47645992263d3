"""Self-fencing by the node's own clocks: a slow clock, a step back, a strobe and doubt each excuse a claim, no more.

In every history n1 is cut off at 1000 ms; its bound is 2000 ms, so that claims count from 4000 ms of running on, and
in true time the last one at 5001 ms is the first that does.
"""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.checkers import leadership
from fencepost.checkers.facts.clocks import OwnTime
from fencepost.checkers.leadership.self_fencing import GUARANTEE
from fencepost.harness.history import Clock, ClockEvent
from fencepost.harness.verdict import Validity, Verdict
from tests.checkers.build import Tale, bound, facts, ns, only

WALL, MONOTONIC = Clock.WALL, Clock.MONOTONIC
BOUND = bound(2000)


def judged(tale: Tale, **changes: Any) -> Verdict:
    return only(leadership.check(tale.history(), facts(**{"leadership": BOUND, **changes})), GUARANTEE)


def tale_of(last_ms: float, *, end_ms: float = 30_000) -> Tale:
    """n1 leads epoch 1, is cut off for good, and claims three times over more than a second until `last_ms`."""
    tale = Tale()
    tale.claims("n1", 1, [100, 200], length=10)
    tale.claim("n2", 2, 1490, 1500)
    tale.claims("n1", 1, [last_ms - 1001, last_ms - 400, last_ms], length=0)
    tale.cut("n1", 1000, end_ms)
    tale.health(0, end_ms + 500)
    return tale


def test_without_skew_true_time_counts() -> None:
    assert judged(tale_of(5001)).validity is Validity.INVALID
    assert judged(tale_of(5000)).validity is Validity.UNKNOWN


@pytest.mark.parametrize("clock", [WALL, MONOTONIC])
@pytest.mark.parametrize(("last_ms", "validity"), [(9001, Validity.INVALID), (8999, Validity.UNKNOWN)])
def test_a_clock_at_half_its_rate_may_claim_for_twice_as_long(clock: Clock, last_ms: float, validity: Validity) -> None:
    tale = tale_of(last_ms)
    tale.clock("n1", clock, (500, 510), rate=0.5)
    assert judged(tale).validity is validity


def test_the_slower_one_of_two_clocks_counts() -> None:
    tale = tale_of(9001)
    tale.clock("n1", WALL, (500, 510), rate=0.25)
    tale.clock("n1", MONOTONIC, (500, 510), rate=0.5)
    assert judged(tale).validity is Validity.UNKNOWN
    monotonic_alone = msgspec.structs.replace(BOUND, clocks=(MONOTONIC,))
    assert judged(tale, leadership=monotonic_alone).validity is Validity.INVALID


def test_another_node_s_clock_excuses_nothing() -> None:
    tale = tale_of(5001)
    tale.clock("n2", MONOTONIC, (500, 510), rate=0.5)
    assert judged(tale).validity is Validity.INVALID


def test_a_fast_clock_shortens_nothing() -> None:
    """Waits that began in the kernel keep their length."""
    tale = tale_of(5000)
    tale.clock("n1", MONOTONIC, (500, 510), rate=2.0)
    assert judged(tale).validity is Validity.UNKNOWN
    tale = tale_of(5001)
    tale.clock("n1", MONOTONIC, (500, 510), rate=2.0)
    assert judged(tale).validity is Validity.INVALID


@pytest.mark.parametrize(("last_ms", "validity"), [(7001, Validity.INVALID), (6999, Validity.UNKNOWN)])
def test_a_step_back_in_the_cut_is_added(last_ms: float, validity: Validity) -> None:
    tale = tale_of(last_ms)
    tale.clock("n1", MONOTONIC, (2000, 2001), offset_ms=-2000)
    assert judged(tale).validity is validity


def test_a_step_back_before_the_cut_excuses_nothing() -> None:
    tale = tale_of(5001)
    tale.clock("n1", MONOTONIC, (500, 510), offset_ms=-2000)
    assert judged(tale).validity is Validity.INVALID


def test_a_step_ahead_excuses_nothing_and_its_taking_back_does() -> None:
    tale = tale_of(5001)
    tale.clock("n1", WALL, (2000, 2001), offset_ms=3000)
    assert judged(tale).validity is Validity.INVALID
    tale.clock("n1", WALL, (3000, 3001))
    assert judged(tale).validity is Validity.UNKNOWN


@pytest.mark.parametrize(("last_ms", "validity"), [(7501, Validity.INVALID), (7499, Validity.UNKNOWN)])
def test_a_strobe_counts_nothing_and_its_height_is_added(last_ms: float, validity: Validity) -> None:
    tale = tale_of(last_ms)
    tale.clock("n1", MONOTONIC, (2000, 2000), period_ms=100, delta_ms=500, length_ms=2000)
    assert judged(tale).validity is validity


@pytest.mark.parametrize(("last_ms", "validity"), [(6001, Validity.INVALID), (5999, Validity.UNKNOWN)])
def test_while_a_clock_is_not_known_nothing_counts(last_ms: float, validity: Validity) -> None:
    tale = tale_of(last_ms)
    tale.clock("n1", MONOTONIC, (2000, 2500), certain=False)
    tale.clock("n1", MONOTONIC, (2600, 3000))
    assert judged(tale).validity is validity


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
