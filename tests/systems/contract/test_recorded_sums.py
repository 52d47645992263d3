"""Checksums are added to the record, in order; one that differs is said and changes nothing."""

from pathlib import Path

import pytest

from fencepost.harness.base.errors import MachineError
from fencepost.harness.contract.recorded_sums import read_sums, record_sums

RECORD = '# Sums.\n[sums]\n"1.2.0" = "two"\n"1.10.0" = "ten"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sums.toml"
    path.write_text(RECORD)
    return path


def test_new_releases_are_added_by_number(file: Path) -> None:
    assert record_sums(file, "sums", "Sums.", ["1.9.0"], lambda release: {release: "nine"}) == 0
    assert list(read_sums(file)) == ["1.2.0", "1.9.0", "1.10.0"]
    assert file.read_text().startswith("# Sums.\n[sums]\n")


def test_a_sum_that_changed_is_said_and_not_replaced(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert record_sums(file, "sums", "Sums.", ["1.2.0", "1.9.0"], lambda release: {release: "new"}) == 1
    assert file.read_text() == RECORD
    assert "1.2.0: a sum is recorded as two, now it is new" in capsys.readouterr().err


def test_a_release_that_is_not_reached_is_passed_over(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def find(release: str) -> dict[str, str]:
        if release == "1.3.0":
            raise MachineError("1.3.0 is not reached")
        return {release: "sum"}

    assert record_sums(file, "sums", "Sums.", ["1.3.0", "1.4.0"], find) == 1
    assert list(read_sums(file)) == ["1.2.0", "1.4.0", "1.10.0"]
    assert "left out: 1.3.0 is not reached" in capsys.readouterr().err
