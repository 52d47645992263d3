"""The znodes of a migration, read and deleted through whichever ZooKeeper answers.

A ZooKeeper's copy may lag behind the others, so an answer tells what was true a moment ago.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import msgspec

from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.runtime.node import Place
from fencepost.systems.zookeeper.configuration import CLIENT_PORT as KEEPER_PORT
from fencepost.systems.zookeeper.wire.connection import open_connection
from fencepost.systems.zookeeper.wire.session import ZooKeeperSession

CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
#: What a KRaft controller in a migration checks or sets with each write of metadata.
MIGRATION: Final = "/migration"
_CLUSTER_ID: Final = "/cluster/id"
_SESSION_MS: Final = 5000
_DIAL_S: Final = 1.0
_ASK_S: Final = 2.0


class _Id(msgspec.Struct):
    id: str


class _Controller(msgspec.Struct):
    brokerid: int
    kraft_epoch: int = msgspec.field(default=-1, name="kraftControllerEpoch")


class MigrationState(msgspec.Struct, frozen=True):
    """What stands in /migration: who wrote to ZooKeeper last, in which epoch, and up to which offset."""

    controller: int = msgspec.field(default=-1, name="kraft_controller_id")
    epoch: int = msgspec.field(default=-1, name="kraft_controller_epoch")
    offset: int = msgspec.field(default=-1, name="kraft_metadata_offset")


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds /controller. `kraft_epoch` is -1 for a broker; `persistent`: no session's end deletes the znode."""

    number: int
    kraft_epoch: int
    persistent: bool
    controller_epoch: int

    @property
    def by_kraft(self) -> bool:
        return self.persistent and self.kraft_epoch >= 0


async def cluster_id(keepers: Sequence[Place]) -> str:
    async with _session(keepers) as session:
        data, _ = await session.get(_CLUSTER_ID)
        return msgspec.json.decode(data, type=_Id).id


async def holder(keepers: Sequence[Place]) -> Holder | None:
    """Who holds /controller; None while nobody does."""
    async with _session(keepers) as session:
        if await session.exists(CONTROLLER) is None:
            return None
        data, stat = await session.get(CONTROLLER)
        epoch, _ = await session.get(CONTROLLER_EPOCH)
        held = msgspec.json.decode(data, type=_Controller)
        return Holder(held.brokerid, held.kraft_epoch, stat.ephemeral_owner == 0, int(epoch))


async def migration_state(keepers: Sequence[Place]) -> MigrationState | None:
    """What stands in /migration; None without it."""
    async with _session(keepers) as session:
        if await session.exists(MIGRATION) is None:
            return None
        data, _ = await session.get(MIGRATION)
        return msgspec.json.decode(data, type=MigrationState)


async def delete(keepers: Sequence[Place], *paths: str) -> list[str]:
    """Delete these znodes in this order; return those that were there."""
    gone = []
    async with _session(keepers) as session:
        for path in paths:
            if await session.exists(path) is not None:
                await session.delete(path)
                gone.append(path)
    return gone


async def raise_epoch(keepers: Sequence[Place], least: int) -> tuple[int, int] | tuple[()]:
    """Raise /controller_epoch to `least`; return the epochs before and after, nothing if it was high enough."""
    async with _session(keepers) as session:
        await session.sync(CONTROLLER_EPOCH)
        data, stat = await session.get(CONTROLLER_EPOCH)
        if int(data) >= least:
            return ()
        await session.set(CONTROLLER_EPOCH, str(least).encode(), stat.version)
        return int(data), least


@asynccontextmanager
async def _session(keepers: Sequence[Place]) -> AsyncIterator[ZooKeeperSession]:
    """A session with the first ZooKeeper that accepts one; raises the last refusal when none does."""
    problem: Definite | Indefinite = Definite("not-connected", "there is no ZooKeeper")
    for keeper in keepers:
        try:
            connection = await open_connection(
                *keeper.dial(KEEPER_PORT), session_timeout_ms=_SESSION_MS, connect_timeout_s=_DIAL_S
            )
        except (Definite, Indefinite) as error:
            problem = error
            continue
        session = ZooKeeperSession(connection)
        try:
            async with asyncio.timeout(_ASK_S):
                yield session
        finally:
            session.close()
        return
    raise problem
