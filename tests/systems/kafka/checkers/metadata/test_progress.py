"""Whether a migration goes on and every broker keeps up: both sides of each bound, and what faults excuse."""

import pytest

from fencepost.harness.history import (
    Effects,
    History,
    MigrationDelayEvent,
    MigrationEvent,
    NodeChange,
    NodeEvent,
    PhaseName,
    Stops,
)
from fencepost.harness.verdict import Cause, Validity, Verdict
from fencepost.systems.kafka.bridge import KAFKA_BRIDGE
from fencepost.systems.kafka.checkers.metadata import progress
from tests.checkers.build import Tale, facts, ns, only

FACTS = facts(
    nodes=("b1", "b2", "c1", "c2", "c3"),
    electorate=("c1", "c2", "c3"),
    guarantees=tuple(g for g in KAFKA_BRIDGE.promises() if g.name in progress.GUARANTEES),
)
#: A step that ended 5 s after the start; waits count from there.
STEP = (4_000, 4_100, 5_000, 5_000)


def waiting(*, seconds: float, reached: bool, fault: tuple[float, float] | None = None, acts: bool = True) -> History:
    """The phase hybrid was waited for this long, with one other fault from and to these seconds after the step."""
    tale = Tale()
    tale.fault("migrate", (), (3_000, 3_100, 999_000, 999_000))
    tale.fault("migrate", ("b2",), STEP, effects=Effects(stops=Stops.CERTAIN))
    if fault is not None:
        begins, ends = (STEP[-1] + 1_000 * second for second in fault)
        nodes = ("c1",) if acts else ()
        tale.fault("kill", nodes, (begins, begins + 1, ends, ends), effects=Effects(stops=Stops.CERTAIN))
    kind = MigrationEvent if reached else MigrationDelayEvent
    at_ms = STEP[-1] + 1_000 * seconds
    tale.tell(kind, at_ms, phase="hybrid", length_ns=ns(1_000 * seconds), text="nobody accepts changes")
    return tale.history()


def waited(*, seconds: float, reached: bool, fault: tuple[float, float] | None = None, acts: bool = True) -> Verdict:
    told = waiting(seconds=seconds, reached=reached, fault=fault, acts=acts)
    return only(progress.check(told, FACTS), progress.GOES_ON)


def test_phases_that_begin_in_time_are_valid() -> None:
    verdict = waited(seconds=59, reached=True)
    assert (verdict.validity, verdict.exposure) == (Validity.VALID, 1)
    assert "59" in verdict.reason


@pytest.mark.parametrize("reached", [True, False])
def test_a_phase_that_does_not_begin_within_a_minute_is_late(reached: bool) -> None:
    verdict = waited(seconds=61, reached=reached)
    assert verdict.anomalies == {progress.LATE: 1}
    assert "hybrid did not begin in time: nobody accepts changes" in verdict.reason


def test_the_minute_begins_with_the_end_of_the_last_fault() -> None:
    assert waited(seconds=90, reached=True, fault=(10, 31)).validity is Validity.VALID
    assert waited(seconds=90, reached=True, fault=(10, 29)).validity is Validity.INVALID
    assert waited(seconds=90, reached=False, fault=(10, 29)).validity is Validity.INVALID


def test_what_was_given_up_under_a_fault_is_undecided() -> None:
    verdict = waited(seconds=90, reached=False, fault=(10, 60))
    assert (verdict.validity, verdict.cause) == (Validity.UNKNOWN, Cause.UNDECIDED)
    assert waited(seconds=90, reached=False, fault=(10, 999)).validity is Validity.UNKNOWN


@pytest.mark.parametrize(
    ("expected", "back", "late"), [(False, False, False), (True, False, True), (False, True, True)]
)
def test_nothing_goes_on_while_a_server_that_ended_by_itself_stays_down(expected: bool, back: bool, late: bool) -> None:
    """Seen: a broker ended right after its start, since ZooKeeper still had the session of the one before."""
    tale = Tale()
    tale.tell(NodeEvent, 6_000, node="b2", change=NodeChange.EXITED, incarnation=1, exit_status=1, expected=expected)
    if back:
        tale.node("b2", NodeChange.STARTED, 8_000, incarnation=2)
    tale.tell(MigrationDelayEvent, 95_000, phase="copy", length_ns=ns(90_000), text="b2 did not serve")
    verdict = only(progress.check(tale.history(), FACTS), progress.GOES_ON)
    assert (verdict.validity is Validity.INVALID) is late
    assert ("b2 had ended by itself" in verdict.reason) is not late


def test_a_fault_that_acts_on_no_node_excuses_nothing() -> None:
    assert waited(seconds=90, reached=False, fault=(10, 60), acts=False).validity is Validity.INVALID


def viewing(
    *, shown: int | None, asked_s: float, healed_s: float = 0, acknowledged: bool = True, removed: bool = False
) -> History:
    """k is set to 1, then to 2 (acknowledged at 10 s, or never); b2 is asked for it in the final phase."""
    tale = Tale()
    tale.tell(MigrationEvent, 1_000, phase="hybrid", length_ns=ns(10), text="")
    tale.fault("pause", ("c1",), (200, 210, 1_000 * healed_s + 300, 1_000 * healed_s + 300))
    tale.op("alter", "k", 1, at=(5_000, 5_010), node="b1")
    tale.op("alter", "k", None if removed else 2, at=(9_990, 10_000 if acknowledged else None), node="b1")
    tale.phase(PhaseName.FINAL, 15_000)
    tale.op("describe", "k", None, at=(1_000 * asked_s, 1_000 * asked_s + 5), node="b2", result=shown)
    return tale.history()


def keeps_up(told: History) -> Verdict:
    return only(progress.check(told, FACTS), progress.KEEP_UP)


def test_a_broker_that_shows_the_newest_keeps_up() -> None:
    verdict = keeps_up(viewing(shown=2, asked_s=20.1))
    assert (verdict.validity, verdict.exposure) == (Validity.VALID, 1)


@pytest.mark.parametrize("shown", [1, None])
def test_a_broker_that_shows_something_older_ten_seconds_later_is_left_behind(shown: int | None) -> None:
    verdict = keeps_up(viewing(shown=shown, asked_s=20.1))
    assert verdict.anomalies == {progress.LEFT_BEHIND: 1}
    assert "final answers of b2" in verdict.reason


@pytest.mark.parametrize(("healed_s", "asked_s"), [(0, 19.9), (10.2, 20.1)])
def test_ten_seconds_are_left_to_it_after_the_change_and_after_the_last_fault(healed_s: float, asked_s: float) -> None:
    assert keeps_up(viewing(shown=1, asked_s=asked_s, healed_s=healed_s)).validity is not Validity.INVALID
    assert keeps_up(viewing(shown=1, asked_s=20.4, healed_s=10)).validity is Validity.INVALID


def test_an_unanswered_change_is_not_due() -> None:
    assert keeps_up(viewing(shown=1, asked_s=20.1, acknowledged=False)).validity is Validity.VALID


def test_nothing_shown_after_a_removal_is_not_older() -> None:
    assert keeps_up(viewing(shown=None, asked_s=20.1, removed=True)).validity is Validity.VALID


def test_without_a_migration_or_without_settings_there_is_nothing_to_say() -> None:
    assert progress.check(Tale().history(), FACTS) == []
    tale = Tale()
    tale.tell(MigrationEvent, 1_000, phase="hybrid", length_ns=ns(10), text="")
    told: History = tale.history()
    assert [verdict.guarantee for verdict in progress.check(told, FACTS)] == [progress.GOES_ON]
