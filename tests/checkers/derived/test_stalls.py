"""Stalls from samples: how late is too late, and what adds up."""

from fencepost.checkers.derived.clocks import harness_stalls, machine_stalls, overlapping, watched_until
from tests.checkers.build import Tale, ns


def test_a_late_timer_stalls_since_the_sample_before() -> None:
    tale = Tale()
    tale.sample(1000)
    tale.sample(1500, lag_ms=400)
    tale.sample(2500, lag_ms=501)
    (stall,) = harness_stalls(tale.history(), ns(500))
    assert (stall.from_ns, stall.to_ns, stall.length_ns) == (ns(1500), ns(2500), ns(501))


def test_a_timer_later_than_its_sample_s_length_began_to_stall_before() -> None:
    tale = Tale()
    tale.sample(1000)
    tale.sample(1100, lag_ms=700)
    (stall,) = harness_stalls(tale.history(), ns(500))
    assert stall.from_ns == ns(400)


def test_pressure_adds_up_only_without_a_break() -> None:
    tale = Tale()
    tale.sample(1000, cpu_stall_ms=0)
    tale.sample(1300, cpu_stall_ms=300)
    tale.sample(1600, cpu_stall_ms=100)
    tale.sample(1900, cpu_stall_ms=300)
    assert machine_stalls(tale.history(), ns(500)) == []
    tale.sample(2200, cpu_stall_ms=290)
    (stall,) = machine_stalls(tale.history(), ns(500))
    assert (stall.from_ns, stall.to_ns, stall.length_ns) == (ns(1600), ns(2200), ns(590))


def test_pressure_that_ends_is_kept() -> None:
    tale = Tale()
    tale.sample(1000, cpu_stall_ms=0)
    tale.sample(1600, cpu_stall_ms=600)
    tale.sample(2000)
    assert len(machine_stalls(tale.history(), ns(500))) == 1


def test_overlap_includes_the_ends() -> None:
    tale = Tale()
    tale.sample(1000)
    tale.sample(2000, lag_ms=600)
    stalls = harness_stalls(tale.history(), ns(500))
    assert overlapping(stalls, ns(2000), ns(3000)) == stalls
    assert overlapping(stalls, ns(500), ns(1000)) == stalls
    assert overlapping(stalls, ns(2000) + 1, ns(3000)) == []


def test_nobody_watched_an_empty_history() -> None:
    assert watched_until(Tale().history()) == -1
