"""Members of a NATS cluster: servers of the meta group that are removed and come back, and replicas of streams.

A server is known to the groups by its name. One that was removed is not taken back for five minutes under that name
(raft.go, peerRemoveTimeout), so a wiped server comes back under a new one, as `n3-1`. Nobody has to ask for it: the
leader of the meta group adds a server that it hears from, and then places a replica of each stream that lacks one.

Removing a server needs the system account. The meta group's leader answers, and takes its replicas away too; where no
other server is left for them, their streams have one replica fewer until the server is back. So a node counts as a
member for as long as any group of another server names it, and its data are not touched before.

A server that is removed disables its JetStream. The one that led the meta group may miss that: it stops that group as
soon as the removal is committed, perhaps before it has applied it. Then it goes on leading its streams, whose groups
name it until it ends (`docs/findings/nats-removed-leader.md`).

Source: nats-server 2.15 server/jetstream_api.go (jsLeaderServerRemoveRequest, jsStreamRemovePeerRequest),
server/jetstream_cluster.go (monitorCluster, processAddPeer, processRemovePeer), server/raft.go (trackPeer,
processAppendEntryResponse).
"""

import asyncio
from collections.abc import Collection, Mapping
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.runtime.node import Layout, NodeSpec
from fencepost.systems.nats.administration import ask, connected, groups, not_a_member, shortage
from fencepost.systems.nats.configuration import SYSTEM_USER, with_life
from fencepost.systems.nats.raftz import META_GROUP, RaftGroup

_POLL_S: Final = 0.05


class NatsMembership:
    """`harness.contract.members.Membership` and `NamesRemovedMembers`."""

    votes_last: Final = True
    only_leader_answers: Final = False
    ends_removed: Final = False

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def prepared(self, spec: NodeSpec) -> NodeSpec:
        """Return the spec unchanged: any cluster can change its members."""
        return spec

    async def voters(self, at: str, *, timeout_s: float) -> Mapping[str, str]:
        """Whoever any group of this server names, with its id in the groups."""
        return {name: peer for g in (await self._groups(at, timeout_s)).values() for name, peer in g.members.items()}

    async def is_removed(self, node: str, *, at: str, timeout_s: float) -> bool:
        present = await self._groups(at, timeout_s)
        named = {name for name, group in present.items() if node in group.members}
        return bool(named) and META_GROUP not in named

    async def _groups(self, at: str, timeout_s: float) -> Mapping[str, RaftGroup]:
        present = await groups(self._layout[at], timeout_s)
        if META_GROUP not in present:
            raise Definite("no-group", f"{at} is not in the meta group")
        return present

    async def remove(self, node: str, *, through: str, timeout_s: float) -> None:
        peer = (await self.voters(through, timeout_s=timeout_s)).get(node)
        if peer is None:
            raise not_a_member(node, through)
        async with connected(self._layout[through], timeout_s, SYSTEM_USER) as connection:
            await ask(connection, "SERVER.REMOVE", {"peer": "", "peer_id": peer})

    async def add(self, spec: NodeSpec, *, through: str, timeout_s: float) -> None:
        """Wait until a group of `through` names the server, which the meta group's leader adds by itself."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        while spec.name not in await self.voters(through, timeout_s=timeout_s):
            if loop.time() >= deadline_s:
                raise Definite("not-added", f"the meta group did not add {spec.name} within {timeout_s:g} s")
            await asyncio.sleep(_POLL_S)

    def joining(self, spec: NodeSpec, voters: Collection[str], *, life: int | None) -> NodeSpec:
        return spec if life is None else with_life(spec, life)

    async def lacks(self, node: str, *, timeout_s: float) -> str | None:
        """Why the server does not follow the meta group yet, or which stream lacks a current replica."""
        place = self._layout[node]
        try:
            meta = (await groups(place, timeout_s)).get(META_GROUP)
            if meta is None or not meta.leader:
                return f"{node} knows no leader of the meta group"
            async with connected(place, timeout_s) as connection:
                return await shortage(connection)
        except (Definite, Indefinite) as error:
            return f"{node} does not answer ({error})"
