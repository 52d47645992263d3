"""What one server of ZooKeeper holds by its own answer: every znode that users make, after a sync."""

import asyncio

from fencepost.harness.contract.system import ReplicaState
from fencepost.harness.coordination import Definite
from fencepost.harness.runtime.node import Place
from fencepost.systems.zookeeper.health import SHORT_SESSION_MS, open_session
from fencepost.systems.zookeeper.wire.session import ZooKeeperSession

_DIAL_S = 2.0
#: The server's own znodes: their data differs with the releases of the servers.
_OWN = "/zookeeper"


async def read(place: Place) -> list[ReplicaState]:
    """Read the server's tree; raises Definite or Indefinite. The caller bounds the wait."""
    session = await open_session(place, _DIAL_S, SHORT_SESSION_MS, keep_alive=False)
    entries: dict[str, str] = {}
    try:
        await session.sync("/")
        level = ["/"]
        while level:
            below = await asyncio.gather(*(_znode(session, path, entries) for path in level))
            level = [path for children in below for path in children if path != _OWN]
    finally:
        session.close()
    return [ReplicaState(entries=entries, subject="tree")]


async def _znode(session: ZooKeeperSession, path: str, entries: dict[str, str]) -> list[str]:
    """Add the znode to `entries`, by what every server must say of it; return the paths of its children."""
    try:
        data, stat = await session.get(path)
        children = (await session.children(path))[0] if stat.children else []
    except Definite:
        # It went meanwhile, as an ephemeral whose session ended.
        return []
    owner = f", of session {stat.ephemeral_owner:#x}" if stat.ephemeral_owner else ""
    entries[path] = (
        f"{data.decode(errors='backslashreplace')}, version {stat.version} of {stat.mzxid:#x}, "
        f"created at {stat.czxid:#x}{owner}"
    )
    return [f"{path.rstrip('/')}/{child}" for child in children]
