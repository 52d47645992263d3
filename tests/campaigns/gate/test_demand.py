"""Whole gates on a pretended clock: which runs are made, and when it stops."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from fencepost.campaigns.gate.decision import decide, measured_pairs
from fencepost.campaigns.gate.demand import demand_of
from fencepost.campaigns.gate.evidence import GateEvidence
from fencepost.campaigns.gate.policy import BudgetMeasure, Policy
from fencepost.campaigns.gate.requirement import Decision
from fencepost.campaigns.night.cells import NightCell
from fencepost.campaigns.night.night import RunAttempt
from fencepost.campaigns.night.pool import Pool
from fencepost.campaigns.night.register import Record, night_of
from tests.campaigns.gate.made import TODAY, YESTERDAY, baseline_cell, budget, exception, linearizable, policy
from tests.campaigns.night.made import FINGERPRINT, Clock, PretendedLauncher, cell, document, opened, session

Plays = Callable[[NightCell, RunAttempt], tuple[float, int, dict[str, Any] | None]]
CUT = cell("c0", required=True, runs=20)
PAIR = (CUT, baseline_cell())


def clean(cell: NightCell, attempt: RunAttempt) -> tuple[float, int, dict[str, Any] | None]:
    return (10, 1, document("invalid", fingerprints=[FINGERPRINT])) if cell.canary else (10, 0, document())


def play(
    made: Policy,
    cells: list[NightCell],
    plays: Plays = clean,
    *,
    jobs: int = 1,
    slow: int = 1,
    on_change: Callable[[Pool], None] = lambda _: None,
) -> tuple[Decision, list[tuple[str, int]], GateEvidence]:
    """Carry out a gate; returns its decision, the runs in the order of their starts, and the evidence."""
    every = [cell("canary", canary=True), *cells]
    issues = tuple(e.issue for e in made.exceptions if e.fingerprint)
    records: list[Record] = [opened(every, jobs=jobs, budget_s=3600.0, known_issues=issues)]
    clock = Clock()
    launcher = PretendedLauncher(clock, plays)

    def evidence() -> GateEvidence:
        night = night_of(records, running=True)
        ended = [a for a in night.attempts if a.run_class is not None]
        times = {a.folder: {BudgetMeasure.RECOVERY: 100 * (slow if a.cell == "c0" else 1)} for a in ended}
        return GateEvidence(policy=made, night=night, measures=times)

    session(records, launcher, on_change=on_change, demand=lambda night, turn: demand_of(evidence(), turn))
    final = msgspec.structs.replace(evidence(), night=night_of(records))
    return decide(final), [(name, run) for name, run, _ in launcher.launched], final


def test_it_makes_the_runs_that_a_cell_needs_and_no_more() -> None:
    decision, runs, _ = play(policy(runs={"c0": 3}), [CUT])
    assert decision.is_green and runs == [("canary", 1), ("c0", 1), ("c0", 2), ("c0", 3)]


def test_it_repeats_a_cell_until_its_guarantee_was_tested_often_enough() -> None:
    # Each clean run tests it 40 times.
    decision, runs, _ = play(policy(guarantees=(linearizable(100),)), [CUT])
    assert decision.is_green and runs[1:] == [("c0", 1), ("c0", 2), ("c0", 3)]


def test_runs_side_by_side_are_not_more_than_the_guarantee_lacks() -> None:
    decision, runs, _ = play(policy(guarantees=(linearizable(120),)), [CUT], jobs=3)
    assert decision.is_green and runs[1:] == [("c0", 1), ("c0", 2), ("c0", 3)]


def test_it_gives_up_at_the_most_runs_of_a_cell() -> None:
    cell = msgspec.structs.replace(CUT, runs=4)
    decision, runs, _ = play(policy(guarantees=(linearizable(1, 6),)), [cell])
    assert decision.exit_code == 2 and len(runs) == 5


@pytest.mark.parametrize("wanted", [10_000, 100_000_000])
@pytest.mark.parametrize("needed", [1, 3])
def test_it_stops_repeating_once_the_rate_says_that_the_tests_cannot_be_had(wanted: int, needed: int) -> None:
    """Runs that a cell needs for itself are still made, since they may show a violation."""
    made = policy(runs={"c0": needed}, guarantees=(linearizable(wanted),))
    decision, runs, _ = play(made, [CUT])
    assert decision.exit_code == 2 and runs[1:] == [("c0", run) for run in range(1, needed + 1)]
    assert f"at 40 a run it needs about {(wanted - 40 * needed) // 40:,} more" in decision.sentence
    assert "raise --budget and runs_max, or require fewer tests" in decision.sentence


def test_what_the_budget_can_still_bring_is_tried() -> None:
    # 20 runs of 40 tests are allowed, and take a third of the budget.
    decision, runs, _ = play(policy(guarantees=(linearizable(800),)), [CUT])
    assert decision.is_green and len(runs) == 21


@pytest.mark.parametrize("jobs", [1, 2, 4])
def test_runs_whose_times_are_compared_have_nothing_beside_them(jobs: int) -> None:
    cells = [cell("c1", required=True, runs=6), *(msgspec.structs.replace(c, runs=20, alone=True) for c in PAIR)]
    decision, _, final = play(policy(runs={"c0": 1, "c1": 6}, budgets=(budget(),)), cells, jobs=jobs)
    compared = [a for a in final.night.attempts if a.cell.startswith("c0")]
    assert decision.is_green and len(compared) >= 10 and {a.company for a in compared} == {0}
    assert max(a.company for a in final.night.attempts) == (0 if jobs == 1 else jobs - 1)


@pytest.mark.parametrize(
    "late", [{("c0", 2)}, {("c0", 1), ("c0-baseline", 3)}, {("c0-baseline", n) for n in range(1, 5)}]
)
def test_a_run_that_was_late_is_replaced_by_another_pair(late: set[tuple[str, int]]) -> None:
    def plays(cell: NightCell, attempt: RunAttempt) -> tuple[float, int, dict[str, Any] | None]:
        if (cell.id, attempt.run) in late:
            return 10, 0, document(lag_ns=395_000_000)
        return clean(cell, attempt)

    decision, runs, final = play(
        policy(budgets=(budget(),)), [msgspec.structs.replace(c, runs=20) for c in PAIR], plays
    )
    assert decision.is_green and max(run for _, run in runs) == 5 + len({run for _, run in late})
    pairs = measured_pairs(final, budget())
    assert len(pairs) == 5


def test_a_budget_whose_runs_were_all_late_is_missing_and_says_by_how_much() -> None:
    def plays(cell: NightCell, attempt: RunAttempt) -> tuple[float, int, dict[str, Any] | None]:
        return (10, 0, document(lag_ns=(300 + attempt.run) * 1_000_000)) if not cell.canary else clean(cell, attempt)

    decision, _, _ = play(policy(budgets=(budget(),)), [msgspec.structs.replace(c, runs=7) for c in PAIR], plays)
    assert decision.exit_code == 2 and not decision.is_certainly_red
    assert "0 of 5 pairs were measured; 14 runs late by 301 to 307 ms not compared" in decision.sentence


def test_pairs_are_made_in_turns_with_the_same_seeds() -> None:
    decision, runs, final = play(policy(budgets=(budget(),)), [CUT, msgspec.structs.replace(baseline_cell(), runs=20)])
    assert decision.is_green and len(runs) == 11
    assert all({runs[n][0], runs[n + 1][0]} == {"c0", "c0-baseline"} for n in range(1, 11, 2))
    seeds = {o.cell.id: [a.seed for a in o.attempts] for o in final.night.cells}
    assert seeds["c0"] == seeds["c0-baseline"] and len(set(seeds["c0"])) == 5


def test_a_run_that_cannot_be_measured_is_replaced_by_another_pair() -> None:
    def plays(cell: NightCell, attempt: RunAttempt) -> tuple[float, int, dict[str, Any] | None]:
        return (10, 3, None) if (cell.id, attempt.run) == ("c0-baseline", 2) else clean(cell, attempt)

    decision, runs, _ = play(
        policy(budgets=(budget(),)), [CUT, msgspec.structs.replace(baseline_cell(), runs=20)], plays
    )
    assert decision.is_green and max(run for _, run in runs) == 6


def test_an_exceeded_budget_stops_it() -> None:
    cells = [CUT, msgspec.structs.replace(baseline_cell(), runs=20)]
    decision, runs, _ = play(policy(runs={"c0": 9}, budgets=(budget(),)), cells, slow=3)
    assert decision.exit_code == 1 and max(run for _, run in runs) == 5


def test_a_violation_stops_it_and_one_under_an_exception_does_not() -> None:
    def plays(cell: NightCell, attempt: RunAttempt) -> tuple[float, int, dict[str, Any] | None]:
        shows = cell.canary or attempt.run == 2
        return (10, 1, document("invalid", fingerprints=[FINGERPRINT])) if shows else clean(cell, attempt)

    decision, runs, _ = play(policy(runs={"c0": 4}), [CUT], plays)
    assert decision.exit_code == 1 and runs == [("canary", 1), ("c0", 1), ("c0", 2)]
    excepted = policy(runs={"c0": 4}, exceptions=(exception(fingerprint=FINGERPRINT, expires=TODAY),))
    decision, runs, _ = play(excepted, [CUT], plays)
    assert decision.is_green and len(runs) == 5


def test_an_expired_exception_stops_it_before_the_first_run() -> None:
    made = policy(exceptions=(exception(cell="c0", expires=YESTERDAY),))
    decision, runs, _ = play(made, [CUT])
    assert decision.exit_code == 1 and runs == []


def test_a_canary_that_passes_stops_it() -> None:
    decision, runs, _ = play(policy(runs={"c0": 4}), [CUT], lambda cell, attempt: (10, 0, document()))
    assert decision.exit_code == 2 and runs == [("canary", 1)]


def test_missing_evidence_does_not_stop_it() -> None:
    def plays(cell: NightCell, attempt: RunAttempt) -> tuple[float, int, dict[str, Any] | None]:
        if cell.id == "c0" and attempt.run == 1:
            return 10, 3, None
        return clean(cell, attempt)

    decision, runs, _ = play(policy(runs={"c0": 3}), [CUT], plays)
    assert decision.exit_code == 2 and len(runs) == 4


def test_the_estimated_end_leaves_out_runs_that_nobody_demands_yet() -> None:
    """The cell may run twenty times, and two clean runs are all that is needed."""
    ends: list[tuple[float, float]] = []
    _, launched, _ = play(
        policy(runs={"c0": 2}), [CUT], on_change=lambda pool: ends.append((pool.spent_s, pool.expected_end_s()))
    )
    estimate_s = 22.0
    assert len(launched) == 3
    assert ends[0][1] <= 3 * estimate_s and max(end for _, end in ends) < 4 * estimate_s, ends
