"""Whether a KRaft node serves, and whether the cluster is healthy; each node is asked alone.

A node that answers serves: a controller opens its listeners when it has caught up with the quorum, a broker when it is
registered. A broker counts when it lists itself among the brokers; a fenced broker does not.
"""

import asyncio
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.runtime.node import Layout, Place
from fencepost.systems.kafka.client.broker_health import ASK_S, brokers_wrong, lists_itself, view_of
from fencepost.systems.kafka.client.client import open_node
from fencepost.systems.kafka.kraft.configuration import BROKER, CONTROLLER
from fencepost.systems.kafka.names import CLIENT_PORT, CONTROLLER_PORT
from fencepost.systems.kafka.wire.errors import NOT_LEADER_OR_FOLLOWER, ServerRefusal
from fencepost.systems.kafka.wire.values import Quorum, Replica

#: A replica that is further behind the high watermark is still catching up; some lag is normal under load.
_OFFSETS_BEHIND_MAX: Final = 100
#: Followers fetch at least every 500 ms (their longest wait), so a later fetch means a follower that is cut off.
_FETCHED_MS_MAX: Final = 2000


async def serves(place: Place) -> bool:
    """Whether this node serves in each of its roles."""
    roles = set(place.roles)
    if CONTROLLER in roles:
        await quorum_of(place)
    return BROKER not in roles or lists_itself(place, await view_of(place))


async def wrong(layout: Layout) -> str | None:
    """What is wrong, in words; None when one controller is active, all nodes follow it, and every partition is led."""
    places = list(layout.values())
    controllers = [place for place in places if CONTROLLER in place.roles]
    brokers = [place for place in places if BROKER in place.roles]
    try:
        quorums = await asyncio.gather(*map(quorum_of, controllers))
        views = await asyncio.gather(*map(view_of, brokers))
        attached = await asyncio.gather(*map(_attached_to, brokers))
    except (Definite, Indefinite, TimeoutError, OSError) as error:
        return str(error) or "a node does not answer in time"
    leaders = [(place, quorum) for place, quorum in zip(controllers, quorums, strict=True) if quorum is not None]
    if len(leaders) != 1:
        return f"{len(leaders)} active controllers: {', '.join(p.name for p, _ in leaders) or 'nobody'}"
    leader, quorum = leaders[0]
    names = {place.number: place.name for place in places}
    expected = {place.number for place in places}
    replicas = latest(quorum)
    missing = expected - {replica.node for replica in replicas}
    if missing:
        return f"{', '.join(names[number] for number in sorted(missing))}: unknown to {leader.name}"
    voteless = [place.name for place in controllers if place.number not in {voter.node for voter in quorum.voters}]
    if voteless:
        return f"{', '.join(voteless)}: without a vote, says {leader.name}"
    now_ms = max(replica.last_fetch_ms for replica in replicas)
    late = [names.get(r.node, str(r.node)) for r in replicas if r.node in expected and not follows(r, quorum, now_ms)]
    if late:
        return f"{', '.join(late)}: behind the metadata of {leader.name}"
    for broker, other in zip(brokers, attached, strict=True):
        if other.epoch != quorum.epoch:
            return f"{broker.name} is attached to epoch {other.epoch}, {leader.name} leads in {quorum.epoch}"
    return brokers_wrong(brokers, views)


def latest(quorum: Quorum) -> list[Replica]:
    """One replica of each node, the voter or the one that fetched last: a lost directory is listed for minutes."""
    by_node: dict[int, Replica] = {}
    for replica in sorted(quorum.observers, key=lambda replica: replica.last_fetch_ms):
        by_node[replica.node] = replica
    return list({**by_node, **{voter.node: voter for voter in quorum.voters}}.values())


def follows(replica: Replica, quorum: Quorum, now_ms: int) -> bool:
    """Whether a replica follows. One that has not fetched yet has offset -1; one that is cut off fetched long ago."""
    if replica.node == quorum.leader:
        return True
    behind = quorum.high_watermark - replica.log_end_offset
    # Releases before 3.3 report no times.
    fetched_ms = now_ms - replica.last_fetch_ms if replica.last_fetch_ms >= 0 else 0
    return replica.log_end_offset >= 0 and behind <= _OFFSETS_BEHIND_MAX and fetched_ms <= _FETCHED_MS_MAX


async def quorum_of(place: Place) -> Quorum | None:
    """The quorum as a controller describes it that believes it leads; None from any other controller."""
    combined = BROKER in place.roles
    async with asyncio.timeout(ASK_S):
        node = await open_node(*place.dial(CONTROLLER_PORT if combined else CLIENT_PORT), connect_timeout_s=ASK_S)
        try:
            return await node.describe_quorum()
        except ServerRefusal as refusal:
            if refusal.number != NOT_LEADER_OR_FOLLOWER:
                raise
            return None
        finally:
            node.close()


async def _attached_to(place: Place) -> Quorum:
    """The quorum as described by the controller that this broker follows."""

    async with asyncio.timeout(ASK_S):
        node = await open_node(*place.dial(CLIENT_PORT), connect_timeout_s=ASK_S)
        try:
            return await node.describe_quorum()
        finally:
            node.close()
