"""ZooKeeper as a system under test: what it promises, how it starts and how one node is asked."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract.profile import Profile
from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.contract.servers import ReportedTime
from fencepost.harness.contract.system import BaseSystem, Question
from fencepost.harness.coordination import ReadMode, WatchMode
from fencepost.harness.history import CatchUp, Clock
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, Node, Place
from fencepost.harness.verdict import LeadershipBound, LeaseBound, Vocabulary
from fencepost.systems.zookeeper import (
    configuration,
    health,
    membership,
    reported_version,
    server_clock,
)
from fencepost.systems.zookeeper.client import SESSIONS
from fencepost.systems.zookeeper.guarantees import leadership_bound, lease_bound, unpromised
from fencepost.systems.zookeeper.health import SHORT_SESSION_MS, open_session
from fencepost.systems.zookeeper.leases import SessionLeases
from fencepost.systems.zookeeper.membership import ZooKeeperMembership
from fencepost.systems.zookeeper.options import ZooKeeperOptions
from fencepost.systems.zookeeper.question import SrvrQuestion
from fencepost.systems.zookeeper.releases import RELEASES
from fencepost.systems.zookeeper.settings import SETTINGS
from fencepost.systems.zookeeper.storage import ZooKeeperStorage
from fencepost.systems.zookeeper.wire.session import ZooKeeperSession

#: Learner.syncWithLeader, in 3.6 to 3.9.
_CAUGHT_UP: Final = {
    "Getting a diff from the leader": CatchUp.DIFFERENCE,
    "Getting a snapshot from leader": CatchUp.SNAPSHOT,
    "Truncating log to get in sync with the leader": CatchUp.TRUNCATION,
}
#: Leader.startZkServer writes it once, when a quorum has acknowledged the new epoch.
_BECAME_LEADER: Final = re.compile(r"starting up and setting last processed zxid: 0x([0-9a-f]+)")


class ZooKeeper(BaseSystem[ZooKeeperOptions]):
    """ZooKeeper as a `System`; one object, without state."""

    profile: Final = Profile(
        name="zookeeper",
        java=True,
        options=ZooKeeperOptions,
        interfaces=frozenset(SESSIONS),
        reads={
            ReadMode.PLAIN: "session-order",
            ReadMode.SYNC: "fresh-after-sync",
            ReadMode.BARRIER: "linearizable",
        },
        listeners=configuration.LISTENERS,
        vocabulary=Vocabulary(hexadecimal=True),
    )
    releases: Final = RELEASES
    spec = staticmethod(configuration.spec)
    settings: Final = SETTINGS
    guarantees = Path(__file__).with_name("guarantees.toml")
    watch_modes: Final = (WatchMode.PERSISTENT, WatchMode.ONE_SHOT)
    resumes_watches: Final = False
    changes_keys_together: Final = True

    def leadership(self, options: ZooKeeperOptions, version: str = "") -> LeadershipBound:
        return leadership_bound(options)

    def lease_bound(self, options: ZooKeeperOptions) -> LeaseBound:
        """`harness.contract.leadership.BoundsLeases`."""
        return lease_bound(options)

    async def ready(self, node: Node) -> bool:
        return await health.serves(node.place)

    async def healthy(self, layout: Layout) -> str | None:
        return await health.wrong(layout)

    async def open_client(
        self, place: Place, interface: str, *, connect_timeout_s: float, options: ZooKeeperOptions | None = None
    ) -> ZooKeeperStorage:
        session_ms = (options or ZooKeeperOptions()).session_timeout.ms
        session = await open_session(place, connect_timeout_s, session_ms)
        leases = SessionLeases(*place.dial(configuration.CLIENT_PORT), connect_timeout_s)
        return SESSIONS[interface](session, leases)

    def fixed_members(self, version: str, options: ZooKeeperOptions) -> Refusal | None:
        """`harness.contract.membership.ChangesMembers`."""
        return membership.fixed(version)

    def wiped_members(self) -> Refusal | None:
        return None

    def membership(self, layout: Layout, artifacts: Artifacts) -> ZooKeeperMembership:
        async def open_short(place: Place, timeout_s: float) -> ZooKeeperSession:
            return await open_session(place, timeout_s, SHORT_SESSION_MS, keep_alive=False)

        return ZooKeeperMembership(layout, open_session=open_short, sync_and_read=health.sync_and_read)

    def question(self, place: Place, subject: str) -> Question:
        return SrvrQuestion(place.name, *place.dial(configuration.CLIENT_PORT))

    async def reported_time(self, place: Place, clock: Clock) -> ReportedTime | None:
        """`harness.contract.servers.TellsTime`."""
        ask = server_clock.wall if clock is Clock.WALL else server_clock.monotonic
        return await ask(*place.dial(configuration.CLIENT_PORT))

    def unpromised(self, settings: Settings, options: ZooKeeperOptions) -> Mapping[str, str]:
        return unpromised(settings)

    def startup_archive(self) -> Path | None:
        return self.releases.startup_archive()

    async def reported_version(self, node: Node, *, log_from: int) -> str:
        return await reported_version.ask(*node.place.dial(configuration.CLIENT_PORT))

    def refuse_change(
        self, start: str, to: str, *, back: bool, options: ZooKeeperOptions, settings: Settings
    ) -> Refusal | None:
        """Allow every change: all known releases (3.6 to 3.9) have the same protocol and file format."""
        return None

    @property
    def catch_ups(self) -> tuple[CatchUp, ...]:
        """`harness.contract.servers.LogsCatchUps`."""
        return tuple(_CAUGHT_UP.values())

    def caught_up(self, line: str) -> CatchUp | None:
        return next((how for text, how in _CAUGHT_UP.items() if text in line), None)

    def became_leader(self, line: str) -> int | None:
        match = _BECAME_LEADER.search(line)
        return int(match.group(1), 16) >> 32 if match else None


ZOOKEEPER: Final = ZooKeeper()
