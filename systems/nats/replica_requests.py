"""Requests to the nodes of a cluster about the replicas of its data: who has one, more of them, one elsewhere.

Every request for a change is kept with its answer, refusals and missing answers included, for the proof.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.faults.change_requests import ChangeRequests
from fencepost.harness.faults.kind import Cluster, Proof
from fencepost.harness.history import FaultOutcome
from fencepost.harness.runtime.node import NodeState
from fencepost.systems.nats.placing import Replica, Replicas

_ASK_S: Final = 2.5
_LOOK_S: Final = 1.0
_POLL_S: Final = 0.05
#: How long the replicas are watched for a change before it is requested again.
_SEEN_S: Final = 4.0
#: The same after a refusal.
_REFUSED_S: Final = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Placements:
    """The replicas at one time, by the node that answered; `silent` says why other nodes did not."""

    held: Mapping[str, Mapping[str, Replica]]
    silent: Mapping[str, str] = field(default_factory=dict)

    @property
    def members(self) -> frozenset[str]:
        """Every node that has a replica of anything, by its own account or by that of a leader."""
        led = [replica.members for _, replica in self._led()]
        return frozenset(node for node, replicas in self.held.items() if replicas).union(*led)

    def missing(self, count: int, *, without: str = "") -> str | None:
        """Why not everything has `count` replicas, as the leaders and the holders say, none of them on `without`."""
        names = sorted({name for replicas in self.held.values() for name in replicas})
        if not names:
            return f"no node has a replica: {self}"
        for name in names:
            leaders = [replica for led, replica in self._led() if led == name]
            if len(leaders) != 1:
                return f"{len(leaders)} nodes say that they lead {name}: {self}"
            members = leaders[0].members
            holders = {node for node, replicas in self.held.items() if name in replicas}
            if len(members) != count or leaders[0].size != count or without in members:
                return str(self)
            if not members <= holders or holders - members:
                return str(self)
        return None

    def _led(self) -> list[tuple[str, Replica]]:
        return [(name, r) for replicas in self.held.values() for name, r in replicas.items() if r.leads]

    def __str__(self) -> str:
        parts: dict[str, list[str]] = {}
        for node, replicas in self.held.items():
            for name, replica in replicas.items():
                text = f"{name} on {', '.join(sorted(replica.members))} ({replica.size})"
                parts.setdefault(text, []).append(node)
        sentences = [f"{', '.join(nodes)} say{'' if nodes[1:] else 's'} {text}" for text, nodes in parts.items()]
        sentences += [f"{node} did not say ({why})" for node, why in self.silent.items()]
        return "; ".join(sentences) or "no node could be asked"


class ReplicaRequests:
    """The requests of one act."""

    def __init__(self, replicas: Replicas, cluster: Cluster) -> None:
        self._replicas, self._cluster = replicas, cluster
        self._requests = ChangeRequests()

    @property
    def summary(self) -> str:
        """Every request for a change with its result."""
        return self._requests.summary

    async def look(self) -> Placements:
        """Ask every running node which replicas it has."""
        nodes = self._cluster.runtime.nodes
        running = [name for name, node in nodes.items() if node.state is NodeState.RUNNING]
        answers = dict(zip(running, await asyncio.gather(*(self._held(name) for name in running)), strict=True))
        silent = {name: answer for name, answer in answers.items() if isinstance(answer, str)}
        silent |= {name: "it does not run" for name in nodes if name not in running}
        return Placements(
            held={name: answer for name, answer in answers.items() if not isinstance(answer, str)}, silent=silent
        )

    async def scale(self, count: int, through: str) -> None:
        await self._replicas.scale(count, through=through, timeout_s=_ASK_S)

    async def move_away(self, node: str, through: str) -> None:
        await self._replicas.move_away(node, through=through, timeout_s=_ASK_S)

    async def until(
        self, missing: Callable[[Placements], str | None], change: Callable[[str], Awaitable[None]], timeout_s: float
    ) -> Proof:
        """Request the change until nothing is missing; INSTALLED with what was seen, or INDETERMINATE."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        deadline_s, ask_s = began_s + timeout_s, began_s
        while True:
            look = await self.look()
            lacks = missing(look)
            if lacks is None:
                took = f"after {loop.time() - began_s:.1f} s: {look}"
                return Proof(FaultOutcome.INSTALLED, f"to change replicas: {self.summary}; {took}")
            if loop.time() >= deadline_s:
                text = f"not seen within {timeout_s:g} s: {lacks}; to change replicas: {self.summary}"
                return Proof(FaultOutcome.INDETERMINATE, text)
            if loop.time() >= ask_s:
                ask_s = loop.time() + (_REFUSED_S if await self._requests.ask(self._candidates(), change) else _SEEN_S)
            await asyncio.sleep(_POLL_S)

    async def until_current(self, count: int, deadline_s: float) -> str | None:
        """Wait until each replica has all data; return what is missing at the deadline of the loop's clock."""
        loop = asyncio.get_running_loop()
        while True:
            lacks = await self._lacks(count)
            if lacks is None or loop.time() >= deadline_s:
                return lacks
            await asyncio.sleep(_POLL_S)

    async def _lacks(self, count: int) -> str | None:
        through = self._requests.next_of(self._candidates())
        if through is None:
            return "no node runs"
        try:
            return await self._replicas.lacks(count, through=through, timeout_s=_ASK_S)
        except (Definite, Indefinite) as error:
            return f"{through} did not say whether replicas are current ({error})"

    def _candidates(self) -> list[str]:
        """The nodes to ask: the leader first."""
        leader = self._cluster.view().leader
        nodes = self._cluster.runtime.nodes
        running = (name for name, node in nodes.items() if node.state is NodeState.RUNNING)
        return sorted(running, key=lambda name: name != leader)

    async def _held(self, name: str) -> Mapping[str, Replica] | str:
        try:
            return await self._replicas.held(name, timeout_s=_LOOK_S)
        except (Definite, Indefinite) as error:
            return str(error)
