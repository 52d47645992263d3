"""Figures of the checkers are read by typed fields, and stand in verdict.json under the names that they always had."""

import re
from pathlib import Path

import pytest

from fencepost.harness.verdict import Validity, Verdict
from fencepost.harness.verdict.by_guarantee import figures_of, plain_figures, plain_verdict
from fencepost.harness.verdict.figures import CoverageFigures, Figures, LeadershipFigures
from fencepost.systems.kafka.figures import RejoinFigures

ROOT = Path(__file__).parents[2]
#: A read by a literal name: a renamed figure would vanish from the reader without an error.
BY_NAME = re.compile(r"""\.figures(\.plain\(\))?(\[|\.get\(\s*)["']""")
READS = [*(ROOT / "harness").rglob("*.py"), *(ROOT / "checkers").rglob("*.py")]


def by_name(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if BY_NAME.search(line)]


def test_nobody_reads_a_figure_by_a_literal_name() -> None:
    assert len(READS) > 300
    assert {str(p.relative_to(ROOT)): own for p in READS if (own := by_name(p.read_text()))} == {}


@pytest.mark.parametrize(
    "line", ['v.figures["acted"]', "v.figures.get('acted', 0)", 'v.figures.plain()["acted"]', 'v.figures.get("a")']
)
def test_a_read_by_a_literal_name_is_noticed(line: str) -> None:
    assert by_name(line) == [line]


def test_plain_figures_have_the_names_and_the_order_of_the_document() -> None:
    verdict = Verdict(
        checker="coverage",
        guarantee="coverage",
        validity=Validity.UNKNOWN,
        figures=CoverageFigures(missing=("a write",), loop_lag_ns_max=7, others={"more": 1}),
        subject="raft",
        allowed=("G2-item",),
        cut_short="by a stop",
    )
    plain = plain_figures(verdict)
    assert list(plain)[:2] == ["subject", "missing"]
    assert list(plain)[-6:] == ["loop_lag_ns_max", "watched", "stalled_by", "more", "allowed", "cut_short"]
    assert plain["missing"] == ["a write"]
    document = plain_verdict(verdict)
    assert document["figures"] == plain
    assert document.keys().isdisjoint({"subject", "allowed", "cut_short"})


def test_figures_are_chosen_by_their_struct() -> None:
    verdicts = [
        Verdict(checker="a", guarantee="g", validity=Validity.VALID, figures=figures)
        for figures in (Figures(others={"acted": 3}), LeadershipFigures(acted=2), RejoinFigures())
    ]
    assert [own.acted for own in figures_of(verdicts, LeadershipFigures)] == [2]
    assert RejoinFigures(sentences=("it stayed",)).plain()["told"] == ["it stayed"]
