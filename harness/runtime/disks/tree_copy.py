"""Copies the files below one folder, each as of the moment when it was last taken, and puts them back.

Contents are kept in memory (memfd), so that no copy can stay behind, and without holes: servers preallocate log files
of 64 MiB and fill them slowly. Taking a file again writes only what differs. A file is identified by device and inode,
so it keeps its copy when it is renamed. It is held open, so that no other file gets its inode meanwhile.
"""

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Set
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
    """The copies; for one thread at a time. Symbolic links and special files are ignored: servers' data has none."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._kept: dict[_Key, _Kept] = {}
        self._names = _Names()

    def take_all(self) -> None:
        """Take the names and the contents of all files as they are now."""
        self.take_names()
        for path in list(self._names.files):
            self.take(self._root / path)

    def take_names(self) -> None:
        """Take the names of all files and folders as they are now."""
        names = _Names()
        for folder, _, files in os.walk(self._root):
            with suppress(FileNotFoundError):
                names.folders[os.path.relpath(folder, self._root)] = _attributes(os.stat(folder))
            for name in files:
                path = os.path.join(folder, name)
                entry = self._hold(path)
                if entry is not None:
                    names.files[os.path.relpath(path, self._root)] = entry
        self._names = names
        self._drop_the_gone()

    def take(self, path: Path) -> bool:
        """Take the content of one file as it is now; return False when there is no file of this name."""
        entry = self._hold(path)
        if entry is None:
            return False
        self._take(entry[0])
        return True

    def take_renamed(self, paths: Set[Path]) -> None:
        """Take the content of files that had these names a moment ago and have others by now, or none.

        Those are the files that had these names in the last listing, and those that were given their names since then.
        Taking one file too many does no harm.
        """
        before = self._names.files
        meant = {before[name][0] for path in paths if (name := os.path.relpath(path, self._root)) in before}
        self.take_names()
        moved = {key for name, (key, _) in self._names.files.items() if name not in before or before[name][0] != key}
        for key in (meant | moved) & self._kept.keys():
            self._take(key)

    def _take(self, key: _Key) -> None:
        kept = self._kept[key]
        if kept.copy < 0:
            kept.copy = os.memfd_create("copy")
        _update(kept.source, kept.copy)

    def put_back(self) -> None:
        """Restore the folder from the copies. A file whose name was taken but whose content was not becomes empty."""
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
        """Return the SHA-256 of each file's copy, by relative path."""
        return {
            path: content_hash(self._kept[key].copy) if self._kept[key].copy >= 0 else _EMPTY
            for path, (key, _) in self._names.files.items()
        }

    def close(self) -> None:
        """Release all copies. Idempotent."""
        for kept in self._kept.values():
            _close(kept)
        self._kept = {}

    def _hold(self, path: "str | Path") -> tuple[_Key, _Attributes] | None:
        try:
            source = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        status = os.fstat(source)
        key = (status.st_dev, status.st_ino)
        if not stat.S_ISREG(status.st_mode) or key in self._kept:
            os.close(source)
        else:
            self._kept[key] = _Kept(source)
        return (key, _attributes(status)) if stat.S_ISREG(status.st_mode) else None

    def _drop_the_gone(self) -> None:
        """Drop the copies of deleted files: they are lost now, and after a loss of power too."""
        named = {key for key, _ in self._names.files.values()}
        for key in [key for key in self._kept if key not in named]:
            if os.fstat(self._kept[key].source).st_nlink == 0:
                _close(self._kept.pop(key))


def tree_hashes(root: Path) -> dict[str, str]:
    """Return the SHA-256 of each regular file below `root`, by relative path."""
    hashes = {}
    for folder, _, files in os.walk(root):
        for name in files:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                hashes[os.path.relpath(path, root)] = content_hash(file.fileno())
    return hashes


def content_hash(fd: int) -> str:
    """Return a SHA-256 of size and data; holes are not read, and count as zeros."""
    size = os.fstat(fd).st_size
    digest = hashlib.sha256(str(size).encode())
    for start, end in extents(fd):
        at = start
        while at < end:
            piece = os.pread(fd, min(_PIECE, end - at), at)
            if not piece:
                break
            # File systems differ in where data ends and a hole begins; zeros do not count in either case.
            for offset in range(0, len(piece), _GRAIN):
                grain = piece[offset : offset + _GRAIN]
                if grain.strip(b"\0"):
                    digest.update(f"{at + offset}:".encode() + grain.rstrip(b"\0"))
            at += len(piece)
    return digest.hexdigest()


def extents(fd: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each stretch of data; holes lie between them."""
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
    """Make the content of `target` equal to `source`; unless it is `fresh`, write only what differs."""
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
    """Zero in the copy what became a hole in the source."""
    for data_start, data_end in list(extents(target)):
        first, last = max(start, data_start), min(end, data_end)
        if first < last:
            os.pwrite(target, bytes(last - first), first)


def _attributes(status: os.stat_result) -> _Attributes:
    return stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid


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
