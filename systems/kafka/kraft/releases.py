"""The releases of Kafka that run with a quorum of controllers: from 3.3.0 on, where KRaft is ready for production."""

from typing import Final

from fencepost.harness.java.archive_training import TrainingCluster
from fencepost.harness.java.java_releases import StartArchive
from fencepost.systems.kafka.kraft import configuration, health
from fencepost.systems.kafka.kraft.configuration import LISTENERS, NAME
from fencepost.systems.kafka.kraft.options import KraftOptions
from fencepost.systems.kafka.server import start as server
from fencepost.systems.kafka.server.releases import IMAGE_FOLDERS, IMAGE_HINT, MODES, KafkaReleases, ask_broker
from fencepost.systems.kafka.server.versions import JARS

_DEFAULT: Final = "4.3.1"
#: The archive of a node that is both serves pure controllers and brokers too (measured).
_COMBINED: Final = KraftOptions(combined=True)


ARCHIVE: Final = StartArchive(
    name=NAME,
    release=_DEFAULT,
    program=server.program(),
    cluster=TrainingCluster(
        members=configuration.members(1, _COMBINED),
        recorded=configuration.voter_name(1),
        listeners=LISTENERS,
        spec=configuration.spec,
        options=_COMBINED,
        serves=health.serves,
        ask=ask_broker,
    ),
    path=server.ARCHIVE,
)
RELEASES: Final = KafkaReleases(
    name=NAME,
    default=_DEFAULT,
    jars=JARS,
    archives=(ARCHIVE,),
    image_folders=IMAGE_FOLDERS,
    image_hint=IMAGE_HINT,
    same_jars_as=MODES,
    first=(3, 3, 0),
    outside="has no KRaft quorum fit for use",
    outside_hint="choose 3.3.0 or later, or --system kafka-zk",
)
