"""The page: the verdict and all sections of every sample, escaped values, guards, size, and what is cut is said."""

import html as entities
import json
import re
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

from fencepost.checkers.derived.derive import derive
from fencepost.harness.base.signals import StoppedTwice
from fencepost.harness.contract.guarantees import mechanisms_of
from fencepost.harness.history import Outcome
from fencepost.harness.plugins import registry
from fencepost.harness.report import page as page
from fencepost.harness.report import tables
from fencepost.harness.report.leaders import zombies
from fencepost.harness.report.page import json_for_script, render
from fencepost.harness.report.section import ReportCase, cell
from fencepost.harness.verdict import Validity, Verdict
from fencepost.harness.verdict.figures import ACTED, CLAIMED_COUNT, Traced
from tests.report import sample

#: Of a log of topic partitions, of systems with brokers, and of those that declare mechanisms, only.
OPTIONAL = {"Topic partitions", "Brokers and in-sync replicas", "What was met"}
TITLES = [title for _, title, _ in page._SECTIONS if title not in OPTIONAL]


class Outline(HTMLParser):
    """Scripts, headings, and attributes that would fetch or run something."""

    def __init__(self) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.scripts: list[dict[str, str | None]] = []
        self.fetching: list[str] = []
        self.handlers: list[str] = []
        self._heading = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._heading = tag if tag in ("h1", "h2") else self._heading
        if tag == "script":
            self.scripts.append(dict(attrs))
        for name, value in attrs:
            here = value is None or value.startswith(("#", "data:,")) or (tag == "a" and value.startswith("nodes/"))
            if name in ("src", "href", "action", "srcset") and value and not here:
                self.fetching.append(value)
            if name.startswith("on"):
                self.handlers.append(name)

    def handle_data(self, data: str) -> None:
        if self._heading:
            self.headings.append(data.strip())

    def handle_endtag(self, tag: str) -> None:
        self._heading = "" if tag == self._heading else self._heading


def outline(html: str) -> Outline:
    found = Outline()
    found.feed(html)
    return found


@pytest.fixture(scope="module")
def pages() -> dict[str, tuple[ReportCase, str]]:
    """Every sample rendered once; none may have a problem."""
    out = {}
    for name, make in sample.SAMPLES.items():
        case = make()
        rendered = render(case)
        assert rendered.problems == (), name
        out[name] = (case, rendered.html)
    return out


@pytest.mark.parametrize("name", sample.SAMPLES)
def test_verdict_stands_first_and_every_section_follows(name: str, pages: dict[str, tuple[ReportCase, str]]) -> None:
    case, html = pages[name]
    found = outline(html)
    said = [h for h in found.headings if h]
    assert said[1] == case.validity.value  # after its sign
    shown = TITLES if case.validity is Validity.INVALID else [title for title in TITLES if title != "Witness"]
    assert [h for h in said if h in TITLES] == shown
    first = [html.index('<header class="verdict'), html.index('id="timeline"')]
    if case.validity is Validity.INVALID:
        first.insert(1, html.index('id="witness"'))
    assert first == sorted(first)


@pytest.mark.parametrize("name", sample.SAMPLES)
def test_page_is_self_contained_and_below_2_mb(name: str, pages: dict[str, tuple[ReportCase, str]]) -> None:
    _, html = pages[name]
    found = outline(html)
    assert found.fetching == []
    assert found.handlers == []
    assert [s.get("type") for s in found.scripts if s.get("type") != "application/json"] == [None]
    assert "default-src &#39;none&#39;" in html
    assert len(html.encode()) < 2_000_000


def test_hostile_values_stay_text(pages: dict[str, tuple[ReportCase, str]]) -> None:
    _, html = pages["hostile"]
    assert "<script>alert" not in html
    assert "<b onmouseover" not in html
    assert entities.escape("</script><script>alert(1)</script>") in html
    data = re.search(r'id="timeline-data">(.*?)</script>', html, re.DOTALL)
    assert data is not None
    texts = json.loads(data[1])["ops"]["saidTexts"]
    assert any("</script><script>alert(1)" in said for said in texts)


def test_json_for_script_cannot_end_its_element() -> None:
    hostile = {"a": "</ScRiPt><!--<script>", "b": "\u2028&"}
    made = json_for_script(hostile)
    assert not re.search(r"[<>&\u2028]", made)
    assert json.loads(made) == hostile


def test_verdict_words_need_no_colour(pages: dict[str, tuple[ReportCase, str]]) -> None:
    for name, sign in (("etcd-valid", "✓"), ("zookeeper-invalid", "✗"), ("unknown", "?")):
        case, html = pages[name]
        assert re.search(rf'<h1><span class="sign"[^>]*>{re.escape(sign)}</span> {case.validity}</h1>', html)


def test_guarantee_shows_standing_source_and_known_issue(pages: dict[str, tuple[ReportCase, str]]) -> None:
    _, html = pages["zookeeper-invalid"]
    row = html[html.index('<th scope="row">fresh-after-sync') :].split("</tr>")[0]
    for said in ("required by the plan", "relied-upon", "ZOOKEEPER-1675", "invalid", "2 stale reads"):
        assert said in row
    other = html[html.index('<th scope="row">superseded-leader-does-not-act') :].split("</tr>")[0]
    assert "does not decide" in other


def test_a_known_issue_stands_beside_a_finding_only(pages: dict[str, tuple[ReportCase, str]]) -> None:
    shown = {
        validity: {row["known_issue"] is not None for row in rows_of(pages) if row["validity"] is validity}
        for validity in Validity
    }
    assert True in shown.pop(Validity.INVALID)
    assert all(True not in others for others in shown.values())
    assert "known issue" not in pages["etcd-valid"][1] and "known issue" in pages["zookeeper-invalid"][1]


def rows_of(pages: dict[str, tuple[ReportCase, str]]) -> list[dict[str, Any]]:
    return [row for case, _ in pages.values() for row in tables.guarantees(case)]


def test_witness_is_told_and_drawn(pages: dict[str, tuple[ReportCase, str]]) -> None:
    case, html = pages["zookeeper-invalid"]
    section = html[html.index('<section id="witness"') : html.index('<section id="timeline"')]
    for step in case.verdicts[0].witnesses[0].steps:
        assert entities.escape(step, quote=False) in section
    for drawn in ("✓ write r1 ← 4711", "✓ read r1 = 811", "epoch 1", "epoch 2", "pause n3, proven", "0x10000019c"):
        assert drawn in section
    assert 'marker-end="url(#arrow)"' in section


def test_what_is_missing_is_said(pages: dict[str, tuple[ReportCase, str]]) -> None:
    without = render(msgspec.structs.replace(sample.etcd_valid(), derived={}))
    assert without.problems == ()
    assert "The facts of this run could not be derived" in without.html
    assert "when the quorum was lost is not known" in without.html
    assert 'data-label="tested">never</td>' in pages["etcd-valid"][1]
    assert "stopped early" in pages["unknown"][1]


def test_long_history_says_what_was_cut(pages: dict[str, tuple[ReportCase, str]]) -> None:
    _, html = pages["huge"]
    assert "20\u202f000 of 200\u202f000 operations are shown" in html


def test_fault_table_holds_proof_target_and_leader(pages: dict[str, tuple[ReportCase, str]]) -> None:
    _, html = pages["zookeeper-invalid"]
    section = html[html.index('<section id="faults"') : html.index('<section id="exposure"')]
    for said in (
        "all 61 threads of n3 are stopped (T)",
        "✓ installed",
        "– skipped",
        "no leader was known",
        "n3, epoch 1",
    ):
        assert said in section
    assert "5.003 s – 12.000 s" in section  # proven
    assert "5.000 s – 12.002 s" in section  # possible


@pytest.mark.parametrize("broken", ["lanes", "latency", "overview", "timeline", "zombies", "drawn"])
def test_a_failing_section_hides_neither_the_verdict_nor_the_others(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("planted <b>")

    case = sample.zookeeper_invalid()
    monkeypatch.setattr(page, broken, fail)
    rendered = render(case)
    assert rendered.problems
    assert all("ZeroDivisionError" in p for p in rendered.problems)
    assert "this section failed: ZeroDivisionError: planted &lt;b&gt;" in rendered.html
    found = [h for h in outline(rendered.html).headings if h]
    assert found[1] == "invalid"
    assert [h for h in found if h in TITLES] == TITLES
    assert "all 61 threads of n3 are stopped (T)" in rendered.html


@pytest.mark.parametrize("at", ["lanes", "verdict"])
def test_a_persons_order_to_end_is_no_failing_section(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def insist(*_: object, **__: object) -> None:
        raise StoppedTwice

    monkeypatch.setattr(*((tables, "guarantees") if at == "verdict" else (page, at)), insist)
    with pytest.raises(StoppedTwice):
        render(sample.zookeeper_invalid())


def test_a_failing_verdict_table_leaves_word_and_headline(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(tables, "guarantees", fail)
    rendered = render(sample.zookeeper_invalid())
    assert "fresh-after-sync (relied-upon) is violated: 2 stale reads" in rendered.html
    assert outline(rendered.html).headings[1:3] != []
    assert any("verdict" in p for p in rendered.problems)


def test_witness_of_events_that_are_not_there_is_no_problem() -> None:
    case = sample.etcd_valid()
    witness = msgspec.structs.replace(sample.zookeeper_invalid().verdicts[0].witnesses[0], events=(10**9, 0, 5))
    verdict = Verdict(checker="c", guarantee="linearizable", validity=Validity.INVALID, witnesses=(witness,))
    rendered = render(msgspec.structs.replace(case, verdicts=(verdict,), validity=Validity.INVALID))
    assert rendered.problems == ()


def test_operations_table_counts_every_outcome() -> None:
    case = sample.etcd_valid()
    made = tables.operations(case.history)[0]
    counted = sum(int(cell.replace("\u202f", "")) for row in made.rows for cell in row[1:4])
    assert counted == len(case.history.operations)
    assert any(o.type is Outcome.INFO for o in case.history.operations)


def test_zombie_table_sums_over_subjects_and_says_what_was_not_counted() -> None:
    case = sample.zookeeper_invalid()
    more = Verdict(
        checker="leadership",
        guarantee="leader-self-fencing",
        validity=Validity.INVALID,
        anomalies={"self-fencing-failed": Traced(3)},
        figures={**sample.LEADERSHIP_FIGURES, CLAIMED_COUNT: Traced(4), ACTED: Traced(1)},
    )
    found = zombies(msgspec.structs.replace(case, verdicts=(*case.verdicts, more)))
    assert found is not None
    counts = {row[0]: row[1] for row in found[0].rows}
    assert counts["claimed"] == "5"
    assert counts["acted"] == "3"
    assert counts["self-fencing failed"] == "3"
    assert found[1] is not None
    assert len(found[1].rows) == 2
    assert zombies(msgspec.structs.replace(case, verdicts=case.verdicts[:1])) is None
    bare = Verdict(checker="leadership", guarantee="g", validity=Validity.UNKNOWN)
    none = zombies(msgspec.structs.replace(case, verdicts=(bare,)))
    assert none is not None
    assert {row[1] for row in none[0].rows} == {"not counted", "0"}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("from_ns", 1_500_000_000, "1.500 s"),
        ("length_ns", 1_500_000, "1.5 ms"),
        ("latency_ns_p99", 999, "999 ns"),
        ("recovered_after_ns_by_node", {"n1": 2_000_000}, "n1: 2 ms"),
        ("count", 12_345, "12\u202f345"),
        ("seed", 869337847, "869337847"),
        ("exact", True, "yes"),
        ("epoch", None, "–"),
        ("nodes", ("n1", "n2"), "n1, n2"),
    ],
)
def test_figures_are_said_by_their_name(key: str, value: object, said: str) -> None:
    assert cell(key, value) == said


def test_an_invalid_run_says_how_to_see_it_again_and_a_valid_one_offers_no_shrinking() -> None:
    html = page.render(sample.zookeeper_invalid()).html
    section = html[html.index('<section id="reproduce"') : html.index('<section id="facts"')]
    assert "<code>zookeeper:fresh-after-sync:stale-read:read+change:stops</code>" in section
    for command in ("check", "replay", "shrink"):
        assert f"fencepost {command} /results/etcd-register-kill/20261121T030405.678Z" in section
    valid = page.render(sample.etcd_valid()).html
    assert "fencepost replay" in valid
    assert "fencepost shrink" not in valid


def test_what_was_never_met_stands_below_what_was() -> None:
    case = sample.zookeeper_invalid()
    facts = msgspec.structs.replace(case.facts, mechanisms=mechanisms_of(registry.system("zookeeper")))
    case = msgspec.structs.replace(case, facts=facts, derived=derive(case.history, facts))
    met, never = tables.mechanisms(case)
    assert {row[0] for row in (*met.rows, *never.rows)} == {one.name for one in facts.mechanisms}
    assert met.rows and all(row[2] == str(len(getattr(row[2], "rows", ()))) for row in met.rows)
    assert render(case).html.index("Never met in this run") < render(case).html.index("catch-up-truncation")
