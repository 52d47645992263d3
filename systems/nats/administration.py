"""Requests of an administrator to one server of NATS: what its groups are, which streams there are, changes of both."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.runtime.node import Place
from fencepost.systems.nats import raftz
from fencepost.systems.nats.configuration import CLIENT_PORT, node_of
from fencepost.systems.nats.wire.connection import NatsConnection, answer_of, connect

API: Final = "$JS.API"
#: How many streams one answer of STREAM.LIST holds; no run has as many.
_PAGE: Final = 256
#: What every stream of a run has, unless it is limited for a moment.
NO_LIMIT: Final = {"max_msgs": -1, "discard": "old"}


async def groups(place: Place, timeout_s: float) -> Mapping[str, raftz.RaftGroup]:
    """By name the groups that this server is in; raises `Indefinite` when it does not answer."""
    try:
        async with asyncio.timeout(timeout_s):
            return await raftz.groups(place)
    except (raftz.NoAnswer, TimeoutError) as error:
        raise Indefinite("no-answer", str(error) or f"not answered within {timeout_s:g} s") from None


@asynccontextmanager
async def connected(place: Place, timeout_s: float, user: str = "") -> AsyncIterator[NatsConnection]:
    """A connection to this server for requests that all end within the time; raises `Indefinite` when they do not."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    connection = await connect(*place.dial(CLIENT_PORT), timeout_s, user)
    try:
        async with asyncio.timeout_at(deadline):
            yield connection
    except TimeoutError:
        raise Indefinite("timeout", f"not answered within {timeout_s:g} s") from None
    finally:
        connection.close()


async def ask(connection: NatsConnection, subject: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The answer of JetStream's API; raises the outcome of a refusal."""
    return answer_of(await connection.request(f"{API}.{subject}", b"" if body is None else json.dumps(body).encode()))


async def streams(connection: NatsConnection) -> Sequence[dict[str, Any]]:
    """Every stream as its leader describes it; raises `Indefinite` where one does not."""
    answer = await ask(connection, "STREAM.LIST")
    if answer.get("missing") or int(answer.get("total", 0)) > _PAGE:
        raise Indefinite("incomplete", f"nobody told of {', '.join(answer.get('missing') or ('the last streams',))}")
    return answer.get("streams") or ()


def servers_of(stream: Mapping[str, Any]) -> list[str]:
    """The servers that have a replica of this stream, its leader first."""
    cluster = stream.get("cluster") or {}
    return [name for name in (cluster.get("leader"), *(r["name"] for r in cluster.get("replicas") or ())) if name]


async def shortage(connection: NatsConnection, count: int | None = None) -> str | None:
    """Which stream has fewer current replicas than it wants (or than `count`); None when there is none."""
    for stream in await streams(connection):
        cluster, servers = stream.get("cluster") or {}, servers_of(stream)
        late = [node_of(r["name"]) for r in cluster.get("replicas") or () if not r.get("current")]
        wanted = count or stream["config"]["num_replicas"]
        if not cluster.get("leader") or late or len(servers) != wanted:
            on = ", ".join(map(node_of, servers)) or "nobody"
            behind = f"; {', '.join(late)} {'are' if late[1:] else 'is'} behind" if late else ""
            return f"{stream['config']['name']} is to have {wanted} replicas, and is on {on}{behind}"
    return None


def not_a_member(node: str, at: str) -> Definite:
    return Definite("not-a-member", f"no group of {at} names {node}")
