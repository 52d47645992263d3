"""The pages from values made by hand: never greener than the night, each finding in its place, holes by name."""

import datetime
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fencepost.campaigns.replay.shrinking import DOCUMENT, SMALLER
from fencepost.warehouse.pages.collect import matrices
from fencepost.warehouse.pages.shrunk import smallest
from fencepost.warehouse.pages.site import pages, write_pages
from fencepost.warehouse.pages.telling import square_text, square_tone
from fencepost.warehouse.pages.values import Overview
from tests.warehouse.pages.made import (
    CANARY,
    NIGHTS,
    OUT,
    STALE,
    TODAY,
    cell,
    gate,
    green,
    issue,
    made,
    red,
    register,
    requirement,
    sighting,
)


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.hidden = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.hidden = tag in ("style", "title")

    def handle_endtag(self, tag: str) -> None:
        self.hidden = False

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.parts.append(data)


def text_of(page: str) -> str:
    """What a person reads."""
    parser = _Text()
    parser.feed(page)
    return " ".join(" ".join(parser.parts).split())


def tonight(overview: Overview) -> str:
    return text_of(dict(pages(overview))["index.html"])


def section(text: str, heading: str, following: str) -> str:
    return text.split(f" {heading} ", 1)[1].split(f" {following} ", 1)[0]


def test_a_green_night() -> None:
    text = tonight(green())
    assert "✓ Green 12 of 12 cells tested. Findings: none." in text
    assert "✓ caught the canary" in text
    assert "None: every planned cell has a verdict." in text
    assert "Why it is not green" not in text


def test_a_red_night_names_each_reason() -> None:
    text = tonight(red())
    assert "✗ Red: a violation and a known issue that expired" in text
    assert "1 new, 1 ongoing, 1 gone; 2 of them seen in this night" in text
    assert "etcd 3.6.0: revoked breaks lease" in section(text, "New", "Ongoing")
    assert "seen in 20 of 40, 95 % interval" in section(text, "Ongoing", "Gone")
    assert "None is back, rare, probably gone, known." in text
    assert "✗ passed: this night could not have seen anything the canary" in text
    holes = section(text, "Holes", "Known issues")
    assert holes.index("etcd register kill (required): its turn has not come") < holes.index("etcd lock kill")
    assert "2 planned cells have no verdict." in holes
    issues = section(text, "Known issues", "The last nights")
    assert "✗ expired " + STALE in issues and "expired on 2026-11-01: renew it or remove it; seen lately" in issues


def test_a_canary_that_nobody_ran_is_said() -> None:
    text = tonight(made(registers=[register(NIGHTS[-1], 2)], cells=[cell("etcd register kill", "valid")]))
    assert "None ran: nobody knows whether this night could have seen anything." in text


def test_an_empty_warehouse_is_not_green() -> None:
    shown = dict(pages(Overview()))
    assert "Nothing was tested" in text_of(shown["index.html"]) and "Green" not in text_of(shown["index.html"])
    assert "nothing was ever tested" in text_of(shown["matrix.html"])
    assert set(shown) == {"index.html", "matrix.html", "findings.html", "trends.html", "gate.html"}


@pytest.mark.parametrize("seen", [0, 1])
def test_single_runs_without_a_campaign_are_never_green(seen: int) -> None:
    overview = made(nights=["2026-11-20"], sightings=[sighting("2026-11-20", seen)])
    text = tonight(overview)
    assert "Green" not in text
    assert ("✗ Red" in text) == bool(seen) or "single run" in text
    assert "No campaign planned this night: nobody knows what is missing." in text


def test_a_violation_that_a_register_calls_green_is_red() -> None:
    """A newer checker found it when the warehouse was built again."""
    overview = made(registers=[register(NIGHTS[-1])], cells=[CANARY], sightings=[sighting(NIGHTS[-1], 1)])
    text = tonight(overview)
    assert "✗ Red" in text and f"{STALE} was seen, and no issue covers it" in text


def test_a_missing_shard_is_never_green() -> None:
    text = tonight(made(registers=[register(NIGHTS[-1], shards=2)], cells=[CANARY]))
    assert "Red: something is missing" in text and "shard 2 of 2 is missing" in text


def test_an_issue_in_force_makes_a_finding_known() -> None:
    text = tonight(
        made(registers=[register(NIGHTS[-1])], cells=[CANARY], sightings=[sighting(NIGHTS[-1], 1)], issues=(issue(),))
    )
    assert "✓ Green" in text
    assert STALE.split(":")[2] in section(text, "Known an issue in force covers it", "Canaries")


@pytest.mark.parametrize(
    "wrong", [{"versions": ("3.4.0",)}, {"expires": datetime.date(2026, 11, 19)}, {"fingerprint": "etcd:g:other:x"}]
)
def test_an_issue_of_another_release_or_day_covers_nothing(wrong: dict[str, object]) -> None:
    text = tonight(
        made(
            registers=[register(NIGHTS[-1])],
            cells=[CANARY],
            sightings=[sighting(NIGHTS[-1], 1)],
            issues=(issue(**wrong),),
        )
    )
    assert "✗ Red" in text


def test_a_known_finding_hides_no_second_one() -> None:
    second = sighting(NIGHTS[-1], 1, fingerprint="etcd:linearizable:lost-update:change")
    overview = made(
        registers=[register(NIGHTS[-1])], cells=[CANARY], sightings=[sighting(NIGHTS[-1], 1), second], issues=(issue(),)
    )
    text = tonight(overview)
    assert "✗ Red" in text and "lost-update:change was seen, and no issue covers it" in text


def test_a_release_that_no_issue_covers_keeps_a_finding_unknown() -> None:
    both = [sighting(NIGHTS[-1], 1), sighting(NIGHTS[-1], 1, version="3.6.0")]
    assert [each.state for each in made(sightings=both, issues=(issue(versions=("3.5.1",)),)).findings] == ["new"]
    assert [each.state for each in made(sightings=both, issues=(issue(),)).findings] == ["known"]


def test_an_issue_that_did_not_show_for_long_may_be_removed() -> None:
    rows = [sighting(night, int(number < 5), 10) for number, night in enumerate(NIGHTS)]
    statuses = made(sightings=rows, issues=(issue(), issue(versions=("9.9",)))).issues
    assert statuses[0].may_be_removed and "150 runs" in statuses[0].text
    assert not statuses[1].may_be_removed and statuses[1].text == "no run here showed it"
    assert not made(sightings=rows[:6], issues=(issue(expires=TODAY),)).issues[0].may_be_removed


def test_the_matrix_says_what_was_never_tested() -> None:
    text = text_of(dict(pages(green()))["matrix.html"])
    assert "20 runs, tested 800 times, last on 2026-11-20" in text
    assert "never tested: planned, without a run" in text
    assert text.count("never tested") == 3
    assert dict(pages(green()))["matrix.html"].count(">✓</span>") == 14 + 2  # and the legend


def test_a_finding_says_how_often_and_how_many_more_clean_runs() -> None:
    overview = made(sightings=[sighting(NIGHTS[0], 1, 20), sighting(NIGHTS[1], 0, 10)])
    (each,) = overview.findings
    page = dict(pages(overview))[each.page]
    text = text_of(page)
    assert f"{each.clean_runs_needed - 10} more clean runs to call it fixed at 95 % (10 of" in text
    assert "1 of 30" not in text and "seen in 1 of 20, 95 % interval 0 to 25 %" in text
    assert "3.5.1 1 30 3.3 % 0.084 % to 17 %" in text
    assert "fencepost replay /nowhere/run --times 10 --until-invalid" in text
    assert "<svg" in page and "10 so far" in text


def test_a_finding_has_a_state_for_each_release() -> None:
    rows = [sighting(NIGHTS[0], 5, 10), sighting(NIGHTS[1], 4, 10), sighting(NIGHTS[1], 0, 300, version="3.6.0")]
    overview = made(sightings=rows)
    (each,) = overview.findings
    text = text_of(dict(pages(overview))[each.page])
    assert each.state == "ongoing" and "seen in 9 of 20, 95 % interval 23 to 68 % in 3.5.1" in text
    assert re.search(r"3\.5\.1 9 20 45 % .*? ongoing 3\.6\.0 0 300 0 % .*? never seen", text)


def test_a_finding_shows_the_smallest_plan_of_its_searches(tmp_path: Path) -> None:
    for name, after, confirmed, fingerprint in (
        ("a", 3, True, STALE),
        ("b", 1, False, STALE),
        ("c", 2, True, STALE),
        ("d", 1, True, "etcd:other:x:read"),
    ):
        (tmp_path / name).mkdir()
        faults = {"before": 9, "after": after}
        document = {"format": 1, "fingerprint": fingerprint, "smaller": SMALLER, "confirmed": confirmed}
        document |= {"faults": faults, "confirmation": {"shown": 4, "of": 5}}
        (tmp_path / name / DOCUMENT).write_text(json.dumps(document))
        (tmp_path / name / SMALLER).write_text('time_limit = "12s"\n')
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / DOCUMENT).write_text("{")
    plan = smallest(STALE, [str(path) for path in sorted(tmp_path.iterdir())])
    assert plan is not None and plan.plan == str(tmp_path / "c" / SMALLER)
    overview = made(sightings=[sighting(NIGHTS[0], 1, 20)])
    (each,) = overview.findings
    assert "Nobody has shrunk it yet: fencepost shrink /nowhere/run" in text_of(dict(pages(overview))[each.page])
    overview = msgspec.structs.replace(overview, findings=(msgspec.structs.replace(each, shrunk=plan),))
    text = text_of(dict(pages(overview))[each.page])
    assert f"2 faults of 9, 12s, shown in 4 of 5 fresh runs: fencepost run {plan.plan}" in text


def test_trends_mark_a_harness_and_a_change_point() -> None:
    text = text_of(dict(pages(green()))["trends.html"])
    assert "H nightly-11: harness new instead of old" in text
    assert "False alarms , runs: 1 of 40, 95 % interval 0 to 13 %: runs of controls that were invalid" in text
    assert "Check time , seconds in a run" in text
    assert text.count("◆") == 1 and "◆ from nightly-11 on 141 instead of 101" in text


def test_the_gate_says_what_its_policy_decided_and_is_never_tonight() -> None:
    nights = NIGHTS[:3]
    rows = [requirement(nights[2], 0, "met"), requirement(nights[2], 1, "failed")]
    overview = made(
        nights=nights, registers=[register(nights[0]), gate(nights[1], 0), gate(nights[2], 1)], requirements=rows
    )
    text = text_of(dict(pages(overview))["gate.html"])
    assert "3.6.0 by the policy release, compared with 3.5.1 ✗ red: the candidate failed" in text
    assert text.index("✓ met") < text.index("✗ failed") < text.index("Earlier gates")
    assert "✓ green nightly-02, 2026-11-02: 3.6.0 by release" in text
    assert overview.tonight is not None and overview.tonight.night == nights[0]
    assert "✗ red: the candidate failed 3.6.0 by release" in section(tonight(overview), "Gates", "The last nights")
    assert "No gate is in the warehouse" in text_of(dict(pages(green()))["gate.html"])


def test_single_runs_of_the_next_morning_hide_no_night_and_no_violation() -> None:
    nights = [NIGHTS[0], "2026-11-02"]
    seen = [sighting(nights[0], 0), sighting(nights[1], 1)]
    overview = made(nights=nights, registers=[register(nights[0])], cells=[CANARY], sightings=seen)
    text = tonight(overview)
    assert "nightly-01, 2026-11-01" in text and "Since then: 12 single runs on 2026-11-02, 1 invalid" in text
    assert "✗ Red" in text and f"{STALE} was seen, and no issue covers it" in text


@pytest.mark.parametrize("make", [green, red, Overview])
def test_every_link_between_pages_resolves(make: Callable[[], Overview], tmp_path: Path) -> None:
    (tmp_path / "finding-F-00000000.html").write_text("an old one")
    written = write_pages(make(), tmp_path)
    assert sorted(written) == sorted(tmp_path.iterdir())
    for path in written:
        page = path.read_text()
        for href in re.findall(r'href="([^"#:]+\.html)"', page):
            assert (tmp_path / href).is_file(), href
        assert "script-src 'none'" in page.replace("&#39;", "'") and "<script" not in page


def test_a_run_without_faults_is_no_plain_green() -> None:
    places = [{"nemesis": "none"}, {"nemesis": ""}, {"nemesis": "kill"}]
    row: dict[str, Any] = {"system": "etcd", "version": "1", "variant": "", "workload": "register", "folder": None}
    row |= {"canary": False, "night": NIGHTS[0], "run_class": "valid", "runs": 1, "exposure": 4}
    (matrix,) = matrices([{**row, **place} for place in places], NIGHTS, OUT)
    squares = {key[2]: cell.squares[NIGHTS[0]] for key, cell in matrix.cells.items()}
    assert {name: square_tone(square) for name, square in squares.items()} == {
        "none": "none",
        "": "none",
        "kill": "valid",
    }
    assert "no faults, valid" in square_text(squares["none"])


def test_options_and_own_builds_are_rows_of_their_own() -> None:
    row: dict[str, Any] = {"system": "etcd", "version": "1", "workload": "register", "nemesis": "kill", "folder": None}
    row |= {"canary": False, "night": NIGHTS[0], "runs": 1, "exposure": 4}
    variants = {"": "valid", "defect=x": "invalid", "own build": "valid"}
    rows = [{**row, "variant": name, "run_class": run_class} for name, run_class in variants.items()]
    (matrix,) = matrices(rows, NIGHTS, OUT)
    assert matrix.versions == ("1", "1 (defect=x)", "1 (own build)")
    assert [cell.squares[NIGHTS[0]]["run_class"] for cell in matrix.cells.values()] == list(variants.values())


def test_one_clean_run_is_no_clean_runs() -> None:
    for runs in range(1, 4):
        overview = made(sightings=[sighting(NIGHTS[0], runs, runs), sighting(NIGHTS[1], 0, 1)])
        (each,) = overview.findings
        page = text_of(dict(pages(overview))[each.page])
        assert not re.search(r"(?<!\d)1 clean runs", page)


def test_tonight_and_findings_say_the_same_of_a_finding_that_came_back() -> None:
    rows = [sighting(NIGHTS[0], 5, 10), sighting(NIGHTS[1], 0, 500), sighting(NIGHTS[2], 7, 7)]
    shown = dict(pages(made(sightings=rows, registers=[register(NIGHTS[2])], nights=NIGHTS[:3])))
    for name in ("index.html", "findings.html"):
        assert "7 of 7, 95 % interval 59 to 100 % since its return, 12 of 517 over all nights" in text_of(shown[name])


def test_first_and_last_seen_are_days() -> None:
    rows = [sighting(NIGHTS[0], 1, 2), sighting(NIGHTS[3], 1, 2)]
    overview = made(sightings=rows)
    for name in ("findings.html", overview.findings[0].page):
        text = text_of(dict(pages(overview))[name])
        assert "2026-11-01" in text and "2026-11-04" in text
    assert "first seen 2026-11-01, last seen 2026-11-04" in text


def test_every_command_on_the_pages_has_its_arguments() -> None:
    for make in (green, red, Overview):
        for name, page in pages(make()):
            assert not re.search(r"fencepost warehouse add(?! \w)", text_of(page)), name
