"""etcd as a system under test: how it starts, what it promises, how one member is asked.

The client and its messages are imported only when a member is really asked, which keeps the command line's start short.
"""

import asyncio
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from fencepost.harness.coordination import Interface, Locks, ReadMode, WatchMode
from fencepost.harness.history import Clock
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, Node, NodeSpec, Place
from fencepost.harness.systems.contract.base import BaseSystem
from fencepost.harness.systems.contract.fenced_attempts import AttemptReader
from fencepost.harness.systems.contract.profile import Profile
from fencepost.harness.systems.contract.server_clock import ToldTime
from fencepost.harness.systems.contract.server_settings import NO_SETTINGS, Settings, Taken
from fencepost.harness.systems.contract.system import Question
from fencepost.harness.systems.etcd import reported_version as told_version
from fencepost.harness.systems.etcd import settings as server_settings
from fencepost.harness.systems.etcd.fenced_attempts import LeaseAttempts
from fencepost.harness.systems.etcd.guarantees import CHECK_QUORUM, GUARANTEES
from fencepost.harness.systems.etcd.lease_guarantees import lease_bound
from fencepost.harness.systems.etcd.options import EtcdOptions
from fencepost.harness.systems.etcd.releases import EtcdReleases
from fencepost.harness.systems.etcd.watch_guarantees import watch_guarantees
from fencepost.harness.verdict import Guarantee, LeadershipBound, LeaseBound, Standing, Vocabulary

if TYPE_CHECKING:
    from fencepost.harness.systems.etcd.health import Health
    from fencepost.harness.systems.etcd.membership import EtcdMembership

CLIENT_PORT: Final = 2379
PEER_PORT: Final = 2380

#: Of the data directory: two write-ahead log segments of 64 MiB are laid out beforehand, and the rest is the store.
_DATA_LIMIT_BYTES: Final = 512 << 20
_STORE_QUOTA_BYTES: Final = 192 << 20
#: One attempt to ask a member whether it serves.
_ATTEMPT_S: Final = 1.0
#: As raft's logger says it, in zap's JSON: {"level":"info",...,"msg":"8e9e05c52164694d became leader at term 2"}.
_BECAME_LEADER: Final = re.compile(r'"msg":"[0-9a-f]+ became leader at term (\d+)"')


class Etcd(BaseSystem):
    """`harness.systems.contract.system.System`."""

    profile: Final = Profile(
        name="etcd",
        options=EtcdOptions,
        interfaces=frozenset(
            {Interface.STORAGE, Interface.LOCKS, Interface.ELECTION, Interface.LEASES, Interface.LISTENERS}
        ),
        # Plain (serializable) reads at most keep the order of one session.
        reads={ReadMode.STRONG: "linearizable", ReadMode.PLAIN: "session-order"},
        listeners={"client": CLIENT_PORT, "peer": PEER_PORT},
        vocabulary=Vocabulary(epoch="term"),
        sizes=(1, 3, 5),
    )
    releases: Final = EtcdReleases()
    watch_modes: Final = (WatchMode.PERSISTENT,)
    resumes_watches: Final = True

    def promises(self, version: str = "") -> tuple[Guarantee, ...]:
        return (*GUARANTEES, *watch_guarantees(version or self.releases.default))

    def specs(
        self,
        layout: Layout,
        artifacts: Artifacts,
        options: EtcdOptions,
        settings: Settings = NO_SETTINGS,
    ) -> list[NodeSpec]:
        cluster = ",".join(f"{place.name}={_url(*place.peer(PEER_PORT))}" for place in layout.values())
        return [
            NodeSpec(
                name=place.name,
                argv=_argv(artifacts.paths["etcd"], place, cluster, options, server_settings.flags(settings)),
                listeners=self.profile.listeners,
                data_limit_bytes=_DATA_LIMIT_BYTES,
            )
            for place in layout.values()
        ]

    def leadership(self, options: EtcdOptions, version: str = "") -> LeadershipBound:
        return LeadershipBound(
            bound_ns=2 * options.election + options.heartbeat,
            source=CHECK_QUORUM,
            standing=Standing.PROMISED,
            # Status reads leader and term apart: see `question`.
            one_leader_per_epoch=False,
            # raft counts ticks of a time.Ticker, which Go drives by the monotonic clock.
            clocks=(Clock.MONOTONIC,),
            superseded_acknowledges_nothing=True,
        )

    def lease_bound(self, options: EtcdOptions) -> LeaseBound:
        """`harness.systems.contract.leases.BoundsLeases`."""
        return lease_bound(options)

    async def ready(self, node: Node) -> bool:
        """It answers Status and knows a leader."""
        from fencepost.harness.systems.etcd import health as probe

        try:
            return bool((await probe.status(*node.place.dial(CLIENT_PORT), _ATTEMPT_S)).leader)
        except probe.NoAnswer:
            return False

    async def healthy(self, layout: Layout) -> str | None:
        """Every member answers Status, all agree on leader and term, and each answers a linearizable read."""
        from fencepost.harness.systems.etcd import health as probe

        found = await asyncio.gather(
            *(probe.health(place.name, *place.dial(CLIENT_PORT), _ATTEMPT_S) for place in layout.values())
        )
        return disagreement(found)

    async def open_client(self, place: Place, *, connect_timeout_s: float, options: EtcdOptions | None = None) -> Locks:
        from fencepost.harness.systems.etcd.client import EtcdClient
        from fencepost.harness.systems.etcd.wire.grpc_call import connect

        lock_ttl_s = round((options or EtcdOptions()).lock_ttl.seconds)
        return EtcdClient(await connect(*place.dial(CLIENT_PORT), connect_timeout_s), lock_ttl_s=lock_ttl_s)

    async def move_leadership(self, leader: Place, to: Place, *, timeout_s: float) -> None:
        from fencepost.harness.systems.etcd.move_leadership import move_leader

        await move_leader(*leader.dial(CLIENT_PORT), to.name, timeout_s)

    def fixed_members(self, version: str, options: EtcdOptions) -> str | None:
        """`harness.systems.contract.membership.ChangesMembers`: every etcd can."""
        return None

    def wiped_members(self) -> str | None:
        return "etcd gives a member that is added a new id, and never lets the old one back; leave out wipe=no"

    def membership(self, layout: Layout, artifacts: Artifacts) -> "EtcdMembership":
        from fencepost.harness.systems.etcd.membership import EtcdMembership

        return EtcdMembership(layout, client_port=CLIENT_PORT, peer_url=lambda place: _url(*place.peer(PEER_PORT)))

    def question(self, place: Place, subject: str) -> Question:
        from fencepost.harness.systems.etcd.question import EtcdQuestion

        return EtcdQuestion(*place.dial(CLIENT_PORT))

    async def told_time(self, place: Place, clock: Clock) -> ToldTime | None:
        """`harness.systems.contract.server_clock.TellsTime`."""
        from fencepost.harness.systems.etcd import server_clock as told_time

        return await told_time.ask(*place.dial(CLIENT_PORT)) if clock is Clock.WALL else None

    def fatal_line(self, line: str) -> str | None:
        return server_settings.refused_line(line)

    @property
    def settable(self) -> Mapping[str, str]:
        return server_settings.SETTABLE

    def refuse_setting(self, of: str, key: str, options: EtcdOptions) -> str | None:
        return server_settings.refuse(key, options)

    def refuse_settings(self, artifacts: Artifacts, settings: Settings) -> str | None:
        return server_settings.refused_by_binary(artifacts, settings)

    async def taken(self, node: Node, artifacts: Artifacts, settings: Settings) -> list[Taken]:
        return server_settings.taken(node, settings)

    def attempts(self) -> AttemptReader:
        """`harness.systems.contract.fenced_attempts.TellsAttempts`."""
        return LeaseAttempts()

    async def told_version(self, node: Node, *, log_from: int) -> str:
        return await told_version.ask(*node.place.dial(CLIENT_PORT))

    def version_of(self, node: Node, artifacts: Artifacts) -> str:
        return artifacts.version

    def refuse_change(self, start: str, to: str, *, back: bool, options: EtcdOptions, settings: Settings) -> str | None:
        return told_version.refuse_change(start, to, back=back)

    def became_leader(self, line: str) -> int | None:
        found = _BECAME_LEADER.search(line)
        return int(found.group(1)) if found else None


def _argv(binary: str, place: Place, cluster: str, options: EtcdOptions, more: Mapping[str, str]) -> tuple[str, ...]:
    client, peer = _url(place.address, CLIENT_PORT), _url(*place.peer(PEER_PORT))
    flags = {
        "name": place.name,
        "data-dir": str(place.data / "etcd"),
        "listen-client-urls": client,
        "advertise-client-urls": client,
        # A name is refused here: etcd listens on addresses only.
        "listen-peer-urls": _url(place.address, place.peer(PEER_PORT)[1]),
        "initial-advertise-peer-urls": peer,
        "initial-cluster": cluster,
        # Ignored once there is data, so a restart has the same command line.
        "initial-cluster-state": "new",
        "initial-cluster-token": "fencepost",
        "heartbeat-interval": str(options.heartbeat.ms),
        "election-timeout": str(options.election.ms),
        "snapshot-count": str(options.snapshot_count),
        "quota-backend-bytes": str(_STORE_QUOTA_BYTES),
        "max-wals": "2",
        "max-snapshots": "2",
        # Pinned, since the epoch of a leader is read from this log.
        "logger": "zap",
        "log-level": "info",
        "log-outputs": "stderr",
    }
    return (binary, *(f"--{flag}={value}" for flag, value in {**flags, **more}.items()))


def _url(host: str, port: int) -> str:
    return f"http://{host}:{port}"


def disagreement(found: "list[Health]") -> str | None:
    """What is wrong with these members, in words; None when nothing is."""
    wrong = [f"{health.node}: {health.wrong}" for health in found if health.wrong]
    if wrong:
        return "; ".join(wrong)
    if len({(health.leader, health.term) for health in found}) != 1:
        return "the members disagree: " + ", ".join(
            f"{health.node} follows {health.leader:x} in term {health.term}" for health in found
        )
    return None


ETCD: Final = Etcd()
