"""The releases of Kafka that run on ZooKeeper: from 2.8, which the client supports, until 4.0 removed the mode."""

from typing import Final

from fencepost.harness.java.archive_training import TrainingCluster
from fencepost.harness.java.java_releases import StartArchive
from fencepost.harness.runtime.node import Member
from fencepost.systems.kafka.server import start as server
from fencepost.systems.kafka.server.releases import IMAGE_FOLDERS, IMAGE_HINT, MODES, KafkaReleases, ask_broker
from fencepost.systems.kafka.server.versions import JARS
from fencepost.systems.kafka.zookeeper_mode import configuration, health
from fencepost.systems.kafka.zookeeper_mode.configuration import BROKER, KEEPER, KEEPER_CLASS, LISTENERS, NAME
from fencepost.systems.kafka.zookeeper_mode.options import KafkaZkOptions
from fencepost.systems.zookeeper import releases as zookeeper

DEFAULT: Final = "3.9.2"
END: Final = (4, 0, 0)
_KEEPER: Final = Member("z1", (KEEPER,))
_BROKER: Final = Member("b1", (BROKER,))


_ZOOKEEPER_ALONE: Final = TrainingCluster(
    members=(_KEEPER,),
    recorded=_KEEPER.name,
    listeners=LISTENERS,
    spec=configuration.spec,
    options=KafkaZkOptions(),
    serves=health.serves,
    ask=zookeeper.ask,
)
_BROKER_ON_ZOOKEEPER: Final = TrainingCluster(
    members=(_KEEPER, _BROKER),
    recorded=_BROKER.name,
    listeners=LISTENERS,
    spec=configuration.spec,
    options=KafkaZkOptions(),
    serves=health.serves,
    ask=ask_broker,
)
ARCHIVES: Final = (
    StartArchive(
        name="kafka-zk", release=DEFAULT, program=server.program(), cluster=_BROKER_ON_ZOOKEEPER, path=server.ARCHIVE
    ),
    StartArchive(
        name="kafka-keeper",
        release=DEFAULT,
        program=server.program(KEEPER_CLASS),
        cluster=_ZOOKEEPER_ALONE,
        path=server.KEEPER_ARCHIVE,
    ),
)
RELEASES: Final = KafkaReleases(
    name=NAME,
    default=DEFAULT,
    jars=JARS,
    archives=ARCHIVES,
    image_folders=IMAGE_FOLDERS,
    image_hint=IMAGE_HINT,
    same_jars_as=MODES,
    first=(2, 8, 0),
    end=END,
    outside="is not run on ZooKeeper here: 2.8.0 to 3.9.x are",
    outside_hint="choose one of them, or --system kraft",
    keeper=True,
)
