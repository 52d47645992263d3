"""Replicas of streams: on which servers they are, how many there are, and one that moves elsewhere.

The number is a part of a stream's configuration, which the leader of the meta group changes. Which servers get or lose
a replica it decides itself. `STREAM.PEER.REMOVE` takes a replica from one server and places another one elsewhere; it
is refused where every server has one ("peer remap failed").

A stream of one replica has no group, so its group and the terms of its leaders begin again when it gets more replicas.

Source: nats-server 2.15 server/jetstream_cluster.go (jsClusteredStreamUpdateRequest, removePeerFromStreamLocked).
"""

import asyncio
from collections.abc import Mapping

from fencepost.harness.coordination import Indefinite
from fencepost.harness.runtime.node import Layout
from fencepost.systems.nats import raftz
from fencepost.systems.nats.administration import (
    NO_LIMIT,
    ask,
    connected,
    groups,
    servers_of,
    shortage,
    streams,
)
from fencepost.systems.nats.configuration import node_of
from fencepost.systems.nats.placing import StreamReplica


class NatsReplicas:
    """`systems.nats.placing.Replicas`, by the names of streams."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    async def held(self, at: str, *, timeout_s: float) -> Mapping[str, StreamReplica]:
        place = self._layout[at]
        try:
            async with asyncio.timeout(timeout_s):
                held = await raftz.streams(place)
        except (raftz.NoAnswer, TimeoutError) as error:
            raise Indefinite("no-answer", str(error) or f"not answered within {timeout_s:g} s") from None
        by_name = await groups(place, timeout_s)
        alone = StreamReplica(members=frozenset({at}), size=1, leads=True)
        return {
            stream: StreamReplica(members=frozenset(group.members), size=group.size, leads=group.leads)
            if (group := by_name.get(name))
            else alone
            for stream, name in held.items()
            if not name or name in by_name
        }

    async def scale(self, count: int, *, through: str, timeout_s: float) -> None:
        async with connected(self._layout[through], timeout_s) as connection:
            for stream in await streams(connection):
                present = stream["config"]
                if present["num_replicas"] != count:
                    # A limit that was read would otherwise be written again after it was taken back.
                    wanted = {**present, **NO_LIMIT, "num_replicas": count}
                    await ask(connection, f"STREAM.UPDATE.{present['name']}", wanted)

    async def move_away(self, node: str, *, through: str, timeout_s: float) -> None:
        async with connected(self._layout[through], timeout_s) as connection:
            for stream in await streams(connection):
                servers = {node_of(server): server for server in servers_of(stream)}
                if node in servers:
                    await ask(connection, f"STREAM.PEER.REMOVE.{stream['config']['name']}", {"peer": servers[node]})

    async def lacks(self, count: int, *, through: str, timeout_s: float) -> str | None:
        async with connected(self._layout[through], timeout_s) as connection:
            return await shortage(connection, count)
