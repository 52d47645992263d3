"""The loop of a night in memory: order, budget, repetitions, stops; and nights killed anywhere, then resumed."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fencepost.campaigns.night.cells import NightCell
from fencepost.campaigns.night.night import Night, NightState, RunAttempt
from fencepost.campaigns.night.outcome import outcome
from fencepost.campaigns.night.pool import seed_of
from fencepost.campaigns.night.register import Record
from fencepost.campaigns.night.run_class import RunClass
from fencepost.campaigns.night.value import Value, by_value, past_of, value_of
from fencepost.harness.base.signals import StopRequest
from tests.campaigns.night.made import (
    Clock,
    Killed,
    PretendedLauncher,
    attempt,
    caught,
    cell,
    document,
    opened,
    session,
)

Plays = Callable[[NightCell, RunAttempt], tuple[float, int, dict[str, Any] | None]]


def always_valid(cell: NightCell, attempt: RunAttempt) -> tuple[float, int, dict[str, Any] | None]:
    if cell.canary:
        return 10, 1, document("invalid", fingerprints=["example:linearizable:stale-read:change+read"])
    return 10, 0, document()


def play(cells: Sequence[NightCell], plays: Plays = always_valid, **fields: Any) -> tuple[Night, PretendedLauncher]:
    launcher = PretendedLauncher(Clock(), plays)
    return session([opened(cells, **fields)], launcher), launcher


def test_a_night_runs_every_cell_once_canaries_and_required_cells_first() -> None:
    cells = [cell("a"), cell("b", required=True), cell("c", canary=True), cell("d", runs=2)]
    made, launcher = play(cells)
    assert [name for name, _, _ in launcher.launched] == ["c", "b", "a", "d", "d"]
    assert made.state is NightState.FINISHED and outcome(made).is_green
    first, second = (a for a in made.attempts if a.cell == "d")
    assert (first.seed, second.seed) == (seed_of(7, cells[3], 1), seed_of(7, cells[3], 2)) and first.seed != second.seed


def test_never_more_runs_at_a_time_than_jobs() -> None:
    made, launcher = play([cell(str(n)) for n in range(9)], jobs=3)
    assert launcher.most_at_a_time == 3 and made.spent_s < 40
    assert max(a.company for a in made.attempts) == 2


def test_the_budget_is_kept_and_what_it_left_out_is_named() -> None:
    made, launcher = play([cell("canary", canary=True), *(cell(str(n)) for n in range(9))], budget_s=60.0)
    assert made.spent_s <= 60
    left_out = [o for o in made.cells if o.run_class is RunClass.NOT_RUN]
    assert left_out and all("the budget left" in o.reason for o in left_out)
    assert len(launcher.launched) == 10 - len(left_out) and outcome(made).is_green


def test_a_run_in_flight_at_the_budgets_end_is_stopped_and_says_so() -> None:
    made, _ = play([cell("endless")], lambda cell, attempt: (1e9, 0, None), budget_s=40.0)
    (only,) = made.attempts
    assert made.spent_s < 45
    assert (only.run_class, only.reason) == (RunClass.UNKNOWN_BUDGET, "the night ended before it was judged")


def test_a_run_that_does_not_end_is_stopped_at_its_deadline() -> None:
    made, _ = play([cell("stuck")], lambda cell, attempt: (1e9, 0, None), budget_s=10_000.0)
    (only,) = made.attempts
    assert (only.run_class, only.reason) == (RunClass.HARNESS, "it did not end by its deadline, and left no verdict")


def test_a_disturbed_run_is_made_again_alone_and_shown_as_two_attempts() -> None:
    def plays(cell: NightCell, attempt: RunAttempt) -> tuple[float, int, dict[str, Any] | None]:
        if cell.id == "1" and not attempt.alone:
            return 10, 2, document("unknown", cause="stalled", lag_ns=900_000_000)
        return 10, 0, document()

    made, launcher = play([cell(str(n)) for n in range(4)], plays, jobs=2)
    again = [a for a in made.attempts if a.cell == "1"]
    assert [(a.run_class, a.alone, a.company) for a in again] == [
        (RunClass.UNKNOWN_DISTURBED, False, 1),
        (RunClass.VALID, True, 0),
    ]
    assert again[0].seed == again[1].seed and launcher.launched[-1] == ("1", 1, 2)
    assert next(o.run_class for o in made.cells if o.cell.id == "1") is RunClass.VALID


def test_a_run_that_stands_still_alone_is_a_failure_of_the_harness() -> None:
    stalled = document("unknown", cause="stalled", lag_ns=900_000_000)
    made, _ = play([cell("0"), cell("1")], lambda cell, attempt: (10, 2, stalled), jobs=2)
    assert {o.run_class for o in made.cells} == {RunClass.HARNESS}
    assert Counter(a.alone for a in made.attempts) == {False: 2, True: 2}


def test_ctrl_c_waits_for_what_is_in_flight_and_the_next_session_goes_on() -> None:
    stop = StopRequest()
    records: list[Record] = [opened([cell(str(n)) for n in range(4)])]

    def plays(cell: NightCell, attempt: RunAttempt) -> tuple[float, int, dict[str, Any] | None]:
        stop.request(by_hand=True)
        return always_valid(cell, attempt)

    made = session(records, PretendedLauncher(Clock(), plays), stop=stop)
    assert made.state is NightState.STOPPED and [a.run_class for a in made.attempts] == [RunClass.VALID]
    made = session(records, PretendedLauncher(Clock(), always_valid))
    assert made.state is NightState.FINISHED and made.sessions == 2
    assert Counter(a.cell for a in made.attempts) == {str(n): 1 for n in range(4)}


def test_ctrl_c_twice_ends_at_once_and_what_was_in_flight_is_lost() -> None:
    stop = StopRequest()

    def plays(cell: NightCell, attempt: RunAttempt) -> tuple[float, int, dict[str, Any] | None]:
        stop.request(by_hand=True)
        stop.request(by_hand=True)
        return 1e9, 0, None

    made = session([opened([cell("0")])], PretendedLauncher(Clock(), plays), stop=stop)
    assert made.state is NightState.STOPPED and made.spent_s < 5
    assert [a.run_class for a in made.attempts] == [RunClass.LOST]


def test_killed_anywhere_and_resumed_no_run_is_made_twice_and_none_is_lost() -> None:
    rng = random.Random(3)
    for _ in range(1_000):
        cells = [
            cell("canary", canary=True),
            *(cell(str(n), runs=rng.choice([1, 1, 2])) for n in range(rng.randint(1, 5))),
        ]
        records: list[Record] = [opened(cells, jobs=rng.choice([1, 2, 3]), budget_s=3_000.0)]
        launched: list[tuple[str, int, int]] = []
        for _ in range(rng.randint(0, 4)):
            launcher = PretendedLauncher(Clock(), always_valid)
            try:
                session(records, launcher, killed_after=rng.randint(0, 8))
            except Killed:
                pass
            else:
                records.pop()  # the session was over; it is killed before it closes
            launched += launcher.launched
        launcher = PretendedLauncher(Clock(), always_valid)
        made = session(records, launcher)
        launched += launcher.launched
        assert len(launched) == len(set(launched)), "the same attempt was begun twice"
        for each in made.cells:
            for run in range(1, each.cell.runs + 1):
                own = sorted((a for a in each.attempts if a.run == run), key=lambda a: a.number)
                assert [a.number for a in own] == list(range(1, len(own) + 1))
                *before, last = own
                assert all(a.run_class is RunClass.LOST for a in before)
                assert last.run_class is (RunClass.INVALID if each.cell.canary else RunClass.VALID)
        assert outcome(made).is_green


@pytest.mark.parametrize(
    ("attempts", "build", "value"),
    [
        ([], "2", Value.NEVER_RUN),
        ([attempt("a", RunClass.VALID, build="1", exposures={"x": 500})], "2", Value.CHANGED_VERSION),
        ([attempt("a", RunClass.LOST, build="2", exposures={"x": 500})], "2", Value.FAILED_LAST),
        ([attempt("a", RunClass.VALID, build="2", exposures={"x": 500, "y": 3})], "2", Value.FEW_EXPOSURES),
        ([attempt("a", RunClass.KNOWN, build="2", exposures={"x": 500})], "2", Value.ROUND_ROBIN),
    ],
)
def test_the_value_of_a_cell_comes_from_what_earlier_nights_know(
    attempts: list[RunAttempt], build: str, value: Value
) -> None:
    assert value_of(cell("a"), past_of(attempts).get("a"), build) is value
    assert (
        value_of(cell("canary", canary=True), past_of([caught(build=build, exposures={"x": 500})])["canary"], build)
        is Value.ROUND_ROBIN
    )


def test_round_robin_begins_with_what_was_run_longest_ago() -> None:
    past = past_of(
        attempt(name, RunClass.VALID, exposures={"x": 500}, began_at=at)
        for name, at in (("a", "2026-11-22"), ("b", "2026-11-20"), ("c", "2026-11-21"))
    )
    assert [c.id for c in by_value([cell("a"), cell("b"), cell("c")], past, {})] == ["b", "c", "a"]
