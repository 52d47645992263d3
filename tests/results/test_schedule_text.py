"""The short form of a schedule: read, refused with its line, carried out as the long form is."""

from pathlib import Path

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.results.schedule_rows import injected, read_rows, write_rows

STAGGERED = """
# two nodes, staggered
n1      kill               2s..28s
n2      kill               10s..20s     # while n1 is away
leader  pause:when=restart 30s..34s
"""


def _written(folder: Path, text: str) -> Path:
    path = folder / "some.schedule"
    path.write_text(text)
    return path


def test_each_line_is_a_fault_and_those_that_overlap_have_workers_of_their_own(tmp_path: Path) -> None:
    rows = injected(read_rows(_written(tmp_path, STAGGERED)))
    assert [(row["spec"], row["at_ns"] / 1e9, row["duration_ns"] / 1e9, row["worker"]) for row in rows] == [
        ("kill:n1", 2, 26, 0),
        ("pause:leader:when=restart", 30, 4, 0),
        ("kill:n2", 10, 10, 1),
    ]
    assert [row["when"] for row in rows] == [None, {"trigger": "restart"}, None]


def test_it_becomes_the_long_form(tmp_path: Path) -> None:
    rows = injected(read_rows(_written(tmp_path, STAGGERED)))
    write_rows(rows, tmp_path / "long.jsonl")
    assert injected(read_rows(tmp_path / "long.jsonl")) == rows


def test_a_fault_that_begins_while_another_may_still_heal_gets_a_worker_of_its_own(tmp_path: Path) -> None:
    rows = read_rows(_written(tmp_path, "n1 kill 0s..2s\nn2 kill 2500ms..4s\nn3 kill 5s..6s\n"))
    assert [row["worker"] for row in rows] == [0, 1, 0]


def test_the_draw_of_a_line_does_not_depend_on_the_others(tmp_path: Path) -> None:
    (alone,) = read_rows(_written(tmp_path, "one kill 2s..3s"))
    *_, beside = read_rows(_written(tmp_path, "n1 pause 0s..1s\none kill 2s..3s"))
    assert alone["draw_seed"] == beside["draw_seed"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("n1 kill", "expected 3 words, got 2"),
        ("n1 kill 2s..28s leader", "expected 3 words, got 4"),
        ("n1 kill 2s", "'2s' is not FROM..TO"),
        ("n1 kill 2s..", "'' is not a duration"),
        ("n1 kill 2..28", "'2' is not a duration"),
        ("n1 kill 28s..2s", "28s..2s ends before it begins"),
        ("n1 kill 2s..2s", "2s..2s ends before it begins"),
        ("n1 kill:for=3s 2s..28s", "both say how long"),
    ],
)
def test_a_wrong_line_is_named_with_what_was_expected(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(UsageError, match=r"some\.schedule, line 2") as caught:
        read_rows(_written(tmp_path, f"n1 kill 0s..1s\n{line}\n"))
    assert message in caught.value.message
    assert caught.value.hint
