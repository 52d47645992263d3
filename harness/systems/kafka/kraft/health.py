"""When a KRaft node serves, and when the whole cluster is healthy; each node is asked alone.

A node serves when it answers: a controller opens its listeners once it has caught up with the quorum, a broker once it
is registered. A broker that counts is one that names itself among the brokers, which leaves out those that are fenced.
"""

import asyncio
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.runtime.node import Layout, Place
from fencepost.harness.systems.kafka.client.broker_health import ASK_S, brokers_wrong, lists_itself, view_of
from fencepost.harness.systems.kafka.client.client import open_node
from fencepost.harness.systems.kafka.kraft.configuration import BROKER, CONTROLLER
from fencepost.harness.systems.kafka.names import CLIENT_PORT, CONTROLLER_PORT
from fencepost.harness.systems.kafka.wire.errors import NOT_LEADER_OR_FOLLOWER, ServerRefusal
from fencepost.harness.systems.kafka.wire.values import Quorum, Replica

#: A replica that is this far behind the high watermark is still catching up; changes go on while this is asked.
_OFFSETS_BEHIND_MAX: Final = 100
#: Followers fetch at least every 500 ms (their longest wait).
_FETCHED_MS_MAX: Final = 2000


async def serves(place: Place) -> bool:
    """Whether this node takes requests of every role that it has."""
    roles = set(place.roles)
    if CONTROLLER in roles:
        await quorum_of(place)
    return BROKER not in roles or lists_itself(place, await view_of(place))


async def wrong(layout: Layout) -> str | None:
    """None when one controller is active, every other one and every broker follows it, and every partition is led."""
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
        return f"{', '.join(names[number] for number in sorted(missing))}: not heard of by {leader.name}"
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
    """One replica of each node, the voter or whichever fetched last: a directory that is gone is told for minutes."""
    by_node: dict[int, Replica] = {}
    for replica in sorted(quorum.observers, key=lambda replica: replica.last_fetch_ms):
        by_node[replica.node] = replica
    return list({**by_node, **{voter.node: voter for voter in quorum.voters}}.values())


def follows(replica: Replica, quorum: Quorum, now_ms: int) -> bool:
    """A replica that has not fetched from this leader yet has no offset (-1); one that was cut off fetched long ago."""
    if replica.node == quorum.leader:
        return True
    behind = quorum.high_watermark - replica.log_end_offset
    # Before 3.3 no times are told.
    fetched_ms = now_ms - replica.last_fetch_ms if replica.last_fetch_ms >= 0 else 0
    return replica.log_end_offset >= 0 and behind <= _OFFSETS_BEHIND_MAX and fetched_ms <= _FETCHED_MS_MAX


async def quorum_of(place: Place) -> Quorum | None:
    """What a controller says when it believes to lead; None from one that does not."""
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
    """The quorum as the controller that this broker follows describes it."""

    async with asyncio.timeout(ASK_S):
        node = await open_node(*place.dial(CLIENT_PORT), connect_timeout_s=ASK_S)
        try:
            return await node.describe_quorum()
        finally:
            node.close()
