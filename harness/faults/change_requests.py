"""Requests for one change, sent to one node after the other, and what became of each."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from fencepost.harness.coordination import Definite, Indefinite


class ChangeRequests:
    """The requests of one act. An answer is no proof: whoever asks looks at the result."""

    def __init__(self) -> None:
        self._attempts: list[str] = []
        self._turn = 0

    @property
    def summary(self) -> str:
        """Every request with its result, in order; equal ones once, with their number."""
        counted = Counter(self._attempts)
        parts = (attempt if count == 1 else f"{attempt} x {count}" for attempt, count in counted.items())
        return ", ".join(parts) or "no node was asked"

    def next_of(self, candidates: Sequence[str]) -> str | None:
        """The candidate whose turn it is; None without any."""
        if not candidates:
            return None
        self._turn += 1
        return candidates[(self._turn - 1) % len(candidates)]

    async def ask(self, candidates: Sequence[str], change: Callable[[str], Awaitable[None]]) -> bool:
        """Send the change to the candidate whose turn it is; return whether it certainly refused."""
        through = self.next_of(candidates)
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
