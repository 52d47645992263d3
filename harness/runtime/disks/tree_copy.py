"""Copies of the files below one folder, each as of the moment when it was last taken, and the way back to them.

Contents are kept in memory (memfd), so that no copy can stay behind, and sparsely: servers lay out log files of 64 MiB
beforehand and fill them slowly. Taking a file again writes only what differs. A file is known by device and inode, so
that it keeps its copy when it is renamed; it is held open, so that no other file gets its number meanwhile.
"""

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_PIECE: Final = 1 << 20
#: Mode, owner and group of a file or folder.
_Attributes = tuple[int, int, int]
_Key = tuple[int, int]


@dataclass(slots=True)
class _Kept:
    """One file: itself, held open, and its copy; no copy when it was never taken."""

    source: int
    copy: int = -1


@dataclass(slots=True)
class _Names:
    """A listing: folders, and files with what they are, by path relative to the root."""

    folders: dict[str, _Attributes] = field(default_factory=dict)
    files: dict[str, tuple[_Key, _Attributes]] = field(default_factory=dict)


class TreeCopy:
    """Not for several threads at once. Symbolic links and special files are left alone: servers' data has none."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._kept: dict[_Key, _Kept] = {}
        self._names = _Names()

    def take_all(self) -> None:
        """Names, and the contents of all files, as they are now."""
        self.take_names()
        for path in list(self._names.files):
            self.take(self._root / path)

    def take_names(self) -> None:
        """Which files and folders there are now."""
        names = _Names()
        for folder, _, files in os.walk(self._root):
            with suppress(FileNotFoundError):
                names.folders[os.path.relpath(folder, self._root)] = _attributes(os.stat(folder))
            for name in files:
                path = os.path.join(folder, name)
                found = self._hold(path)
                if found is not None:
                    names.files[os.path.relpath(path, self._root)] = found
        self._names = names
        self._drop_the_gone()

    def take(self, path: Path) -> bool:
        """The content of one file as it is now; False when it is not there under this name."""
        found = self._hold(path)
        if found is None:
            return False
        kept = self._kept[found[0]]
        if kept.copy < 0:
            kept.copy = os.memfd_create("copy")
        _update(kept.source, kept.copy)
        return True

    def put_back(self) -> None:
        """Make the folder what the copies are. A file that was named, but whose content was never taken, is empty."""
        for entry in list(self._root.iterdir()):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        for path, attributes in sorted(self._names.folders.items()):
            (self._root / path).mkdir(exist_ok=True)
            _set(self._root / path, attributes)
        for path, (key, attributes) in self._names.files.items():
            target = self._root / path
            with target.open("wb") as file:
                if self._kept[key].copy >= 0:
                    _update(self._kept[key].copy, file.fileno(), fresh=True)
            _set(target, attributes)

    def hashes(self) -> Mapping[str, str]:
        """SHA-256 of each file's copy."""
        return {
            path: content_hash(self._kept[key].copy) if self._kept[key].copy >= 0 else _EMPTY
            for path, (key, _) in self._names.files.items()
        }

    def close(self) -> None:
        """Idempotent."""
        for kept in self._kept.values():
            _close(kept)
        self._kept = {}

    def _hold(self, path: "str | Path") -> tuple[_Key, _Attributes] | None:
        try:
            source = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        found = os.fstat(source)
        key = (found.st_dev, found.st_ino)
        if not stat.S_ISREG(found.st_mode) or key in self._kept:
            os.close(source)
        else:
            self._kept[key] = _Kept(source)
        return (key, _attributes(found)) if stat.S_ISREG(found.st_mode) else None

    def _drop_the_gone(self) -> None:
        """A file without a name is lost, now and after a loss of power; its space is given back."""
        named = {key for key, _ in self._names.files.values()}
        for key in [key for key in self._kept if key not in named]:
            if os.fstat(self._kept[key].source).st_nlink == 0:
                _close(self._kept.pop(key))


def tree_hashes(root: Path) -> dict[str, str]:
    """SHA-256 of each regular file below `root`, by relative path."""
    hashes = {}
    for folder, _, files in os.walk(root):
        for name in files:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                hashes[os.path.relpath(path, root)] = content_hash(file.fileno())
    return hashes


def content_hash(fd: int) -> str:
    """SHA-256 of size and data; holes are not read, and a hole equals zeros."""
    size = os.fstat(fd).st_size
    digest = hashlib.sha256(str(size).encode())
    for start, end in extents(fd):
        at = start
        while at < end:
            piece = os.pread(fd, min(_PIECE, end - at), at)
            if not piece:
                break
            # Where data ends and a hole begins differs between file systems; zeros tell nothing either way.
            for offset in range(0, len(piece), _GRAIN):
                grain = piece[offset : offset + _GRAIN]
                if grain.strip(b"\0"):
                    digest.update(f"{at + offset}:".encode() + grain.rstrip(b"\0"))
            at += len(piece)
    return digest.hexdigest()


def extents(fd: int) -> Iterator[tuple[int, int]]:
    """(start, end) of each stretch of data; what lies between are holes."""
    end, size = 0, os.fstat(fd).st_size
    while end < size:
        try:
            start = os.lseek(fd, end, os.SEEK_DATA)
            end = os.lseek(fd, start, os.SEEK_HOLE)
        except OSError:
            # ENXIO: no data any more.
            return
        yield start, end


def _update(source: int, target: int, *, fresh: bool = False) -> None:
    """Make `target` what `source` is; into one that is not `fresh` only what differs is written."""
    size = os.fstat(source).st_size
    os.ftruncate(target, size)
    before = 0
    for start, end in extents(source):
        if not fresh:
            _punch(target, before, start)
        at = start
        while at < end:
            piece = os.pread(source, min(_PIECE, end - at), at)
            if not piece:
                break
            if fresh or os.pread(target, len(piece), at) != piece:
                os.pwrite(target, piece, at)
            at += len(piece)
        before = end
    if not fresh:
        _punch(target, before, size)


def _punch(target: int, start: int, end: int) -> None:
    """What became a hole in the source reads as zeros in the copy, too."""
    for data_start, data_end in list(extents(target)):
        first, last = max(start, data_start), min(end, data_end)
        if first < last:
            os.pwrite(target, bytes(last - first), first)


def _attributes(found: os.stat_result) -> _Attributes:
    return stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid


def _set(path: Path, attributes: _Attributes) -> None:
    mode, uid, gid = attributes
    os.chown(path, uid, gid)
    os.chmod(path, mode)


def _close(kept: _Kept) -> None:
    os.close(kept.source)
    if kept.copy >= 0:
        os.close(kept.copy)


_GRAIN: Final = 4096
_EMPTY: Final = hashlib.sha256(b"0").hexdigest()
