"""Figures are found by constants and by the struct of their rows, and stand in verdict.json under their names."""

import re
from pathlib import Path
from typing import Any

import pytest

from fencepost.harness.verdict import Validity, Verdict
from fencepost.harness.verdict.by_guarantee import all_figures, listed, plain_verdict
from fencepost.harness.verdict.figures import PolledReign, Traced, most, tallies, total
from fencepost.systems.kafka.figures import Denied

ROOT = Path(__file__).parents[2]
#: A read by a literal name: a renamed figure would vanish from the reader without an error.
BY_NAME = re.compile(r"""\.figures(\[|\.get\(\s*)["']""")
READS = [*(ROOT / "harness").rglob("*.py"), *(ROOT / "checkers").rglob("*.py")]


def by_name(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if BY_NAME.search(line)]


def test_nobody_reads_a_figure_by_a_literal_name() -> None:
    assert len(READS) > 300
    assert {str(p.relative_to(ROOT)): own for p in READS if (own := by_name(p.read_text()))} == {}


@pytest.mark.parametrize("line", ['v.figures["acted"]', "v.figures.get('acted', 0)", 'v.figures.get("a")'])
def test_a_read_by_a_literal_name_is_noticed(line: str) -> None:
    assert by_name(line) == [line]


def made(figures: dict[str, Any]) -> Verdict:
    return Verdict(
        checker="coverage",
        guarantee="coverage",
        validity=Validity.UNKNOWN,
        figures=figures,
        subject="raft",
        allowed=("G2-item",),
        cut_short="by a stop",
    )


def test_all_figures_have_the_names_and_the_order_of_the_document() -> None:
    verdict = made({"missing": ("a write",), "acted": Traced(1, (7,)), "more": 1})
    assert list(all_figures(verdict)) == ["subject", "missing", "acted", "more", "allowed", "cut_short"]
    document = plain_verdict(verdict)
    assert document["figures"]["acted"] == {"value": 1, "rows": (7,)}
    assert document.keys().isdisjoint({"subject", "allowed", "cut_short"})


def test_rows_are_chosen_by_their_struct() -> None:
    one, none = Traced(1), Traced(0)
    row = Denied(node="n1", denials=one, from_ns=none, to_ns=one, late_ns_max=one, proofs=one)
    verdicts = [made({"denied": (row,), "told": ("it stayed",)}), made({"writes": ({"node": "n1"},)})]
    assert listed(verdicts, Denied) == [row]
    assert listed(verdicts, PolledReign) == []


def test_numbers_are_added_and_compared_with_their_rows() -> None:
    assert tallies([("a", 3), ("b", 4), ("a", 5)]) == {"a": Traced(2, (3, 5)), "b": Traced(1, (4,))}
    assert most([Traced(1, (2,)), Traced(3, (4,)), Traced(3, (5,))]) == Traced(3, (4,))
    assert (most([]), total([])) == (Traced(0), Traced(0))
    assert total([Traced(1, (2,)), Traced(3, (2, 4))]) == Traced(4, (2, 2, 4))
