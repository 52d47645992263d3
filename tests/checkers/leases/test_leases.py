"""Leases that are counted as promised, and the cost of many. The cases are in `tests/cases/lease.case`."""

import sys
from typing import Any

import hypothesis
import hypothesis.strategies as st

from fencepost.checkers import leases
from fencepost.harness.history import Clock, History, Outcome
from fencepost.harness.verdict import LeaseBound
from tests.checkers.build import MS, Tale, facts
from tests.seeds import WHOLE_HISTORIES

#: A bound of one second after the time to live.
FACTS = facts(
    workload="lease",
    subjects=("leader",),
    leases=LeaseBound(extra_ns=1000 * MS, source="a test", clocks=(Clock.MONOTONIC,)),
)


class Story(Tale):
    """One lease of three seconds, granted at 100 ms and attached at position 10 by 200 ms, in epoch 1."""

    def __init__(self) -> None:
        super().__init__()
        self.claim("n1", 1, 0, 1)
        self.op("grant", "lease-1", at=(90, 100), result=["abc", 3000], position=9, epoch=1)
        self.op("attach", "lease-1", "abc", at=(190, 200), position=10, value_position=10, epoch=1)

    def keep(self, at: tuple[float, float], **more: Any) -> None:
        self.op("keep", "lease-1", "abc", at=at, result=3000, epoch=1, position=10, **more)

    def look(self, there: bool, at: tuple[float, float], position: int) -> None:
        self.op("look", "bound", "strong", at=at, result=[1] if there else [], position=position)


def test_the_cost_grows_with_the_keys_that_looks_showed_not_with_leases_times_looks() -> None:
    """Leases that follow each other: ten times as many leases and looks, each look shows one key."""
    steps = []
    for leases_granted in (40, 400):
        tale = Tale()
        for number in range(leases_granted):
            at = 1000.0 * number
            tale.op("grant", f"lease-{number}", at=(at, at + 1), result=[f"h{number}", 500])
            tale.op("attach", f"lease-{number}", f"h{number}", at=(at + 2, at + 3), position=2 * number)
            tale.op("look", "bound", "strong", at=(at + 100, at + 101), result=[number], position=2 * number)
            tale.op("look", "bound", "strong", at=(at + 900, at + 901), result=[], position=2 * number + 1)
        tale.write("end", 0, at=(1000.0 * leases_granted, 1000.0 * leases_granted + 1))
        history = tale.history()
        counted = 0

        def count(frame: Any, event: str, argument: Any) -> None:
            nonlocal counted
            counted += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            leases.check(history, FACTS)
        finally:
            sys.setprofile(None)
        steps.append(counted)
    assert steps[1] < 15 * steps[0]


@st.composite
def kept_leases(draw: st.DrawFn) -> History:
    """One lease as a correct server counts it: kept alive at drawn times, looked at all the time, ended in time."""
    story = Story()
    until = 0.0
    now = 200.0
    served = draw(st.floats(min_value=90, max_value=100)) + 3000
    for _ in range(draw(st.integers(min_value=0, max_value=6))):
        now += draw(st.floats(min_value=10, max_value=2500))
        if now >= served:
            break
        sent, took = now, draw(st.floats(min_value=1, max_value=400))
        at = sent + took * draw(st.floats(min_value=0, max_value=1))
        if at >= served:
            story.keep((sent, sent + took), type=Outcome.FAIL, error="lease-expired")
            break
        served = at + 3000
        story.keep((sent, sent + took))
        now = sent + took
    until = served + draw(st.floats(min_value=0, max_value=900))
    look = 205.0
    while look < until + 2000:
        seen = look + draw(st.floats(min_value=0, max_value=40))
        there = seen < until
        story.look(there, (look, look + 50), position=10 if there else 11)
        look += 150
    return story.history()


@WHOLE_HISTORIES
@hypothesis.given(kept_leases())
def test_a_lease_that_is_counted_as_promised_is_never_called_broken(history: History) -> None:
    assert [verdict.anomalies for verdict in leases.check(history, FACTS) if verdict.anomalies] == []
