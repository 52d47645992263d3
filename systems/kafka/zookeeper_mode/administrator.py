"""What administrators can do in ZooKeeper itself, as Kafka's tools before 3.0 did: make a topic, force an election.

`kafka-topics --zookeeper` wrote the topic's znode and left the rest to the controller. Deleting /controller makes a
controller step down. Neither asks the controller, so both work while it is paused. The election takes the role from a
controller whose session is still alive: only the version of /controller_epoch fences that controller.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.runtime.node import Place
from fencepost.systems.kafka.server.configuration import ZOOKEEPER_MODE
from fencepost.systems.kafka.server.znodes import CONTROLLER, CONTROLLER_EPOCH
from fencepost.systems.zookeeper.configuration import CLIENT_PORT as KEEPER_PORT
from fencepost.systems.zookeeper.wire.connection import open_connection
from fencepost.systems.zookeeper.wire.session import ZooKeeperSession

name_of: Final = ZOOKEEPER_MODE.node_name

_SESSION_MS: Final = 5000
_DIAL_S: Final = 0.5
_POLL_S: Final = 0.01
_BROKERS: Final = "/brokers/ids"


class _Controller(msgspec.Struct):
    """What stands in /controller; the other fields do not matter."""

    brokerid: int


class ZnodeAdministrator:
    """A session of its own on one ZooKeeper server."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session

    def close(self) -> None:
        self._session.close()

    async def controller(self) -> tuple[str, int] | None:
        """The node that holds /controller and the version of its znode; None while nobody holds it."""
        stat = await self._session.exists(CONTROLLER)
        if stat is None:
            return None
        data, stat = await self._session.get(CONTROLLER)
        return name_of(msgspec.json.decode(data, type=_Controller).brokerid), stat.version

    async def registered(self, broker: int) -> bool:
        """Whether a session still holds this broker's registration."""
        return await self._session.exists(f"{_BROKERS}/{broker}") is not None

    async def epoch(self) -> int:
        return int((await self._session.get(CONTROLLER_EPOCH))[0])

    async def make_topic(self, name: str) -> None:
        """Make a topic with one partition on every registered broker."""
        brokers = sorted(map(int, (await self._session.children(_BROKERS))[0]))
        assignment = {"version": 1, "partitions": {"0": brokers}}
        await self._session.make(f"/brokers/topics/{name}", msgspec.json.encode(assignment))

    async def depose(self, version: int) -> None:
        """Delete /controller if it still has this version."""
        await self._session.delete(CONTROLLER, version)

    async def successor(self, deposed: str) -> tuple[str, int]:
        """Wait until another node than `deposed` holds /controller; return it and its epoch."""
        while True:
            held = await self.controller()
            if held is not None and held[0] != deposed:
                return held[0], await self.epoch()
            await asyncio.sleep(_POLL_S)


async def open_administrator(keepers: Sequence[Place]) -> ZnodeAdministrator:
    """Open a session on the first ZooKeeper that accepts one; raises the last refusal when none does."""
    problem: Definite | Indefinite = Definite("not-connected", "there is no ZooKeeper")
    for keeper in keepers:
        try:
            connection = await open_connection(
                *keeper.dial(KEEPER_PORT), session_timeout_ms=_SESSION_MS, connect_timeout_s=_DIAL_S
            )
        except (Definite, Indefinite) as error:
            problem = error
            continue
        return ZnodeAdministrator(ZooKeeperSession(connection))
    raise problem
