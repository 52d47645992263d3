"""Whether a node serves, and whether the whole cluster is healthy, in whatever phase of the migration it is.

Every node is asked alone. Controllers that were not started, or were ended by a roll-back, are none of the cluster: it
is healthy without them while a broker is the controller.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.history import Claim
from fencepost.harness.runtime.node import Layout, Place
from fencepost.harness.runtime.server_log import SERVER_LOG
from fencepost.systems.kafka.bridge import znodes
from fencepost.systems.kafka.bridge.configuration import BROKER, CONTROLLER, KEEPER, name_of
from fencepost.systems.kafka.client.broker_health import ASK_S, brokers_wrong, lists_itself, view_of
from fencepost.systems.kafka.client.client import Role, open_node
from fencepost.systems.kafka.client.question import ControllerQuestion
from fencepost.systems.kafka.names import CLIENT_PORT
from fencepost.systems.kafka.wire.errors import NOT_LEADER_OR_FOLLOWER, ServerRefusal
from fencepost.systems.kafka.wire.values import Quorum
from fencepost.systems.zookeeper.configuration import CLIENT_PORT as KEEPER_PORT
from fencepost.systems.zookeeper.question import SrvrQuestion

_SERVING: Final = frozenset({"leader", "follower"})
_NO_ANSWER: Final = (Definite, Indefinite, TimeoutError, OSError, ValueError)


async def serves(place: Place) -> bool:
    if KEEPER in place.roles:
        return await _mode(place) in _SERVING
    if CONTROLLER in place.roles:
        await quorum_of(place)
        return True
    return lists_itself(place, await view_of(place))


async def wrong(layout: Layout) -> str | None:
    """What is wrong, in words; None when ZooKeeper has a leader, one controller acts, and every partition is led."""
    brokers = [place for place in layout.values() if BROKER in place.roles]
    keepers = [place for place in layout.values() if KEEPER in place.roles]
    controllers = [place for place in layout.values() if CONTROLLER in place.roles]
    try:
        modes = await asyncio.gather(*map(_mode, keepers))
        views = await asyncio.gather(*map(view_of, brokers))
        answers = await asyncio.gather(*map(_answers, controllers))
    except _NO_ANSWER as error:
        return str(error) or "a node does not answer in time"
    if any(mode not in _SERVING for mode in modes) or list(modes).count("leader") != 1:
        return ", ".join(f"{place.name} is {mode}" for place, mode in zip(keepers, modes, strict=True))
    silent = [place.name for place, does in zip(controllers, answers, strict=True) if not does]
    if silent and len(silent) < len(controllers):
        return f"{', '.join(silent)} does not answer"
    try:
        acting = [place.name for place in controllers if not silent and await accepts_changes(place)]
        held = await znodes.holder(keepers)
    except _NO_ANSWER as error:
        return str(error) or "ZooKeeper does not say who is the controller"
    if len(acting) > 1:
        return f"{' and '.join(acting)} accept changes"
    if not acting and (held is None or held.persistent):
        whose = "nobody holds" if held is None else f"{name_of(held.number)} still holds"
        return f"{whose} /controller, and no KRaft controller accepts changes"
    return brokers_wrong(brokers, views)


async def role_of(place: Place) -> Role:
    """What a broker or controller is, by the requests that it offers."""
    async with asyncio.timeout(ASK_S):
        node = await open_node(*place.dial(CLIENT_PORT), connect_timeout_s=ASK_S)
        try:
            return node.role
        finally:
            node.close()


async def quorum_of(place: Place) -> Quorum | None:
    """The quorum as a controller describes it that believes it leads; None from any other controller."""
    async with asyncio.timeout(ASK_S):
        node = await open_node(*place.dial(CLIENT_PORT), connect_timeout_s=ASK_S)
        try:
            return await node.describe_quorum()
        except ServerRefusal as refusal:
            if refusal.number != NOT_LEADER_OR_FOLLOWER:
                raise
            return None
        finally:
            node.close()


async def quorum_leader(controllers: Sequence[Place]) -> Quorum | None:
    """The quorum of the latest leader that answers; None while none does."""
    answers = await asyncio.gather(*map(quorum_of, controllers), return_exceptions=True)
    led = [answer for answer in answers if isinstance(answer, Quorum)]
    return max(led, key=lambda quorum: quorum.epoch, default=None)


async def accepts_changes(place: Place) -> bool:
    """Whether a KRaft controller acts as the active one; False without an answer."""
    if not (place.kept / SERVER_LOG).is_file():
        return False
    question = ControllerQuestion(place.number, *place.dial(CLIENT_PORT), name_of)
    try:
        async with asyncio.timeout(ASK_S):
            return (await question.ask()).claims is Claim.YES
    except _NO_ANSWER:
        return False
    finally:
        await question.close()


async def _answers(place: Place) -> bool:
    try:
        await quorum_of(place)
    except _NO_ANSWER:
        return False
    return True


async def _mode(place: Place) -> str | None:
    async with asyncio.timeout(ASK_S):
        return (await SrvrQuestion(place.name, *place.dial(KEEPER_PORT)).ask()).detail
