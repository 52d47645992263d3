"""Kafka on its way from ZooKeeper to KRaft, as a system under test."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract.logs import LogTable, epoch
from fencepost.harness.contract.profile import Profile
from fencepost.harness.contract.releases import Versions
from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.contract.system import Question
from fencepost.harness.coordination import ReadMode
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.node import Layout, Member, Place
from fencepost.harness.runtime.server_log import SERVER_LOG
from fencepost.harness.verdict import LeadershipBound, ResumeBound, SessionBound, Vocabulary
from fencepost.systems.kafka.bridge import session
from fencepost.systems.kafka.bridge.logs import read_archive
from fencepost.systems.kafka.bridge.migration import BridgeMigration
from fencepost.systems.kafka.bridge.question import CLAIMED, BrokerQuestion, ClaimedQuestion, ClaimLog
from fencepost.systems.kafka.client.question import ControllerQuestion, QuorumQuestion
from fencepost.systems.kafka.client.session import KafkaSession
from fencepost.systems.kafka.client.sessions import INTERFACES, LEADER_WORD, WANTS
from fencepost.systems.kafka.contract.failover import failover
from fencepost.systems.kafka.guarantees import broker_numbers
from fencepost.systems.kafka.kraft import guarantees as kraft
from fencepost.systems.kafka.names import CLIENT_PORT
from fencepost.systems.kafka.releases import BRIDGE_RELEASES
from fencepost.systems.kafka.server import configuration, health
from fencepost.systems.kafka.server.configuration import BRIDGE, CONTROLLER, KEEPER
from fencepost.systems.kafka.server.log_lines import BEGINS, Layer
from fencepost.systems.kafka.server.logged_changes import changed
from fencepost.systems.kafka.server.options import BridgeOptions
from fencepost.systems.kafka.server.settings import kafka_settings
from fencepost.systems.kafka.server.start import FAILED
from fencepost.systems.kafka.zookeeper_mode.beside_keepers import KafkaBesideKeepers, reported_version_of, version_of
from fencepost.systems.kafka.zookeeper_mode.guarantees import LEADERSHIP, resume_bound
from fencepost.systems.kafka.zookeeper_mode.question import ZnodeQuestion
from fencepost.systems.zookeeper.configuration import CLIENT_PORT as KEEPER_PORT

#: The subjects of beliefs: who acts as the controller, and who leads the quorum of KRaft controllers.
ACTS: Final = "controller"
RAFT: Final = "raft"
#: How long a controller that is cut off is watched.
_WATCH_NS: Final = 15_000_000_000


class KafkaBridge(KafkaBesideKeepers[BridgeOptions]):
    """A migrating Kafka as a `System`; one object, without state."""

    profile = Profile(
        name=BRIDGE.name,
        java=True,
        options=BridgeOptions,
        interfaces=INTERFACES,
        reads={ReadMode.PLAIN: "metadata-forward"},
        listeners=BRIDGE.listeners,
        subjects=(ACTS, RAFT),
        leader_word=LEADER_WORD,
        wants=WANTS,
        sizes=(3,),
        vocabulary=Vocabulary(
            epoch="controller epoch", subjects={ACTS: "controller (/controller)", RAFT: "KRaft quorum"}
        ),
    )
    releases = BRIDGE_RELEASES
    deployment = BRIDGE
    settings = kafka_settings(BRIDGE.name, (KEEPER,))
    read_log = staticmethod(read_archive)
    versions = Versions(
        reported=reported_version_of,
        expected=version_of,
        refuse_change=lambda *_: Refusal(
            "a migration is made by one release of Kafka", "use --system kafka-zk or kraft for an upgrade"
        ),
    )
    logs = LogTable(
        # The controller epoch of an election or a claim; the quorum of KRaft controllers has epochs of its own.
        took_over={CLAIMED: epoch, BEGINS[Layer.ZOOKEEPER]: epoch},
        failed=FAILED,
        changed=changed({Layer.ZOOKEEPER: ACTS, Layer.RAFT: RAFT}),
    )
    failover: Final = failover(
        options=BridgeOptions(brokers=3, heap_mib=1024, data_limit_mib=2048),
        loading=("Starting ZK migration", "Completed migration of metadata from Zoo"),
        about="three ZooKeepers, three brokers and three KRaft controllers, with Kafka's own time-outs of the quorum;"
        " it begins in ZooKeeper mode and goes through all phases",
        nemesis="migrate",
        time_limit="",
    )
    guarantees = Path(__file__).with_name("guarantees.toml")

    def members(self, nodes: int, options: BridgeOptions) -> tuple[Member, ...]:
        joining = configuration.controllers_that_join()
        return (*configuration.keepers(), *joining, *configuration.brokers(options.brokers))

    def migration(
        self, layout: Layout, artifacts: Artifacts, options: BridgeOptions, settings: Settings
    ) -> BridgeMigration:
        """`systems.kafka.contract.migration.MigratesMetadata`."""
        return BridgeMigration(layout, artifacts, options, settings)

    def leadership(self, options: BridgeOptions, version: str = "") -> LeadershipBound:
        return msgspec.structs.replace(LEADERSHIP, watch_ns=_WATCH_NS)

    def session_bound(self, members: Sequence[Member], options: BridgeOptions) -> SessionBound:
        longest = max(options.zk_session, options.broker_session)
        return SessionBound(
            nodes=broker_numbers(members),
            session_ns=longest,
            held_by_leader=False,
            source=f"the longer of zookeeper.session.timeout.ms and broker.session.timeout.ms, {longest}",
        )

    def resume_bound(self, options: BridgeOptions) -> ResumeBound:
        """Both, one after the other: a migration that a fault met may need either store."""
        both = resume_bound(options), kraft.resume_bound(options)
        return ResumeBound(bound_ns=sum(one.bound_ns for one in both), source="; ".join(one.source for one in both))

    async def healthy(self, layout: Layout) -> str | None:
        return await health.in_migration(layout)

    async def open_client(
        self, place: Place, interface: str, *, connect_timeout_s: float, options: BridgeOptions | None = None
    ) -> KafkaSession:
        return await session.open_session(place, interface, connect_timeout_s=connect_timeout_s)

    def question(self, place: Place, subject: str) -> Question | None:
        """Ask brokers and KRaft controllers whether they act, ZooKeepers who holds /controller."""
        if KEEPER in place.roles:
            return ZnodeQuestion(*place.dial(KEEPER_PORT), name_of=BRIDGE.node_name) if subject == ACTS else None
        where, log = place.dial(CLIENT_PORT), place.kept / SERVER_LOG
        if CONTROLLER not in place.roles:
            return BrokerQuestion(place.number, *where, log) if subject == ACTS else None
        if subject == ACTS:
            return ClaimedQuestion(ControllerQuestion(place.number, *where, BRIDGE.node_name), ClaimLog(log))
        return QuorumQuestion(place.number, *where, BRIDGE.node_name) if subject == RAFT else None
