"""Requests to the nodes of a cluster about the replicas of its data: who has one, more of them, one elsewhere."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.faults.change_requests import ASK_S, LOOK_S, Change, ChangeRequests
from fencepost.harness.faults.kind import Cluster, Proof
from fencepost.harness.history import FaultOutcome
from fencepost.systems.nats.placing import Replicas, StreamReplica

#: How long the replicas are watched for a change before it is requested again.
_SEEN_S: Final = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Placements:
    """The replicas at one time, by the node that answered; `silent` says why other nodes did not."""

    held: Mapping[str, Mapping[str, StreamReplica]]
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

    def _led(self) -> list[tuple[str, StreamReplica]]:
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


class ReplicaRequests(ChangeRequests):
    """The requests of one act."""

    def __init__(self, replicas: Replicas, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._replicas = replicas

    async def look(self) -> Placements:
        """Ask every running node which replicas it has."""
        nodes = self.cluster.runtime.nodes
        held, silent = await self.answers(nodes, lambda at: self._replicas.held(at, timeout_s=LOOK_S))
        return Placements(held=held, silent=silent)

    async def scaled(self, count: int, timeout_s: float) -> Proof:
        """Request this number of replicas until it is seen; INSTALLED with what was seen, or INDETERMINATE."""
        return await self._changed(
            lambda look: look.missing(count),
            lambda at: self._replicas.scale(count, through=at, timeout_s=ASK_S),
            timeout_s,
        )

    async def moved_away(self, node: str, count: int, timeout_s: float) -> Proof:
        """The same for replicas of which none is on `node`."""
        return await self._changed(
            lambda look: look.missing(count, without=node),
            lambda at: self._replicas.move_away(node, through=at, timeout_s=ASK_S),
            timeout_s,
        )

    async def _changed(self, missing: Callable[[Placements], str | None], change: Change, timeout_s: float) -> Proof:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        look, lacks = await self.until(self.look, missing, timeout_s, change=change, seen_s=_SEEN_S)
        if lacks is None:
            took = f"after {loop.time() - began_s:.1f} s: {look}"
            return Proof(FaultOutcome.INSTALLED, f"to change replicas: {self.summary}; {took}")
        text = f"not seen within {timeout_s:g} s: {lacks}; to change replicas: {self.summary}"
        return Proof(FaultOutcome.INDETERMINATE, text)

    async def until_current(self, count: int, timeout_s: float) -> str | None:
        """Wait until each replica has all data; return what is missing in the end."""
        return (await self.until(partial(self._lacks, count), lambda lacks: lacks, timeout_s))[1]

    async def _lacks(self, count: int) -> str | None:
        through = self.next_candidate()
        if through is None:
            return "no node runs"
        try:
            return await self._replicas.lacks(count, through=through, timeout_s=ASK_S)
        except (Definite, Indefinite) as error:
            return f"{through} did not say whether replicas are current ({error})"
