"""Whether a node of Kafka in ZooKeeper mode serves, and whether the cluster is healthy; each node is asked alone."""

import asyncio
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.history import Claim
from fencepost.harness.runtime.node import Layout, Place
from fencepost.systems.kafka.client.broker_health import ASK_S, brokers_wrong, lists_itself, view_of
from fencepost.systems.kafka.client.question import ControllerQuestion
from fencepost.systems.kafka.names import CLIENT_PORT
from fencepost.systems.kafka.zookeeper_mode.configuration import BROKER, KEEPER, name_of
from fencepost.systems.zookeeper.configuration import CLIENT_PORT as KEEPER_PORT
from fencepost.systems.zookeeper.question import SrvrQuestion

_SERVING: Final = frozenset({"leader", "follower", "standalone"})


async def serves(place: Place) -> bool:
    if KEEPER in place.roles:
        return await _mode(place) in _SERVING
    return lists_itself(place, await view_of(place))


async def wrong(layout: Layout) -> str | None:
    """What is wrong, in words; None when ZooKeeper has a leader, brokers one controller, and partitions are led."""
    brokers = [place for place in layout.values() if BROKER in place.roles]
    keepers = [place for place in layout.values() if KEEPER in place.roles]
    try:
        modes = await asyncio.gather(*map(_mode, keepers))
        views = await asyncio.gather(*map(view_of, brokers))
        acting = await asyncio.gather(*map(_acts, brokers))
    except (Definite, Indefinite, TimeoutError, OSError, ValueError) as error:
        return str(error) or "a node does not answer in time"
    roles = {place.name: mode for place, mode in zip(keepers, modes, strict=True)}
    if any(mode not in _SERVING for mode in modes) or list(modes).count("leader") != 1:
        return ", ".join(f"{name} is {mode}" for name, mode in roles.items())
    controllers = [place for place, acts in zip(brokers, acting, strict=True) if acts]
    if len(controllers) != 1:
        return f"{len(controllers)} active controllers: {', '.join(p.name for p in controllers) or 'nobody'}"
    for place, view in zip(brokers, views, strict=True):
        if view.controller != controllers[0].number:
            named = name_of(view.controller) if view.controller >= 0 else "nobody"
            return f"{place.name} takes {named} for the controller, {controllers[0].name} acts as it"
    return brokers_wrong(brokers, views)


async def _mode(place: Place) -> str | None:
    async with asyncio.timeout(ASK_S):
        return (await SrvrQuestion(place.name, *place.dial(KEEPER_PORT)).ask()).detail


async def _acts(place: Place) -> bool:
    question = ControllerQuestion(place.number, *place.dial(CLIENT_PORT), name_of)
    try:
        async with asyncio.timeout(ASK_S):
            return (await question.ask()).claims is Claim.YES
    finally:
        await question.close()
