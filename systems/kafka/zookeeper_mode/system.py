"""Kafka with its metadata in ZooKeeper, as it was before 4.0, as a system under test."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.base.options import seconds
from fencepost.harness.contract.logs import LogTable, epoch
from fencepost.harness.contract.profile import Profile
from fencepost.harness.contract.releases import Versions, minor
from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.contract.system import Question
from fencepost.harness.coordination import ReadMode
from fencepost.harness.runtime.node import Layout, Member, Place
from fencepost.harness.verdict import LeadershipBound, SessionBound, Vocabulary
from fencepost.systems.kafka.client.question import ControllerQuestion, ViewQuestion
from fencepost.systems.kafka.client.sessions import INTERFACES, LEADER_WORD, WANTS
from fencepost.systems.kafka.contract.failover import failover
from fencepost.systems.kafka.guarantees import broker_numbers
from fencepost.systems.kafka.names import CLIENT_PORT
from fencepost.systems.kafka.releases import ZOOKEEPER_MODE_RELEASES
from fencepost.systems.kafka.server import configuration, health, reported_version
from fencepost.systems.kafka.server.configuration import BROKER, KEEPER, ZOOKEEPER_MODE
from fencepost.systems.kafka.server.fenced_attempts import ENTRY, attempted
from fencepost.systems.kafka.server.log_lines import BEGINS, Layer
from fencepost.systems.kafka.server.logged_changes import changed
from fencepost.systems.kafka.server.options import KafkaZkOptions
from fencepost.systems.kafka.server.settings import kafka_settings
from fencepost.systems.kafka.server.start import FAILED
from fencepost.systems.kafka.zookeeper_mode.administrator import ZnodeAdministrator, open_administrator
from fencepost.systems.kafka.zookeeper_mode.beside_keepers import KafkaBesideKeepers, reported_version_of, version_of
from fencepost.systems.kafka.zookeeper_mode.guarantees import LEADERSHIP, resume_bound
from fencepost.systems.kafka.zookeeper_mode.question import (
    DatedQuestion,
    ZnodeQuestion,
    dated_controller,
    dated_view,
)
from fencepost.systems.kafka.zookeeper_mode.role_log import RoleLog
from fencepost.systems.kafka.zookeeper_mode.transaction_log import read_archive
from fencepost.systems.zookeeper.configuration import CLIENT_PORT as KEEPER_PORT

name_of: Final = ZOOKEEPER_MODE.node_name
#: The subjects of beliefs: who acts as the controller, and which controller a broker knows.
CONTROLLER: Final = "controller"
VIEW: Final = "view"
#: A node's log among its kept files.
LOG: Final = "server.log"

_PROTOCOL_VERSION: Final = "inter.broker.protocol.version"


def _refuse_change(start: str, to: str, back: bool, settings: Settings) -> Refusal | None:
    """Refuse a change between minor releases unless brokers use the older release's protocol with each other.

    Source: Kafka's documentation, "Upgrading", of every release with ZooKeeper: first all brokers get the
    inter.broker.protocol.version of the older release.
    """
    older, newer = (to, start) if reported_version.is_older(to, start) else (start, to)
    known = minor(older)
    if known is None or minor(newer) in (None, known):
        return None
    protocol = minor(settings.get(ZOOKEEPER_MODE.name, {}).get(_PROTOCOL_VERSION, ""))
    if protocol is not None and protocol <= known:
        return None
    wanted = ".".join(map(str, known))
    return Refusal(
        f"brokers of {newer} would use a protocol that brokers of {older} do not know",
        f"add --set {ZOOKEEPER_MODE.name}.{_PROTOCOL_VERSION}={wanted}",
    )


class KafkaZk(KafkaBesideKeepers[KafkaZkOptions]):
    """Kafka in ZooKeeper mode as a `System`; one object, without state."""

    profile = Profile(
        name=ZOOKEEPER_MODE.name,
        java=True,
        options=KafkaZkOptions,
        interfaces=INTERFACES,
        reads={ReadMode.PLAIN: "metadata-forward"},
        listeners=ZOOKEEPER_MODE.listeners,
        subjects=(CONTROLLER, VIEW),
        leader_word=LEADER_WORD,
        wants=WANTS,
        vocabulary=Vocabulary(
            epoch="controller epoch", subjects={CONTROLLER: "KafkaController", VIEW: "MetadataCache"}
        ),
    )
    releases = ZOOKEEPER_MODE_RELEASES
    deployment = ZOOKEEPER_MODE
    settings = kafka_settings(ZOOKEEPER_MODE.name, (KEEPER,))
    read_log = staticmethod(read_archive)
    versions = Versions(reported=reported_version_of, expected=version_of, refuse_change=_refuse_change)
    logs = LogTable(
        became_leader={BEGINS[Layer.ZOOKEEPER]: epoch},
        failed=FAILED,
        changed=changed({Layer.ZOOKEEPER: CONTROLLER}),
        attempted=attempted(name_of),
        entry=ENTRY,
    )
    failover: Final = failover(
        options=KafkaZkOptions(zk_session=seconds(2), heap_mib=1024, data_limit_mib=2048),
        loading=("successfully elected as the controller", "Starting the controller scheduler"),
        about="three ZooKeeper servers stand beside the brokers; a broker's session with them lasts 2 s",
    )
    guarantees = Path(__file__).with_name("guarantees.toml")
    resume_bound = staticmethod(resume_bound)

    def members(self, nodes: int, options: KafkaZkOptions) -> tuple[Member, ...]:
        return (*configuration.keepers(), *configuration.brokers(nodes))

    def leadership(self, options: KafkaZkOptions, version: str = "") -> LeadershipBound:
        return LEADERSHIP

    def session_bound(self, members: Sequence[Member], options: KafkaZkOptions) -> SessionBound:
        return SessionBound(
            nodes=broker_numbers(members),
            session_ns=options.zk_session,
            held_by_leader=False,
            source=f"zookeeper.session.timeout.ms {options.zk_session}",
        )

    async def healthy(self, layout: Layout) -> str | None:
        return await health.at_zookeeper(layout)

    async def open_administrator(self, running: Sequence[Place]) -> ZnodeAdministrator:
        return await open_administrator([place for place in running if BROKER not in place.roles])

    def question(self, place: Place, subject: str) -> Question | None:
        """Ask brokers about both subjects, and ZooKeeper servers about their copy of /controller."""
        if BROKER not in place.roles:
            return ZnodeQuestion(*place.dial(KEEPER_PORT)) if subject == CONTROLLER else None
        log = RoleLog(place.kept / LOG)
        if subject == CONTROLLER:
            question = ControllerQuestion(place.number, *place.dial(CLIENT_PORT), name_of)
            return DatedQuestion(question, log, dated_controller)
        if subject == VIEW:
            return DatedQuestion(ViewQuestion(place.number, *place.dial(CLIENT_PORT), name_of), log, dated_view)
        return None
