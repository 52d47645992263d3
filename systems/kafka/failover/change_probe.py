"""A probe that asks for metadata changes all the time, while servers of any role come and go.

*A change* is CreateTopics with a new name. One node is asked ten times a second while it accepts. After a refusal, or
when an answer is late, every node is asked every 20 ms until one accepts; that one is asked from then on. So the probe
creates some ten topics a second, and sees a controller that acts again within some 20 ms.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.systems.kafka.failover.probes import Address, Line
from fencepost.systems.kafka.wire.errors import ServerDoubt, ServerRefusal

#: Pause after an acceptance; an answer that takes longer is late.
EVERY_S: Final = 0.1
_AGAIN_S: Final = 0.02
_PATIENCE_S: Final = 10.0
_REPLICAS: Final = 2

_Refused = (Definite, Indefinite, TimeoutError, OSError)


class ChangeProbe:
    """When changes were accepted, by `time.monotonic`. `nodes` tells whom to ask; it may change at any time."""

    def __init__(self, nodes: Callable[[], Mapping[str, Address]], names: str) -> None:
        self._nodes = nodes
        self._names = names
        self._count = 0
        self._preferred: str | None = None
        self._lines: dict[str, Line] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        #: Since when the preferred node has been asked.
        self._asked_at = 0.0
        self.accepted: list[float] = []
        self.refusals: Counter[str] = Counter()
        #: Topics that were created, or may have been.
        self.made: set[str] = set()

    async def run(self) -> None:
        """Ask until cancelled."""
        try:
            while True:
                self._ask_due(time.monotonic())
                await asyncio.sleep(_AGAIN_S)
        finally:
            for task in self._asking.values():
                task.cancel()
            await asyncio.gather(*self._asking.values(), return_exceptions=True)
            for line in self._lines.values():
                line.close()

    def _ask_due(self, now: float) -> None:
        nodes = self._nodes()
        free = [name for name in nodes if name not in self._asking]
        if self._preferred in nodes and self.accepted and now - self.accepted[-1] < EVERY_S:
            return
        if self._preferred in free:
            self._ask(self._preferred, nodes[self._preferred], now)
        elif self._preferred not in nodes or now - self._asked_at > EVERY_S:
            self._preferred = None
            for name in free:
                self._ask(name, nodes[name], now)

    def _ask(self, name: str, address: Address, now: float) -> None:
        self._asked_at = now
        self._count += 1
        self._asking[name] = asyncio.create_task(self._change(name, address, f"{self._names}-{self._count}"))

    async def _change(self, node: str, address: Address, topic: str) -> None:
        line = self._lines.setdefault(node, Line(address))
        self.made.add(topic)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await (await line.node()).create_topic(
                    topic, replication=_REPLICAS, timeout_ms=round(_PATIENCE_S * 1000)
                )
        except _Refused as error:
            self.refusals[error.code if isinstance(error, Definite | Indefinite) else type(error).__name__] += 1
            if isinstance(error, Definite):
                self.made.discard(topic)
            if not isinstance(error, ServerRefusal | ServerDoubt):
                line.close()
            if self._preferred == node:
                self._preferred = None
        else:
            self.accepted.append(time.monotonic())
            self._preferred = node
        finally:
            del self._asking[node]


def longest_gap_s(accepted: list[float], from_s: float, to_s: float) -> float | None:
    """The longest time between two acceptances, of which at least a part lies in the interval; None: none frames it.

    The interval begins at the last acceptance before it, and ends at the first one after it.
    """
    before = [at for at in accepted if at <= from_s]
    after = [at for at in accepted if at >= to_s]
    if not before or not after:
        return None
    within = [before[-1], *(at for at in accepted if from_s < at < to_s), after[0]]
    return max(later - earlier for earlier, later in pairwise(within))
