"""Requests for one change, sent to one node after the other, and looks at the nodes until the change is seen.

An answer is no proof, and a missing one does not prove that nothing happened: whoever asks looks at the result. Every
request is kept with its answer, refusals and missing answers included, so that a proof can say that a change took three
attempts.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeVar

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.faults.kind import Cluster
from fencepost.harness.runtime.node import NodeState

T = TypeVar("T")
#: Sends the request to the node of this name. Raises Definite or Indefinite.
Change = Callable[[str], Awaitable[None]]

#: How long one request, and one look, may take.
ASK_S: Final = 2.5
LOOK_S: Final = 1.0
_POLL_S: Final = 0.05
#: How long the nodes are watched for a change before it is requested again.
_SEEN_S: Final = 3.0
#: The same after a refusal: its reason (a member that was just away) takes a while to pass.
_REFUSED_S: Final = 0.3


class ChangeRequests:
    """The requests of one act."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._attempts: list[str] = []
        self._turn = 0

    @property
    def summary(self) -> str:
        """Every request for a change with its result, in order; equal ones once, with their number."""
        counted = Counter(self._attempts)
        parts = (attempt if count == 1 else f"{attempt} x {count}" for attempt, count in counted.items())
        return ", ".join(parts) or "no node was asked"

    def up(self, names: Iterable[str]) -> list[str]:
        """Those of the nodes that run."""
        return [name for name in names if self.cluster.runtime.nodes[name].state is NodeState.RUNNING]

    def candidates(self) -> Sequence[str]:
        """The nodes to ask: the leader first."""
        leader = self.cluster.view().leader
        return sorted(self.up(self.cluster.runtime.nodes), key=lambda name: name != leader)

    def next_candidate(self) -> str | None:
        """The candidate whose turn it is; None without any."""
        candidates = self.candidates()
        if not candidates:
            return None
        self._turn += 1
        return candidates[(self._turn - 1) % len(candidates)]

    async def answers(
        self, names: Iterable[str], question: Callable[[str], Awaitable[T]]
    ) -> tuple[dict[str, T], dict[str, str]]:
        """Put a question to these nodes; return the answers, and why the others gave none."""
        running = self.up(names := list(names))
        given = dict(zip(running, await asyncio.gather(*(_answer(question(name)) for name in running)), strict=True))
        silent = {name: str(answer) for name, answer in given.items() if isinstance(answer, _NONE)}
        silent |= {name: "it does not run" for name in names if name not in running}
        return {name: answer for name, answer in given.items() if not isinstance(answer, _NONE)}, silent

    async def ask(self, change: Change) -> bool:
        """Send the change to the candidate whose turn it is; return whether it certainly refused."""
        through = self.next_candidate()
        if through is None:
            self._attempts.append("no node runs that could be asked")
            return True
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            await change(through)
        except Definite as error:
            self._attempts.append(f"{through} refused ({error})")
            return True
        except Indefinite as error:
            self._attempts.append(f"{through} did not say whether it did it ({error})")
            return False
        self._attempts.append(f"{through} did it in {(loop.time() - began_s) * 1e3:.0f} ms")
        return False

    async def ask_calmly(self, change: Change) -> None:
        """Send one request; wait a moment after a refusal."""
        if await self.ask(change):
            await asyncio.sleep(_REFUSED_S)

    async def until(
        self,
        look: Callable[[], Awaitable[T]],
        lacks: Callable[[T], str | None],
        timeout_s: float,
        *,
        change: Change | None = None,
        enough: Callable[[], Awaitable[bool]] | None = None,
        seen_s: float | None = None,
    ) -> tuple[T, str | None]:
        """Request the change until a look lacks nothing.

        Args:
            change: without it, nothing is requested.
            seen_s: how long the nodes are watched before the change is requested again.
            enough: asked before the change is requested again: whether there is no point in that.

        Returns:
            The last look, and what it lacks.
        """
        loop = asyncio.get_running_loop()
        ask_s, requests = loop.time(), 0
        deadline_s = ask_s + timeout_s
        while True:
            seen = await look()
            missing = lacks(seen)
            if missing is None or loop.time() >= deadline_s:
                return seen, missing
            if change is not None and loop.time() >= ask_s:
                if requests and enough is not None and await enough():
                    return seen, missing
                requests += 1
                ask_s = loop.time() + (_REFUSED_S if await self.ask(change) else seen_s or _SEEN_S)
            await asyncio.sleep(_POLL_S)


_NONE: Final = (Definite, Indefinite)


async def _answer(question: Awaitable[T]) -> T | Definite | Indefinite:
    try:
        return await question
    except (Definite, Indefinite) as error:
        return error
