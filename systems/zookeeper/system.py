"""ZooKeeper as a system under test: what it promises, how it starts and how one node is asked."""

from pathlib import Path
from typing import Final

from fencepost.harness.contract.logs import LogMoment, LogTable
from fencepost.harness.contract.members import MemberChanges
from fencepost.harness.contract.profile import Profile
from fencepost.harness.contract.releases import Versions
from fencepost.harness.contract.system import BaseSystem, Question, ReportedTime, WatchKinds
from fencepost.harness.coordination import ReadMode, WatchMode
from fencepost.harness.history import CatchUp, Clock
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, Node, Place
from fencepost.harness.verdict import Vocabulary
from fencepost.systems.zookeeper import (
    configuration,
    health,
    membership,
    replicas,
    reported_version,
    server_clock,
    transaction_log,
)
from fencepost.systems.zookeeper.client import SESSIONS
from fencepost.systems.zookeeper.guarantees import leadership_bound, lease_bound, resume_bound, unpromised
from fencepost.systems.zookeeper.health import SHORT_SESSION_MS, open_session
from fencepost.systems.zookeeper.leases import SessionLeases
from fencepost.systems.zookeeper.maintenance import REQUESTS
from fencepost.systems.zookeeper.membership import ZooKeeperMembership
from fencepost.systems.zookeeper.options import ZooKeeperOptions
from fencepost.systems.zookeeper.question import SrvrQuestion
from fencepost.systems.zookeeper.releases import RELEASES
from fencepost.systems.zookeeper.settings import SETTINGS
from fencepost.systems.zookeeper.storage import ZooKeeperStorage
from fencepost.systems.zookeeper.wire.session import ZooKeeperSession

_LOGS: Final = LogTable(
    # Leader.startZkServer writes it once, when a quorum has acknowledged the new epoch.
    became_leader={"starting up and setting last processed zxid: 0x([0-9a-f]+)": lambda match: int(match[1], 16) >> 32},
    # Learner.syncWithLeader, in 3.6 to 3.9.
    caught_up={
        "Getting a diff from the leader": CatchUp.DIFFERENCE,
        "Getting a snapshot from leader": CatchUp.SNAPSHOT,
        "Truncating log to get in sync with the leader": CatchUp.TRUNCATION,
        "FileSnap Reading snapshot": CatchUp.LOADED,
        "FileTxnSnapLog Snapshotting: 0x": CatchUp.SAVED,
    },
    reached={r"FastLeaderElection New election\. My id": LogMoment.ELECTION},
)


def _membership(layout: Layout, artifacts: Artifacts) -> ZooKeeperMembership:
    async def open_short(place: Place, timeout_s: float) -> ZooKeeperSession:
        return await open_session(place, timeout_s, SHORT_SESSION_MS, keep_alive=False)

    return ZooKeeperMembership(layout, open_session=open_short, sync_and_read=health.sync_and_read)


class ZooKeeper(BaseSystem[ZooKeeperOptions]):
    """ZooKeeper as a `System`; one object, without state."""

    profile = Profile(
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
    releases = RELEASES
    spec = staticmethod(configuration.spec)
    settings = SETTINGS
    maintenance = REQUESTS
    logs = _LOGS
    guarantees = Path(__file__).with_name("guarantees.toml")
    watches = WatchKinds(modes=(WatchMode.PERSISTENT, WatchMode.ONE_SHOT), resumes=False, keys_together=True)
    leadership = staticmethod(leadership_bound)
    resume_bound = staticmethod(resume_bound)
    replica_states = staticmethod(replicas.read)
    read_log = staticmethod(transaction_log.read_archive)
    lease_bound = staticmethod(lease_bound)
    unpromised = staticmethod(unpromised)
    # Every change is allowed: all known releases (3.6 to 3.9) have the same protocol and file format.
    versions = Versions(reported=lambda node, _: reported_version.ask(*node.place.dial(configuration.CLIENT_PORT)))
    member_changes = MemberChanges(of=_membership, fixed=lambda version, _: membership.fixed(version))
    startup_archive = staticmethod(RELEASES.startup_archive)

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

    def question(self, place: Place, subject: str) -> Question:
        return SrvrQuestion(place.name, *place.dial(configuration.CLIENT_PORT))

    async def reported_time(self, place: Place, clock: Clock) -> ReportedTime | None:
        ask = server_clock.wall if clock is Clock.WALL else server_clock.monotonic
        return await ask(*place.dial(configuration.CLIENT_PORT))


ZOOKEEPER: Final = ZooKeeper()
