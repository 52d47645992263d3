"""Servers that are ended and started again in turn, each once the cluster is whole; healing may turn them back.

Each turn is recorded as a part of the fault. Its injection is proven by the process being gone, its healing by a new
process that serves. A course ends by itself when the turn under way is over: each of its waits has a time limit.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable

from fencepost.harness.faults.kind import Act, Proof, Resolved
from fencepost.harness.faults.restarts import started_again
from fencepost.harness.history import FaultOutcome
from fencepost.harness.runtime.node import NodeState
from fencepost.nemesis.upgrade.restart import Restart


class Stuck(Exception):
    """The course does not go on; the message says why."""


class Course(ABC):
    """One course under way; what it came to is its `summary`."""

    def __init__(self, act: Act) -> None:
        self.act, self.cluster = act, act.cluster
        #: Set when its time is over: then no further turn begins.
        self.over = asyncio.Event()
        self.failures: list[str] = []
        self._is_healed = False
        self._begun: asyncio.Future[Proof] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None]

    @abstractmethod
    async def go(self) -> None:
        """Take the turns until the time is over. Raises Stuck."""

    @abstractmethod
    async def go_back(self) -> None:
        """Turn back what was turned. Raises Stuck."""

    @property
    @abstractmethod
    def summary(self) -> str: ...

    async def begin(self) -> Proof:
        """Start, and return the proof of the first turn."""
        self.act.keep(self)
        self._task = asyncio.create_task(self._run())
        self.act.undo(self._end)
        return await asyncio.shield(self._begun)

    async def turn(self, restart: Restart) -> None:
        """End one server and start it again as a part of the fault. Raises Stuck."""

        async def inject(_: Act) -> Proof:
            proof = await restart.end()
            self._tell(proof)
            return proof

        name = restart.node.name
        part = Resolved(nodes=(name,), details=restart.details)
        proof = await self.act.part(part, inject=inject, heal=lambda _: restart.begin())
        if proof.outcome is not FaultOutcome.INSTALLED:
            raise Stuck(f"{name}: {proof.text}")

    def down(self, *, but: str = "") -> str | None:
        """Say which nodes of the cluster do not serve; None when all do."""
        view, nodes = self.cluster.view(), self.cluster.runtime.nodes
        names = [n for n in view.nodes if n in view.unready or nodes[n].state is not NodeState.RUNNING]
        return f"{', '.join(others)} did not serve" if (others := [n for n in names if n != but]) else None

    async def heal(self, *, back: bool) -> Proof:
        """Turn back, once or again after a healing that was not proven, and prove that the nodes run."""
        if back and not self._is_healed:
            await self._try(self.go_back())
        running = await all_run(self.act)
        self._is_healed = running.outcome is FaultOutcome.HEALED
        return Proof(running.outcome, f"{self.summary}; {running.text}")

    async def _run(self) -> None:
        await self._try(self.go())
        text = "; ".join(self.failures) or "its time was over before the first turn"
        self._tell(Proof(FaultOutcome.INDETERMINATE, text))

    async def _end(self) -> None:
        self.over.set()
        await asyncio.shield(self._task)

    async def _try(self, going: Awaitable[None]) -> None:
        try:
            await going
        except Stuck as error:
            self.failures.append(str(error))
        except Exception as error:
            self.failures.append(": ".join(filter(None, [type(error).__name__, str(error)])))

    def _tell(self, proof: Proof) -> None:
        if not self._begun.done():
            self._begun.set_result(proof)


async def all_run(act: Act) -> Proof:
    """Start the fault's nodes that are down, or all of the cluster if it names none; prove that all run."""
    names = act.resolved.nodes or act.cluster.view().nodes
    nodes = [act.cluster.runtime.nodes[name] for name in names]
    down = [f"{node.name} was down and was started" for node in nodes if node.state in (NodeState.DEAD, NodeState.NEW)]
    proof = await started_again(nodes)
    return Proof(proof.outcome, "; ".join([*down, proof.text]))
