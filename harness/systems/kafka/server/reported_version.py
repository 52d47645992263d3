"""What release a Kafka server is, by its own word: the line "Kafka version: ..." that it writes when it has started."""

import re
from pathlib import Path
from typing import Final

from fencepost.harness.systems.contract.reported_version import minor

#: A build without its properties says "unknown", which is no release.
_SAID: Final = re.compile(r"Kafka version: (\d\S*)")


def read(log: Path, log_from: int) -> str:
    """The newest from that byte of the log on; raises ValueError when there is none yet."""
    with log.open("rb") as file:
        file.seek(log_from)
        said = _SAID.findall(file.read().decode(errors="replace"))
    if not said:
        raise ValueError("its log does not tell its version")
    return str(said[-1])


def is_older(to: str, start: str) -> bool:
    """By an older minor release; nothing is older than what has no number."""
    old, new = minor(start), minor(to)
    return old is not None and new is not None and new < old
