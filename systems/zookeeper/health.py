"""Whether a server serves, and what is wrong with a cluster, by short questions and short sessions."""

import asyncio
from typing import Final

from fencepost.harness.contract.system import Answer
from fencepost.harness.coordination import Definite, Indefinite
from fencepost.harness.history import Claim
from fencepost.harness.runtime.node import Layout, Place
from fencepost.systems.zookeeper.configuration import CLIENT_PORT
from fencepost.systems.zookeeper.question import SrvrQuestion
from fencepost.systems.zookeeper.wire.connection import open_connection
from fencepost.systems.zookeeper.wire.errors import ZooKeeperError
from fencepost.systems.zookeeper.wire.jute import Op, path_and_watch, text
from fencepost.systems.zookeeper.wire.session import ZooKeeperSession, zxid_of

_ASK_TIMEOUT_S: Final = 0.5
_HEALTH_TIMEOUT_S: Final = 2.0
#: For a single question, or a single change.
SHORT_SESSION_MS: Final = 10_000


async def serves(place: Place) -> bool:
    """Whether `srvr` says that this server leads or follows."""
    answer = await _answer(place, _ASK_TIMEOUT_S)
    return answer is not None and answer.detail in ("leader", "follower")


async def leads(place: Place) -> bool:
    answer = await _answer(place, _ASK_TIMEOUT_S)
    return answer is not None and answer.claims is Claim.YES


async def wrong(layout: Layout) -> str | None:
    """What is wrong, in words; None when one server leads, the others follow, and each can sync and read."""
    places = list(layout.values())
    answers = await asyncio.gather(*(_answer(place, _ASK_TIMEOUT_S) for place in places))
    roles = {p.name: (a.detail if a else "silent") for p, a in zip(places, answers, strict=True)}
    not_serving = [f"{name} is {role}" for name, role in roles.items() if role not in ("leader", "follower")]
    if not_serving:
        return ", ".join(not_serving)
    leaders = [p.name for p, a in zip(places, answers, strict=True) if a and a.claims is Claim.YES]
    if len(leaders) != 1:
        return f"{len(leaders)} leaders: {', '.join(leaders) or 'nobody leads'}"
    problems = await asyncio.gather(*(sync_and_read(place) for place in places))
    return ", ".join(problem for problem in problems if problem) or None


async def _answer(place: Place, timeout_s: float) -> Answer | None:
    """The node's answer to `srvr`; None when there is none in time."""
    try:
        async with asyncio.timeout(timeout_s):
            return await SrvrQuestion(place.name, *place.dial(CLIENT_PORT)).ask()
    except (OSError, TimeoutError, ValueError):
        return None


async def open_session(
    place: Place, connect_timeout_s: float, session_timeout_ms: int, *, keep_alive: bool = True
) -> ZooKeeperSession:
    connection = await open_connection(
        *place.dial(CLIENT_PORT),
        session_timeout_ms=session_timeout_ms,
        connect_timeout_s=connect_timeout_s,
        keep_alive=keep_alive,
    )
    return ZooKeeperSession(connection)


async def sync_and_read(place: Place) -> str | None:
    """Why a new session on this node cannot sync and read; None when it can."""
    root = text("/")
    try:
        async with asyncio.timeout(_HEALTH_TIMEOUT_S):
            session = await open_session(place, _HEALTH_TIMEOUT_S, SHORT_SESSION_MS)
            try:
                await session.after(Op.SYNC, root, Op.GET_DATA, path_and_watch(root, False), zxid_of)
            finally:
                session.close()
    except (Definite, Indefinite, ZooKeeperError, TimeoutError) as error:
        return f"{place.name} does not sync and read: {str(error) or 'no answer in time'}"
    return None
