"""Probes for tests that say exactly which links are shut, on a machine however busy."""

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from fencepost.harness.runtime.network import Link, Reach

#: Of a probe that something must become of; it ends as soon as that is known.
HEARD_S: Final = 10.0
#: The same, for tests of the waking itself: who is not woken when something is known meets the deadline of the test.
FOREVER_S: Final = 600.0
#: Of a probe that nothing must become of.
_SILENT_S: Final = 0.15


class _Probed(Protocol):
    async def probe(self, links: Iterable[Link], timeout_s: float) -> dict[Link, Reach]: ...


async def probe_exactly(network: _Probed, wanted: Mapping[Link, Reach], heard_s: float = HEARD_S) -> dict[Link, Reach]:
    """What becomes of a probe over each link.

    Those of which something ought to be heard are asked apart, and patiently: however long a datagram takes because
    somebody has to wait for the processor, only a link that swallows it is found "dropped".
    """
    loud = [link for link, reach in wanted.items() if reach is not Reach.DROPPED]
    silent = [link for link, reach in wanted.items() if reach is Reach.DROPPED]
    found = await network.probe(loud, heard_s) if loud else {}
    return found | await network.probe(silent, _SILENT_S) if silent else found
