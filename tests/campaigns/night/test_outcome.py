"""Whether a night is green: never greener than any required cell, and red for each reason by its name."""

import datetime
import random
from pathlib import Path

import msgspec
import pytest

from fencepost.campaigns.night.junit import junit_of
from fencepost.campaigns.night.merge import merged_night
from fencepost.campaigns.night.night import Night, NightState
from fencepost.campaigns.night.outcome import BLIND, NightCause, outcome
from fencepost.campaigns.night.run_class import RunClass, RunEvidence, classify
from fencepost.harness.base.errors import ExitCode
from fencepost.harness.findings.known_issues import TrackedIssue
from tests.campaigns.night.made import FINGERPRINT, OTHER, attempt, caught, cell, document, night

TODAY = datetime.date(2026, 11, 23)
GREEN_CLASSES = (RunClass.VALID, RunClass.KNOWN)


def issue(expires: datetime.date = TODAY, fingerprint: str = FINGERPRINT) -> TrackedIssue:
    return TrackedIssue(fingerprint=fingerprint, link="https://issues.example/1", owner="somebody", expires=expires)


def plain_night(*classes: RunClass, required: bool = True, **fields: object) -> Night:
    cells = [cell("canary", canary=True), *(cell(f"c{n}", required=required) for n in range(len(classes)))]
    attempts = [attempt(f"c{n}", c) for n, c in enumerate(classes) if c is not RunClass.NOT_RUN]
    return night(cells, [caught(), *attempts], **fields)  # type: ignore[arg-type]


def test_a_night_of_valid_and_known_cells_with_a_caught_canary_is_green() -> None:
    result = outcome(plain_night(RunClass.VALID, RunClass.KNOWN))
    assert result.is_green and result.reasons == ()
    assert result.sentence == "2 of 2 cells tested: no new violation, 1 known issue seen; 1 canary caught"


@pytest.mark.parametrize(
    ("run_class", "code", "cause"),
    [
        (RunClass.INVALID, ExitCode.INVALID, NightCause.VIOLATION),
        *(
            (c, ExitCode.UNKNOWN, NightCause.NOT_RUN if c is RunClass.NOT_RUN else NightCause.CELL)
            for c in RunClass
            if c not in (*GREEN_CLASSES, RunClass.INVALID)
        ),
    ],
)
def test_every_other_class_of_a_required_cell_is_red(run_class: RunClass, code: ExitCode, cause: NightCause) -> None:
    result = outcome(plain_night(RunClass.VALID, run_class))
    assert (result.exit_code, [r.cause for r in result.reasons]) == (code, [cause])


def test_only_what_the_budget_left_out_and_nobody_requires_is_no_reason() -> None:
    assert outcome(plain_night(RunClass.VALID, RunClass.NOT_RUN, required=False)).is_green
    stopped = outcome(plain_night(RunClass.VALID, RunClass.NOT_RUN, required=False, state=NightState.STOPPED))
    assert [r.cause for r in stopped.reasons] == [NightCause.STOPPED]


def test_a_night_in_which_nothing_was_tested_is_red() -> None:
    result = outcome(plain_night(RunClass.NOT_RUN, required=False))
    assert (result.exit_code, [r.cause for r in result.reasons]) == (ExitCode.UNKNOWN, [NightCause.NOTHING_TESTED])


def test_a_canary_that_passes_once_makes_the_night_red_even_if_it_was_caught_before() -> None:
    cells = [cell("canary", canary=True, runs=2), cell("c0")]
    attempts = [caught(), attempt("canary", RunClass.VALID, run=2), attempt("c0", RunClass.VALID)]
    result = outcome(night(cells, attempts))
    assert result.exit_code is ExitCode.UNKNOWN
    assert result.reasons[0].cause is NightCause.CANARY_PASSED and BLIND in result.reasons[0].text


def test_a_canary_that_shows_something_else_was_not_caught() -> None:
    other = attempt("canary", RunClass.INVALID, anomalies=("lost-write",))
    result = outcome(night([cell("canary", canary=True), cell("c0")], [other, attempt("c0", RunClass.VALID)]))
    assert [r.cause for r in result.reasons] == [NightCause.CANARY_PASSED, NightCause.CANARY_MISSING]
    assert "showed lost-write, not stale-read" in result.reasons[0].text


def test_an_expired_known_issue_is_red_though_nothing_showed_it() -> None:
    yesterday = TODAY - datetime.timedelta(days=1)
    assert outcome(plain_night(RunClass.VALID, known_issues=(issue(TODAY),))).is_green
    result = outcome(plain_night(RunClass.VALID, known_issues=(issue(yesterday),)))
    assert (result.exit_code, result.reasons[0].cause) == (ExitCode.INVALID, NightCause.EXPIRED)
    assert "somebody" in result.reasons[0].text and "2026-11-22" in result.reasons[0].text


def test_a_second_fingerprint_behind_a_known_one_is_a_violation() -> None:
    said = document("invalid", fingerprints=[FINGERPRINT, OTHER])
    both = classify(RunEvidence(exit_code=1, document=said), cell("c0"), 0, (issue(),), TODAY)
    assert (both.run_class, both.known) == (RunClass.INVALID, (FINGERPRINT,))
    assert OTHER in both.reason


def test_a_shard_that_is_missing_is_red() -> None:
    first = plain_night(RunClass.VALID, shard=1, shards=3)
    third = msgspec.structs.replace(first, shards_present=(3,))
    merged = merged_night([(Path("/a"), first), (Path("/b"), third)], Path("/"))
    result = outcome(merged)
    assert [r.text for r in result.reasons if r.cause is NightCause.SHARD_MISSING] == ["shard 2 of 3 is missing"]
    assert result.exit_code is ExitCode.UNKNOWN


def test_a_shard_by_itself_answers_for_its_own_cells_and_says_so() -> None:
    alone = plain_night(RunClass.VALID, shard=1, shards=3)
    assert outcome(alone).is_green and outcome(alone).sentence.startswith("shard 1 of 3: 1 of 1 cell tested")
    assert outcome(merged_night([(Path("/a"), alone)], Path("/"))).exit_code is ExitCode.UNKNOWN


def _random_night(rng: random.Random) -> Night:
    """Any night: classes, attempts, canaries, shards, states and issues as they come."""
    shards = rng.choice([1, 1, 2, 3])
    nights = []
    for shard in range(1, shards + 1):
        if shards > 1 and shard > 1 and rng.random() < 0.1:
            continue
        likely_green = rng.random() < 0.7
        cells = [cell("canary", canary=True)]
        attempts = []
        if rng.random() < 0.9:
            attempts.append(
                caught(shard=shard)
                if rng.random() < 0.9
                else attempt("canary", rng.choice(list(RunClass)[:-1]), anomalies=("lost-write",), shard=shard)
            )
        for number in range(rng.randint(0, 6)):
            name = f"s{shard}c{number}"
            cells.append(cell(name, required=rng.random() < 0.4, runs=rng.choice([1, 1, 2])))
            for run in range(1, cells[-1].runs + 1):
                for which in range(1, rng.choice([1, 1, 1, 2, 3]) + 1):
                    green = likely_green or rng.random() < 0.8
                    run_class = rng.choice(GREEN_CLASSES if green else list(RunClass)[:-1])
                    if rng.random() < 0.95:
                        attempts.append(attempt(name, run_class, run=run, number=which, shard=shard))
        state = rng.choice([NightState.FINISHED] * 8 + [NightState.STOPPED, NightState.INTERRUPTED])
        issues = (issue(TODAY - datetime.timedelta(days=rng.choice([0, -5, -30, -90, 1]))),) * (rng.random() < 0.2)
        own = night(cells, attempts, state=state, shard=shard, shards=shards, known_issues=issues)
        nights.append((Path(f"/shard-{shard}"), own))
    return merged_night(nights, Path("/")) if shards > 1 else nights[0][1]


def _should_be(made: Night) -> int:
    """The exit code by the rules as they are told to users, without a line of the product's."""
    violated, missing = any(i.expires < TODAY for i in made.known_issues), False
    judged = False
    for each in made.cells:
        per_run: dict[tuple[int, int], list[RunClass]] = {}
        for a in sorted(each.attempts, key=lambda a: a.number):
            per_run.setdefault((a.shard, a.run), []).append(a.run_class or RunClass.LOST)
        if each.cell.canary:
            good = [a for a in each.attempts if a.run_class is RunClass.INVALID and "stale-read" in a.anomalies]
            if any(a.run_class is RunClass.VALID for a in each.attempts):
                missing = True
            missing |= any(not [a for a in good if a.shard == shard] for shard in made.shards_present)
            continue
        last = [classes[-1] for classes in per_run.values()]
        if any(RunClass.INVALID in classes for classes in per_run.values()):
            violated = judged = True
        elif last and all(c in GREEN_CLASSES for c in last):
            judged = True
        elif last or each.cell.required:
            missing = True
        if not last and made.state in (NightState.STOPPED, NightState.INTERRUPTED):
            missing = True
    missing |= not judged or len(made.shards_present) < made.shards
    return 1 if violated else 2 if missing else 0


def _says_tested_of_what_was(made: Night, sentence: str) -> None:
    """Hold the first line to the attempts: how many cells have a verdict of each of their runs, and none at all."""
    whole = some = 0
    cells = [each for each in made.cells if not each.cell.canary]
    for each in cells:
        runs: dict[tuple[int, int], list[RunClass]] = {}
        for a in sorted(each.attempts, key=lambda a: a.number):
            runs.setdefault((a.shard, a.run), []).append(a.run_class or RunClass.LOST)
        judged = [
            classes[-1].is_judged or RunClass.INVALID in classes or RunClass.KNOWN in classes
            for classes in runs.values()
        ]
        whole += bool(judged) and all(judged)
        some += any(judged)
    if some:
        assert f"{whole} of {len(cells)} cell" in sentence and "nothing was tested" not in sentence
        assert (f"{some - whole} only in part" in sentence) is (some > whole)
    else:
        assert "nothing was tested" in sentence and "tested," not in sentence and "cells tested" not in sentence


def test_ten_thousand_random_nights_are_never_greener_than_they_should_be_and_never_redder() -> None:
    rng = random.Random(17)
    codes = {0: 0, 1: 0, 2: 0}
    for number in range(10_000):
        made = _random_night(rng)
        result = outcome(made)
        assert int(result.exit_code) == _should_be(made), (number, result)
        codes[int(result.exit_code)] += 1
        _says_tested_of_what_was(made, result.sentence)
        for each in made.cells:
            if each.cell.required and each.run_class not in GREEN_CLASSES:
                assert not result.is_green
        if number % 50 == 0:
            text = junit_of(made, result, "results/nights/c/n")
            assert ("<failure" in text or "<error" in text) is not result.is_green
    assert min(codes.values()) > 500, codes
