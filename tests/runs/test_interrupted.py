"""A run that was interrupted is never greener than the whole run: it is `unknown`, or `invalid` for what it proved.

What interrupts it here: the harness, the runner, the engine, the disk and the schedule. A variable of the command line
that is unset is refused before the start (tests/cli), a schedule that is cut off too (tests/faults).
"""

import random
from functools import cache

import msgspec
import pytest

from fencepost.harness.history import (
    DISK_FULL,
    HARNESS_ERROR,
    STOPPED_EARLY,
    Event,
    FaultEvent,
    History,
    NoteEvent,
    PhaseName,
)
from fencepost.harness.verdict import Validity
from tests.fakes.runs import judge_fake, run_fake

#: A workload and a planted bug; without one the whole run is valid.
RUNS = (
    ("register", None),
    ("register", "lost-write"),
    ("set", None),
    ("set", "set-lost-element"),
    ("lock", None),
    ("lock", "double-grant"),
)
_CUTS = 12
#: Each of these runs has a schedule of two faults.
_PAUSES = 2


@cache
def whole(workload: str, bug: str | None, faults: tuple[str, ...] | None = None) -> History:
    """A whole run; of a planted bug the first in which it is found."""
    runs = (run_fake(workload, bug, seed, faults=faults) for seed in range(10))
    return next(run for run in runs if bug is None or judge_fake(run, workload, bug).validity is Validity.INVALID)


def killed(history: History, at: int) -> History:
    """The events up to there, as a crash leaves them."""
    return History(history.events[:at], source="killed")


def noted(history: History, at: int, topic: str) -> History:
    """The whole run with a note of what ended its load."""
    note = NoteEvent(index=at, time_ns=history.events[at - 1].time_ns, topic=topic, text="why")
    return renumbered([*history.events[:at], note, *history.events[at:]])


def renumbered(events: list[Event]) -> History:
    return History([msgspec.structs.replace(e, index=i) for i, e in enumerate(events)], source="noted")


@pytest.mark.parametrize(("workload", "bug"), RUNS)
@pytest.mark.parametrize("by", ["kill", "failure", STOPPED_EARLY, DISK_FULL, HARNESS_ERROR])
def test_an_interrupted_run_is_never_greener_than_the_whole_run(workload: str, bug: str | None, by: str) -> None:
    history = whole(workload, bug)
    expected = judge_fake(history, workload, bug).validity
    assert expected is (Validity.VALID if bug is None else Validity.INVALID)
    final_ns, _ = history.phases[PhaseName.FINAL]
    last = next(e.index for e in history.events if e.time_ns >= final_ns)
    for at in sorted(random.Random(7).sample(range(1, last), _CUTS)):
        match by:
            case "kill":
                cut = judge_fake(killed(history, at), workload, bug)
            case "failure":
                cut = judge_fake(killed(history, at), workload, bug, failure="the engine is gone")
            case topic:
                cut = judge_fake(noted(history, at, topic), workload, bug)
        assert cut.validity is not Validity.VALID, (at, cut.headline)
        assert "cut short" in cut.headline
        if expected is Validity.VALID:
            assert cut.validity is Validity.UNKNOWN, (at, cut.headline)


@pytest.mark.parametrize(("workload", "bug"), RUNS)
def test_a_run_whose_faults_stopped_coming_is_never_greener_than_the_whole_run(workload: str, bug: str | None) -> None:
    """The schedule ends after each act in turn, while the load goes on: as a nemesis that hangs or dies unseen."""
    history = whole(workload, bug, ("pause",))
    nemesis = ("pause:leader",)
    expected = judge_fake(history, workload, bug, nemesis=nemesis, scheduled=_PAUSES)
    assert expected.validity is (Validity.VALID if bug is None else Validity.INVALID), expected.headline
    acts = [event.index for event in history.of(FaultEvent)]
    assert len(acts) == 4 * _PAUSES
    for number, first in enumerate(acts):
        kept = [event for event in history.events if event.index < first or not isinstance(event, FaultEvent)]
        cut = judge_fake(renumbered(kept), workload, bug, nemesis=nemesis, scheduled=_PAUSES)
        assert cut.validity is not Validity.VALID, (number, cut.headline)
        if bug is None:
            assert cut.validity is Validity.UNKNOWN, (number, cut.headline)
