"""The releases of Kafka that can migrate from ZooKeeper to KRaft here: 3.6.0 to 3.9.x.

Earlier ones offer it as a preview, later ones have no ZooKeeper mode.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract.system import BaseReleases
from fencepost.harness.runtime.artifacts import Artifacts, ImageFacts, ImageRecipe
from fencepost.harness.runtime.artifacts.java import archive, existing_archive
from fencepost.systems.kafka.kraft.releases import archive_name
from fencepost.systems.kafka.server import images, versions
from fencepost.systems.kafka.server import start as server
from fencepost.systems.kafka.server.archive_training import train
from fencepost.systems.kafka.server.image import recipe
from fencepost.systems.kafka.zookeeper_mode.releases import DEFAULT_VERSION, KafkaZkReleases

NAME: Final = "kafka-bridge"
#: The start-up archive of servers in KRaft mode, among the paths of the artifacts.
KRAFT_ARCHIVE: Final = "kraft-archive"
_IN_ZOOKEEPER_MODE: Final = KafkaZkReleases()
_FIRST: Final = (3, 6, 0)
_END: Final = (4, 0, 0)


class BridgeReleases(BaseReleases):
    """`harness.contract.system.Releases`."""

    default: Final = DEFAULT_VERSION

    def known(self) -> tuple[str, ...]:
        return tuple(v for v in versions.known() if _FIRST <= versions.numbers(v) < _END)

    def at_hand(self, version: str) -> bool:
        """Whether the jars and all start-up archives of this release are already in the cache."""
        if not _IN_ZOOKEEPER_MODE.at_hand(version):
            return False
        return existing_archive(archive_name(version), server.archive_key(versions.jars(version))) is not None

    def resolve(self, version: str) -> Artifacts:
        """Get a release or a folder of jars; makes the start-up archives of both modes when there are none yet."""
        if not Path(version).is_dir():
            versions.refuse_word(version)
            refuse(version)
        artifacts = _IN_ZOOKEEPER_MODE.resolve(version)
        refuse(artifacts.version)
        jars, release = server.jars_of(artifacts), artifacts.version
        made = archive(archive_name(release), server.archive_key(jars), lambda flags: train(release, jars, flags))
        if made is None:
            return artifacts
        return replace(artifacts, paths={**artifacts.paths, KRAFT_ARCHIVE: str(made)})

    @property
    def image_recipe(self) -> ImageRecipe:
        return recipe(NAME, self.default, refuse)

    def in_image(self, image: ImageFacts) -> Artifacts:
        return images.in_image(image, refuse=refuse, keeper=True)


def refuse(version: str) -> None:
    """Raise UsageError for a release that cannot migrate."""
    if not _FIRST <= versions.numbers(version) < _END:
        raise UsageError(
            f"Kafka {version} cannot migrate from ZooKeeper to KRaft here: 3.6.0 to 3.9.x can",
            hint="choose one of them, or --system kafka-zk or kraft",
        )


def in_kraft_mode(artifacts: Artifacts) -> Artifacts:
    """The same artifacts with the start-up archive of servers in KRaft mode."""
    paths = {name: path for name, path in artifacts.paths.items() if name != "archive"}
    made = artifacts.paths.get(KRAFT_ARCHIVE)
    return replace(artifacts, paths=paths if made is None else {**paths, "archive": made})
