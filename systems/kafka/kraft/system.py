"""Kafka with a quorum of controllers of its own (KRaft) as a system under test."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import Refusal
from fencepost.harness.contract.logs import LogMoment, LogTable, epoch
from fencepost.harness.contract.members import MemberChanges
from fencepost.harness.contract.profile import Profile
from fencepost.harness.contract.releases import Versions
from fencepost.harness.contract.server_settings import Settings
from fencepost.harness.contract.system import Question
from fencepost.harness.coordination import Definite, ReadMode
from fencepost.harness.runtime.node import Layout, Member, Place
from fencepost.harness.verdict import LeadershipBound, SessionBound, Vocabulary
from fencepost.systems.kafka.client.question import ControllerQuestion, QuorumQuestion
from fencepost.systems.kafka.client.sessions import INTERFACES, LEADER_WORD, WANTS
from fencepost.systems.kafka.guarantees import broker_numbers, unpromised
from fencepost.systems.kafka.kraft import features, membership
from fencepost.systems.kafka.kraft.catching_up import CAUGHT_UP
from fencepost.systems.kafka.kraft.failover import FAILOVER
from fencepost.systems.kafka.kraft.guarantees import ACTIVE_CONTROLLER, leadership_bound, resume_bound
from fencepost.systems.kafka.kraft.membership import KraftMembership
from fencepost.systems.kafka.kraft.metadata_log import read_archive
from fencepost.systems.kafka.names import CLIENT_PORT, CONTROLLER_PORT
from fencepost.systems.kafka.protocols import KafkaInterface
from fencepost.systems.kafka.releases import KRAFT_RELEASES
from fencepost.systems.kafka.server import configuration, health, reported_version
from fencepost.systems.kafka.server.configuration import BROKER, CONTROLLER, KRAFT
from fencepost.systems.kafka.server.log_lines import BEGINS, Layer
from fencepost.systems.kafka.server.logged_changes import changed
from fencepost.systems.kafka.server.options import KraftOptions
from fencepost.systems.kafka.server.settings import kafka_settings
from fencepost.systems.kafka.server.start import FAILED
from fencepost.systems.kafka.server.system import Kafka

#: The subject of beliefs beside `ACTIVE_CONTROLLER`: the layer below it.
RAFT: Final = "raft"


def _refuse_change(start: str, to: str, back: bool, settings: Settings) -> Refusal | None:
    """Refuse releases older than the first: they do not know the cluster's metadata.version (KIP-778).

    That version stays when nodes become newer, so that they can go back.
    """
    if reported_version.is_older(to, start):
        return Refusal(
            f"{to} does not know the metadata.version of a cluster that began as {start}", "choose a newer release"
        )
    return None


class Kraft(Kafka[KraftOptions]):
    """KRaft as a `System`; one object, without state."""

    profile = Profile(
        name=KRAFT.name,
        java=True,
        options=KraftOptions,
        interfaces=INTERFACES | {KafkaInterface.METADATA_LOG},
        # Every node answers reads of settings from its own copy.
        reads={ReadMode.PLAIN: "metadata-forward"},
        listeners=KRAFT.listeners,
        # The raft layer goes first: its answers carry their epoch.
        subjects=(RAFT, ACTIVE_CONTROLLER),
        leader_word=LEADER_WORD,
        wants=WANTS,
        vocabulary=Vocabulary(
            epoch="controller epoch", subjects={RAFT: "raft layer", ACTIVE_CONTROLLER: "QuorumController"}
        ),
    )
    releases = KRAFT_RELEASES
    guarantees = Path(__file__).with_name("guarantees.toml")
    deployment = KRAFT
    settings = kafka_settings(KRAFT.name)
    unpromised = staticmethod(unpromised)
    read_log = staticmethod(read_archive)
    versions = Versions(reported=reported_version.read, refuse_change=_refuse_change)
    member_changes = MemberChanges(
        of=lambda layout, artifacts: KraftMembership(layout, artifacts.version), fixed=membership.fixed
    )
    logs = LogTable(
        became_leader={BEGINS[Layer.RAFT]: epoch},
        failed=FAILED,
        caught_up=CAUGHT_UP,
        reached={r"Completed transition to (Prospective|Candidate)State\(": LogMoment.ELECTION},
        changed=changed({Layer.RAFT: RAFT, Layer.CONTROLLER: ACTIVE_CONTROLLER}),
    )
    failover: Final = FAILOVER
    resume_bound = staticmethod(resume_bound)

    def members(self, nodes: int, options: KraftOptions) -> tuple[Member, ...]:
        controllers = configuration.controllers(nodes, combined=options.combined)
        return controllers if options.combined else (*controllers, *configuration.brokers(options.brokers))

    def leadership(self, options: KraftOptions, version: str = "") -> LeadershipBound:
        return leadership_bound(version or self.releases.default, options.fetch, options.election)

    def session_bound(self, members: Sequence[Member], options: KraftOptions) -> SessionBound:
        return SessionBound(
            nodes=broker_numbers(members),
            session_ns=options.broker_session,
            held_by_leader=True,
            source=f"broker.session.timeout.ms {options.broker_session}",
        )

    async def healthy(self, layout: Layout) -> str | None:
        return await health.in_kraft(layout)

    def question(self, place: Place, subject: str) -> Question | None:
        """Ask controllers about both layers, and brokers about the raft layer, which shows whom they follow."""
        port = CONTROLLER_PORT if {CONTROLLER, BROKER} <= set(place.roles) else CLIENT_PORT
        if subject == RAFT:
            return QuorumQuestion(place.number, *place.dial(port), KRAFT.node_name)
        if subject == ACTIVE_CONTROLLER and CONTROLLER in place.roles:
            return ControllerQuestion(place.number, *place.dial(port), KRAFT.node_name)
        return None

    async def raise_features(self, running: Sequence[Place], version: str) -> str:
        brokers = [place for place in running if BROKER in place.roles]
        if not brokers:
            raise Definite("no-broker", "no broker runs that could be asked")
        return await features.raise_features(brokers[0].dial(CLIENT_PORT), version)
