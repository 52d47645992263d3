"""`fencepost check TABLE --report`: the page of a table of operations or of transactions, by either engine."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from fencepost.checkers.tables import operations
from fencepost.checkers.tables import transactions as transactions_table
from fencepost.checkers.tables.events import events_of
from fencepost.checkers.tables.operations import UNKNOWN, OperationRows, Operations, TableOperations
from fencepost.harness.base.errors import Contradiction
from fencepost.harness.cli import main
from fencepost.harness.history import History, Outcome
from fencepost.harness.verdict import Facts, Validity, Verdict
from tests.checkers.tables.operations_tables import from_operations, generate, joined, store
from tests.checkers.tables.transaction_tables import table
from tests.checkers.transactions.transaction_histories import told
from tests.histories.language import parse
from tests.run_command import run

STALE = "a:w1 a:w2 b:r1"
VALID = "a:w1 b:r1 a:w2 b:r2"


def table_of(*words: str) -> OperationRows:
    return joined([from_operations(parse(text).operations) for text in words])


def page_of(path: Path, code: int, *flags: str) -> str:
    output = path.with_name("out.html")
    output.unlink(missing_ok=True)
    assert main(["check", str(path), "--report", str(output), *flags]) == code
    return output.read_text(encoding="utf-8")


def pictures(html: str) -> list[ET.Element]:
    return [ET.fromstring(svg) for svg in re.findall(r"<svg viewBox.*?</svg>", html, re.DOTALL)]


def test_what_is_wrong_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(table_of(VALID, STALE, VALID), tmp_path / "table.parquet")
    html = page_of(tmp_path / "table.parquet", 1)
    assert f"report: {tmp_path / 'out.html'}" in capsys.readouterr().err
    (picture,) = pictures(html)
    assert picture.attrib["aria-label"].startswith("Witness 1 of linearizable: stale-read.")
    assert len([bar for bar in picture.iter() if "op ok" in (bar.get("class") or "")]) == 3
    for said in (
        "linearizable is violated: 1 stale read",
        "key 1",
        "operations on 3 keys",
        "The table",
        "again-out.html",
    ):
        assert said in html
    assert "section" not in " ".join(re.findall(r'class="failed"[^<]*', html))


def test_a_valid_table_has_nothing_to_draw(tmp_path: Path) -> None:
    store(table_of(VALID, VALID), tmp_path / "table.parquet")
    html = page_of(tmp_path / "table.parquet", 0)
    assert "✓ valid" in html and not pictures(html)
    assert "of the keys that are shown" not in html


def test_a_folder_of_part_files(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    folder.mkdir()
    store(table_of(VALID, STALE), folder / "part.parquet")
    html = page_of(folder, 1)
    assert "part files" in html and len(pictures(html)) == 1


def test_keys_that_are_too_large_are_told_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store(table_of(VALID, STALE), tmp_path / "table.parquet")
    monkeypatch.setattr(operations, "_ROWS_MAX", 2)
    html = page_of(tmp_path / "table.parquet", 1)
    assert "stale-read" in html and "← 2" not in html
    monkeypatch.setattr(operations, "_ROWS_MAX", 100)
    assert "← 2" in page_of(tmp_path / "table.parquet", 1)


def test_of_many_keys_the_first_ones_are_shown(tmp_path: Path) -> None:
    generate(tmp_path / "table.parquet", 2_000, 20, bad=range(9))
    html = page_of(tmp_path / "table.parquet", 1)
    assert len(pictures(html)) == 5
    assert "9 stale reads" in html


def test_keys_that_are_valid_when_they_are_shown_are_a_defect(tmp_path: Path) -> None:
    facts = Facts(system="", workload="cas-register", nodes=(), guarantees=(), required=(), read_guarantee="")
    verdict = Verdict(checker="linearizable", guarantee="linearizable", validity=Validity.INVALID)
    table = Operations(Path(store(table_of(VALID), tmp_path / "table.parquet")))
    with pytest.raises(Contradiction, match="found invalid, and valid as a history"):
        table.witnesses(History(events_of(TableOperations(table_of(VALID)))), verdict, facts)


@pytest.mark.spark
@pytest.mark.long
def test_through_spark_it_is_the_same_page(tmp_path: Path) -> None:
    store(table_of(VALID, STALE, VALID), tmp_path / "table.parquet")
    here = page_of(tmp_path / "table.parquet", 1)
    table, output = str(tmp_path / "table.parquet"), tmp_path / "there.html"
    done = run("check", table, "--report", str(output), "--spark", "--spark-master", "local[1]")
    assert done.returncode == 1, done.stderr
    there = output.read_text(encoding="utf-8")
    assert "--spark-master" in there
    assert pictures(here)[0].attrib == pictures(there)[0].attrib


def transactions(path: Path, *words: str, lists: bool = True, first: int = 70) -> Path:
    """A table of these transactions, numbered from `first` on."""
    made = table(told(*words), lists=lists)
    pq.write_table(made.set_column(0, "transaction", pc.add(made.column("transaction"), first)), path)
    return path


def test_a_cycle_of_a_table_is_drawn_by_its_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = transactions(tmp_path / "table.parquet", "rx ay1 @0-9", "ry ax1 @1-8", "rx1 ry1 @20-30")
    html = page_of(path, 1, "--consistency", "serializable")
    assert f"report: {tmp_path / 'out.html'}" in capsys.readouterr().err
    cycle, lanes = pictures(html)
    said = "Witness 1 of serializable: G2-item, the cycle. A cycle: T71 rw T70; T70 rw T71."
    assert cycle.attrib["aria-label"] == said
    named = {text.strip() for picture in (cycle, lanes) for text in picture.itertext()}
    assert {"T70", "T71", "rw", "✓ T70: r 0 = []; append 1 1"} <= named
    assert not any("T72" in text for text in named)
    for said in (
        "serializable is violated: 1 G2-item anomaly",
        "3 transactions on 2 keys; below, those that are shown: ",
        "T70 &lt; T71 (rw): T70 read [] from key 0, without 1, which T71 appended",
        "--consistency serializable --report again-out.html",
        "ruled out",
        "Transactions",
        "BE: Biswas",
    ):
        assert said in html, said
    assert 'class="failed"' not in html


def test_who_bears_witness_to_an_edge_is_told(tmp_path: Path) -> None:
    """T14 shows in which order the other two appended; what became of the failed one is certain."""
    words = ("rx ax1 @0-9", "rx ax2 @1-8", "rx2,1 @20-30", "ax5 !fail @40-41", "rx2,1,5 @50-51", "ax7 !info @60-61")
    html = page_of(transactions(tmp_path / "table.parquet", *words, first=10), 1)
    assert "<b>T14</b>, process 1004, events 6 and 7: <code>r 0 = [2 1 5]</code>" in html
    failed = [picture for picture in pictures(html) if "G1a" in picture.attrib["aria-label"]]
    bars = {bar.get("class") for bar in failed[0].iter() if "op " in (bar.get("class") or "")}
    assert bars == {"op fail", "op ok marked"}


def test_versions_of_a_register_are_drawn(tmp_path: Path) -> None:
    """The transactions of the witness are those that wrote them, whom its sentences do not name."""
    words = ("wx1 @0-100", "wx2 @1-101", "rx1 @2-3", "rx2 @4-5", "rx1 @6-7")
    html = page_of(transactions(tmp_path / "table.parquet", *words, lists=False), 1)
    cycle, lanes = pictures(html)
    assert "cyclic-versions-realtime, the cycle. A cycle: 1 before 2; 2 before 1." in cycle.attrib["aria-label"]
    shown = [text for text in lanes.itertext() if text.startswith("✓ T")]
    assert shown == ["✓ T70: w 0 1", "✓ T71: w 0 2"]
    assert "rw-register: transactions that write registers" in html and "<b>T74</b>" in html


def test_a_valid_table_of_transactions(tmp_path: Path) -> None:
    html = page_of(transactions(tmp_path / "table.parquet", "ax1", "rx1"), 0)
    assert "✓ valid" in html and not pictures(html) and "that are shown" not in html
    assert ">kept<" in html


def test_transactions_that_are_too_large_are_told_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two transactions of two micro-operations each hold six numbers."""
    path = transactions(tmp_path / "table.parquet", "rx ay1 @0-9", "ry ax1 @1-8")
    monkeypatch.setattr(transactions_table, "_VALUES_MAX", 5)
    html = page_of(path, 1)
    assert "T70 &lt; T71 (rw)" in html and "append 1 1" not in html
    monkeypatch.setattr(transactions_table, "_VALUES_MAX", 6)
    assert "append 1 1" in page_of(path, 1)


def test_processes_of_a_table_that_overlap_themselves_become_several() -> None:
    rows = from_operations(parse("a:w1 a:w2 b:r2").operations)
    together = rows._replace(process=rows.process * 0, returned=rows.returned * 0 + 100)
    together.returned[2] = UNKNOWN
    history = History(events_of(TableOperations(together)))
    assert len({op.process for op in history.operations}) == 3
    assert [op.type for op in history.operations].count(Outcome.INFO) == 1
