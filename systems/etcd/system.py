"""etcd as a system under test: how it starts, what it promises, how one member is asked.

The client and its messages are imported only when a member is asked, so that the command line starts quickly.
"""

import asyncio
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract.logs import LogMoment, LogTable, epoch
from fencepost.harness.contract.members import MemberChanges
from fencepost.harness.contract.profile import Profile
from fencepost.harness.contract.releases import Versions
from fencepost.harness.contract.system import (
    BaseSystem,
    MaintenanceRequest,
    Question,
    ReplicaState,
    ReportedTime,
    WatchKinds,
)
from fencepost.harness.coordination import ClientSession, Interface, ReadMode, WatchMode
from fencepost.harness.history import CatchUp, Clock, NodeLog
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, Node, Place
from fencepost.harness.verdict import Vocabulary
from fencepost.systems.etcd import configuration, reported_version
from fencepost.systems.etcd.configuration import CLIENT_PORT, PEER_PORT, url
from fencepost.systems.etcd.fenced_attempts import ATTEMPTED
from fencepost.systems.etcd.guarantees import GUARANTEES, leadership_bound, lease_bound, resume_bound, unpromised
from fencepost.systems.etcd.options import EtcdOptions
from fencepost.systems.etcd.releases import RELEASES
from fencepost.systems.etcd.settings import REFUSED, SETTINGS

if TYPE_CHECKING:
    from fencepost.systems.etcd.health import EtcdHealth
    from fencepost.systems.etcd.membership import EtcdMembership

#: One attempt to ask a member whether it serves.
_ATTEMPT_S: Final = 1.0
#: Lines of raft's logger in zap's JSON: {"level":"info",...,"msg":"8e9e05c52164694d became leader at term 2"}.
_LOGS: Final = LogTable(
    became_leader={r'"msg":"[0-9a-f]+ became leader at term (\d+)"': epoch},
    failed={rf"^\s*({REFUSED})": lambda match: f"etcd says: {match[1]}"},
    # EtcdServer.applySnapshot, raft's findConflict, EtcdServer.snapshot; nothing of the entries that it is sent.
    caught_up={
        '"msg":"applied snapshot"': CatchUp.SNAPSHOT,
        r'"msg":"found conflict at index \d+': CatchUp.TRUNCATION,
        '"msg":"saved snapshot"': CatchUp.SAVED,
    },
    reached={
        r'"msg":"[0-9a-f]+ is starting a new election at term': LogMoment.ELECTION,
        '"msg":"(compacted Raft logs|finished scheduled compaction)"': LogMoment.COMPACTION,
    },
    attempted=ATTEMPTED,
)


async def _request(name: str, node: Node) -> str:
    from fencepost.systems.etcd.maintenance import REQUESTS

    return await REQUESTS[name](node)


def _membership(layout: Layout, artifacts: Artifacts, *, learners: bool = False) -> "EtcdMembership":
    from fencepost.systems.etcd.membership import EtcdMembership

    return EtcdMembership(
        layout, client_port=CLIENT_PORT, peer_url=lambda place: url(*place.peer(PEER_PORT)), learners=learners
    )


def _read_log(archive: Path, node: str) -> NodeLog | None:
    from fencepost.systems.etcd.write_ahead_log import read_archive

    return read_archive(archive, node)


class Etcd(BaseSystem[EtcdOptions]):
    """`harness.contract.system.System`."""

    profile = Profile(
        name="etcd",
        options=EtcdOptions,
        interfaces=frozenset(
            {
                Interface.STORAGE,
                Interface.LOCKS,
                Interface.ELECTION,
                Interface.LEASES,
                Interface.MEMBERSHIP,
                Interface.METASTORE,
                Interface.LISTENERS,
                Interface.LISTS,
            }
        ),
        # Plain (serializable) reads at most keep the order of one session.
        reads={ReadMode.STRONG: "linearizable", ReadMode.PLAIN: "session-order"},
        listeners=configuration.LISTENERS,
        vocabulary=Vocabulary(epoch="term"),
        sizes=(1, 3, 5),
    )
    releases = RELEASES
    guarantees = GUARANTEES
    spec = staticmethod(configuration.spec)
    settings = SETTINGS
    maintenance = MappingProxyType(
        {
            name: MaintenanceRequest(partial(_request, name))
            for name in ("compact", "defragment", "range-at-old-revision", "update-member")
        }
    )
    logs = _LOGS
    watches = WatchKinds(modes=(WatchMode.PERSISTENT,), resumes=True, keys_together=True)
    leadership = staticmethod(leadership_bound)
    resume_bound = staticmethod(resume_bound)
    lease_bound = staticmethod(lease_bound)
    unpromised = staticmethod(unpromised)
    read_log = staticmethod(_read_log)
    versions = Versions(
        reported=lambda node, _: reported_version.ask(*node.place.dial(CLIENT_PORT)),
        refuse_change=lambda start, to, back, _: reported_version.refuse_change(start, to, back=back),
    )
    member_changes = MemberChanges(
        of=_membership,
        learners=partial(_membership, learners=True),
        wiped=Refusal("etcd gives an added member a new id and never accepts the old one again", "leave out wipe=no"),
    )

    async def ready(self, node: Node) -> bool:
        """Whether the member answers Status and knows a leader."""
        from fencepost.systems.etcd import health as probe

        try:
            return bool((await probe.status(*node.place.dial(CLIENT_PORT), _ATTEMPT_S)).leader)
        except probe._NoAnswer:
            return False

    async def healthy(self, layout: Layout) -> str | None:
        """Check that members answer Status and a linearizable read, and agree on leader and term."""
        from fencepost.systems.etcd import health as probe

        members = await asyncio.gather(
            *(probe.health(place.name, *place.dial(CLIENT_PORT), _ATTEMPT_S) for place in layout.values())
        )
        return disagreement(members)

    async def open_client(
        self, place: Place, interface: str, *, connect_timeout_s: float, options: EtcdOptions | None = None
    ) -> ClientSession:
        from fencepost.systems.etcd.client import SESSIONS
        from fencepost.systems.etcd.wire.grpc_call import connect

        connection = await connect(*place.dial(CLIENT_PORT), connect_timeout_s)
        return SESSIONS[interface](connection, options or EtcdOptions())

    async def move_leadership(self, leader: Place, to: Place, *, timeout_s: float) -> None:
        from fencepost.systems.etcd.move_leadership import move_leader

        await move_leader(*leader.dial(CLIENT_PORT), to.name, timeout_s)

    def question(self, place: Place, subject: str) -> Question:
        from fencepost.systems.etcd.question import EtcdQuestion

        return EtcdQuestion(*place.dial(CLIENT_PORT))

    async def replica_states(self, place: Place) -> list[ReplicaState]:
        from fencepost.systems.etcd import replicas

        return await replicas.read(place)

    async def reported_time(self, place: Place, clock: Clock) -> ReportedTime | None:
        from fencepost.systems.etcd import server_clock

        return await server_clock.ask(*place.dial(CLIENT_PORT)) if clock is Clock.WALL else None


def disagreement(members: "list[EtcdHealth]") -> str | None:
    """What is wrong with these members, in words; None when nothing is wrong."""
    wrong = [f"{health.node}: {health.wrong}" for health in members if health.wrong]
    if wrong:
        return "; ".join(wrong)
    if len({(health.leader, health.term) for health in members}) != 1:
        return "the members disagree: " + ", ".join(
            f"{health.node} follows {health.leader:x} in term {health.term}" for health in members
        )
    return None


ETCD: Final = Etcd()
