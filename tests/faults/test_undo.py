"""What the healing of a fault does with the steps that are left to undo."""

import asyncio
import functools
from typing import cast

import pytest

from fencepost.harness.faults.kind import Act, Cluster, NotUndone, Proof, Resolved
from fencepost.harness.history import FaultOutcome


class Steps:
    """Steps of one act; those in `failing` fail, those in `hanging` do not return."""

    def __init__(self, *names: str) -> None:
        self.act = Act(fault_id=1, resolved=Resolved(nodes=()), cluster=cast(Cluster, None))
        self.taken: list[str] = []
        self.failing: set[str] = set()
        self.hanging: set[str] = set()
        for name in names:
            self.act.undo(functools.partial(self._undo, name))

    async def _undo(self, name: str) -> str:
        self.taken.append(name)
        if name in self.hanging:
            await asyncio.Event().wait()
        if name in self.failing:
            raise NotUndone(f"{name} is stuck")
        return f"{name} is undone"

    async def _heal(self, act: Act) -> Proof:
        self.taken.append("heal")
        return Proof(FaultOutcome.HEALED, "healed")

    async def healed(self) -> Proof:
        self.taken.clear()
        return await self.act.healed(self._heal)


def test_the_last_step_is_undone_first_and_none_twice() -> None:
    async def scene() -> None:
        steps = Steps("a", "b")
        proof = await steps.healed()
        assert (steps.taken, proof.outcome) == (["b", "a", "heal"], FaultOutcome.HEALED)
        assert proof.text == "a is undone; b is undone; healed"
        again = await steps.healed()
        assert (steps.taken, again) == (["heal"], proof)

    asyncio.run(scene())


def test_a_step_that_fails_doubts_the_healing_and_is_tried_again_alone() -> None:
    async def scene() -> None:
        steps = Steps("a", "b", "c")
        steps.failing = {"b"}
        proof = await steps.healed()
        assert (steps.taken, proof.outcome) == (["c", "b", "a", "heal"], FaultOutcome.INDETERMINATE)
        assert proof.text.startswith("b is stuck (")
        steps.failing.clear()
        proof = await steps.healed()
        assert (steps.taken, proof.outcome) == (["b", "heal"], FaultOutcome.HEALED)

    asyncio.run(scene())


def test_a_step_that_takes_all_the_time_keeps_no_other_waiting_for_long() -> None:
    async def scene() -> None:
        steps = Steps("a", "b", "c")
        steps.hanging = {"c"}
        for taken in (["c"], ["b", "a", "c"]):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await steps.healed()
            assert steps.taken == taken
        steps.hanging.clear()
        proof = await steps.healed()
        assert (steps.taken, proof.outcome) == (["c", "heal"], FaultOutcome.HEALED)

    asyncio.run(scene())
