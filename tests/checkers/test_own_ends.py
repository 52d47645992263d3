"""Servers that end by themselves: which ends a fault explains, how they are told, and when they leave a run unknown."""

import itertools
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from fencepost.checkers import coverage
from fencepost.checkers.derived.derive import derive
from fencepost.harness.history import DiskEffect, Effects, FaultOutcome, NodeChange, PhaseName, Stops
from fencepost.harness.judging.judgement import Judgement, conclude
from fencepost.harness.report.documents import junit_of, verdict_document
from fencepost.harness.report.section import ReportCase
from fencepost.harness.verdict import Thresholds, Validity, Verdict
from fencepost.harness.verdict.figures import Traced, values
from tests.checkers.build import MS, Tale, facts

DAMAGE = Effects(stops=Stops.POSSIBLE, disk=DiskEffect.DAMAGED)
STOPPING = (Effects(stops=Stops.CERTAIN), Effects(stops=Stops.POSSIBLE), Effects(holds=True), DAMAGE)
OTHERS = (Effects(cuts=True), Effects(delays=True), Effects(skews=True), Effects())
#: The main phase lasts from 1 s to 11 s.
MAIN = (1_000, 11_000)


def tale_of(*ends: tuple[str, float, float | None, int | None], expected: bool = False) -> Tale:
    """A run that lacks nothing; each end is of a node, at a time, until it serves again, with an exit status."""
    tale = Tale()
    tale.phase(PhaseName.MAIN, MAIN[0])
    for i in range(100):
        tale.write("a", i, at=(2000 + i, 2001 + i))
        tale.read("a", i, at=(3000 + i, 3001 + i))
    tale.fault("partition", ("n1",), (1500, 1510, 3500, 3510), severed=("n1>n2",), effects=Effects(cuts=True))
    for node, at, back, status in ends:
        tale.node(node, NodeChange.EXITED, at, expected=expected, exit_status=status)
        if back is not None:
            tale.node(node, NodeChange.STARTED, back - 1, incarnation=1)
            tale.node(node, NodeChange.READY, back, incarnation=1)
    tale.phase(PhaseName.FINAL, MAIN[1])
    tale.read("a", 1, at=(11_001, 11_002))
    return tale


def judged(tale: Tale, *others: Verdict, **thresholds: Any) -> Judgement:
    given = facts(nemesis=("partition",), thresholds=Thresholds(**thresholds))
    linearizable = Verdict(checker="c", guarantee="linearizable", validity=Validity.VALID)
    history = tale.history()
    return conclude(history, given, (*(others or (linearizable,)), *coverage.check(history, given)))


def rows(tale: Tale) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = derive(tale.history(), facts())["server_ends"].to_pylist()
    return listed


@pytest.mark.parametrize(
    ("status", "text", "signal"),
    [
        (10, "n2 ended by itself with exit status 10", None),
        (0, "n2 ended by itself with exit status 0", None),
        (None, "n2 ended by itself", None),
        (-9, "n2 was ended by SIGKILL, not by the harness (out of memory?)", "SIGKILL"),
        (-11, "n2 was ended by SIGSEGV, not by the harness", "SIGSEGV"),
    ],
)
@pytest.mark.parametrize("back", [4_500, None])
def test_an_end_that_no_fault_explains_is_told_everywhere(
    status: int | None, text: str, signal: str | None, back: float | None
) -> None:
    tale = tale_of(("n2", 4_000, back, status))
    judgement = judged(tale)
    away = "away for 500 ms" if back else "away for 7.0 s and did not serve again"
    sentence = f"{text} at 4.0 s, and no fault explains it: it was {away}"
    assert judgement.headline.endswith(sentence)
    assert judgement.validity is (Validity.VALID if back else Validity.UNKNOWN)
    (row,) = rows(tale)
    started, served = (None, None) if back is None else (4_499 * MS, 4_500 * MS)
    assert (row["node"], row["at_ns"], row["exit_status"], row["signal"]) == ("n2", 4_000 * MS, status, signal)
    assert (row["started_ns"], row["served_ns"]) == (started, served)
    case = ReportCase(
        history=tale.history(),
        facts=judgement.facts,
        verdicts=judgement.verdicts,
        validity=judgement.validity,
        headline=judgement.headline,
        run={},
        command="",
        plan_toml="",
    )
    assert sentence in "".join(ET.fromstring(junit_of(case)).itertext())
    document = verdict_document(case)
    assert sentence in document["headline"]
    assert [sentence] in [verdict["remarks"] for verdict in document["verdicts"]]


@pytest.mark.parametrize("effects", [*STOPPING, *OTHERS])
@pytest.mark.parametrize("node", ["n2", "n3"])
@pytest.mark.parametrize("outcome", [FaultOutcome.INSTALLED, FaultOutcome.INDETERMINATE, FaultOutcome.SKIPPED])
@pytest.mark.parametrize("at", [4_999, 5_000, 5_500, 7_000, 7_100, 7_101])
def test_a_fault_explains_an_end_by_its_effects_on_its_nodes_while_it_may_be_in_force(
    effects: Effects, node: str, outcome: FaultOutcome, at: float
) -> None:
    tale = tale_of(("n2", at, at + 100, 1))
    tale.fault("earthquake", (node,), (5_000, 5_100, 7_000, 7_100), effects=effects, outcome=outcome)
    covers = effects in STOPPING and node == "n2" and outcome is not FaultOutcome.SKIPPED and 5_000 <= at <= 7_100
    assert bool(rows(tale)) is not covers
    is_damaged = effects is DAMAGE and node == "n2" and outcome is not FaultOutcome.SKIPPED and at >= 5_000
    why = "after a fault had damaged its disk" if is_damaged else "and no fault explains it"
    assert (why in judged(tale).headline) is not covers


def test_what_the_harness_ended_is_no_news() -> None:
    tale = tale_of(("n2", 4_000, None, -9), expected=True)
    assert not rows(tale) and judged(tale).validity is Validity.VALID


@pytest.mark.parametrize(
    ("ends", "away_ms"),
    [
        ([("n2", 4_000, 5_000)], 1_000),
        ([("n2", 4_000, 5_001)], 1_001),
        ([("n2", 4_000, 4_600), ("n3", 4_400, 5_000)], 1_000),  # together
        ([("n2", 4_000, 4_600), ("n3", 4_400, 5_001)], 1_001),
        ([("n2", 2_000, 2_500), ("n2", 6_000, 6_501)], 1_001),
        ([("n2", 10_500, None)], 500),  # the rest lies behind the main phase
        ([("n2", 500, 2_000)], 1_000),
        ([("n2", 9_999, None)], 1_001),
        ([("n2", 100, 900), ("n3", 11_001, None)], 0),
    ],
)
@pytest.mark.parametrize("most", [0.0, 0.05, 0.1, 0.5, 1.0])
def test_a_cluster_that_was_smaller_for_too_long_leaves_the_run_unknown(
    ends: list[tuple[str, float, float | None]], away_ms: float, most: float
) -> None:
    judgement = judged(tale_of(*((*end, 10) for end in ends)), away_share_max=most)
    too_long = away_ms > most * (MAIN[1] - MAIN[0])
    assert judgement.validity is (Validity.UNKNOWN if too_long else Validity.VALID)
    assert ("the cluster was smaller than planned" in judgement.headline) is too_long
    assert "no fault explains it" in judgement.headline


def test_ends_of_one_node_are_told_together() -> None:
    ends = [("n2", 2_000.0, 2_100.0, 10), ("n2", 4_000.0, 4_100.0, 10), ("n3", 5_000.0, 5_100.0, 10)]
    headline = judged(tale_of(*ends)).headline
    assert "n2 ended by itself with exit status 10 2 times, first at 2.0 s" in headline
    assert "it was away for 200 ms; n3 ended by itself with exit status 10 at 5.0 s" in headline


def test_a_violation_wins() -> None:
    broken = Verdict(
        checker="c", guarantee="linearizable", validity=Validity.INVALID, anomalies={"stale-read": Traced(1)}
    )
    judgement = judged(tale_of(("n2", 2_000, None, 10)), broken)
    assert judgement.validity is Validity.INVALID
    assert judgement.headline.startswith("linearizable (promised) is violated")
    assert "n2 ended by itself" in judgement.headline


# -- faults that were not proven ----------------------------------------------------------------------------------


def with_faults(*faults: tuple[str, str, FaultOutcome], nemesis: tuple[str, ...], **thresholds: Any) -> Judgement:
    """Judge a run with these faults: kind, target, outcome of the injection."""
    tale = Tale()
    tale.phase(PhaseName.MAIN, MAIN[0])
    for i in range(200):
        tale.write("a", i, at=(2000 + 40 * i, 2001 + 40 * i))
        tale.read("a", i, at=(2010 + 40 * i, 2011 + 40 * i))
    for number, (kind, node, outcome) in enumerate(faults):
        at = 2000 + 500 * number
        tale.fault(kind, (node,), (at, at + 10, at + 300, at + 310), outcome=outcome, target=node)
    tale.phase(PhaseName.FINAL, MAIN[1])
    tale.read("a", 1, at=(11_001, 11_002))
    history, given = tale.history(), facts(nemesis=nemesis, thresholds=Thresholds(**thresholds))
    linearizable = Verdict(checker="c", guarantee="linearizable", validity=Validity.VALID)
    return conclude(history, given, (linearizable, *coverage.check(history, given)))


IN, NOT = FaultOutcome.INSTALLED, FaultOutcome.INDETERMINATE


@pytest.mark.parametrize(
    ("faults", "nemesis", "validity"),
    [
        # Of a mixture, what was proven counts and the rest was not tested.
        ([("kill", "n1", IN), ("disk", "n1", NOT)], ("all",), Validity.VALID),
        ([("disk", "n1", NOT), ("kill", "n1", IN), ("disk", "n2", NOT)], ("all",), Validity.VALID),
        ([("disk", "n1", NOT)], ("all",), Validity.UNKNOWN),
        ([("disk", "n1", NOT), ("kill", "n1", FaultOutcome.SKIPPED)], ("all",), Validity.UNKNOWN),
        # A fault that the plan names must have been proven once, on its own target.
        ([("kill", "n1", IN), ("disk", "n1", NOT)], ("kill", "disk:n1"), Validity.UNKNOWN),
        ([("kill", "n1", IN), ("disk", "n1", NOT), ("disk", "n1", IN)], ("kill", "disk:n1"), Validity.VALID),
        ([("kill", "n1", IN), ("kill", "n2", NOT)], ("kill:n1", "kill:n2"), Validity.UNKNOWN),
        ([("kill", "n1", IN), ("kill", "n1", NOT)], ("kill:n1",), Validity.VALID),
        ([("kill", "n1", IN), ("disk", "n1", NOT)], ("kill", "all"), Validity.VALID),
    ],
)
@pytest.mark.parametrize("least", [0, 1])
def test_what_the_other_faults_tested_stands(
    faults: list[tuple[str, str, FaultOutcome]], nemesis: tuple[str, ...], validity: Validity, least: int
) -> None:
    judgement = with_faults(*faults, nemesis=nemesis, effective_faults_min=least, exposure_min=0)
    assert judgement.validity is validity, judgement.headline
    unproven = [kind for kind, _, outcome in faults if outcome is NOT]
    assert f"{len(unproven)} x inject of {unproven[0]} was not proven" in judgement.headline
    assert ("not tested: " in judgement.headline) is (validity is Validity.VALID)
    (verdict,) = (v for v in judgement.verdicts if v.checker == "coverage")
    figures = values(verdict.figures)
    # An unproven fault is never counted as one that took hold.
    assert sum(figures["faults_installed"].values()) == sum(outcome is IN for _, _, outcome in faults)
    assert figures["faults_by_outcome"].get("indeterminate") == len(unproven)


@pytest.mark.parametrize(
    "outcomes", [o for o in itertools.product((IN, NOT, FaultOutcome.SKIPPED), repeat=3) if NOT in o]
)
def test_a_mixture_is_valid_exactly_where_some_fault_was_proven(outcomes: tuple[FaultOutcome, ...]) -> None:
    kinds = ("kill", "pause", "disk")
    faults = [(kind, "n1", outcome) for kind, outcome in zip(kinds, outcomes, strict=True)]
    validity = with_faults(*faults, nemesis=("all",)).validity
    assert validity is (Validity.VALID if IN in outcomes else Validity.UNKNOWN)


@pytest.mark.parametrize("exposed", [1, 10_000])
def test_operations_under_an_unproven_fault_are_no_exposure(exposed: int) -> None:
    faults = [("kill", "n1", IN), ("disk", "n1", NOT), ("disk", "n2", NOT)]
    judgement = with_faults(*faults, nemesis=("all",), exposure_min=exposed)
    assert judgement.validity is (Validity.VALID if exposed == 1 else Validity.UNKNOWN)
    (verdict,) = (v for v in judgement.verdicts if v.checker == "coverage")
    alone = with_faults(("kill", "n1", IN), nemesis=("all",))
    assert verdict.tested == next(v.tested for v in alone.verdicts if v.checker == "coverage")


def test_a_healing_in_doubt_leaves_the_run_unknown() -> None:
    tale = tale_of()
    tale.fault("kill", ("n1",), (5_000, 5_100, 6_000, 6_100), healed=FaultOutcome.INDETERMINATE)
    judgement = judged(tale)
    assert judgement.validity is Validity.UNKNOWN
    assert judgement.headline == "1 x heal of kill was not proven; the first on n1: None"
