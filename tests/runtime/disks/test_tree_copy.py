"""Copies of a folder's files: whatever was done to it since, what comes back is what was taken."""

import contextlib
import gc
import os
import random
from collections import Counter
from pathlib import Path

import pytest

from fencepost.harness.runtime.disks.tree_copy import TreeCopy, tree_hashes


def _files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def _grow(root: Path) -> None:
    (root / "wal").mkdir()
    (root / "wal" / "0").write_bytes(b"abc")
    with (root / "wal" / "big").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 8 << 20)
        file.write(os.urandom(70_000))
    (root / "empty").touch(mode=0o640)


def _meddle(root: Path, draw: random.Random) -> None:
    """Change, lengthen, cut, rename, remove, make."""
    for _ in range(12):
        paths = sorted(path for path in root.rglob("*") if path.is_file())
        path = draw.choice(paths)
        match draw.randrange(6):
            case 0:
                with path.open("r+b") as file:
                    file.seek(draw.randrange(1 << 17))
                    file.write(draw.randbytes(draw.randrange(1, 9000)))
            case 1:
                os.truncate(path, draw.randrange(1 << 17))
            case 2:
                path.rename(path.with_name(f"r{draw.randrange(9)}"))
            case 3 if len(paths) > 2:
                path.unlink()
            case 4:
                path.with_name(f"n{draw.randrange(9)}").write_bytes(draw.randbytes(100))
            case _:
                (root / f"d{draw.randrange(3)}").mkdir(exist_ok=True)


@pytest.mark.parametrize("seed", range(8))
def test_what_was_taken_last_comes_back(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    _grow(tmp_path)
    copy = TreeCopy(tmp_path)
    for _ in range(3):
        _meddle(tmp_path, draw)
        copy.take_all()
        wanted, hashes = _files(tmp_path), tree_hashes(tmp_path)
        assert copy.hashes() == hashes
    folders = {path for path in tmp_path.rglob("*") if path.is_dir()}
    _meddle(tmp_path, draw)
    copy.put_back()
    assert _files(tmp_path) == wanted
    assert tree_hashes(tmp_path) == hashes
    assert {path for path in tmp_path.rglob("*") if path.is_dir()} == folders
    copy.close()


def test_a_file_keeps_its_copy_under_a_new_name_and_one_never_taken_is_empty(tmp_path: Path) -> None:
    copy = TreeCopy(tmp_path)
    _grow(tmp_path)
    assert copy.take(tmp_path / "wal" / "0")
    assert not copy.take(tmp_path / "wal" / "1")
    (tmp_path / "wal" / "0").write_bytes(b"abcdef")
    (tmp_path / "wal" / "0").rename(tmp_path / "wal" / "1")
    copy.take_names()
    copy.put_back()
    assert _files(tmp_path) == {"wal/1": b"abc", "wal/big": b"", "empty": b""}
    assert (tmp_path / "empty").stat().st_mode & 0o777 == 0o640
    copy.close()


def test_a_file_that_was_renamed_after_its_sync_is_taken_and_no_other_is(tmp_path: Path) -> None:
    """Also a file that was synced under a second name, which it has lost since."""
    (tmp_path / "log").write_bytes(b"synced")
    (tmp_path / "checkpoint").write_bytes(b"1")
    (tmp_path / "linked").write_bytes(b"old")
    os.link(tmp_path / "linked", tmp_path / "second")
    copy = TreeCopy(tmp_path)
    copy.take_all()
    (tmp_path / "log").write_bytes(b"not synced")
    (tmp_path / "checkpoint.tmp").write_bytes(b"2")
    (tmp_path / "checkpoint.tmp").rename(tmp_path / "checkpoint")
    (tmp_path / "new.tmp").write_bytes(b"3")
    (tmp_path / "new.tmp").rename(tmp_path / "new")
    (tmp_path / "linked").write_bytes(b"changed")
    (tmp_path / "second").unlink()
    copy.take_renamed({tmp_path / "checkpoint.tmp", tmp_path / "new.tmp", tmp_path / "second", tmp_path / "gone"})
    copy.put_back()
    assert _files(tmp_path) == {"log": b"synced", "checkpoint": b"2", "new": b"3", "linked": b"changed"}
    copy.close()


def _open_files() -> Counter[str]:
    found: Counter[str] = Counter()
    for number in os.listdir("/proc/self/fd"):
        # The one by which they are listed is gone by now.
        with contextlib.suppress(FileNotFoundError):
            found[os.readlink(f"/proc/self/fd/{number}")] += 1
    return found


def test_nothing_is_left_open(tmp_path: Path) -> None:
    # What an earlier test left to the collector would be closed at any moment.
    gc.collect()
    before = _open_files()
    _grow(tmp_path)
    copy = TreeCopy(tmp_path)
    copy.take_all()
    (tmp_path / "empty").unlink()
    copy.take_names()
    assert _open_files() - before
    copy.close()
    copy.close()
    # What somebody else had open may be closed by now.
    assert _open_files() - before == Counter()


def test_a_hash_does_not_see_where_holes_are(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(100_000) + b"x" + bytes(100_000))
    with (tmp_path / "b").open("wb") as file:
        file.truncate(200_001)
        file.seek(100_000)
        file.write(b"x")
    hashes = tree_hashes(tmp_path)
    assert hashes["a"] == hashes["b"]
    with (tmp_path / "b").open("r+b") as file:
        file.seek(100_001)
        file.write(b"x")
    assert tree_hashes(tmp_path)["b"] != hashes["b"]
