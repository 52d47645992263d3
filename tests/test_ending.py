"""Whether a run was played as planned: told by notes, by phases that are missing, and by lengths."""

from collections.abc import Mapping
from typing import Any

import pytest

from checkers import coverage
from harness.ending import Ending, ending_of
from harness.judge import conclude
from harness.operation import DISK_FULL, HARNESS_ERROR, STOPPED_EARLY, NoteEvent, PhaseName
from harness.verdict import Validity, Verdict
from tests.checkers.build import Tale, facts, ns

PLANNED_NS = ns(30_000)
STARTS = {
    PhaseName.WARM_UP: 0,
    PhaseName.MAIN: 1_000,
    PhaseName.HEAL: 31_000,
    PhaseName.SETTLE: 31_100,
    PhaseName.WATCH: 31_200,
    PhaseName.FINAL: 33_200,
}


def tale(until: PhaseName = PhaseName.FINAL, end_ms: float = 33_300, *, moved: Mapping[str, float] = {}) -> Tale:
    """Phases up to `until`; `moved` begin at other times ({"heal": 11_000})."""
    told = Tale()
    for phase, at_ms in STARTS.items():
        told.phase(phase, moved.get(phase.name.lower(), at_ms))
        if phase is until:
            break
    told.sample(end_ms)
    return told


def ending(told: Tale, planned_ns: int | None = PLANNED_NS) -> Ending:
    return ending_of(told.history(), planned_ns)


def noted(told: Tale, topic: str, at_ms: float, text: str = "why") -> Tale:
    told.tell(NoteEvent, at_ms, topic=topic, text=text)
    return told


@pytest.mark.parametrize("heal", [30_010, 31_000, 35_000])
def test_a_run_of_its_planned_length_is_whole(heal: float) -> None:
    """The main phase ends with the last operation that fits, and with the last that was in flight."""
    moved = dict.fromkeys(("settle", "watch", "final"), heal + 1)
    found = ending(tale(end_ms=heal + 2, moved={"heal": heal, **moved}))
    assert found == Ending(planned_ns=PLANNED_NS, played_ns=ns(heal - 1_000), cut_short=None)


@pytest.mark.parametrize("topic", [STOPPED_EARLY, DISK_FULL, HARNESS_ERROR])
def test_a_note_says_what_cut_the_main_phase_short(topic: str) -> None:
    moved = {"heal": 11_000, "settle": 11_001, "watch": 11_002, "final": 11_003}
    found = ending(noted(tale(end_ms=12_000, moved=moved), topic, 10_990))
    assert found.played_ns == ns(10_000)
    assert found.cut_short == "the run was cut short after 10.0 s of the planned 30 s of its main phase: why"


def test_the_first_note_is_the_cause() -> None:
    told = noted(noted(tale(), HARNESS_ERROR, 30_000, "the engine is gone"), STOPPED_EARLY, 30_500, "asked to stop")
    assert (ending(told).cut_short or "").endswith(": the engine is gone")


@pytest.mark.parametrize(
    ("topic", "at_ms", "where"),
    [
        (STOPPED_EARLY, 500, "in its warm-up phase"),
        (STOPPED_EARLY, 32_000, "in its watch phase"),
        (STOPPED_EARLY, 33_250, None),
        (DISK_FULL, 33_250, None),
        (HARNESS_ERROR, 33_250, "in its final phase"),
        ("not-ready-again", 5_000, None),
    ],
)
def test_what_came_too_late_to_cut_anything_short_is_no_cause(topic: str, at_ms: float, where: str | None) -> None:
    """Final reads are made whatever was asked; a failure of the harness counts at any time."""
    found = ending(noted(tale(), topic, at_ms)).cut_short
    assert found == (f"the run was cut short {where}: why" if where else None)


def test_a_stop_before_the_main_phase() -> None:
    told = Tale()
    for phase, at_ms in ((PhaseName.WARM_UP, 0), (PhaseName.HEAL, 600), (PhaseName.FINAL, 700)):
        told.phase(phase, at_ms)
    found = ending(noted(told, STOPPED_EARLY, 500))
    assert (found.played_ns, found.cut_short) == (0, "the run was cut short before its main phase: why")


@pytest.mark.parametrize(
    ("until", "end_ms", "where"),
    [
        (PhaseName.WARM_UP, 900, "before its main phase"),
        (PhaseName.MAIN, 6_000, "after 5.0 s of the planned 30 s of its main phase"),
        (PhaseName.SETTLE, 31_150, "in its settle phase"),
        (PhaseName.WATCH, 32_000, "in its watch phase"),
    ],
)
def test_a_history_that_simply_ends(until: PhaseName, end_ms: float, where: str) -> None:
    found = ending(tale(until, end_ms)).cut_short or ""
    assert found.startswith(f"the run was cut short {where}: the history ends there")
    assert ending(tale(until, end_ms), planned_ns=None).cut_short is None, "without a plan nobody knows"


def test_a_main_phase_that_is_too_short_without_a_note() -> None:
    found = ending(tale(moved={"heal": 11_000})).cut_short or ""
    assert found.startswith("the run was cut short after 10.0 s of the planned 30 s of its main phase: nothing")


def test_an_empty_history_was_cut_short() -> None:
    assert (ending(Tale()).cut_short or "").startswith("the run was cut short before its main phase")


def judged(told: Tale, *more: Verdict) -> Any:
    for at_ms in range(2_000, 10_000, 20):
        told.read("a", 1, at=(at_ms, at_ms + 1))
    told.read("a", 1, at=(33_210, 33_211))
    history, given = told.history(), facts(planned_ns=PLANNED_NS)
    kept = Verdict(checker="linearizable", guarantee="linearizable", validity=Validity.VALID)
    return conclude(history, given, (*(more or (kept,)), *coverage.check(history, given)))


def test_a_run_without_a_violation_is_unknown_when_it_was_cut_short_and_else_valid() -> None:
    assert judged(tale()).validity is Validity.VALID
    cut = judged(noted(tale(), STOPPED_EARLY, 30_000))
    assert cut.validity is Validity.UNKNOWN
    assert cut.headline == "the run was cut short after 30.0 s of the planned 30 s of its main phase: why"


def test_a_violation_stays_one_and_the_headline_says_both() -> None:
    broken = Verdict(
        checker="linearizable", guarantee="linearizable", validity=Validity.INVALID, anomalies={"stale-read": 1}
    )
    cut = judged(noted(tale(), STOPPED_EARLY, 30_000), broken)
    assert cut.validity is Validity.INVALID
    assert cut.headline == (
        "linearizable (promised) is broken: 1 x stale-read; "
        "the run was cut short after 30.0 s of the planned 30 s of its main phase: why"
    )
