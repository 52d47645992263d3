"""`run.json`: what is known of a run, written whole by one class whenever more is known."""

import re
from pathlib import Path

import pytest

from fencepost.harness.results import run_folder as store
from fencepost.harness.results.run_folder import RunRecord

ROOT = Path(__file__).resolve().parents[2]


def test_facts_are_added_in_order_and_replaced_in_their_place(tmp_path: Path) -> None:
    record = RunRecord(tmp_path, {})
    record.add({"format": 1, "system_version": "3.11", "seed": 1})
    record.add({"system_version": "3.4.23", "phases": {}})
    assert list(store.read_run(tmp_path).items()) == [
        ("format", 1),
        ("system_version", "3.4.23"),
        ("seed", 1),
        ("phases", {}),
    ]
    assert RunRecord.read(tmp_path).facts == record.facts


def test_facts_that_cannot_be_written_are_known_all_the_same(tmp_path: Path) -> None:
    record = RunRecord(tmp_path / "gone", {"seed": 1})
    with pytest.raises(OSError, match=r"run\.json"):
        record.add({"failure": "no room"})
    assert record.facts == {"seed": 1, "failure": "no room"}


def test_nothing_else_writes_run_json() -> None:
    writes = re.compile(r"write_\w+\([^\n]*\b(?:store\.)?RUN\b")
    writers = {
        str(path.relative_to(ROOT))
        for folder in ("harness", "campaigns", "warehouse", "systems")
        for path in (ROOT / folder).rglob("*.py")
        if writes.search(path.read_text(encoding="utf-8"))
    }
    assert writers == {"harness/results/run_folder.py"}
    runner = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "harness" / "runner").glob("*.py"))
    assert "RunRecord" not in runner, "the outer process writes it"
