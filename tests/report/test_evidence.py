"""Every number of a report follows from the rows that it names: of a real system's history, and of constructed ones."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import msgspec
import pytest

from fencepost.checkers.derived.derive import derive
from fencepost.harness.cli import main
from fencepost.harness.history import Event
from fencepost.harness.judging.judge import judge
from fencepost.harness.report.documents import verdict_document
from fencepost.harness.report.page import render
from fencepost.harness.report.section import ReportCase
from fencepost.harness.report.words import CLAIMS_MAX, ROWS_MAX, Cited, Ledger
from fencepost.harness.verdict import Validity
from fencepost.harness.verdict.by_guarantee import all_figures
from tests.report import sample, sample_kafka
from tests.report.proof import Figure, figures_of, untold, wrong

KEPT = Path(__file__).parents[1] / "histories" / "found" / "kafka-3.6.0-controller-goes-on"


def kept() -> ReportCase:
    history, judgement = judge(KEPT)
    return ReportCase(
        history=history,
        facts=judgement.facts,
        verdicts=judgement.verdicts,
        validity=judgement.validity,
        headline=judgement.headline,
        run={},
        command=f"fencepost run {KEPT.name}/plan.toml",
        plan_toml="",
        derived=derive(history, judgement.facts),
    )


CASES: dict[str, Callable[[], ReportCase]] = {"kafka-3.6.0": kept, **sample_kafka.CASES}


@cache
def made(name: str) -> ReportCase:
    return CASES[name]()


@pytest.mark.parametrize("name", CASES)
def test_every_number_follows_from_its_rows(name: str) -> None:
    case = made(name)
    figures = [figure for verdict in case.verdicts for figure in figures_of(verdict)]
    assert len([figure for figure in figures if figure.value]) > 40
    assert [said for figure in figures if (said := wrong(figure, case.history))] == []


@pytest.mark.parametrize("name", CASES)
def test_every_link_of_the_page_leads_to_a_row_of_the_history(name: str) -> None:
    case = made(name)
    rendered = render(case)
    assert rendered.problems == ()
    html = rendered.html
    here = set(re.findall(r' id="([ce]\d+)"', html))
    links = re.findall(r'<a (?:class="(?:rows|cited)" )?href="#([ce]\d+)"', html)
    assert len(links) > 100
    assert set(links) <= here
    rows = [int(name[1:]) for name in here if name.startswith("e")]
    assert 0 < len(rows) <= ROWS_MAX
    assert all(0 <= row < len(case.history.events) for row in rows)
    # The rows of every figure that verdicts name are among the claims of the page.
    assert html.count('<tr id="c') <= CLAIMS_MAX


@pytest.mark.parametrize("name", CASES)
def test_the_document_names_the_same_rows(name: str) -> None:
    case = made(name)
    document = msgspec.json.decode(msgspec.json.encode(verdict_document(case)))
    for verdict, told in zip(case.verdicts, document["verdicts"], strict=True):
        if verdict.exposure is not None:
            assert told["exposure"]["value"] == verdict.exposure.value
            assert told["exposure"]["rows"] == list(verdict.exposure.rows[:1_000])
        for name, number in verdict.anomalies.items():
            assert told["anomalies"][name] == {"value": number.value, "rows": list(number.rows)}
        assert told["figures"].keys() == all_figures(verdict).keys()


def planted(value: object, rows: tuple[int, ...], name: str = "stale_ns_max") -> Figure:
    return Figure("planted", name, value, rows)


def test_a_wrong_number_does_not_follow() -> None:
    """The proof itself must be able to fail."""
    history = sample.zookeeper_invalid().history
    events: list[Event] = list(history.events[:2])
    gap = events[1].time_ns - events[0].time_ns
    assert wrong(planted(gap, (0, 1)), history) is None
    assert wrong(planted(gap + 1, (0, 1)), history) is not None
    assert wrong(planted(2, (0, 1), "count"), history) is None
    assert wrong(planted(3, (0, 1), "count"), history) is not None
    assert wrong(planted(1, (), "count"), history) is not None
    assert wrong(planted(1, (10**9,), "count"), history) is not None
    assert wrong(planted(7, (0, 1), "epoch"), history) is not None
    assert untold("at least 25 s", events, set()) == ["25 s"]
    assert untold("at least 25 s", events, {"25 s"}) == []


def test_a_claim_with_many_rows_names_the_first_and_the_last() -> None:
    history = sample.etcd_valid().history
    ledger = Ledger(history)
    link = ledger.link(Cited("100", range(100)), "reads")
    assert link == '<a class="rows" href="#c1" title="100 rows: 0, 1, 2, 3, …, 99">100</a>'
    assert ledger.link(Cited("a hundred", range(100))) == str(link).replace(">100<", ">a hundred<")
    (claim,) = ledger.listed()
    assert (claim["said"], claim["count"], claim["more"]) == ("reads: 100", 100, 80)
    assert "#e0" in claim["rows"]
    assert "#e99" in claim["rows"]
    assert ledger.link("plain <b>") == "plain &lt;b&gt;"
    assert ledger.link(Cited("never", (10**9,))) == "never"


def test_a_page_of_many_claims_stays_small() -> None:
    history = sample.etcd_valid().history
    ledger = Ledger(history)
    for first in range(3_000):
        ledger.link(Cited(str(first), (first, first + 1)))
    assert len(ledger.claims) == CLAIMS_MAX
    assert len(ledger.shown()) <= ROWS_MAX


def test_rows_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(KEPT), "--events", "3,0-1"]) == 0
    lines = [msgspec.json.decode(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["index"] for line in lines] == [3, 0, 1]
    assert main(["report", str(KEPT), "--events", "all"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(made("kafka-3.6.0").history.events)


@pytest.mark.parametrize("events", ["x", "5-", "9-7", "-3", "99999999", ""])
def test_rows_that_are_not_there_are_refused(events: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(KEPT), "--events", events]) == 254
    assert "all, or indexes and ranges of them" in capsys.readouterr().err


def test_the_kept_history_is_the_known_bug() -> None:
    case = made("kafka-3.6.0")
    assert case.validity is Validity.INVALID
    assert any("self-fencing-failed" in verdict.anomalies for verdict in case.verdicts)
