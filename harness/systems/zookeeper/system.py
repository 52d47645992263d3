"""ZooKeeper as a system under test: what it promises, how it starts and how one node is asked."""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fencepost.harness.coordination import Definite, Indefinite, Interface, Locks, ReadMode, WatchMode
from fencepost.harness.history import Claim, Clock
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, Node, NodeSpec, Place
from fencepost.harness.systems.contract.base import BaseSystem
from fencepost.harness.systems.contract.profile import Profile
from fencepost.harness.systems.contract.server_clock import ToldTime
from fencepost.harness.systems.contract.server_settings import NO_SETTINGS, Settings, Taken
from fencepost.harness.systems.contract.system import Answer, Question
from fencepost.harness.systems.zookeeper import membership, server, versions
from fencepost.harness.systems.zookeeper import server_clock as told_time
from fencepost.harness.systems.zookeeper import settings as server_settings
from fencepost.harness.systems.zookeeper.client import ZooKeeperClient
from fencepost.harness.systems.zookeeper.guarantees import GUARANTEES, leadership_bound
from fencepost.harness.systems.zookeeper.lease_guarantees import lease_bound
from fencepost.harness.systems.zookeeper.leases import SessionLeases
from fencepost.harness.systems.zookeeper.membership import ZooKeeperMembership
from fencepost.harness.systems.zookeeper.options import ZooKeeperOptions
from fencepost.harness.systems.zookeeper.question import SrvrQuestion, told_version
from fencepost.harness.systems.zookeeper.releases import ZooKeeperReleases
from fencepost.harness.systems.zookeeper.wire.connection import open_connection
from fencepost.harness.systems.zookeeper.wire.errors import ServerError
from fencepost.harness.systems.zookeeper.wire.jute import Op, path_and_watch, text
from fencepost.harness.systems.zookeeper.wire.session import ZooKeeperSession, zxid_of
from fencepost.harness.verdict import LeadershipBound, LeaseBound, Vocabulary

#: Bounds follow from the first three; sessions have to outlive pauses.
_RESERVED: Final = server_settings.reserved(
    {
        "tickTime": "tick",
        "initLimit": "init_limit",
        "syncLimit": "sync_limit",
        "minSessionTimeout": "session_timeout",
        "maxSessionTimeout": "session_timeout",
    }
)
#: Leader.startZkServer: written once, when a quorum has acknowledged the new epoch.
_BECAME_LEADER: Final = re.compile(r"starting up and setting last processed zxid: 0x([0-9a-f]+)")
_ASK_TIMEOUT_S: Final = 0.5
_HEALTH_TIMEOUT_S: Final = 2.0
#: For a single question, or a single change.
_SHORT_SESSION_MS: Final = 10_000


class ZooKeeper(BaseSystem):
    """The `System`; one object, without state."""

    profile: Final = Profile(
        name="zookeeper",
        options=ZooKeeperOptions,
        interfaces=frozenset(
            {Interface.STORAGE, Interface.LOCKS, Interface.ELECTION, Interface.LEASES, Interface.LISTENERS}
        ),
        reads={
            ReadMode.PLAIN: "session-order",
            ReadMode.SYNC: "fresh-after-sync",
            ReadMode.BARRIER: "linearizable",
        },
        listeners=server.LISTENERS,
        vocabulary=Vocabulary(hexadecimal=True),
    )
    releases: Final = ZooKeeperReleases()
    guarantees = GUARANTEES
    watch_modes: Final = (WatchMode.PERSISTENT, WatchMode.ONE_SHOT)
    resumes_watches: Final = False

    def specs(
        self,
        layout: Layout,
        artifacts: Artifacts,
        options: ZooKeeperOptions,
        settings: Settings = NO_SETTINGS,
    ) -> list[NodeSpec]:
        return [server.spec(place, layout, artifacts, options, settings) for place in layout.values()]

    def leadership(self, options: ZooKeeperOptions, version: str = "") -> LeadershipBound:
        return leadership_bound(options)

    def lease_bound(self, options: ZooKeeperOptions) -> LeaseBound:
        """`harness.systems.contract.leases.BoundsLeases`."""
        return lease_bound(options)

    async def ready(self, node: Node) -> bool:
        """`srvr` says that it leads or follows; before, it says that it is not serving."""
        answer = await _asked(node.place, _ASK_TIMEOUT_S)
        return answer is not None and answer.detail in ("leader", "follower")

    async def healthy(self, layout: Layout) -> str | None:
        """One leader, all others follow, and through every node a fresh session can sync and read."""
        places = list(layout.values())
        answers = await asyncio.gather(*(_asked(place, _ASK_TIMEOUT_S) for place in places))
        roles = {p.name: (a.detail if a else "silent") for p, a in zip(places, answers, strict=True)}
        not_serving = [f"{name} is {role}" for name, role in roles.items() if role not in ("leader", "follower")]
        if not_serving:
            return ", ".join(not_serving)
        leaders = [p.name for p, a in zip(places, answers, strict=True) if a and a.claims is Claim.YES]
        if len(leaders) != 1:
            return f"{len(leaders)} leaders: {', '.join(leaders) or 'nobody leads'}"
        problems = await asyncio.gather(*(_sync_and_read(place) for place in places))
        return ", ".join(problem for problem in problems if problem) or None

    async def open_client(
        self, place: Place, *, connect_timeout_s: float, options: ZooKeeperOptions | None = None
    ) -> Locks:
        session_ms = (options or ZooKeeperOptions()).session_timeout.ms

        async def open_lease() -> ZooKeeperSession:
            return await _open_session(place, connect_timeout_s, session_ms, keep_alive=False)

        leases = SessionLeases(*place.dial(server.CLIENT_PORT), connect_timeout_s)
        return ZooKeeperClient(await _open_session(place, connect_timeout_s, session_ms), open_lease, leases)

    def fixed_members(self, version: str, options: ZooKeeperOptions) -> str | None:
        """`harness.systems.contract.membership.ChangesMembers`."""
        return membership.fixed(version)

    def wiped_members(self) -> str | None:
        return None

    def membership(self, layout: Layout, artifacts: Artifacts) -> ZooKeeperMembership:
        async def open_session(place: Place, timeout_s: float) -> ZooKeeperSession:
            return await _open_session(place, timeout_s, _SHORT_SESSION_MS, keep_alive=False)

        return ZooKeeperMembership(layout, open_session=open_session, sync_and_read=_sync_and_read)

    def question(self, place: Place, subject: str) -> Question:
        return SrvrQuestion(place.name, *place.dial(server.CLIENT_PORT))

    async def told_time(self, place: Place, clock: Clock) -> ToldTime | None:
        """`harness.systems.contract.server_clock.TellsTime`."""
        ask = told_time.wall if clock is Clock.WALL else told_time.monotonic
        return await ask(*place.dial(server.CLIENT_PORT))

    async def prepare(self, client: Locks, keys: tuple[str, ...]) -> None:
        if not isinstance(client, ZooKeeperClient):
            raise TypeError(f"expected a client that this system opened, got {type(client).__name__}")
        await client.prepare(keys)

    @property
    def settable(self) -> Mapping[str, str]:
        return {server_settings.ZOOKEEPER: server_settings.ABOUT}

    def refuse_setting(self, of: str, key: str, options: ZooKeeperOptions) -> str | None:
        return server_settings.refuse(key, _RESERVED)

    def refuse_settings(self, artifacts: Artifacts, settings: Settings) -> str | None:
        """Of an image the jars of the same release are asked; nobody is where that is not known."""
        if "image" not in artifacts.paths:
            jars = list(map(Path, artifacts.paths["classpath"].split(":")))
        else:
            jars = versions.jars(artifacts.version) if artifacts.version in versions.known() else []
        return server_settings.refuse_unknown(jars, artifacts.version, settings)

    async def taken(self, node: Node, artifacts: Artifacts, settings: Settings) -> list[Taken]:
        return await server_settings.taken(node, *node.place.dial(server.CLIENT_PORT), settings)

    def startup_archive(self) -> Path | None:
        return self.releases.startup_archive()

    async def told_version(self, node: Node, *, log_from: int) -> str:
        return await told_version(*node.place.dial(server.CLIENT_PORT))

    def version_of(self, node: Node, artifacts: Artifacts) -> str:
        return artifacts.version

    def refuse_change(
        self, start: str, to: str, *, back: bool, options: ZooKeeperOptions, settings: Settings
    ) -> str | None:
        """Of the known releases (3.6 to 3.9) each can join each: they speak one protocol and read one format."""
        return None

    def became_leader(self, line: str) -> int | None:
        found = _BECAME_LEADER.search(line)
        return int(found.group(1), 16) >> 32 if found else None


async def _asked(place: Place, timeout_s: float) -> Answer | None:
    """What the node says, or None when it does not answer in time."""
    try:
        async with asyncio.timeout(timeout_s):
            return await SrvrQuestion(place.name, *place.dial(server.CLIENT_PORT)).ask()
    except (OSError, TimeoutError, ValueError):
        return None


async def _open_session(
    place: Place, connect_timeout_s: float, session_timeout_ms: int, *, keep_alive: bool = True
) -> ZooKeeperSession:
    connection = await open_connection(
        *place.dial(server.CLIENT_PORT),
        session_timeout_ms=session_timeout_ms,
        connect_timeout_s=connect_timeout_s,
        keep_alive=keep_alive,
    )
    return ZooKeeperSession(connection)


async def _sync_and_read(place: Place) -> str | None:
    """None, or why a fresh session on this node cannot sync and read."""
    root = text("/")
    try:
        async with asyncio.timeout(_HEALTH_TIMEOUT_S):
            session = await _open_session(place, _HEALTH_TIMEOUT_S, _SHORT_SESSION_MS)
            try:
                await session.after(Op.SYNC, root, Op.GET_DATA, path_and_watch(root, False), zxid_of)
            finally:
                session.close()
    except (Definite, Indefinite, ServerError, TimeoutError) as error:
        return f"{place.name} does not sync and read: {str(error) or 'no answer in time'}"
    return None
