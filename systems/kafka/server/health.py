"""Whether one server serves, and whether a cluster is healthy, with and without ZooKeeper; each node is asked alone.

A node that answers serves: a controller opens its listeners when it has caught up with the quorum, a broker when it is
registered. A broker counts when it lists itself among the brokers; a fenced broker does not.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.history import Claim
from fencepost.harness.runtime.node import Layout, Place
from fencepost.harness.runtime.server_log import SERVER_LOG
from fencepost.systems.kafka.client.client import ListenerRole, asking
from fencepost.systems.kafka.client.question import ControllerQuestion
from fencepost.systems.kafka.names import CLIENT_PORT, CONTROLLER_PORT
from fencepost.systems.kafka.server import znodes
from fencepost.systems.kafka.server.configuration import BRIDGE, BROKER, CONTROLLER, KEEPER, ZOOKEEPER_MODE, of_role
from fencepost.systems.kafka.wire.errors import NOT_LEADER_OR_FOLLOWER, ServerRefusal
from fencepost.systems.kafka.wire.values import ClusterMetadata, MetadataQuorum, QuorumReplica
from fencepost.systems.zookeeper.configuration import CLIENT_PORT as KEEPER_PORT
from fencepost.systems.zookeeper.question import SrvrQuestion

#: The time limit of one question to one node, connection included.
ASK_S: Final = 1.0
NO_ANSWER: Final = (Definite, Indefinite, TimeoutError, OSError, ValueError)
_SERVING: Final = frozenset({"leader", "follower", "standalone"})
#: A replica that is further behind the high watermark is still catching up; some lag is normal under load.
_OFFSETS_BEHIND_MAX: Final = 100
#: Followers fetch at least every 500 ms (their longest wait), so a later fetch means a follower that is cut off.
_FETCHED_MS_MAX: Final = 2000


async def serves(place: Place) -> bool:
    """Whether this node serves in each of its roles."""
    if KEEPER in place.roles:
        return await _keeper_mode(place) in _SERVING
    if CONTROLLER in place.roles:
        await quorum_of(place)
    return BROKER not in place.roles or any(broker.node == place.number for broker in (await _view_of(place)).brokers)


async def in_kraft(layout: Layout) -> str | None:
    """What is wrong, in words; None when one controller is active, all nodes follow it, and every partition is led."""
    controllers, brokers = of_role(layout, CONTROLLER), of_role(layout, BROKER)
    try:
        quorums = await asyncio.gather(*map(quorum_of, controllers))
        views = await asyncio.gather(*map(_view_of, brokers))
        attached = await asyncio.gather(*map(_attached_to, brokers))
    except NO_ANSWER as error:
        return str(error) or "a node does not answer in time"
    leaders = [(place, quorum) for place, quorum in zip(controllers, quorums, strict=True) if quorum is not None]
    if len(leaders) != 1:
        return f"{len(leaders)} active controllers: {', '.join(p.name for p, _ in leaders) or 'nobody'}"
    leader, quorum = leaders[0]
    names = {place.number: place.name for place in layout.values()}
    replicas = latest(quorum)
    missing = names.keys() - {replica.node for replica in replicas}
    if missing:
        return f"{', '.join(names[number] for number in sorted(missing))}: unknown to {leader.name}"
    voteless = [place.name for place in controllers if place.number not in {voter.node for voter in quorum.voters}]
    if voteless:
        return f"{', '.join(voteless)}: without a vote, says {leader.name}"
    now_ms = max(replica.last_fetch_ms for replica in replicas)
    late = [names[r.node] for r in replicas if r.node in names and not follows(r, quorum, now_ms)]
    if late:
        return f"{', '.join(late)}: behind the metadata of {leader.name}"
    for broker, other in zip(brokers, attached, strict=True):
        if other.epoch != quorum.epoch:
            return f"{broker.name} is attached to epoch {other.epoch}, {leader.name} leads in {quorum.epoch}"
    return _brokers_wrong(brokers, views)


async def at_zookeeper(layout: Layout) -> str | None:
    """What is wrong, in words; None when ZooKeeper has a leader, brokers one controller, and partitions are led."""
    brokers = of_role(layout, BROKER)
    try:
        keepers_wrong = await _keepers_wrong(layout)
        views = await asyncio.gather(*map(_view_of, brokers))
        acting = await asyncio.gather(*(_acts(broker, ZOOKEEPER_MODE.node_name) for broker in brokers))
    except NO_ANSWER as error:
        return str(error) or "a node does not answer in time"
    if keepers_wrong:
        return keepers_wrong
    controllers = [place for place, acts in zip(brokers, acting, strict=True) if acts]
    if len(controllers) != 1:
        return f"{len(controllers)} active controllers: {', '.join(p.name for p in controllers) or 'nobody'}"
    for place, view in zip(brokers, views, strict=True):
        if view.controller != controllers[0].number:
            named = ZOOKEEPER_MODE.node_name(view.controller) if view.controller >= 0 else "nobody"
            return f"{place.name} takes {named} for the controller, {controllers[0].name} acts as it"
    return _brokers_wrong(brokers, views)


async def in_migration(layout: Layout) -> str | None:
    """What is wrong in whatever phase of a migration, in words.

    None when ZooKeeper has a leader, one controller acts, and every partition is led. Controllers that were not
    started, or were ended by a roll-back, are none of the cluster: it is healthy without them while a broker is the
    controller.
    """
    brokers, controllers = of_role(layout, BROKER), of_role(layout, CONTROLLER)
    try:
        keepers_wrong = await _keepers_wrong(layout)
        views = await asyncio.gather(*map(_view_of, brokers))
        answers = await asyncio.gather(*map(_answers, controllers))
    except NO_ANSWER as error:
        return str(error) or "a node does not answer in time"
    if keepers_wrong:
        return keepers_wrong
    silent = [place.name for place, does in zip(controllers, answers, strict=True) if not does]
    if silent and len(silent) < len(controllers):
        return f"{', '.join(silent)} does not answer"
    try:
        acting = [place.name for place in controllers if not silent and await accepts_changes(place)]
        held = await znodes.holder(of_role(layout, KEEPER))
    except NO_ANSWER as error:
        return str(error) or "ZooKeeper does not say who is the controller"
    if len(acting) > 1:
        return f"{' and '.join(acting)} accept changes"
    if not acting and (held is None or held.persistent):
        whose = "nobody holds" if held is None else f"{BRIDGE.node_name(held.number)} still holds"
        return f"{whose} /controller, and no KRaft controller accepts changes"
    return _brokers_wrong(brokers, views)


# Of the quorum


def latest(quorum: MetadataQuorum) -> list[QuorumReplica]:
    """One replica of each node, the voter or the one that fetched last: a lost directory is listed for minutes."""
    by_node: dict[int, QuorumReplica] = {}
    for replica in sorted(quorum.observers, key=lambda replica: replica.last_fetch_ms):
        by_node[replica.node] = replica
    return list({**by_node, **{voter.node: voter for voter in quorum.voters}}.values())


def follows(replica: QuorumReplica, quorum: MetadataQuorum, now_ms: int) -> bool:
    """Whether a replica follows. One that has not fetched yet has offset -1; one that is cut off fetched long ago."""
    if replica.node == quorum.leader:
        return True
    behind = quorum.high_watermark - replica.log_end_offset
    # Releases before 3.3 report no times.
    fetched_ms = now_ms - replica.last_fetch_ms if replica.last_fetch_ms >= 0 else 0
    return replica.log_end_offset >= 0 and behind <= _OFFSETS_BEHIND_MAX and fetched_ms <= _FETCHED_MS_MAX


async def quorum_of(place: Place) -> MetadataQuorum | None:
    """The quorum as a controller describes it that believes it leads; None from any other controller."""
    combined = BROKER in place.roles
    async with asking(place.dial(CONTROLLER_PORT if combined else CLIENT_PORT), ASK_S) as node:
        try:
            return await node.describe_quorum()
        except ServerRefusal as refusal:
            if refusal.number != NOT_LEADER_OR_FOLLOWER:
                raise
            return None


async def quorum_leader(controllers: Sequence[Place]) -> MetadataQuorum | None:
    """The quorum of the latest leader that answers; None while none does."""
    answers = await asyncio.gather(*map(quorum_of, controllers), return_exceptions=True)
    led = [answer for answer in answers if isinstance(answer, MetadataQuorum)]
    return max(led, key=lambda quorum: quorum.epoch, default=None)


async def accepts_changes(place: Place) -> bool:
    """Whether a KRaft controller of a migration acts as the active one; False without an answer."""
    if not (place.kept / SERVER_LOG).is_file():
        return False
    try:
        return await _acts(place, BRIDGE.node_name)
    except NO_ANSWER:
        return False


async def _answers(place: Place) -> bool:
    try:
        await quorum_of(place)
    except NO_ANSWER:
        return False
    return True


async def _attached_to(place: Place) -> MetadataQuorum:
    """The quorum as described by the controller that this broker follows."""
    async with asking(place.dial(CLIENT_PORT), ASK_S) as node:
        return await node.describe_quorum()


# Of brokers and ZooKeepers


async def role_of(place: Place) -> ListenerRole:
    """What a broker or controller is, by the requests that it offers."""
    async with asking(place.dial(CLIENT_PORT), ASK_S) as node:
        return node.role


async def _view_of(place: Place) -> ClusterMetadata:
    """The cluster as this broker knows it, with every topic."""
    async with asking(place.dial(CLIENT_PORT), ASK_S) as node:
        return await node.metadata(None)


def _brokers_wrong(brokers: Sequence[Place], views: Sequence[ClusterMetadata]) -> str | None:
    """None when each broker knows all brokers and sees every partition led and in sync."""
    numbers = {place.number for place in brokers}
    for place, view in zip(brokers, views, strict=True):
        absent = numbers - {broker.node for broker in view.brokers}
        if absent:
            return f"{place.name} does not know of {', '.join(p.name for p in brokers if p.number in absent)}"
        for topic in view.topics:
            for partition in topic.partitions:
                if not partition.is_in_sync:
                    return f"{topic.name}-{partition.partition} has leader {partition.leader}, in sync {partition.isr}"
    return None


async def _acts(place: Place, name_of: Callable[[int], str]) -> bool:
    question = ControllerQuestion(place.number, *place.dial(CLIENT_PORT), name_of)
    try:
        async with asyncio.timeout(ASK_S):
            return (await question.ask()).claims is Claim.YES
    finally:
        await question.close()


async def _keepers_wrong(layout: Layout) -> str | None:
    """None when every ZooKeeper serves and one leads."""
    keepers = of_role(layout, KEEPER)
    modes = await asyncio.gather(*map(_keeper_mode, keepers))
    if all(mode in _SERVING for mode in modes) and list(modes).count("leader") == 1:
        return None
    return ", ".join(f"{place.name} is {mode}" for place, mode in zip(keepers, modes, strict=True))


async def _keeper_mode(place: Place) -> str | None:
    async with asyncio.timeout(ASK_S):
        return (await SrvrQuestion(place.name, *place.dial(KEEPER_PORT)).ask()).detail
