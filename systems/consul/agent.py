"""What one agent says of itself and of its cluster: its role and term, its release, whether it serves.

`/v1/agent/self` is answered from the agent's own state, so a server that is cut off answers too. Its raft part is read
role first, then term (raft.Stats). A server that steps down sets its role before its term, and writes to its disk in
between, so an answer that claims to lead names the term in which it led.

Each question has a connection of its own: a paused server answers all of them the moment it wakes.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from fencepost.harness.contract.system import Answer
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.history import Claim
from fencepost.harness.http.connection import ask
from fencepost.harness.runtime.node import Layout, Place
from fencepost.systems.consul.configuration import CLIENT_PORT
from fencepost.systems.consul.wire.calls import connect
from fencepost.systems.consul.wire.messages import RaftConfiguration, Running, Self

_ATTEMPT_S: Final = 1.0
_SELF: Final = msgspec.json.Decoder(Self)
_RAFT: Final = msgspec.json.Decoder(RaftConfiguration)


async def get(place: Place, target: str, *, absent: bool = False) -> bytes:
    """GET from this agent alone; the caller bounds the wait.

    Raises OSError without an answer, and ValueError for any status but 200 (or 404, where `absent` allows it).
    """
    answer = await ask(*place.dial(CLIENT_PORT), target)
    if answer.status != 200 and not (absent and answer.status == 404):
        raise ValueError(f"{target} was answered with {answer.status}: {answer.body[:200].decode(errors='replace')}")
    return answer.body


async def itself(place: Place) -> Self:
    return _SELF.decode(await get(place, "/v1/agent/self"))


async def running_configuration(place: Place) -> Mapping[str, Any]:
    """What this agent's configuration became, by Consul's internal names."""
    return msgspec.json.decode(await get(place, "/v1/agent/self"), type=Running).debug_config


async def raft_configuration(place: Place, *, stale: bool) -> RaftConfiguration:
    """The members of raft as this server knows them (`stale`), or as the leader does."""
    return _RAFT.decode(await get(place, f"/v1/operator/raft/configuration{'?stale' if stale else ''}"))


async def move_leadership(leader: Place, to: Place, *, timeout_s: float) -> None:
    """Ask the leader to hand its leadership to another server; releases from 1.15 on can.

    Raises:
        Definite: it refuses, and nothing changed.
        Indefinite: nobody knows whether leadership moved.
    """
    calls = await connect(*leader.dial(CLIENT_PORT), timeout_s)
    try:
        async with asyncio.timeout(timeout_s):
            servers = (await raft_configuration(leader, stale=True)).servers
            target = next((server.id for server in servers if server.node == to.name), None)
            if target is None:
                raise Definite("no-such-server", to.name)
            await calls.transfer_leadership(target)
    except (TimeoutError, OSError, ValueError) as error:
        raise Indefinite("timeout", str(error) or f"not answered within {timeout_s:g} s") from None
    finally:
        calls.close()


class ConsulQuestion:
    """`harness.contract.system.Question` to one server."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._names: dict[str, str] = {}

    async def ask(self) -> Answer:
        stats = (await itself(self._place)).stats
        raft = stats["raft"]
        leads = raft["state"] == "Leader"
        leader = stats["consul"].get("leader_addr", "")
        if leader and leader not in self._names:
            servers = (await raft_configuration(self._place, stale=True)).servers
            self._names = {server.address: server.node for server in servers}
        return Answer(
            claims=Claim.YES if leads else Claim.NO,
            source="agent/self",
            # A server that stands for election raises its term before anybody leads in it.
            epoch=int(raft["term"] if leads else raft["last_log_term"]),
            epoch_exact=leads,
            leader=self._place.name if leads else self._names.get(leader, leader) or None,
            position=int(raft["applied_index"]),
            detail=raft["state"].lower(),
        )

    async def close(self) -> None:
        """Do nothing: nothing is kept between questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The answer of one server; `wrong` is None when it serves."""

    node: str
    leader: str = ""
    wrong: str | None = None


async def health(place: Place, nodes: Layout) -> Health:
    """Ask who leads, for a consistent read, and whether all nodes are in the catalog, which sessions need."""
    what = "nothing"
    try:
        async with asyncio.timeout(_ATTEMPT_S):
            what = "who leads"
            leader = (await get(place, "/v1/status/leader")).decode().strip().strip('"')
            if not leader:
                return Health(node=place.name, wrong="it knows no leader")
            what = "a consistent read"
            await get(place, "/v1/kv/fencepost/probe?consistent", absent=True)
            what = "the catalog"
            listed = {one["Node"] for one in msgspec.json.decode(await get(place, "/v1/catalog/nodes?stale"))}
    except TimeoutError:
        return Health(node=place.name, wrong=f"{what} was not answered within {_ATTEMPT_S:g} s")
    except (OSError, ValueError) as error:
        return Health(node=place.name, wrong=f"{what} failed: {error}")
    missing = sorted(nodes.keys() - listed)
    return Health(node=place.name, leader=leader, wrong=f"its catalog lacks {', '.join(missing)}" if missing else None)


async def serves(place: Place) -> bool:
    """Whether the server knows a leader and answers a consistent read."""
    return (await health(place, {})).wrong is None


async def disagreement(layout: Layout) -> str | None:
    """What is wrong with these servers, in words; None when each serves and all name one leader."""
    answers = await asyncio.gather(*(health(place, layout) for place in layout.values()))
    wrong = [f"{answer.node}: {answer.wrong}" for answer in answers if answer.wrong]
    if wrong:
        return "; ".join(wrong)
    if len({answer.leader for answer in answers}) != 1:
        return "the servers disagree: " + ", ".join(f"{one.node} follows {one.leader}" for one in answers)
    return None
