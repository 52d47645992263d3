"""The release that a Kafka server reports, in the line "Kafka version: ..." that it logs when it has started."""

import re
from typing import Final

from fencepost.harness.contract.releases import minor
from fencepost.harness.runtime.node import Node

#: A build without its properties says "unknown", which is no release.
_VERSION: Final = re.compile(r"Kafka version: (\d\S*)")


async def read(node: Node, log_from: int) -> str:
    """Read the newest version from that byte of the node's log on; raises ValueError when there is none yet."""
    with node.log.open("rb") as file:
        file.seek(log_from)
        versions = _VERSION.findall(file.read().decode(errors="replace"))
    if not versions:
        raise ValueError("its log does not report its version")
    return str(versions[-1])


def is_older(to: str, start: str) -> bool:
    """Whether `to` is an older minor release than `start`; False where one of them has no number."""
    old, new = minor(start), minor(to)
    return old is not None and new is not None and new < old
