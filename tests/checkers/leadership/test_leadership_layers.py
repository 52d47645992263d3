"""A node's layers are judged apart and weighed together: one that broke a guarantee decides, one untested does not."""

from typing import Any

import msgspec
import pytest

from fencepost.checkers import leadership
from fencepost.checkers.leadership.self_fencing import GUARANTEE
from fencepost.harness.history import Claim, History
from fencepost.harness.judging.judgement import conclude
from fencepost.harness.report import tables
from fencepost.harness.report.section import ReportCase
from fencepost.harness.verdict import Facts, Validity, Verdict, merge_verdicts
from tests.checkers.build import Tale, bound, facts

LAYERS = ("raft", "controller")
FACTS: dict[str, Any] = {
    "leadership": bound(2000),
    "subjects": LAYERS,
    "read_guarantee": GUARANTEE,
    "required": (GUARANTEE,),
}
#: Beyond the limit of 4000 ms in a cut that begins at 1000 ms.
LATE_MS = (5100, 6200, 7300)


def tale_of(raft: str, controller: str) -> Tale:
    """n1 is cut off from 1 s to 9 s; each of its layers then says "yes", "no" or nothing (""), or "yes" in a stall."""
    tale = Tale()
    for layer, said in zip(LAYERS, (raft, controller), strict=True):
        tale.claims("n1", 1, [100, 200], length=10, subject=layer)
        tale.claim("n2", 2, 1490, 1500, subject=layer)
        for at in LATE_MS:
            if said == "no":
                tale.deny("n1", at, at + 1, subject=layer)
            elif said:
                tale.claim("n1", 1, at, at + 1, subject=layer)
            else:
                tale.belief("n1", Claim.SILENT, at, at + 1, subject=layer)
    tale.cut("n1", 1000, 9000)
    tale.health(0, 12_000)
    if "yes in a stall" in (raft, controller):
        tale.sample(4000, lag_ms=700)
    return tale


def judged(raft: str, controller: str) -> tuple[Validity, dict[str, Verdict]]:
    history, given = tale_of(raft, controller).history(), facts(**FACTS)
    verdicts = tuple(leadership.check(history, given))
    of_layer = {str(v.subject): v for v in verdicts if v.guarantee == GUARANTEE}
    return conclude(history, given, verdicts).validity, of_layer


@pytest.mark.parametrize(
    ("raft", "controller", "validity"),
    [
        ("no", "no", Validity.VALID),
        ("no", "", Validity.VALID),
        ("", "no", Validity.UNKNOWN),
        ("", "", Validity.UNKNOWN),
        ("yes", "no", Validity.INVALID),
        ("no", "yes", Validity.INVALID),
        ("", "yes", Validity.INVALID),
        ("no", "yes in a stall", Validity.UNKNOWN),
        ("yes in a stall", "no", Validity.UNKNOWN),
    ],
)
def test_what_two_layers_come_to(raft: str, controller: str, validity: Validity) -> None:
    run, of_layer = judged(raft, controller)
    assert run is validity
    assert merge_verdicts(of_layer.values()) is validity


def test_a_layer_that_was_not_tested_says_so_and_does_not_weigh() -> None:
    _, of_layer = judged("no", "")
    untested = of_layer["controller"]
    assert (untested.validity, untested.weighs, untested.tested) == (Validity.UNKNOWN, False, 0)
    assert untested.reason.startswith("only the raft layer was put to the test, not the controller layer")
    assert of_layer["raft"].weighs


def test_a_doubt_weighs_however_little_was_seen_of_it() -> None:
    """Nobody had asked this layer before the cut, so its answers are no exposure; they are a doubt all the same."""
    tale = tale_of("no", "")
    tale.sample(4000, lag_ms=700)
    tale.claims("n3", 1, list(LATE_MS), subject="controller")
    tale.cut("n3", 1000, 9000)
    found = leadership.check(tale.history(), facts(**FACTS))
    doubt = next(v for v in found if v.guarantee == GUARANTEE and v.subject == "controller")
    assert (doubt.validity, doubt.tested, doubt.weighs) == (Validity.UNKNOWN, 0, True)


def test_cuts_that_were_too_short_are_told_with_the_length_that_is_needed() -> None:
    tale = Tale()
    tale.claims("n1", 1, [100, 200], length=10)
    tale.cut("n1", 1000, 4500)
    tale.health(0, 12_000)
    (verdict,) = (
        v for v in leadership.check(tale.history(), facts(leadership=bound(2000))) if v.guarantee == GUARANTEE
    )
    assert verdict.validity is Validity.UNKNOWN
    assert "cuts lasted 3.5 s at most, and 4.0 s must pass in one" in verdict.reason


@pytest.mark.parametrize(("raft", "controller", "times"), [("yes", "yes", 2), ("yes", "no", 1), ("no", "yes", 1)])
def test_the_headline_counts_what_the_table_counts(raft: str, controller: str, times: int) -> None:
    history, given = tale_of(raft, controller).history(), facts(**FACTS)
    made = judged_case(history, given, leadership.check(history, given))
    (row,) = [row for row in tables.guarantees(made) if row["name"] == GUARANTEE]
    failures = "1 failure of self-fencing" if times == 1 else f"{times} failures of self-fencing"
    assert row["anomalies"] == [failures]
    assert made.headline == f"leader-self-fencing (promised) is violated: {failures}"


def test_the_headline_counts_what_is_reported_beside() -> None:
    history, given = tale_of("yes", "yes").history(), facts(**{**FACTS, "required": (), "guarantees": ()})
    known = Verdict(checker="a test", guarantee=GUARANTEE, validity=Validity.VALID)
    verdicts = [msgspec.structs.replace(v, weighs=False) for v in leadership.check(history, given)]
    made = judged_case(history, given, [known, *verdicts])
    assert made.headline.startswith(
        "seen, but it violates no promise: 2 failures of self-fencing against leader-self-fencing."
    )


def judged_case(history: History, given: Facts, verdicts: list[Verdict]) -> ReportCase:
    judgement = conclude(history, given, tuple(verdicts))
    return ReportCase(
        history=history,
        facts=given,
        verdicts=judgement.verdicts,
        validity=judgement.validity,
        headline=judgement.headline,
        run={},
        command="fencepost run plan.toml",
        plan_toml="",
    )
