"""Asking each node alone who is the controller: brokers about themselves, ZooKeeper servers about their znodes.

A broker's answer names no epoch. The broker's own log gives the epoch where it proves one (`role_log`); elsewhere it is
a lower bound or missing. A ZooKeeper server reports its copy of /controller and /controller_epoch; the copy may lag,
and the server never claims to lead. A new controller writes both znodes in one transaction. So when the same zxid last
changed both, the holder belongs to exactly this epoch, although the two are read one after the other.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import msgspec

from fencepost.harness.contract.system import Answer, Question
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.history import Claim
from fencepost.systems.kafka.server.configuration import ZOOKEEPER_MODE
from fencepost.systems.kafka.zookeeper_mode.role_log import Role, RoleLog
from fencepost.systems.zookeeper.wire.connection import open_connection
from fencepost.systems.zookeeper.wire.session import ZooKeeperSession

name_of: Final = ZOOKEEPER_MODE.node_name

SOURCE: Final = "znode"
_CONTROLLER: Final = "/controller"
_EPOCH: Final = "/controller_epoch"
#: The znode vanished between two requests: no answer this time, and the session is still good.
_GONE: Final = "no-node"
_DIAL_S: Final = 0.5
_SESSION_MS: Final = 5000


class _Controller(msgspec.Struct):
    """What stands in /controller; a claim by KRaft has an epoch of its quorum. The other fields do not matter."""

    brokerid: int
    kraft_epoch: int = msgspec.field(default=-1, name="kraftControllerEpoch")


class DatedQuestion:
    """A broker's question, with epochs for its answers from the broker's log.

    `dated` adds the epoch to an answer, from the role in the log before the question and after the answer.
    """

    def __init__(self, question: Question, log: RoleLog, dated: Callable[[Answer, Role, Role], Answer]) -> None:
        self._question, self._log, self._dated = question, log, dated

    async def ask(self) -> Answer:
        before = self._log.read()
        answer = await self._question.ask()
        return self._dated(answer, before, self._log.read())

    async def close(self) -> None:
        await self._question.close()


def dated_controller(answer: Answer, before: Role, after: Role) -> Answer:
    """Add the epoch in which the broker acts as the controller.

    The epoch is exact when the log names the same epoch before the question and after the answer. Otherwise an election
    may have come between; then the last epoch in the log before the question is a lower bound.
    """
    if answer.claims is not Claim.YES:
        return answer
    proven = before.leads is not None and before.leads == after.leads
    return replace(answer, epoch=before.elected, epoch_exact=proven)


def dated_view(answer: Answer, before: Role, after: Role) -> Answer:
    """Add the epoch of the controller that the broker names, as the broker learned them together.

    When it names itself, that must also be the epoch of its last election, since it is elected before it is told.
    """
    if answer.leader is None or before.view is None or before.view != after.view:
        return answer
    controller, epoch = before.view
    proven = answer.leader == name_of(controller) and (answer.claims is not Claim.YES or after.elected == epoch)
    return replace(answer, epoch=epoch, epoch_exact=True) if proven else answer


class ZnodeQuestion:
    """The `Question` to one ZooKeeper server. The session is kept, and replaced when it is lost."""

    def __init__(self, address: str, port: int, *, name_of: Callable[[int], str] = name_of) -> None:
        self._address, self._port, self._name_of = address, port, name_of
        self._session: ZooKeeperSession | None = None
        self._opening = asyncio.Lock()

    async def ask(self) -> Answer:
        session = await self._opened()
        try:
            data, raised = await session.get(_EPOCH)
            # It is absent while nobody is the controller; `exists` comes first, since the absence is no error.
            there = await session.exists(_CONTROLLER)
            held, made = (await session.get(_CONTROLLER)) if there is not None else (None, None)
        except (Definite, Indefinite) as error:
            if not (isinstance(error, Definite) and error.code == _GONE):
                self._drop(session)
            raise
        epoch = int(data)
        if held is None or made is None:
            return Answer(claims=Claim.NO, source=SOURCE, epoch=epoch, epoch_exact=False, detail="nobody")
        holder = msgspec.json.decode(held, type=_Controller)
        return Answer(
            claims=Claim.NO,
            source=SOURCE,
            epoch=epoch,
            epoch_exact=made.czxid == raised.mzxid,
            leader=self._name_of(holder.brokerid),
            position=made.czxid,
            detail=f"session {made.ephemeral_owner:#x}"
            if holder.kraft_epoch < 0
            else f"claimed by KRaft in epoch {holder.kraft_epoch}",
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
