"""The releases of Kafka that can migrate from ZooKeeper to KRaft here: 3.6.0 to 3.9.x.

Earlier ones offer it as a preview, later ones have no ZooKeeper mode.
"""

from dataclasses import replace
from typing import Final

from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.systems.kafka.kraft.releases import ARCHIVE as KRAFT_ARCHIVE
from fencepost.systems.kafka.server import start as server
from fencepost.systems.kafka.server.releases import IMAGE_FOLDERS, IMAGE_HINT, MODES, KafkaReleases
from fencepost.systems.kafka.server.versions import JARS
from fencepost.systems.kafka.zookeeper_mode.releases import ARCHIVES, DEFAULT, END

NAME: Final = "kafka-bridge"
#: The start-up archive of servers in KRaft mode, among the paths of the artifacts.
_IN_KRAFT_MODE: Final = "kraft-archive"

RELEASES: Final = KafkaReleases(
    name=NAME,
    default=DEFAULT,
    jars=JARS,
    archives=(*ARCHIVES, replace(KRAFT_ARCHIVE, path=_IN_KRAFT_MODE)),
    image_folders=IMAGE_FOLDERS,
    image_hint=IMAGE_HINT,
    same_jars_as=MODES,
    first=(3, 6, 0),
    end=END,
    outside="cannot migrate from ZooKeeper to KRaft here: 3.6.0 to 3.9.x can",
    outside_hint="choose one of them, or --system kafka-zk or kraft",
    keeper=True,
)


def in_kraft_mode(artifacts: Artifacts) -> Artifacts:
    """The same artifacts with the start-up archive of servers in KRaft mode."""
    paths = {name: path for name, path in artifacts.paths.items() if name != server.ARCHIVE}
    made = artifacts.paths.get(_IN_KRAFT_MODE)
    return replace(artifacts, paths=paths if made is None else {**paths, server.ARCHIVE: made})
