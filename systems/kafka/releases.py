"""The releases of Kafka in each mode, which run from the same jars, and their start-up archives.

With a quorum of controllers: from 3.3.0 on, where KRaft is ready for production. On ZooKeeper: from 2.8, which the
client supports, until 4.0 removed the mode. On the way from one to the other: 3.6.0 to 3.9.x; earlier ones offer it as
a preview.
"""

from dataclasses import replace
from functools import partial
from typing import Final

from fencepost.harness.java.archive_training import TrainingCluster
from fencepost.harness.java.java_releases import StartArchive
from fencepost.harness.runtime.node import Member
from fencepost.systems.kafka.server import configuration, health
from fencepost.systems.kafka.server import start as server
from fencepost.systems.kafka.server.configuration import BRIDGE, BROKER, KEEPER, KRAFT, ZOOKEEPER_MODE
from fencepost.systems.kafka.server.options import KafkaZkOptions, KraftOptions
from fencepost.systems.kafka.server.releases import IMAGE_FOLDERS, IMAGE_HINT, MODES, KafkaReleases, ask_broker
from fencepost.systems.kafka.server.versions import JARS
from fencepost.systems.zookeeper import releases as zookeeper
from fencepost.systems.zookeeper.configuration import MAIN_CLASS

_DEFAULT: Final = "4.3.1"
_DEFAULT_WITH_ZOOKEEPER: Final = "3.9.2"
_END_OF_ZOOKEEPER: Final = (4, 0, 0)
#: The archive of a node that is both serves pure controllers and brokers too (measured).
_COMBINED: Final = KraftOptions(combined=True)
_KEEPER: Final = Member("z1", (KEEPER,))
_BROKER: Final = Member("b1", (BROKER,))

_ARCHIVE: Final = StartArchive(
    name=KRAFT.name,
    release=_DEFAULT,
    program=server.program(),
    cluster=TrainingCluster(
        members=configuration.controllers(1, combined=True),
        recorded="n1",
        listeners=KRAFT.listeners,
        spec=KRAFT.spec,
        options=_COMBINED,
        serves=health.serves,
        ask=ask_broker,
    ),
    path=server.ARCHIVE,
)
_ZOOKEEPER_ALONE: Final = TrainingCluster(
    members=(_KEEPER,),
    recorded=_KEEPER.name,
    listeners=ZOOKEEPER_MODE.listeners,
    spec=ZOOKEEPER_MODE.spec,
    options=KafkaZkOptions(),
    serves=health.serves,
    ask=zookeeper.ask,
)
_ARCHIVES_WITH_ZOOKEEPER: Final = (
    StartArchive(
        name="kafka-zk",
        release=_DEFAULT_WITH_ZOOKEEPER,
        program=server.program(),
        cluster=replace(_ZOOKEEPER_ALONE, members=(_KEEPER, _BROKER), recorded=_BROKER.name, ask=ask_broker),
        path=server.ARCHIVE,
    ),
    StartArchive(
        name="kafka-keeper",
        release=_DEFAULT_WITH_ZOOKEEPER,
        program=server.program(MAIN_CLASS),
        cluster=_ZOOKEEPER_ALONE,
        path=server.KEEPER_ARCHIVE,
    ),
)
_releases = partial(KafkaReleases, jars=JARS, image_folders=IMAGE_FOLDERS, image_hint=IMAGE_HINT, same_jars_as=MODES)

KRAFT_RELEASES: Final = _releases(
    name=KRAFT.name,
    default=_DEFAULT,
    archives=(_ARCHIVE,),
    first=(3, 3, 0),
    outside="has no KRaft quorum fit for use",
    outside_hint="choose 3.3.0 or later, or --system kafka-zk",
)
ZOOKEEPER_MODE_RELEASES: Final = _releases(
    name=ZOOKEEPER_MODE.name,
    default=_DEFAULT_WITH_ZOOKEEPER,
    archives=_ARCHIVES_WITH_ZOOKEEPER,
    first=(2, 8, 0),
    end=_END_OF_ZOOKEEPER,
    outside="is not run on ZooKeeper here: 2.8.0 to 3.9.x are",
    outside_hint="choose one of them, or --system kraft",
    keeper=True,
)
BRIDGE_RELEASES: Final = _releases(
    name=BRIDGE.name,
    default=_DEFAULT_WITH_ZOOKEEPER,
    archives=(*_ARCHIVES_WITH_ZOOKEEPER, replace(_ARCHIVE, path=server.KRAFT_ARCHIVE)),
    first=(3, 6, 0),
    end=_END_OF_ZOOKEEPER,
    outside="cannot migrate from ZooKeeper to KRaft here: 3.6.0 to 3.9.x can",
    outside_hint="choose one of them, or --system kafka-zk or kraft",
    keeper=True,
)
