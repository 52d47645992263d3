"""Changes the size limit of a data directory that is a file system of its own (tmpfs in the lab), while it is used.

Lowering the limit to what is used makes the disk full without writing to it: no filler file can stay behind, and it
costs no memory.
"""

import errno
import os
from pathlib import Path
from typing import Final

from fencepost.harness.runtime.linux import namespaces

_MS_REMOUNT: Final = 32
_PROBE_BYTES: Final = 1 << 16


def is_limited(data: Path) -> bool:
    """Whether the directory is a file system of its own, whose limit can be changed."""
    return data.is_dir() and os.path.ismount(data)


def byte_counts(data: Path) -> tuple[int, int]:
    """Return the bytes used and the limit in bytes."""
    blocks = os.statvfs(data)
    return (blocks.f_blocks - blocks.f_bfree) * blocks.f_frsize, blocks.f_blocks * blocks.f_frsize


def set_limit(data: Path, byte_count: int) -> None:
    """Set the limit; raise OSError when more than that is used already."""
    flags = _MS_REMOUNT | namespaces.MS_NOSUID | namespaces.MS_NODEV
    namespaces.mount("tmpfs", str(data), "tmpfs", flags, f"size={byte_count}")


def fill(data: Path) -> None:
    """Set the limit to what is used; try again when the server writes meanwhile."""
    for attempts_left in reversed(range(5)):
        used, _ = byte_counts(data)
        try:
            # 0 would mean no limit.
            return set_limit(data, max(used, os.sysconf("SC_PAGE_SIZE")))
        except OSError as error:
            if error.errno != errno.EINVAL or not attempts_left:
                raise


def refuses_writes(data: Path) -> bool:
    """Try to write 64 KiB to a file that is removed afterwards; return whether there was no space for it."""
    probe = data / ".fencepost-full"
    try:
        with probe.open("wb", buffering=0) as file:
            return file.write(bytes(_PROBE_BYTES)) < _PROBE_BYTES
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return True
    finally:
        probe.unlink(missing_ok=True)
