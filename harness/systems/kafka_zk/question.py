"""Asking a ZooKeeper server what its copy of /controller and /controller_epoch says: whom Kafka elected.

The server's own copy may lag; it never claims to lead. The session is kept, and remade when it is lost.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from harness.coordination import Definite, Indefinite
from harness.operation import Claim
from harness.systems.system import Answer
from harness.systems.zookeeper.connection import open_connection
from harness.systems.zookeeper.session import ZooKeeperSession

SOURCE: Final = "znode"
_CONTROLLER: Final = "/controller"
_EPOCH: Final = "/controller_epoch"
_DIAL_S: Final = 0.5
_SESSION_MS: Final = 5000


class _Controller(msgspec.Struct):
    """What stands in /controller; the other fields do not matter."""

    brokerid: int


class ZnodeQuestion:
    """`harness.systems.system.Question` of one ZooKeeper server; `name_of` gives a broker's name by its id."""

    def __init__(self, address: str, port: int, name_of: Callable[[int], str]) -> None:
        self._address, self._port, self._name_of = address, port, name_of
        self._session: ZooKeeperSession | None = None
        self._opening = asyncio.Lock()

    async def ask(self) -> Answer:
        session = await self._opened()
        try:
            epoch = int((await session.get(_EPOCH))[0])
            holder = await session.exists(_CONTROLLER)
            data = (await session.get(_CONTROLLER))[0] if holder is not None else None
        except (Definite, Indefinite):
            self._drop(session)
            raise
        leader = None if data is None else self._name_of(msgspec.json.decode(data, type=_Controller).brokerid)
        return Answer(
            claims=Claim.NO,
            source=SOURCE,
            epoch=epoch,
            epoch_exact=False,
            leader=leader,
            position=None if holder is None else holder.mzxid,
            detail="nobody" if leader is None else None,
        )

    async def close(self) -> None:
        if self._session is not None:
            self._drop(self._session)

    async def _opened(self) -> ZooKeeperSession:
        async with self._opening:
            if self._session is None:
                connection = await open_connection(
                    self._address, self._port, session_timeout_ms=_SESSION_MS, connect_timeout_s=_DIAL_S
                )
                self._session = ZooKeeperSession(connection)
            return self._session

    def _drop(self, session: ZooKeeperSession) -> None:
        session.close()
        if self._session is session:
            self._session = None
