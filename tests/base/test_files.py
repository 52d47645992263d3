"""Files written completely or not at all, and locks of one process at a time."""

from pathlib import Path

import pytest

from fencepost.harness.base.files import locked, replaced, write_whole


def test_a_reader_keeps_the_old_file_whole_and_a_failure_leaves_it(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_whole(path, "old")
    with path.open() as reader:
        write_whole(path, b"new")
        assert reader.read() == "old"
    with pytest.raises(ZeroDivisionError), replaced(path) as hidden:
        _ = hidden.write_text("half") / 0
    assert (path.read_text(), [*tmp_path.iterdir()]) == ("new", [path])
    with pytest.raises(OSError, match=r"b\.json"):
        write_whole(tmp_path / "absent" / "b.json", "")


def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    waits: list[int] = []
    with locked(tmp_path / "lock") as first:
        assert first
        with locked(tmp_path / "lock", 0.1, lambda: waits.append(1)) as second:
            assert (second, waits) == (False, [1])
    with locked(tmp_path / "lock") as again:
        assert again
