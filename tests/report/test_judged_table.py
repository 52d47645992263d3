"""`fencepost check TABLE --report`: the page of a table of operations, by either engine."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.operations_table import UNKNOWN, Rows
from checkers.table_history import events_of
from harness.cli import main, table_report
from harness.history import History
from harness.operation import Outcome
from tests.histories.language import parse
from tests.operations_tables import from_operations, generate, joined, store
from tests.run_command import run

STALE = "a:w1 a:w2 b:r1"
VALID = "a:w1 b:r1 a:w2 b:r2"


def table_of(*words: str) -> Rows:
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
        "linearizable is broken: 1 x stale-read",
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
    monkeypatch.setattr(table_report, "_ROWS_MAX", 2)
    html = page_of(tmp_path / "table.parquet", 1)
    assert "stale-read" in html and "← 2" not in html
    monkeypatch.setattr(table_report, "_ROWS_MAX", 100)
    assert "← 2" in page_of(tmp_path / "table.parquet", 1)


def test_of_many_keys_the_first_ones_are_shown(tmp_path: Path) -> None:
    generate(tmp_path / "table.parquet", 2_000, 20, bad=range(9))
    html = page_of(tmp_path / "table.parquet", 1)
    assert len(pictures(html)) == 5
    assert "9 x stale-read" in html


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


def test_a_table_of_transactions_has_no_page_yet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"ops": [[1]]}), tmp_path / "table.parquet")
    assert main(["check", str(tmp_path / "table.parquet"), "--report", str(tmp_path / "out.html")]) == 254
    assert "--report is for histories" in capsys.readouterr().err


def test_processes_of_a_table_that_overlap_themselves_become_several() -> None:
    rows = from_operations(parse("a:w1 a:w2 b:r2").operations)
    together = rows._replace(process=rows.process * 0, returned=rows.returned * 0 + 100)
    together.returned[2] = UNKNOWN
    history = History(events_of(together))
    assert len({op.process for op in history.operations}) == 3
    assert [op.type for op in history.operations].count(Outcome.INFO) == 1
