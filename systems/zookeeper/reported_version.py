"""The release that a ZooKeeper server reports, in the first line of `srvr`."""

import re
from typing import Final

from fencepost.systems.zookeeper.question import SOURCE, four_letter_word

_VERSION: Final = re.compile(
    r"^Zookeeper version: (\d+\.\d+\.\d+(?:-[A-Za-z][\w.]*)*?)(?:--?(?:[0-9a-f]{40}|1))?,", re.MULTILINE
)


async def ask(address: str, port: int) -> str:
    """Ask the server for its release; raises ValueError when the answer has none."""
    return read_version(await four_letter_word(address, port, SOURCE.encode()))


def read_version(text: str) -> str:
    """Read the release from "Zookeeper version: 3.9.5-<commit>, built on ...", without the build's commit."""
    match = _VERSION.search(text)
    if match is None:
        raise ValueError(f"srvr reports no version: {text[:200]!r}")
    return match.group(1)
