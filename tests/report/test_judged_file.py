"""`fencepost check FILE --report`: what the page of a judged file says, and that it replaces nothing."""

import html as entities
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.harness.cli import main
from fencepost.harness.cli.check.file_report import _SOURCES
from fencepost.harness.report import judged_file
from fencepost.harness.verdict.consistency_models import MODELS
from tests.interchange.formats.histories import edn
from tests.report.drawing import scenes

_STALE = edn("0(w[:x,1] 0) 0(w[:x,2] 0) 1(r[:x,nil] 1)[:x,1] 1(r[:y,nil] 1)[:y,nil]")
_UNTIMED = re.sub(r", :index \d+, :time \d+", "", edn("0(w1 0) 0(w2 0) 1(r 1)1"))
_LOST_UPDATE = scenes.transactions(
    ("[[:append :x 1]]", "[[:append :x 1]]"),
    ("[[:r :x nil] [:append :x 2]]", "[[:r :x [1]] [:append :x 2]]"),
    ("[[:r :x nil] [:append :x 3]]", "[[:r :x [1]] [:append :x 3]]"),
)
_KEPT = scenes.transactions(
    ("[[:append :x 1]]", "[[:append :x 1]]"), ("[[:r :x nil]]", "[[:r :x [1]]]"), one_by_one=True
)

Make = Callable[..., tuple[int, str]]


@pytest.fixture
def page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Make:
    """Judges a text with a report; returns exit code and page."""

    def make(text: str, *flags: str) -> tuple[int, str]:
        (tmp_path / "history.edn").write_text(text, encoding="utf-8")
        output = tmp_path / "out.html"
        code = main(["check", str(tmp_path / "history.edn"), "--report", str(output), *flags])
        assert f"report: {output}" in capsys.readouterr().err
        assert sorted(path.name for path in tmp_path.iterdir()) == ["history.edn", "out.html"]
        return code, output.read_text(encoding="utf-8")

    return make


def pictures(html: str) -> list[ET.Element]:
    found = re.findall(r"<svg viewBox.*?</svg>", html, re.DOTALL)
    return [ET.fromstring(svg) for svg in found]


def test_a_stale_read(page: Make) -> None:
    code, html = page(_STALE)
    assert code == 1
    assert "✗ invalid: " in html and "linearizable is violated: 1 stale read" in html
    assert "Each operation seems to happen at one instant" in html
    (picture,) = pictures(html)
    assert picture.attrib["aria-label"].startswith("Witness 1 of linearizable: stale-read.")
    assert 'class="op ok marked"' in html and html.count(" marked") == 1
    for said in ("read of :x by process 1", "It can hold only 2.", "key :x", "2 keys, each judged by itself"):
        assert said in html
    assert "--format edn --model register --keyed --report again-out.html" in html
    assert "<script" not in html
    assert "script-src 'none'" in entities.unescape(html)
    assert "Consistency models" not in html
    assert "stale-read: once; lost-write: once; phantom-read: once" in html
    assert "cas-stale-read: never (no compare-and-set could have been caught out)" in html


def test_without_times_the_axis_tells_events(page: Make) -> None:
    _, html = page(_UNTIMED)
    (picture,) = pictures(html)
    ticks = [text.text for text in picture.iter() if text.get("class") == "tick"]
    assert ticks == [f"event {number}" for number in range(6)]
    assert not [text for text in picture.iter() if text.get("class") == "gap"]


def test_a_cycle_and_what_it_rules_out(page: Make) -> None:
    code, html = page(scenes.ring(3))
    assert code == 1
    cycle, lanes = pictures(html)
    assert cycle.attrib["aria-label"].startswith("Witness 1 of strict-serializable: G2-item, the cycle.")
    assert "T2: append :k2 2; r :k0 = []" in "".join(lanes.itertext())
    assert " marked" not in html
    rows = dict(re.findall(r'<tr><td class="short"[^>]*>([a-z-]+)</td><td class="short"[^>]*>([a-z ]+)</td>', html))
    assert rows["read-uncommitted"] == rows["snapshot-isolation"] == "not ruled out"
    assert rows["repeatable-read"] == rows["serializable"] == rows["strict-serializable"] == "ruled out"


def test_every_anomaly_has_its_drawing(page: Make) -> None:
    _, html = page(_LOST_UPDATE)
    assert re.findall(r"<h3>([\w-]+)", html) == ["lost-update", "G2-item"]
    assert [picture.attrib["aria-label"].split(".")[0] for picture in pictures(html)] == [
        "Witness 1 of strict-serializable: lost-update",
        "Witness 1 of strict-serializable: G2-item, the cycle",
        "Witness 1 of strict-serializable: G2-item",
    ]


@pytest.mark.parametrize(("text", "faint"), [(edn("0(w1 0) 1(w2 2(r 2)7 1)"), 2), (_STALE, 0)])
def test_what_came_before_is_faint(page: Make, text: str, faint: int) -> None:
    _, html = page(text)
    assert html.count(' context"') == faint and ("Faint: not named" in html) == bool(faint)


def test_a_valid_one_proves_its_models(page: Make) -> None:
    code, html = page(_KEPT)
    assert code == 0 and "✓ valid: " in html and not pictures(html)
    assert len(re.findall(r'<td class="short"[^>]*>kept</td>', html)) == len(MODELS)


def test_a_weaker_model_is_judged_again_as_such(page: Make) -> None:
    code, html = page(scenes.ring(3), "--consistency", "snapshot-isolation")
    assert code == 0 and "--consistency snapshot-isolation --report" in html
    assert re.search(r'<td class="short"[^>]*>snapshot-isolation</td><td class="short"[^>]*>kept</td>', html)


#: Process 0 wrote x, then y; who saw y did not see x.
_UNSEEN = """\
{:type :invoke :process 0 :f :txn :value [[:w :x 1]]}
{:type :ok :process 0 :f :txn :value [[:w :x 1]]}
{:type :invoke :process 0 :f :txn :value [[:w :y 1]]}
{:type :ok :process 0 :f :txn :value [[:w :y 1]]}
{:type :invoke :process 1 :f :txn :value [[:r :y nil] [:r :x nil]]}
{:type :ok :process 1 :f :txn :value [[:r :y 1] [:r :x nil]]}
"""


def test_what_breaks_other_models_only_is_said_not_to_break_this_one(page: Make) -> None:
    code, html = page(_UNSEEN, "--consistency", "causal")
    assert code == 1
    said = re.findall(r"<h3>([\w-]+)<small>(violates|does not violate) causal", html)
    assert said[0] == ("causality-violation-process", "violates")
    assert ("G-single-process", "does not violate") in said
    assert ">causal is ruled out by causality-violation-process<" in html


def test_who_defined_a_model_is_named() -> None:
    letters = {source.split()[0] for model in MODELS for source in model.source.split(", ")}
    assert letters == set(_SOURCES)


@pytest.mark.parametrize(
    ("text", "said"), [("", "nothing to judge: no operation"), (edn("0(w1 0)"), "no ok reads and cas")]
)
def test_an_unknown_one_says_what_was_missing(page: Make, text: str, said: str) -> None:
    code, html = page(text)
    assert code == 2 and "? unknown: " in html and not pictures(html)
    assert re.search(f"<li>missing: [^<]*{said}", html)


def test_json_is_what_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "history.edn"
    source.write_text(_STALE, encoding="utf-8")
    said = []
    for flags in ([], ["--report", str(tmp_path / "out.html")]):
        assert main(["check", str(source), "--json", *flags]) == 1
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        for verdict in document["verdicts"]:
            verdict["figures"].pop("wall_ms")
        said.append(document)
    assert said[0] == said[1] and "└" not in json.dumps(said[0])


@pytest.mark.parametrize(
    ("text", "hint"), [(_LOST_UPDATE, "1 more witness: --report FILE.html draws it"), (_STALE, ""), (_KEPT, "")]
)
def test_a_page_is_offered_where_there_is_more_to_draw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, hint: str
) -> None:
    source = tmp_path / "history.edn"
    source.write_text(text, encoding="utf-8")
    main(["check", str(source)])
    said = capsys.readouterr().err
    assert hint in said and ("--report" in said) == bool(hint)
    main(["check", str(source), "--json"])
    assert "--report" not in capsys.readouterr().err


def test_what_is_there_is_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, output = tmp_path / "history.edn", tmp_path / "out.html"
    source.write_text(_STALE, encoding="utf-8")
    output.write_text("mine", encoding="utf-8")
    missing = tmp_path / "none" / "out.html"
    dangling = tmp_path / "link.html"
    dangling.symlink_to(missing)
    for path, wanted in ((output, "exists already"), (missing, "there is no folder"), (dangling, "exists already")):
        assert main(["check", str(source), "--report", str(path)]) == 254
        said = capsys.readouterr()
        # Nothing was judged for a page that could not be kept.
        assert said.out == "" and wanted in said.err and "hint: give another --report" in said.err
    assert output.read_text(encoding="utf-8") == "mine"


def test_a_run_has_a_report_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plan.toml").write_text("", encoding="utf-8")
    assert main(["check", str(tmp_path), "--report", str(tmp_path / "out.html")]) == 254
    assert "its report is written into its folder" in capsys.readouterr().err


def test_a_part_that_fails_costs_neither_page_nor_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(judged_file, "_judged", fail)
    source, output = tmp_path / "history.edn", tmp_path / "out.html"
    source.write_text(_STALE, encoding="utf-8")
    assert main(["check", str(source), "--report", str(output)]) == 255
    said = capsys.readouterr()
    assert "INVALID" in said.out and "parts of the report could not be made" in said.err
    html = output.read_text(encoding="utf-8")
    assert "this section failed: ZeroDivisionError: planted" in html and len(pictures(html)) == 1
