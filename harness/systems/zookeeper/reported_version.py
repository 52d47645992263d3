"""What release a ZooKeeper server is, by its own word: the first line of `srvr`."""

import re
from typing import Final

from fencepost.harness.systems.zookeeper.question import SOURCE, four_letter_word

_VERSION: Final = re.compile(
    r"^Zookeeper version: (\d+\.\d+\.\d+(?:-[A-Za-z][\w.]*)*?)(?:--?(?:[0-9a-f]{40}|1))?,", re.MULTILINE
)


async def ask(address: str, port: int) -> str:
    """The release that the server says it is; raises ValueError when it does not say one."""
    return read_version(await four_letter_word(address, port, SOURCE.encode()))


def read_version(text: str) -> str:
    """Of "Zookeeper version: 3.9.5-<commit>, built on ...": without what names the build."""
    found = _VERSION.search(text)
    if found is None:
        raise ValueError(f"srvr does not tell a version: {text[:200]!r}")
    return found.group(1)
