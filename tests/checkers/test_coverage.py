"""Coverage: each threshold met and missed by one."""

import itertools
from typing import Any

import pytest

from fencepost.checkers import coverage
from fencepost.harness.history import (
    BROKEN_SERVER,
    STOPPED_EARLY,
    FaultOutcome,
    NodeChange,
    NoteEvent,
    Outcome,
    PhaseName,
)
from fencepost.harness.verdict import Thresholds, Validity, Verdict
from tests.checkers.build import Tale, facts, ns


def tale_of(
    *, reads: int = 50, writes: int = 50, fault: FaultOutcome | None = FaultOutcome.INSTALLED, final: bool = True
) -> Tale:
    tale = Tale()
    tale.phase(PhaseName.WARM_UP, 0)
    for i in range(200):
        tale.write("a", i, at=(i, i))
    tale.phase(PhaseName.MAIN, 1000)
    for i in range(reads):
        tale.read("a", 1, at=(1000 + i, 1001 + i))
    for i in range(writes):
        tale.write("a", i, at=(2000 + i, 2001 + i))
    if fault is not None:
        tale.fault("pause", ("n1",), (1500, 1510, 2005, 2010), outcome=fault)
    tale.phase(PhaseName.FINAL, 5000)
    tale.read("a", 1, at=(5001, 5002), type=Outcome.OK if final else Outcome.FAIL)
    return tale


def judged(
    tale: Tale, nemesis: tuple[str, ...] = ("pause:leader",), *, scheduled: int | None = None, **thresholds: Any
) -> Verdict:
    given = facts(nemesis=nemesis, thresholds=Thresholds(**thresholds), scheduled=scheduled)
    (verdict,) = coverage.check(tale.history(), given)
    return verdict


@pytest.mark.parametrize(
    ("lost", "appends", "effective"),
    [
        ("", False, False),
        ("n1:member/wal/0.wal", False, True),
        ("b1:__cluster_metadata-0/0.log, z1:version-2/log.1", True, False),
        ("b1:__cluster_metadata-0/0.log, b1:topic-3/0.log", True, True),
        (None, False, True),  # a history of before this was kept
    ],
)
def test_a_loss_of_power_that_took_nothing_of_the_workload_is_no_effective_one(
    lost: str | None, appends: bool, effective: bool
) -> None:
    tale = tale_of(fault=None)
    tale.fault("power-loss", ("n1",), (1500, 1510, 2005, 2010), details={} if lost is None else {"lost": lost})
    if appends:
        for i in range(50):
            tale.op("append", "p0", i, at=(1100 + i, 1101 + i), node="b1", position=i)
    verdict = judged(tale, ("power-loss",))
    assert verdict.validity is (Validity.VALID if effective else Validity.UNKNOWN), verdict.reason
    assert ("none took anything of the workload's data" in verdict.reason) is not effective


@pytest.mark.parametrize(("idle", "effective"), [(1, 1), (4, 1), (1, 3), (4, 0), (0, 2)])
@pytest.mark.parametrize("nemesis", ["power-loss", "all"])
def test_losses_of_power_that_took_nothing_are_named_among_all_of_them(idle: int, effective: int, nemesis: str) -> None:
    tale = tale_of()
    for i, lost in enumerate(["n1:wal"] * effective + [""] * idle):
        at = 1600 + 20 * i
        tale.fault("power-loss", ("n1",), (at, at + 5, at + 10, at + 15), details={"lost": lost})
    verdict = judged(tale, (nemesis,))
    assert verdict.validity is (Validity.VALID if effective else Validity.UNKNOWN), verdict.reason
    told = f"not tested: {idle} of {idle + effective} losses of power took nothing of the workload's data"
    assert verdict.remarks == ((told,) if idle and effective else ())
    assert (f"of {idle} losses of power none took" in verdict.reason) is (not effective)


def test_enough_of_everything() -> None:
    verdict = judged(tale_of())
    assert (verdict.validity, verdict.reason) == (Validity.VALID, "")
    assert verdict.exposure == 6  # invoked from 2000 to 2005


@pytest.mark.parametrize(
    ("reads", "writes", "missing"),
    [(90, 10, 0), (90, 9, 2), (91, 9, 1), (50, 49, 1), (100, 0, 0)],
)
def test_ok_operations_of_the_main_phase(reads: int, writes: int, missing: int) -> None:
    verdict = judged(tale_of(reads=reads, writes=writes), nemesis=("none",))
    assert len(verdict.figures.plain()["missing"]) == missing
    assert verdict.validity is (Validity.UNKNOWN if missing else Validity.VALID)


def test_a_server_that_lacks_a_class_is_told_once_and_leaves_the_run_unknown() -> None:
    tale = tale_of()
    for at in (3000, 3500):
        tale.tell(NoteEvent, at, topic=BROKEN_SERVER, text="b1: a class is missing: NoClassDefFoundError: x/Y")
    tale.tell(NoteEvent, 3600, topic="not-ready-again", text="something else")
    verdict = judged(tale)
    assert verdict.validity is Validity.UNKNOWN
    assert verdict.reason == "b1: a class is missing: NoClassDefFoundError: x/Y, and the server went on"


def test_only_ok_counts() -> None:
    tale = tale_of(reads=60, writes=40)
    for i in range(50):
        tale.op("cas", "a", [1, 2], at=(3000 + i, 3001 + i), type=Outcome.FAIL)
    assert judged(tale).figures.plain()["missing"] == ["0 ok operations 'cas' in the main phase, 10 are needed"]


@pytest.mark.parametrize("outcome", [None, FaultOutcome.SKIPPED, FaultOutcome.INDETERMINATE])
def test_a_fault_must_have_taken_hold(outcome: FaultOutcome | None) -> None:
    verdict = judged(tale_of(fault=outcome))
    assert verdict.validity is Validity.UNKNOWN
    assert "no fault 'pause' took hold" in verdict.reason


def test_every_kind_of_fault_must_have_taken_hold() -> None:
    assert judged(tale_of(), nemesis=("pause:leader", "kill")).figures.plain()["missing"] == [
        "no fault 'kill' took hold"
    ]


@pytest.mark.parametrize(("least", "validity"), [(1, Validity.VALID), (2, Validity.UNKNOWN)])
def test_as_many_faults_as_the_plan_says(least: int, validity: Validity) -> None:
    assert judged(tale_of(), effective_faults_min=least).validity is validity


@pytest.mark.parametrize(("scheduled", "validity"), [(2, Validity.VALID), (3, Validity.UNKNOWN)])
def test_every_fault_of_the_plans_schedule_must_have_been_tried(scheduled: int, validity: Validity) -> None:
    tale = tale_of()
    tale.fault("pause", ("n1",), (3000, 3010, 3010, 3010), outcome=FaultOutcome.SKIPPED)
    verdict = judged(tale, scheduled=scheduled)
    assert verdict.validity is validity
    assert verdict.reason == (
        "" if validity is Validity.VALID else "1 of the 3 faults of the plan's schedule never came"
    )


def test_a_fault_that_was_never_healed_leaves_the_run_unknown() -> None:
    tale = tale_of()
    tale.fault("kill", ("n2",), (3000, 3010, None, None))
    verdict = judged(tale)
    assert (verdict.validity, verdict.reason) == (Validity.UNKNOWN, "1 x kill was never healed")


@pytest.mark.parametrize("nemesis", [(), ("none",)])
def test_without_a_nemesis_no_fault_is_missed(nemesis: tuple[str, ...]) -> None:
    verdict = judged(tale_of(fault=None), nemesis=nemesis)
    assert (verdict.validity, verdict.exposure) == (Validity.VALID, None)


@pytest.mark.parametrize(("least", "validity"), [(6, Validity.VALID), (7, Validity.UNKNOWN)])
def test_operations_while_a_fault_was_in_force(least: int, validity: Validity) -> None:
    assert judged(tale_of(), exposure_min=least).validity is validity


def test_a_final_read_must_be_answered() -> None:
    verdict = judged(tale_of(final=False))
    assert (verdict.validity, verdict.reason) == (Validity.UNKNOWN, "no final read was answered")


@pytest.mark.parametrize(
    ("at_ms", "lag_ms", "validity"),
    [
        (3000, 501, Validity.UNKNOWN),
        (3000, 500, Validity.VALID),
        (900, 800, Validity.VALID),  # in the warm-up
    ],
)
def test_a_stall_of_the_harness_in_the_main_phase(at_ms: float, lag_ms: float, validity: Validity) -> None:
    tale = tale_of()
    tale.sample(1)
    if at_ms > 1000:
        tale.sample(at_ms - 100)
    tale.sample(at_ms, lag_ms=lag_ms)
    assert judged(tale).validity is validity


def test_an_empty_history_is_unknown() -> None:
    (verdict,) = coverage.check(Tale().history(), facts())
    assert verdict.validity is Validity.UNKNOWN


def _lacking(name: str) -> Tale:
    """A run that has all it needs but what this rule asks for."""
    match name:
        case "too-few-operations":
            tale = tale_of(reads=5)
        case "no-effective-fault":
            tale = tale_of(fault=None)
            tale.fault("pause", ("n1",), (1500, 1510, 2005, 2010), outcome=FaultOutcome.SKIPPED)
        case "no-operation-under-fault":
            tale = tale_of(fault=None)
            tale.fault("pause", ("n1",), (3000, 3010, 3020, 3030))
        case "unproven-fault":
            tale = tale_of(fault=FaultOutcome.INDETERMINATE)
        case "no-final-read":
            tale = tale_of(final=False)
        case _:
            tale = tale_of()
    tale.health(0, 6000)
    if name == "cut-short":
        tale.tell(NoteEvent, 4000, topic=STOPPED_EARLY, text="by hand")
    if name == "broken-server":
        tale.tell(NoteEvent, 3000, topic=BROKEN_SERVER, text="b1: a class is missing")
    if name == "smaller-cluster":
        tale.node("n3", NodeChange.EXITED, 2000, expected=False, exit_status=10)
    if name == "stall":
        tale.sample(3001, lag_ms=900)
    return tale


def test_each_rule_finds_what_is_planted_for_it() -> None:
    whole = judged(_lacking("nothing"), scheduled=1)
    assert whole.validity is Validity.VALID and all(rule.chances for rule in whole.rules), whole
    for rule in whole.rules:
        # The tale has one fault, so a schedule of two has lost one.
        scheduled = 2 if rule.name == "scheduled-fault-missing" else 1
        verdict = judged(_lacking(rule.name), scheduled=scheduled)
        assert verdict.validity is Validity.UNKNOWN, rule.name
        assert {own.name: own.chances for own in verdict.rules}[rule.name] > 0


def test_without_a_fault_in_the_plan_or_samples_of_health_their_rules_have_no_chance() -> None:
    lacks = {rule.name: rule.lacks for rule in judged(tale_of(fault=None), nemesis=("none",)).rules}
    assert lacks["no-effective-fault"] == lacks["no-operation-under-fault"] == "the plan asks for no fault"
    assert lacks["unproven-fault"] == "no fault was tried"
    assert lacks["scheduled-fault-missing"] == "the plan names no schedule"
    assert lacks["stall"] == "nobody looked whether the harness stood still"
    assert not lacks["too-few-operations"] and not lacks["no-final-read"]


@pytest.mark.parametrize(
    ("waited_ms", "by", "reason"),
    [
        (None, "harness", "for up to 900 ms"),
        (0, "harness", "for up to 900 ms"),
        (449, "harness", "for up to 900 ms"),
        (450, "machine", "for up to 900 ms, waiting for a processor"),
        (900, "machine", "for up to 900 ms, waiting for a processor"),
    ],
)
def test_a_stall_is_the_machines_where_the_harness_waited_for_a_processor(
    waited_ms: int | None, by: str, reason: str
) -> None:
    tale = tale_of()
    tale.sample(2900)
    tale.sample(3000, lag_ms=900, loop_waited_ns=None if waited_ms is None else ns(waited_ms))
    verdict = judged(tale)
    assert verdict.validity is Validity.UNKNOWN
    assert verdict.figures.plain()["stalled_by"] == by and verdict.reason.endswith(reason)


@pytest.mark.parametrize("waits", list(itertools.product((0, 900), repeat=3)))
def test_one_stall_of_its_own_is_enough_for_the_harness(waits: tuple[int, ...]) -> None:
    tale = tale_of()
    tale.sample(1100)
    for number, waited_ms in enumerate(waits):
        tale.sample(2500 + 1000 * number, lag_ms=900, loop_waited_ns=ns(waited_ms))
    expected = "machine" if all(waits) else "harness"
    assert judged(tale).figures.plain()["stalled_by"] == expected
