"""The files of a build context, named before anything is copied.

A context is a list of parts; each says where it goes and where its bytes come from. The archive for an engine is
written directly from the sources. Owner and group are always root; modes and times are those of the sources, because a
Java runtime compares the times of its own files with its class archive.
"""

import io
import os
import shutil
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One entry of a context: a file (`source` or `content`), a symbolic `link`, or a folder (none of them)."""

    target: str
    source: Path | None = None
    content: bytes | None = None
    link: str | None = None
    mode: int = 0o755


def file(target: str, source: Path) -> Part:
    """Make the part of a file with its own mode, but readable by all, since a server may run as another user."""
    return Part(target=target, source=source, mode=stat.S_IMODE(source.stat().st_mode) | 0o444)


def text(target: str, content: str) -> Part:
    return Part(target=target, content=content.encode(), mode=0o644)


def tree(target: str, folder: Path, *, without: Callable[[str], bool] = lambda _: False) -> Iterator[Part]:
    """Yield everything below `folder`, symbolic links unchanged, except relative paths for which `without` holds."""
    for where, folders, names in os.walk(folder):
        here = PurePosixPath(where).relative_to(PurePosixPath(folder))
        kept = []
        for name in sorted(folders):
            path = str(here / name)
            if without(path):
                continue
            if (Path(where) / name).is_symlink():
                yield Part(target=f"{target}/{path}", link=os.readlink(Path(where) / name))
            else:
                kept.append(name)
                yield Part(target=f"{target}/{path}")
        folders[:] = kept
        for name in sorted(names):
            path, source = str(here / name), Path(where) / name
            if without(path):
                continue
            if source.is_symlink():
                yield Part(target=f"{target}/{path}", link=os.readlink(source))
            elif source.is_file():
                yield file(f"{target}/{path}", source)


def complete(parts: Iterable[Part]) -> list[Part]:
    """Sort the parts by path and add every folder above them; of two parts with one path the last one counts."""
    by_target = {str(PurePosixPath(part.target)): part for part in parts}
    for target in list(by_target):
        for above in list(PurePosixPath(target).parents)[:-1]:
            by_target.setdefault(str(above), Part(target=str(above)))
    return [by_target[target] for target in sorted(by_target)]


def write_archive(parts: Iterable[Part], into: IO[bytes]) -> None:
    """Write the context as an uncompressed tar archive."""
    with tarfile.open(fileobj=into, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for part in complete(parts):
            entry = tarfile.TarInfo(part.target)
            entry.mode = part.mode
            if part.source is not None:
                status = part.source.stat()
                entry.size, entry.mtime = status.st_size, int(status.st_mtime)
                with part.source.open("rb") as source:
                    archive.addfile(entry, source)
            elif part.content is not None:
                entry.size = len(part.content)
                archive.addfile(entry, io.BytesIO(part.content))
            else:
                entry.type = tarfile.DIRTYPE if part.link is None else tarfile.SYMTYPE
                entry.linkname = part.link or ""
                archive.addfile(entry)


def write_folder(parts: Iterable[Part], into: Path) -> None:
    """Write the context as a folder, for a person who builds by hand; `into` must be empty."""
    into.mkdir(parents=True, exist_ok=True)
    for part in complete(parts):
        path = into / part.target
        if part.source is not None:
            shutil.copyfile(part.source, path)
            path.chmod(part.mode)
            status = part.source.stat()
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        elif part.content is not None:
            path.write_bytes(part.content)
            path.chmod(part.mode)
        elif part.link is not None:
            path.symlink_to(part.link)
        else:
            path.mkdir()
            path.chmod(part.mode)
