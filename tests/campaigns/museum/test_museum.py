"""The museum on a pretended clock: which runs are made, and what counts as reproduced. And the exhibits of the tree."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.campaigns.museum.documents import document as museum_document
from fencepost.campaigns.museum.documents import findings_table, junit_of, page
from fencepost.campaigns.museum.exhibits import Exhibit, Measurement, PlanKind, all_exhibits, chosen, read_exhibits
from fencepost.campaigns.museum.museum import (
    ExhibitOutcome,
    ExhibitState,
    PlannedExhibit,
    PlannedMuseum,
    Sighting,
    demand_of,
    exit_code,
    outcomes,
    plan_museum,
    sighting_of,
)
from fencepost.campaigns.night.cells import NightCell
from fencepost.campaigns.night.night import Night, RunAttempt
from fencepost.campaigns.night.register import Record, RefusedRun, night_of
from fencepost.harness.base.errors import ExitCode, UsageError
from fencepost.harness.plan.checked_plan import check_plan
from tests.campaigns.night.made import (
    FINGERPRINT,
    OTHER,
    Clock,
    Killed,
    PretendedLauncher,
    cell,
    document,
    opened,
    session,
)

ROOT = Path(__file__).parents[3]
SETTLED = "linearizable"
Plays = Callable[[NightCell, RunAttempt], tuple[float, int, dict[str, Any] | None]]


def exhibit(name: str = "bug", **fields: Any) -> Exhibit:
    values: dict[str, Any] = {
        "id": name,
        "title": "It is stale",
        "affected": "0.1.0",
        "kind": PlanKind.BROAD,
        "system": "example",
    }
    values |= {"guarantee": SETTLED, "anomalies": ("stale-read",), "control": {}, "plan": {"workload": "register"}}
    return Exhibit(**{**values, **fields})


def verdict(validity: str, *fingerprints: str) -> dict[str, Any]:
    made = document(validity, fingerprints=fingerprints)
    names = {text.split(":")[2]: 1 for text in fingerprints}
    made["anomalies"] = [{**each, "guarantee": SETTLED} for each in made["anomalies"]]
    made["guarantees"] = [{"name": SETTLED, "validity": validity, "exposure": 40, "anomalies": names}]
    return made


def museum_of(*exhibits: Exhibit, runs: int = 3, times: int = 0) -> PlannedMuseum:
    cells = [cell(f"{each.id}{suffix}", runs=times or runs) for each in exhibits for suffix in ("", "-control")]
    planned = tuple(PlannedExhibit(exhibit=each, bug=each.id, control=f"{each.id}-control") for each in exhibits)
    checked = tuple((each, check_plan(each.plan)) for each in cells)
    return PlannedMuseum(exhibits=planned, cells=checked, times=times)


class Play:
    """A museum whose runs are pretended; `refused` cells have no release here."""

    def __init__(self, museum: PlannedMuseum, plays: Plays, *, budget_s: float = 3600, refused: str = "") -> None:
        self.museum, self.clock = museum, Clock()
        self.launcher = PretendedLauncher(self.clock, plays)
        self.records: list[Record] = [opened([cell for cell, _ in museum.cells], budget_s=budget_s)]
        if refused:
            self.records.append(RefusedRun(cell=refused, reason="there is no such release"))

    def read(self, attempt: RunAttempt, exhibit: Exhibit) -> Sighting:
        return sighting_of(self.launcher.left(attempt, attempt.exit_code).evidence.document, exhibit)

    def found(self, night: Night | None = None) -> tuple[ExhibitOutcome, ...]:
        return outcomes(self.museum, night or night_of(self.records), self.read)

    def run(self, *, killed_after: int | None = None) -> "Play":
        session(
            self.records,
            self.launcher,
            killed_after=killed_after,
            demand=lambda night, turn: demand_of(self.museum, self.found(night), turn),
        )
        return self


def shown_at(run: int, *, control: str = "valid") -> Plays:
    """The bug shows from this run on; its control is `control`."""

    def plays(cell: NightCell, attempt: RunAttempt) -> tuple[float, int, dict[str, Any] | None]:
        if cell.id.endswith("-control"):
            return 10, 2 if control == "unknown" else 0, verdict(control)
        return (10, 1, verdict("invalid", FINGERPRINT)) if attempt.run >= run else (10, 0, verdict("valid"))

    return plays


def test_a_bug_is_run_until_it_shows_and_its_control_once() -> None:
    play = Play(museum_of(exhibit()), shown_at(2)).run()
    (found,) = play.found()
    assert (found.state, found.bug.rate.seen, found.bug.rate.runs) == (ExhibitState.REPRODUCED, 1, 2)
    assert (found.control.rate.seen, found.control.rate.runs) == (0, 1)
    assert exit_code([found]) is ExitCode.VALID
    assert [name for name, _, _ in play.launcher.launched].count("bug-control") == 1


def test_times_makes_every_run_of_both() -> None:
    (found,) = Play(museum_of(exhibit(), times=5), shown_at(3)).run().found()
    assert (found.bug.rate.seen, found.bug.rate.runs, found.control.rate.runs) == (3, 5, 5)
    assert "3 of 5" in found.reason and "0 of 5" in found.reason


@pytest.mark.parametrize(("seen", "state"), [(3, ExhibitState.LOST), (1, ExhibitState.UNKNOWN)])
def test_a_bug_that_stays_away_is_lost_where_its_rate_makes_that_unlikely(seen: int, state: ExhibitState) -> None:
    rated = exhibit(measured=(Measurement(bug=(seen, 4), control=(0, 1)),))
    (found,) = Play(museum_of(rated, runs=4), shown_at(99)).run().found()
    assert found.state is state and found.bug.rate.runs == 4
    assert exit_code([found]) is (ExitCode.INVALID if state is ExhibitState.LOST else ExitCode.UNKNOWN)


def test_another_anomaly_of_the_guarantee_is_no_reproduction() -> None:
    (found,) = Play(museum_of(exhibit()), lambda c, a: (10, 1, verdict("invalid", OTHER))).run().found()
    assert found.state is ExhibitState.UNKNOWN and found.bug.undecided == 3
    assert "broken, but by lost-write" in found.reason


def test_a_control_that_shows_it_is_a_false_alarm_and_counts_more_than_the_bug() -> None:
    (found,) = Play(museum_of(exhibit()), lambda c, a: (10, 1, verdict("invalid", FINGERPRINT))).run().found()
    assert found.state is ExhibitState.FALSE_ALARM
    assert exit_code([found]) is ExitCode.INVALID


def test_a_control_that_was_never_decided_leaves_a_bug_unknown() -> None:
    (found,) = Play(museum_of(exhibit()), shown_at(1, control="unknown")).run().found()
    assert found.state is ExhibitState.UNKNOWN and "control was never decided" in found.reason
    assert exit_code([found]) is ExitCode.UNKNOWN


def test_what_the_budget_left_out_is_unknown() -> None:
    play = Play(museum_of(exhibit("a"), exhibit("b")), shown_at(1), budget_s=30).run()
    assert ExhibitState.UNKNOWN in {each.state for each in play.found()}
    assert exit_code(play.found()) is ExitCode.UNKNOWN


def test_a_release_that_this_machine_lacks_is_skipped_with_the_reason_and_not_counted() -> None:
    play = Play(museum_of(exhibit("a"), exhibit("b")), shown_at(1), refused="a").run()
    a, b = play.found()
    assert (a.state, b.state) == (ExhibitState.SKIPPED, ExhibitState.REPRODUCED)
    assert a.reason == "there is no such release" and exit_code([a, b]) is ExitCode.VALID
    assert exit_code([a]) is ExitCode.UNKNOWN
    assert not any(name.startswith("a") for name, _, _ in play.launcher.launched)


@pytest.mark.parametrize("records", range(1, 9))
def test_a_museum_that_was_killed_anywhere_goes_on(records: int) -> None:
    play = Play(museum_of(exhibit("a"), exhibit("b")), shown_at(2))
    with pytest.raises(Killed):
        play.run(killed_after=records)
    play.run()
    assert {each.state for each in play.found()} == {ExhibitState.REPRODUCED}


def test_the_files_say_the_same_as_the_outcome() -> None:
    play = Play(museum_of(exhibit("a"), exhibit("b", unjudged="nobody can tell")), shown_at(1), refused="b").run()
    night, found = night_of(play.records), play.found()
    made = museum_document(night, found)
    assert [each["state"] for each in made["exhibits"]] == ["reproduced", "skipped"] and made["exit_code"] == 0
    assert made["exhibits"][0]["bug"]["interval"] == [0.025, 1.0]
    assert "<skipped" in junit_of(night, found) and "<failure" not in junit_of(night, found)
    assert "1 of 2 exhibits reproduced, 1 skipped" in page(night, found)


def test_tries_follow_from_the_measured_rate() -> None:
    rates = [(10, 10), (3, 4), (1, 20)]
    made = [exhibit(measured=(Measurement(bug=rate, control=(0, 1)),)).tries for rate in rates]
    assert [exhibit().tries, *made] == [10, 1, 4, 10]


FILE = """format = 1
[[exhibit]]
id = "x"
title = "t"
affected = "0.1.0"
kind = "broad"
guarantee = "linearizable"
{rest}
"""


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ('control = {}\ncause_away = "a"', "a plan or a file"),
        ('cause_away = "a"\nplan = { workload = "register" }', "it has no control"),
        ('control = {}\nplan = { workload = "register" }', "takes nothing away"),
        ('control = {}\ncause_away = "a"\nplan = { workload = "set" }\nsurprise = 1', "surprise"),
    ],
)
def test_an_exhibit_that_proves_nothing_is_refused(tmp_path: Path, rest: str, message: str) -> None:
    path = tmp_path / "museum.toml"
    path.write_text(FILE.format(rest=rest))
    with pytest.raises(UsageError, match=message):
        read_exhibits(path, "example")


def test_an_exhibit_whose_plan_is_not_installed_is_skipped_and_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "museum.toml"
    path.write_text(FILE.format(rest='control = {}\ncause_away = "a"\nfile = "nowhere.toml"'))
    (planned,) = plan_museum(read_exhibits(path, "example")).exhibits
    assert "there is no file" in planned.missing and "checkout" in planned.missing


def test_every_exhibit_of_the_tree_can_be_planned_and_its_page_is_there() -> None:
    museum = plan_museum(all_exhibits())
    for each in museum.exhibits:
        assert each.missing == each.exhibit.unjudged, each.exhibit.id
        if each.exhibit.page is None:
            assert (ROOT / "docs/findings" / f"{each.exhibit.id}.md").is_file(), each.exhibit.id
    with pytest.raises(UsageError, match="unknown exhibit"):
        chosen(all_exhibits(), ["etcd-lose-writes"])


def test_the_table_of_findings_is_what_the_exhibits_say() -> None:
    assert findings_table(all_exhibits()) in (ROOT / "docs/findings/index.md").read_text()
