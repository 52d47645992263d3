"""The files of a night: nothing in them is greener than the night, and no attempt is swallowed."""

import json
import re
from datetime import date
from html import unescape
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from fencepost.campaigns.night.documents import LINES_MAX, write_documents
from fencepost.campaigns.night.merge import read_night
from fencepost.campaigns.night.night import Night, NightState
from fencepost.campaigns.night.register import EndedRun, NightRegister
from fencepost.campaigns.night.run_class import RunClass
from fencepost.campaigns.night.telling import seen_in
from fencepost.harness.base.errors import UsageError
from fencepost.harness.cli import main
from fencepost.harness.findings.known_issues import TrackedIssue
from tests.campaigns.night.made import FINGERPRINT, attempt, caught, cell, night, opened


def mixed() -> Night:
    cells = [cell("canary", canary=True), cell("good", required=True), cell("<bad>|"), cell("lost"), cell("left")]
    attempts = [
        caught(),
        attempt("good", RunClass.LOST, reason="it was in flight"),
        attempt("good", RunClass.VALID, number=2, report="runs/good-1-2/report.html", exposures={"linearizable": 12}),
        attempt("<bad>|", RunClass.INVALID, reason="linearizable is broken: 3 x <b>"),
        attempt("lost", RunClass.LOST, reason="it was in flight"),
    ]
    return night(cells, attempts)


def test_a_night_writes_four_files_that_agree(tmp_path: Path) -> None:
    result = write_documents(mixed(), tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["campaign.json", "index.html", "junit.xml", "summary.md"]
    data = json.loads((tmp_path / "campaign.json").read_text())
    assert (data["format"], data["outcome"]["exit_code"], data["outcome"]["green"]) == (1, 1, False)
    assert msgspec.convert(data, Night, strict=False) == mixed()
    suite = ET.parse(tmp_path / "junit.xml").getroot()[0]
    assert {k: suite.get(k) for k in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }
    good = next(case for case in suite.iter("testcase") if case.get("name") == "good")
    properties = {p.get("name"): p.get("value") for p in good.iter("property")}
    assert properties["seed"] == "1" and properties["report"] == "runs/good-1-2/report.html"
    assert properties["command"] == f"fencepost run {tmp_path}/runs/good-1-2/attempt.toml"
    assert "attempt 1 of 2: lost" in (good.findtext("system-out") or "")
    html = (tmp_path / "index.html").read_text()
    text = unescape(html)
    assert (
        "<h1>Red: a violation</h1>" in html
        and "attempt 2 of 2: valid" in html
        and "1 of 1 run valid, 1 lost and not counted" in text
    )
    assert "<bad>" not in html and "<script" not in html and 'http-equiv="refresh"' not in html
    assert result.sentence in text
    summary = (tmp_path / "summary.md").read_text()
    assert "| ✓ caught | canary |" in summary
    assert "exit code 1" in summary and "&lt;bad>\\|" in summary


def test_the_page_of_a_running_night_asks_for_itself_again(tmp_path: Path) -> None:
    made = night([cell("canary", canary=True), cell("a")], [attempt("a", None)], state=NightState.RUNNING)
    write_documents(made, tmp_path, expected_end_s=300)
    html = (tmp_path / "index.html").read_text()
    assert '<meta http-equiv="refresh" content="10">' in html
    assert "<h1>Running</h1>" in html and "expected to end in 5 min" in html and "in flight" in html


def test_a_summary_has_at_most_sixty_lines_and_counts_what_it_leaves_out(tmp_path: Path) -> None:
    cells = [cell("canary", canary=True), *(cell(f"c{n}") for n in range(300))]
    attempts = [attempt(f"c{n}", RunClass.INVALID, reason="x" * 900) for n in range(300)]
    write_documents(night(cells, attempts), tmp_path)
    lines = (tmp_path / "summary.md").read_text().splitlines()
    assert len(lines) <= LINES_MAX and max(map(len, lines)) < 400
    assert "| | 276 more cells: index.html has all | |" in lines
    assert "- 286 more reasons: index.html has all" in lines


def _shard(folder: Path, number: int, *, of: int = 2, **fields: str) -> None:
    folder.mkdir(parents=True)
    with NightRegister(folder / "register.jsonl") as register:
        cells = [cell("canary", canary=True), cell(f"c{number}", required=True)]
        register.append(opened(cells, shard=number, shards=of, **fields))
        for made in (
            caught(shard=number),
            attempt(f"c{number}", RunClass.VALID, shard=number, report="runs/x/report.html"),
        ):
            register.append(EndedRun(attempt=made, spent_s=5))


def test_shards_merge_by_their_files_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (1, 2):
        _shard(tmp_path / f"shard-{number}", number)
    results = tmp_path / "results"
    folders = [str(tmp_path / "shard-1"), str(tmp_path / "shard-2")]
    assert main(["campaign", "merge", *folders, "--results", str(results)]) == 0
    (home,) = results.glob("nights/c/*-merged")
    data = json.loads((home / "campaign.json").read_text())
    assert data["shards_present"] == [1, 2] and len(data["cells"]) == 3
    canary = next(o for o in data["cells"] if o["cell"]["canary"])
    assert [a["shard"] for a in canary["attempts"]] == [1, 2]
    report = next(a["report"] for o in data["cells"] for a in o["attempts"] if a["report"])
    assert (home / report).resolve().is_relative_to(tmp_path / "shard-1")
    assert "green: 2 of 2 cells tested" in capsys.readouterr().out
    assert main(["campaign", "merge", folders[0], "--results", str(tmp_path / "other")]) == 2
    assert "shard 2 of 2 is missing" in capsys.readouterr().out


def test_the_newest_night_below_folders_of_results_is_merged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (1, 2):
        nights = tmp_path / f"machine-{number}" / "nights" / "c"
        _shard(nights / "one", number, at="2026-11-20T20:00:00Z", id="c-first")
        _shard(nights / "two", number, id="c-second")
    words = ["campaign", "merge", *(str(tmp_path / f"machine-{n}") for n in (1, 2)), "--results", str(tmp_path / "r")]
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == "c-second"
    assert main([*words, "--night", "first", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == "c-first"
    assert main([*words, "--night", "third"]) == 254
    assert "there are: c-first, c-second" in capsys.readouterr().err
    assert main(["campaign", "merge", str(tmp_path / "nowhere")]) == 254


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"number": 1}, "is shard 1, and so is"),
        ({"number": 2, "digest": "other"}, "is of another campaign file"),
        ({"number": 2, "of": 3}, "is a shard of 3"),
        ({"number": 2, "at": "2026-11-25T20:00:00Z"}, "more than a day apart"),
    ],
)
def test_what_does_not_belong_together_is_not_merged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], second: dict[str, object], message: str
) -> None:
    _shard(tmp_path / "a", 1)
    _shard(tmp_path / "b", **second)  # type: ignore[arg-type]
    results = tmp_path / "results"
    code = main(["campaign", "merge", str(tmp_path / "a"), str(tmp_path / "b"), "--results", str(results)])
    assert code == 254 and message in capsys.readouterr().err and not results.exists()


def test_a_folder_that_is_no_night_is_not_merged(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"register\.jsonl: No such file"):
        read_night(tmp_path)


def test_the_page_says_in_how_many_runs_a_known_issue_was_seen(tmp_path: Path) -> None:
    issues = [
        TrackedIssue(fingerprint=FINGERPRINT, link="https://issues.example/1", owner="o", expires=date(2027, 1, 1)),
        TrackedIssue(fingerprint=FINGERPRINT, link="nowhere", owner="o", expires=date(2027, 1, 1), versions=("9.9",)),
    ]
    cells = [cell("canary", canary=True), *(cell(f"c{n}") for n in range(4))]
    attempts = [
        caught(),
        attempt("c0", RunClass.KNOWN, fingerprints=(FINGERPRINT,), version="1.0"),
        attempt("c1", RunClass.VALID, version="1.0"),
        attempt("c2", RunClass.VALID, version="9.9"),
        attempt("c3", RunClass.LOST),
    ]
    made = night(cells, attempts, known_issues=tuple(issues))
    assert [seen_in(issue, made) for issue in issues] == [(1, 3), (0, 1)]
    write_documents(made, tmp_path)
    html = (tmp_path / "index.html").read_text()
    assert "1 of 3 runs" in html and '<a href="https://issues.example/1">' in html


def test_a_file_that_cannot_be_written_costs_itself_alone(tmp_path: Path) -> None:
    (tmp_path / "junit.xml").mkdir()
    (tmp_path / "junit.xml" / "in-the-way").touch()
    warnings: list[str] = []
    result = write_documents(mixed(), tmp_path, warn=warnings.append)
    assert int(result.exit_code) == 1
    assert [text.partition(" ")[0] for text in warnings] == ["junit.xml"]
    assert (tmp_path / "index.html").is_file() and (tmp_path / "campaign.json").is_file()


def test_the_page_says_what_each_systems_runs_met_and_what_none_did(tmp_path: Path) -> None:
    cells = [cell("canary", canary=True), cell("one"), cell("two")]
    never = {"lease-over": 0, "new-epoch": 0, "quorum-lost": 0}
    attempts = [
        caught(mechanisms={**never, "quorum-lost": 5}),
        attempt("one", RunClass.VALID, report="r/report.html", mechanisms={**never, "new-epoch": 2}),
        attempt("two", RunClass.LOST, reason="it was in flight"),
        attempt("two", RunClass.VALID, number=2, mechanisms={**never, "new-epoch": 3}),
        attempt("two", RunClass.UNKNOWN_COVERAGE, run=2, mechanisms=never),
    ]
    write_documents(night(cells, attempts), tmp_path)
    html = (tmp_path / "index.html").read_text()
    met, none = html[html.index('id="h-mechanisms"') :].split("never met in this night (2 of 3)", 1)
    assert re.findall(r'row">([a-z-]+)</th>', met) == ["new-epoch"]
    assert (
        ">2 of 3 runs</td>" in met
        and '<a href="r/report.html#mechanisms" title="the first run that met it">5</a>' in met
    )
    assert re.findall(r'row">([a-z-]+)</th>', none.partition("</section>")[0]) == ["lease-over", "quorum-lost"]
