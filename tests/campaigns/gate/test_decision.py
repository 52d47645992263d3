"""Each reason for red by its own name, and green only where every requirement is met."""

import msgspec
import pytest

from fencepost.campaigns.gate.decision import decide
from fencepost.campaigns.gate.evidence import GateEvidence
from fencepost.campaigns.gate.requirement import Requirement, RequirementKind, RequirementStatus
from fencepost.campaigns.night.night import NightState
from fencepost.campaigns.night.run_class import RunClass
from fencepost.harness.base.errors import ExitCode
from tests.campaigns.gate.made import (
    YESTERDAY,
    budget,
    clean,
    evidence,
    exception,
    linearizable,
    paired,
    policy,
    violation,
)
from tests.campaigns.night.made import FINGERPRINT, OTHER, attempt, caught, cell


def not_green(made: GateEvidence) -> list[Requirement]:
    return [r for r in decide(made).requirements if r.status.exit_code]


def one_reason(made: GateEvidence, kind: RequirementKind, code: ExitCode) -> Requirement:
    """The only requirement that is not green."""
    decision = decide(made)
    (row,) = not_green(made)
    assert (row.kind, decision.exit_code) == (kind, code) and not decision.is_green
    assert row.reason in decision.sentence
    return row


def test_a_gate_whose_requirements_are_met_is_green() -> None:
    decision = decide(evidence([clean()], policy(guarantees=(linearizable(40),))))
    assert decision.is_green and not decision.is_certainly_red
    assert decision.sentence == "all 3 requirements are met"
    assert {r.status for r in decision.requirements} == {RequirementStatus.MET}


def test_a_violation_fails_and_makes_red_certain() -> None:
    row = one_reason(evidence([violation(reason="it is stale")]), RequirementKind.CELL, ExitCode.INVALID)
    assert row.final and "it is stale" in row.reason


@pytest.mark.parametrize("run_class", [c for c in RunClass if not c.is_judged and c is not RunClass.NOT_RUN])
def test_a_run_that_is_not_clean_is_missing_evidence_even_beside_clean_ones(run_class: RunClass) -> None:
    made = evidence([clean(), attempt("c0", run_class, run=2, reason="why")])
    row = one_reason(made, RequirementKind.CELL, ExitCode.UNKNOWN)
    assert run_class.value in row.reason and not row.final


def test_a_lost_run_that_was_made_again_counts_by_its_last_attempt() -> None:
    assert decide(evidence([attempt("c0", RunClass.LOST), clean(number=2)])).is_green
    assert not decide(evidence([clean(), attempt("c0", RunClass.LOST, number=2)])).is_green


def test_a_violation_stays_when_the_run_is_made_again() -> None:
    one_reason(evidence([violation(), clean(number=2)]), RequirementKind.CELL, ExitCode.INVALID)


def test_a_cell_that_was_not_run_or_too_seldom_is_missing() -> None:
    assert "0 of 1 clean run" in one_reason(evidence([]), RequirementKind.CELL, ExitCode.UNKNOWN).reason
    made = evidence([clean()], policy(runs={"c0": 2}))
    assert one_reason(made, RequirementKind.CELL, ExitCode.UNKNOWN).reason == "1 of 2 clean runs"
    absent = evidence([clean()], policy(runs={"c0": 1, "c9": 1}))
    assert one_reason(absent, RequirementKind.CELL, ExitCode.UNKNOWN).name == "cell c9"


def test_a_cell_that_this_machine_cannot_run_is_missing_unless_an_exception_covers_it() -> None:
    made = evidence([])
    outcomes = tuple(
        msgspec.structs.replace(o, run_class=RunClass.MACHINE, reason="no clock here") if o.cell.id == "c0" else o
        for o in made.night.cells
    )
    made = msgspec.structs.replace(made, night=msgspec.structs.replace(made.night, cells=outcomes))
    assert "no clock here" in one_reason(made, RequirementKind.CELL, ExitCode.UNKNOWN).reason
    assert decide(msgspec.structs.replace(made, policy=policy(exceptions=(exception(cell="c0"),)))).is_green


def test_a_run_in_flight_is_no_evidence() -> None:
    one_reason(evidence([attempt("c0", None)], state=NightState.RUNNING), RequirementKind.CELL, ExitCode.UNKNOWN)


def test_a_valid_run_that_tested_nothing_is_no_evidence() -> None:
    made = evidence([attempt("c0", RunClass.VALID, exposures={"linearizable": 0})])
    assert "put no guarantee to the test" in one_reason(made, RequirementKind.CELL, ExitCode.UNKNOWN).reason


@pytest.mark.parametrize(("tested", "runs"), [(81, 1), (1, 3)])
def test_a_guarantee_needs_its_tests_and_its_clean_runs(tested: int, runs: int) -> None:
    attempts, cells = [clean(), clean(run=2)], [cell("c0", required=True, runs=5)]
    assert decide(evidence(attempts, policy(guarantees=(linearizable(80, 2),)))).is_green
    made = evidence(attempts, policy(guarantees=(linearizable(tested, runs),)), cells=cells)
    row = one_reason(made, RequirementKind.GUARANTEE, ExitCode(2))
    assert row.reason == "tested 80 times in 2 clean runs; at 40 a run it needs about 1 more"


def test_tests_in_runs_that_are_not_clean_do_not_count() -> None:
    known = attempt("c0", RunClass.KNOWN, run=2, exposures={"linearizable": 900}, known=(FINGERPRINT,))
    one_reason(
        evidence([clean(), known], policy(guarantees=(linearizable(41),))), RequirementKind.GUARANTEE, ExitCode.UNKNOWN
    )


def test_a_canary_that_passes_shows_another_anomaly_or_is_missing_is_never_green() -> None:
    passed = evidence([clean()], canary=[attempt("canary", RunClass.VALID)])
    assert one_reason(passed, RequirementKind.CANARY, ExitCode.UNKNOWN).final
    other = evidence([clean()], canary=[attempt("canary", RunClass.INVALID, anomalies=("lost-write",))])
    assert one_reason(other, RequirementKind.CANARY, ExitCode.UNKNOWN).final
    for run_class in (RunClass.LOST, RunClass.HARNESS, RunClass.UNKNOWN_COVERAGE, None):
        made = evidence([clean()], canary=[attempt("canary", run_class)], state=NightState.RUNNING)
        assert not one_reason(made, RequirementKind.CANARY, ExitCode.UNKNOWN).final
    gone = evidence([clean()])
    gone = msgspec.structs.replace(gone, night=msgspec.structs.replace(gone.night, cells=gone.night.cells[1:]))
    one_reason(gone, RequirementKind.CANARY, ExitCode.UNKNOWN)


def test_an_expired_exception_is_red_whether_it_is_needed_or_not() -> None:
    for fields in ({"fingerprint": FINGERPRINT}, {"cell": "c0"}):
        made = evidence([clean()], policy(exceptions=(exception(expires=YESTERDAY, **fields),)))
        assert one_reason(made, RequirementKind.EXCEPTION, ExitCode.INVALID).final
        in_force = evidence([clean()], policy(exceptions=(exception(**fields),)))
        assert decide(in_force).is_green


def test_an_exception_for_a_cell_covers_missing_evidence_but_no_violation() -> None:
    made = policy(exceptions=(exception(cell="c0"),))
    (row,) = (r for r in decide(evidence([], made)).requirements if r.kind is RequirementKind.CELL)
    assert row.status is RequirementStatus.EXCEPTED and "me until 2026-11-23" in row.reason
    one_reason(evidence([violation()], made), RequirementKind.CELL, ExitCode.INVALID)
    expired = policy(exceptions=(exception(cell="c0", expires=YESTERDAY),))
    assert {r.kind for r in not_green(evidence([], expired))} == {RequirementKind.EXCEPTION, RequirementKind.CELL}


def test_an_exception_for_a_fingerprint_never_hides_a_second_one() -> None:
    made = policy(exceptions=(exception(fingerprint=FINGERPRINT),))
    known = attempt("c0", RunClass.KNOWN, known=(FINGERPRINT,), fingerprints=(FINGERPRINT,))
    decision = decide(evidence([known], made))
    assert decision.is_green and "1 of them under an exception" in decision.sentence
    second = attempt("c0", RunClass.INVALID, known=(FINGERPRINT,), fingerprints=(FINGERPRINT, OTHER))
    one_reason(evidence([second], made), RequirementKind.CELL, ExitCode.INVALID)


def test_a_budget_is_exceeded_where_the_test_and_the_median_both_say_so() -> None:
    row = one_reason(paired([200] * 5, [100, 101, 102, 103, 104]), RequirementKind.BUDGET, ExitCode.INVALID)
    assert row.final and row.comparison is not None
    assert (row.comparison.p, row.comparison.effect) == (1 / 32, 1.0)


def test_a_budget_is_met_where_the_candidate_is_slower_but_within_the_factor() -> None:
    assert decide(paired([120] * 5, [100] * 5)).is_green
    assert decide(paired([80] * 5, [100] * 5)).is_green


def test_a_budget_whose_median_is_beyond_by_chance_is_not_decided() -> None:
    row = one_reason(paired([300, 300, 300, 10, 10], [100] * 5), RequirementKind.BUDGET, ExitCode.UNKNOWN)
    assert "not decided" in row.reason


def test_too_few_pairs_do_not_decide_a_budget() -> None:
    row = one_reason(paired([100] * 5, [100] * 4), RequirementKind.BUDGET, ExitCode.UNKNOWN)
    assert row.reason == "4 of 5 pairs were measured"
    alone = evidence([clean()], policy(budgets=(budget(),)))
    assert one_reason(alone, RequirementKind.BUDGET, ExitCode.UNKNOWN).reason == "0 of 5 pairs were measured"


def test_a_run_without_a_verdict_makes_no_pair() -> None:
    made = paired([100] * 5, [100] * 5)
    (side,) = (o for o in made.night.cells if o.cell.seeds_of)
    disturbed = msgspec.structs.replace(side.attempts[0], run_class=RunClass.UNKNOWN_DISTURBED)
    outcome = msgspec.structs.replace(side, attempts=(disturbed, *side.attempts[1:]))
    cells = tuple(outcome if o.cell.seeds_of else o for o in made.night.cells)
    made = msgspec.structs.replace(made, night=msgspec.structs.replace(made.night, cells=cells))
    assert one_reason(made, RequirementKind.BUDGET, ExitCode.UNKNOWN).reason == "4 of 5 pairs were measured"


def test_two_builds_are_no_evidence_for_either() -> None:
    second = msgspec.structs.replace(clean(run=2), build="1.0 bb")
    assert one_reason(evidence([clean(), second]), RequirementKind.BUILD, ExitCode.UNKNOWN).final


def test_a_missing_shard_is_never_green() -> None:
    made = evidence([clean()], shards=2)
    made = msgspec.structs.replace(made, night=msgspec.structs.replace(made.night, merged=True))
    one_reason(made, RequirementKind.SHARD, ExitCode.UNKNOWN)


def test_a_violation_of_the_baseline_says_nothing_of_the_candidate() -> None:
    made = paired([100] * 5, [100] * 5)
    (side,) = (o for o in made.night.cells if o.cell.seeds_of)
    broken = msgspec.structs.replace(side.attempts[0], run_class=RunClass.INVALID)
    outcome = msgspec.structs.replace(side, run_class=RunClass.INVALID, attempts=(broken, *side.attempts[1:]))
    cells = tuple(outcome if o.cell.seeds_of else o for o in made.night.cells)
    night = msgspec.structs.replace(made.night, cells=cells)
    assert decide(msgspec.structs.replace(made, night=night)).is_green


def test_a_failure_comes_before_missing_evidence() -> None:
    cells = [cell("c0", required=True), cell("c1", required=True)]
    decision = decide(evidence([violation("c1")], policy(runs={"c0": 1, "c1": 1}), cells=cells))
    assert decision.exit_code is ExitCode.INVALID and decision.sentence.startswith("1 of 3 requirements failed: c1")


def test_the_canary_is_caught_by_its_own_anomaly() -> None:
    assert decide(evidence([clean()], canary=[caught()])).is_green
