"""The release that a Kafka server reports, in the line "Kafka version: ..." that it logs when it has started."""

import re
from pathlib import Path
from typing import Final

from fencepost.harness.contract.reported_version import minor

#: A build without its properties says "unknown", which is no release.
_VERSION: Final = re.compile(r"Kafka version: (\d\S*)")


def read(log: Path, log_from: int) -> str:
    """Read the newest version from that byte of the log on; raises ValueError when there is none yet."""
    with log.open("rb") as file:
        file.seek(log_from)
        versions = _VERSION.findall(file.read().decode(errors="replace"))
    if not versions:
        raise ValueError("its log does not report its version")
    return str(versions[-1])


def is_older(to: str, start: str) -> bool:
    """Whether `to` is an older minor release than `start`; False where one of them has no number."""
    old, new = minor(start), minor(to)
    return old is not None and new is not None and new < old
