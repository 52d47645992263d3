"""What goes wrong in a night: its first line names each kind, and only what has a verdict is said to be tested."""

import contextlib
import datetime
import random
import re
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest

from fencepost.campaigns.night.cells import NightCell
from fencepost.campaigns.night.documents import write_documents
from fencepost.campaigns.night.launcher import ProcessLauncher
from fencepost.campaigns.night.night import Night, NightState, RunAttempt
from fencepost.campaigns.night.outcome import outcome
from fencepost.campaigns.night.pool import Pool
from fencepost.campaigns.night.register import ClosedNight, Record, RefusedRun, Registered, night_of
from fencepost.campaigns.night.run_class import RunClass, RunEvidence, classify
from fencepost.campaigns.night.telling import counted, spent
from fencepost.campaigns.night.value import Past, past_of
from fencepost.harness.base.errors import ExitCode
from fencepost.harness.base.quantities import lasting
from fencepost.harness.results import run_folder as store
from fencepost.harness.results.run_folder import RESERVE
from tests.campaigns.night.made import (
    FINGERPRINT,
    STARTED,
    Clock,
    Killed,
    PretendedLauncher,
    attempt,
    caught,
    cell,
    document,
    night,
    opened,
    session,
)

TODAY = datetime.date(2026, 11, 23)
BUILD_ERROR = "building etcd v3.5.27 from its Go module: verifying module: 404 Not Found"


def refused(*names: str, tested: int = 0, runs: int = 1, why: str = BUILD_ERROR) -> Night:
    """A night in which this machine could not get ready what some cells run."""
    cells = [cell("canary", canary=True), *(cell(n) for n in names), *(cell(f"t{n}", runs=runs) for n in range(tested))]
    attempts = [caught(), *(attempt(f"t{n}", RunClass.VALID) for n in range(tested))]
    records: list[Record] = [opened(cells), *(RefusedRun(cell=name, reason=why) for name in names)]
    records += [Registered(attempt=each) for each in attempts]
    return night_of([*records, ClosedNight(at=STARTED, spent_s=2, stopped=False)])


@pytest.mark.parametrize(
    ("names", "tested"), [(("a",), 0), (("a", "b", "c"), 0), (("a",), 3), (("a", "b", "c", "d"), 2)]
)
def test_a_cell_whose_build_failed_is_named_in_the_first_line_and_is_not_tested(
    names: tuple[str, ...], tested: int, tmp_path: Path
) -> None:
    result = write_documents(refused(*names, tested=tested), tmp_path)
    assert result.exit_code is ExitCode.UNKNOWN
    assert f"refused or held up by this machine: {', '.join(names[:3])}" in result.sentence
    if tested:
        assert result.sentence.endswith(f"{tested} of {tested + len(names)} cells tested")
    else:
        assert result.sentence.startswith("nothing was tested; ") and "cells tested" not in result.sentence
    # Whatever it cost, the error of the build is told once.
    for name in ("index.html", "summary.md"):
        assert unescape((tmp_path / name).read_text()).count(BUILD_ERROR) == 1, name
    assert "for the same reason as a" in "".join(r.text for r in result.reasons) or len(names) == 1


def test_runs_of_which_one_stayed_unknown_make_a_cell_tested_in_part_and_never_nothing() -> None:
    cells = [cell("canary", canary=True), cell("c0", runs=3)]
    attempts = [
        caught(),
        attempt("c0", RunClass.VALID),
        attempt("c0", RunClass.VALID, run=2),
        attempt("c0", RunClass.UNKNOWN_COVERAGE, run=3, reason="no fault took hold"),
    ]
    made = night(cells, attempts)
    assert counted(made.cells[1]) == "2 of 3 runs valid, 1 of 3 runs unknown-coverage"
    result = outcome(made)
    assert result.exit_code is ExitCode.UNKNOWN
    assert "0 of 1 cell tested, 1 only in part" in result.sentence and "nothing was tested" not in result.sentence


@pytest.mark.parametrize("run_class", [c for c in RunClass if not c.is_judged and c is not RunClass.NOT_RUN])
def test_a_cell_without_a_verdict_is_never_said_to_be_tested(run_class: RunClass) -> None:
    cells = [cell("canary", canary=True), cell("c0"), cell("c1")]
    one = outcome(night(cells, [caught(), attempt("c0", RunClass.VALID), attempt("c1", run_class, reason="why")]))
    assert "1 of 2 cells tested" in one.sentence and "c1" in one.sentence and one.exit_code is ExitCode.UNKNOWN
    none = outcome(night(cells[:2], [caught(), attempt("c0", run_class, reason="why")]))
    assert none.sentence.startswith("nothing was tested; ") and "c0" in none.sentence


def test_cells_that_ask_for_no_fault_are_counted_apart() -> None:
    cells = [cell("canary", canary=True), cell("c0"), cell("c1")]
    quiet = msgspec.structs.replace(cells[2], plan=msgspec.structs.replace(cells[2].plan, nemesis="none"))
    attempts = [caught(), attempt("c0", RunClass.VALID), attempt("c1", RunClass.VALID, faults={})]
    result = outcome(night([*cells[:2], quiet], attempts))
    assert result.is_green and result.sentence.startswith("2 of 2 cells tested, 1 of them without faults: ")


def test_each_kind_of_misfortune_stands_in_the_first_line() -> None:
    cells = [cell("canary", canary=True), *(cell(name, required=True) for name in ("bad", "gone", "late", "left"))]
    attempts = [
        attempt("canary", RunClass.VALID),
        attempt("bad", RunClass.INVALID, reason="it is stale"),
        attempt("gone", RunClass.LOST, reason="why"),
        attempt("late", RunClass.UNKNOWN_BUDGET, reason="why"),
    ]
    sentence = outcome(night(cells, attempts, state=NightState.STOPPED)).sentence
    for words in (
        "violation that is not known: bad",
        "canary passed: canary",
        "no canary was caught",
        "lost run: gone",
        "the time was spent: late",
        "required and not run: left",
        "the night was stopped",
        "1 of 4 cells tested",
    ):
        assert words in sentence


@pytest.mark.parametrize("nemesis", ["kill", "kill:leader", "partition:leader", "all", "kill,pause", ""])
@pytest.mark.parametrize("faults", [None, {}, {"kill": {"installed": 0, "skipped": 3, "indeterminate": 1}}])
def test_a_valid_run_without_an_effective_fault_is_no_verdict_on_a_cell_that_asks_for_one(
    nemesis: str, faults: dict[str, Any] | None
) -> None:
    asked = cell("c")
    plan = msgspec.structs.replace(asked.plan, nemesis=nemesis, schedule="" if nemesis else "some.jsonl")
    asked = msgspec.structs.replace(asked, plan=plan)
    said = {**document(), "faults": faults}
    if faults is None:
        del said["faults"]
    classed = classify(RunEvidence(exit_code=0, document=said), asked, 0, (), TODAY)
    assert classed.run_class is RunClass.UNKNOWN_COVERAGE and "took hold" in classed.reason
    assert classify(RunEvidence(exit_code=0, document=document()), asked, 0, (), TODAY).run_class is RunClass.VALID
    without = msgspec.structs.replace(asked, plan=msgspec.structs.replace(plan, nemesis="none", schedule=""))
    assert classify(RunEvidence(exit_code=0, document=said), without, 0, (), TODAY).run_class is RunClass.VALID


# -- lost attempts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run_class", [c for c in RunClass if c is not RunClass.NOT_RUN])
def test_what_an_attempt_reserved_is_removed_and_a_lost_one_is_marked(run_class: RunClass, tmp_path: Path) -> None:
    made = attempt("c0", run_class, reason="it was in flight")
    run = tmp_path / made.folder / "example-register-kill" / "20261123T200000Z"
    run.mkdir(parents=True)
    for name in (store.PLAN, store.HISTORY_LINES, RESERVE):
        (run / name).write_text("x")
    ProcessLauncher(tmp_path).clear(made)
    is_lost = run_class is RunClass.LOST
    assert {p.name for p in run.iterdir()} == {store.PLAN, store.HISTORY_LINES, *([store.LOST] if is_lost else [])}
    ProcessLauncher(tmp_path).clear(made)


def test_lost_attempts_are_not_counted_as_runs_nor_as_times() -> None:
    attempts = [attempt("c0", RunClass.LOST, seconds=3.0), attempt("c0", RunClass.VALID, number=2, seconds=40.0)]
    (own,) = night([cell("c0")], attempts).cells
    assert counted(own) == "1 of 1 run valid, 1 lost and not counted"
    assert (past_of(attempts)["c0"].seconds, past_of(attempts)["c0"].last_s) == (40.0, 40.0)


def carried_out(
    cells: list[NightCell],
    seconds: dict[str, float],
    *,
    budget_s: float,
    jobs: int = 1,
    past: dict[str, Past] | None = None,
    killed_at_s: float | None = None,
) -> tuple[Night, Clock]:
    """A night whose runs take these seconds; at `killed_at_s` its process is gone."""
    records: list[Record] = [opened(cells, budget_s=budget_s, jobs=jobs)]
    clock = Clock()

    def plays(cell: NightCell, attempt: RunAttempt) -> tuple[float, int, dict[str, Any] | None]:
        return seconds[cell.id], *(
            (1, document("invalid", fingerprints=[FINGERPRINT])) if cell.canary else (0, document())
        )

    def on_change(_: Pool) -> None:
        if killed_at_s is not None and clock.now >= killed_at_s:
            raise Killed

    with contextlib.suppress(Killed):
        session(records, PretendedLauncher(clock, plays), past=past, ordered=False, on_change=on_change)
    return night_of(records), clock


def test_the_time_of_a_killed_session_counts_in_the_budget() -> None:
    rng = random.Random(5)
    for _ in range(200):
        killed_at_s = rng.uniform(1, 100)
        made, clock = carried_out([cell("c0")], {"c0": 1e9}, budget_s=1e6, killed_at_s=killed_at_s)
        assert clock.now - 6 <= made.spent_s <= clock.now and made.state is NightState.INTERRUPTED


# -- how long a run takes ---------------------------------------------------------------------------------------------


def test_no_run_begins_that_would_be_cut_off_where_its_cell_is_known() -> None:
    """Runs vary about what they took before; those that begin end by themselves before the budget does."""
    rng = random.Random(11)
    left_out = run = 0
    for _ in range(1_000):
        cells = [cell(f"c{n}", runs=rng.choice([1, 2, 3])) for n in range(rng.randint(1, 5))]
        usual = {c.id: rng.uniform(10, 90) for c in cells}
        seconds = {name: took * rng.uniform(0.85, 1.1) for name, took in usual.items()}
        past = {
            name: Past(
                last=RunClass.VALID, build="", at="", exposures=1, seconds=took * rng.uniform(0.4, 1), last_s=took
            )
            for name, took in usual.items()
        }
        made, _ = carried_out(cells, seconds, budget_s=rng.uniform(20, 300), jobs=rng.choice([1, 2, 3]), past=past)
        assert not [a for a in made.attempts if a.run_class is not RunClass.VALID]
        assert made.spent_s <= made.budget_s
        left_out += sum(o.run_class is RunClass.NOT_RUN for o in made.cells)
        run += len(made.attempts)
    assert left_out > 100 and run > 1_000


def test_what_this_night_took_corrects_the_estimates_of_what_was_never_run() -> None:
    """On a busy machine each run takes 60 s where its plan promises 24: what is left is not begun to be cut off."""
    cells = [cell(f"c{n}") for n in range(5)]
    made, _ = carried_out(cells, dict.fromkeys(["c0", "c1", "c2", "c3", "c4"], 60.0), budget_s=150.0)
    assert [a.run_class for a in made.attempts] == [RunClass.VALID] * 2
    assert all("it takes about" in o.reason for o in made.cells if o.run_class is RunClass.NOT_RUN)


def test_a_cell_that_was_never_run_is_taken_to_be_like_those_that_were() -> None:
    cells = [cell("c0"), cell("c1"), cell("new")]
    past = {
        name: Past(last=RunClass.VALID, build="", at="", exposures=1, seconds=70.0, last_s=70.0)
        for name in ("c0", "c1")
    }
    made, _ = carried_out(cells, {"c0": 70.0, "c1": 70.0, "new": 70.0}, budget_s=200.0, past=past)
    assert [a.run_class for a in made.attempts] == [RunClass.VALID] * 2
    (left,) = (o for o in made.cells if o.run_class is RunClass.NOT_RUN)
    assert left.cell.id == "new" and "the budget left 60 s, and it takes about 70 s" in left.reason


def test_no_page_says_that_more_was_spent_than_there_was() -> None:
    rng = random.Random(2)
    for _ in range(5_000):
        budget_s = rng.choice([270, 330, 100, 600, rng.uniform(10, 30_000)])
        made = msgspec.structs.replace(
            night([cell("c0")], []), budget_s=budget_s, spent_s=budget_s * rng.choice([rng.uniform(0, 1.3), 1, 1.01])
        )
        text = spent(made)
        if made.spent_s - budget_s >= 1:
            assert text == f"{lasting(budget_s)}, and {lasting(made.spent_s - budget_s)} more to end the last runs"
        else:
            head, _, total = text.partition(" of ")
            assert total == lasting(budget_s) and _seconds(head) <= _seconds(total), text


def _seconds(text: str) -> int:
    units = {"s": 1, "min": 60, "h": 3600}
    return sum(int(number) * units[unit] for number, unit in re.findall(r"(\d+) (s|min|h)", text))


# -- what people and CI read ------------------------------------------------------------------------------------------


def test_a_finding_has_its_fingerprint_and_a_command_and_its_faults_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "results" / "nights" / "c" / "20261123T200000Z"
    home.mkdir(parents=True)
    report = "runs/bad-1-1/example-register-all/20261123T200100Z/report.html"
    bad = attempt(
        "bad",
        RunClass.INVALID,
        reason="it is stale",
        fingerprints=(FINGERPRINT,),
        faults={"kill": 3, "skew": 0},
        report=report,
        lag_ms=1057,
        company=3,
    )
    cells = [cell("canary", canary=True), cell("bad")]
    write_documents(night(cells, [caught(report="runs/canary-1-1/a/b/report.html"), bad]), home)
    again = "fencepost replay results/nights/c/20261123T200000Z/runs/bad-1-1/example-register-all/20261123T200100Z"
    root = ET.parse(home / "junit.xml").getroot()
    failure = next(root.iter("failure"))
    assert failure.get("message") == "bad: it is stale" and (failure.text or "").startswith("bad: it is stale\n")
    assert FINGERPRINT in (failure.text or "") and again in (failure.text or "")
    html = unescape((home / "index.html").read_text())
    assert FINGERPRINT in html and again in html and "faults: kill 3, skew 0" in html
    assert "late by 1,057 ms, 3 runs beside it" in html
    # What is expected to be invalid stands in a suite of its own, and the totals are those of the whole file.
    own, canaries = root
    assert [case.get("name") for case in canaries.iter("testcase")] == ["canary"]
    assert {p.get("name"): p.get("value") for p in canaries.iter("property")}["expected"] == "invalid: stale-read"
    assert (own.get("tests"), own.get("failures"), canaries.get("failures")) == ("1", "1", "0")
    assert (root.get("tests"), root.get("failures"), root.get("errors"), root.get("skipped")) == ("2", "1", "0", "0")
    command = next(p.get("value") or "" for p in own.iter("property") if "attempt.toml" in (p.get("value") or ""))
    assert command == "fencepost run results/nights/c/20261123T200000Z/runs/bad-1-1/attempt.toml"
    assert "more" not in (home / "summary.md").read_text()


@pytest.mark.parametrize("canary_s", [0.0, 14.9, 300.0])
@pytest.mark.parametrize("own", [(), (5.0,), (5.0, 20.0)])
def test_a_suite_beside_another_took_what_its_cases_did(
    tmp_path: Path, canary_s: float, own: tuple[float, ...]
) -> None:
    cells = [cell("canary", canary=True), *(cell(f"c{i}") for i in range(len(own)))]
    runs = [attempt(f"c{i}", RunClass.VALID, seconds=seconds) for i, seconds in enumerate(own)]
    write_documents(night(cells, [caught(seconds=canary_s), *runs]), tmp_path)
    root = ET.parse(tmp_path / "junit.xml").getroot()
    for suite in root:
        spent = sum(float(case.get("time", "0")) for case in suite.iter("testcase"))
        assert len(root) == 1 or float(suite.get("time", "0")) == pytest.approx(spent)
    assert {case.get("name"): case.get("time") for case in root.iter("testcase")}["canary"] == f"{canary_s:.1f}"


def test_options_of_a_system_stand_beside_the_cell(tmp_path: Path) -> None:
    odd = cell("odd")
    odd = msgspec.structs.replace(odd, plan=msgspec.structs.replace(odd.plan, system_options={"defect": "forgets"}))
    write_documents(night([cell("canary", canary=True), odd], [caught(), attempt("odd", RunClass.VALID)]), tmp_path)
    assert "defect=forgets" in (tmp_path / "index.html").read_text()
