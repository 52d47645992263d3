"""Rounds: what a fault repeats between its injection and its healing, in a task of its own."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from fencepost.harness.faults.kind import Act, NotUndone, Proof
from fencepost.harness.history import FaultOutcome

#: Time limits of the first proof and of each step of the end; the conductor gives each act ten seconds.
_BEGIN_DEADLINE_S: Final = 8.0
_END_DEADLINE_S: Final = 4.5
#: The pause after a round that found nothing to act on.
PATIENCE_S: Final = 0.1

#: Plays one round, given its number.
Play = Callable[[int, "FaultRounds"], Awaitable[None]]


class FaultRounds:
    """Plays rounds 0, 1, ... until they are undone. A round gives its proof to `proven` once it has it, and goes on.

    `what` is what a round does, in one word.
    """

    def __init__(self, play: Play, what: str) -> None:
        self._play, self._what = play, what
        self._task: asyncio.Task[None] | None = None
        self._first: asyncio.Future[Proof] | None = None
        self._outcomes: list[FaultOutcome] = []
        #: Acts whose proof is under way, and whether there are none: a round may act on several nodes at once.
        self._acts = 0
        self._calm = asyncio.Event()
        self._calm.set()
        self._failure: str | None = None

    async def begin(self, act: Act) -> Proof:
        """Start, and return the first proof of a round."""
        act.undo(self._end)
        self._first = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run())
        try:
            async with asyncio.timeout(_BEGIN_DEADLINE_S):
                return await asyncio.shield(self._first)
        except TimeoutError:
            outcome = FaultOutcome.INDETERMINATE if self._acts else FaultOutcome.SKIPPED
            return Proof(outcome, f"nothing could be done for {_BEGIN_DEADLINE_S:g} s")

    async def proven(self, proof: Awaitable[Proof]) -> Proof:
        """Note the proof of one act; a SKIPPED one does not count as the first."""
        self._acts += 1
        self._calm.clear()
        try:
            measured = await proof
        finally:
            self._acts -= 1
            if not self._acts:
                self._calm.set()
        self._outcomes.append(measured.outcome)
        if measured.outcome is not FaultOutcome.SKIPPED:
            self._tell(measured)
        return measured

    @property
    def count(self) -> int:
        """How many acts have given their proof."""
        return len(self._outcomes)

    async def _end(self) -> str:
        """Stop: the act under way is proven first, and then undone. Return "9 cuts, 8 of them proven"."""
        if self._task is None:
            return "nothing was done"
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._calm.wait(), _END_DEADLINE_S)
        self._task.cancel()
        _, late = await asyncio.wait([self._task], timeout=_END_DEADLINE_S)
        summary = f"{len(self._outcomes)} {self._what}s, {self._outcomes.count(FaultOutcome.INSTALLED)} of them proven"
        failure, self._failure = "a round did not end" if late else self._failure, None
        if failure:
            raise NotUndone(f"{failure}; {summary}")
        return summary

    async def _run(self) -> None:
        number = 0
        try:
            while True:
                await self._play(number, self)
                number += 1
        except Exception as error:
            self._failure = f"{type(error).__name__}: {error}"
            self._tell(Proof(FaultOutcome.INDETERMINATE, self._failure))

    def _tell(self, proof: Proof) -> None:
        assert self._first is not None
        if not self._first.done():
            self._first.set_result(proof)
