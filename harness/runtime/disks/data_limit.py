"""The limit of a data directory that is a file system of its own (tmpfs, in the lab), changed while servers use it.

A limit at what is used now makes the disk full with nothing written to it: no filler file can stay behind, and it
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
    """Whether it is a file system of its own here, whose limit can be changed."""
    return data.is_dir() and os.path.ismount(data)


def byte_counts(data: Path) -> tuple[int, int]:
    """(used, limit)"""
    found = os.statvfs(data)
    return (found.f_blocks - found.f_bfree) * found.f_frsize, found.f_blocks * found.f_frsize


def set_limit(data: Path, byte_count: int) -> None:
    """Raises OSError, for one where more than that is used already."""
    flags = _MS_REMOUNT | namespaces.MS_NOSUID | namespaces.MS_NODEV
    namespaces.mount("tmpfs", str(data), "tmpfs", flags, f"size={byte_count}")


def fill(data: Path) -> None:
    """Set the limit to what is used; what is written meanwhile makes a second try necessary."""
    for attempts_left in reversed(range(5)):
        used, _ = byte_counts(data)
        try:
            # 0 would mean no limit.
            return set_limit(data, max(used, os.sysconf("SC_PAGE_SIZE")))
        except OSError as error:
            if error.errno != errno.EINVAL or not attempts_left:
                raise


def refuses_writes(data: Path) -> bool:
    """Try to write 64 KiB in a file of our own, which is removed: whether there was no space for it."""
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
