"""Members of an etcd cluster: MemberList, MemberAdd and MemberRemove, each sent to one member.

A member is identified by its peer URL, which it has before its server reports its name. It gets a new id whenever it is
added, so a removed member never comes back under its old id, and etcd refuses its data. A member that applies its own
removal ends by itself about a second later. An added member counts as a voter at once, before its server runs; one that
is added as a learner counts once it is promoted, which etcd refuses until it has nearly all that the leader has.

By default (--strict-reconfig-check) etcd refuses a change that would leave too few started members. It also refuses to
add a member while any member has been connected to the others for less than five seconds.

Source: etcd 3.5 server/etcdserver/server.go (mayAddMember, mayRemoveMember, applyConfChange) and
server/etcdserver/api/membership/cluster.go.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.runtime.node import Layout, NodeSpec, Place
from fencepost.systems.etcd import health as probe
from fencepost.systems.etcd.wire import rpc_pb2 as rpc
from fencepost.systems.etcd.wire.grpc_call import connect, unary
from fencepost.systems.etcd.wire.http2 import Http2Connection

NO_SUCH_MEMBER: Final = "no-such-member"


class EtcdMembership:
    """`harness.contract.members.Membership`; with `learners` also `AdmitsLearners`."""

    only_leader_answers: Final = False
    ends_removed: Final = True

    def __init__(
        self, layout: Layout, *, client_port: int, peer_url: Callable[[Place], str], learners: bool = False
    ) -> None:
        self._layout, self._port, self._peer_url = layout, client_port, peer_url
        self.votes_last = learners

    def prepared(self, spec: NodeSpec) -> NodeSpec:
        """Return the spec unchanged: any etcd cluster can change its members."""
        return spec

    async def voters(self, at: str, *, timeout_s: float) -> Mapping[str, str]:
        async with self._connected(at, timeout_s) as connection:
            return {name: f"{member.ID:x}" for name, member in (await self._listed(connection)).items()}

    async def remove(self, node: str, *, through: str, timeout_s: float) -> None:
        async with self._connected(through, timeout_s) as connection:
            member = (await self._listed(connection)).get(node)
            if member is None:
                raise Definite(NO_SUCH_MEMBER, f"{through} lists no member at the address of {node}")
            await unary(connection, "Cluster/MemberRemove", rpc.MemberRemoveResponse)(
                rpc.MemberRemoveRequest(ID=member.ID)
            )

    async def add(self, spec: NodeSpec, *, through: str, timeout_s: float) -> None:
        async with self._connected(through, timeout_s) as connection:
            if not self.votes_last:
                await self._add(connection, spec)
                return
            learner = (await self._listed(connection, learners=True)).get(spec.name)
            if learner is None:
                raise Definite(NO_SUCH_MEMBER, f"{through} lists no learner at the address of {spec.name}")
            await unary(connection, "Cluster/MemberPromote", rpc.MemberPromoteResponse)(
                rpc.MemberPromoteRequest(ID=learner.ID)
            )

    async def admit(self, spec: NodeSpec, *, through: str, timeout_s: float) -> None:
        async with self._connected(through, timeout_s) as connection:
            if spec.name not in await self._listed(connection, learners=True):
                await self._add(connection, spec)

    async def _add(self, connection: Http2Connection, spec: NodeSpec) -> None:
        request = rpc.MemberAddRequest(peerURLs=[self._peer_url(self._layout[spec.name])], isLearner=self.votes_last)
        await unary(connection, "Cluster/MemberAdd", rpc.MemberAddResponse)(request)

    def joining(self, spec: NodeSpec, voters: Collection[str], *, life: int | None) -> NodeSpec:
        """Name the cluster's own members and the new one: the server compares the list with that of a peer."""
        names = [name for name in self._layout if name in voters or name == spec.name]
        flags = {
            "--initial-cluster": ",".join(f"{name}={self._peer_url(self._layout[name])}" for name in names),
            "--initial-cluster-state": "existing",
        }
        kept = [word for word in spec.argv if word.partition("=")[0] not in flags]
        return replace(spec, argv=(*kept, *(f"{flag}={value}" for flag, value in flags.items())))

    async def lacks(self, node: str, *, timeout_s: float) -> str | None:
        return (await probe.health(node, *self._layout[node].dial(self._port), timeout_s)).wrong

    async def _listed(self, connection: Http2Connection, *, learners: bool = False) -> dict[str, Any]:
        """The voting members (or the learners) by node, from this member's own copy, which needs no leader."""
        names = {self._peer_url(place): name for name, place in self._layout.items()}
        answer = await unary(connection, "Cluster/MemberList", rpc.MemberListResponse)(
            rpc.MemberListRequest(linearizable=False)
        )
        return {
            names[url]: member
            for member in answer.members
            for url in member.peerURLs
            if url in names and member.isLearner is learners
        }

    @asynccontextmanager
    async def _connected(self, node: str, timeout_s: float) -> AsyncIterator[Http2Connection]:
        deadline = asyncio.get_running_loop().time() + timeout_s
        connection = await connect(*self._layout[node].dial(self._port), timeout_s)
        try:
            async with asyncio.timeout_at(deadline):
                yield connection
        except TimeoutError:
            raise Indefinite("timeout", f"not answered within {timeout_s:g} s") from None
        finally:
            connection.close()
