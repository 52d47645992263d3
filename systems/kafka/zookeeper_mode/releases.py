"""The releases of Kafka that run on ZooKeeper: from 2.8, which the client supports, until 4.0 removed the mode."""

from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract.system import BaseReleases
from fencepost.harness.runtime.artifacts import Artifacts, ImageFacts, ImageRecipe
from fencepost.harness.runtime.artifacts.java import Train, archive, existing_archive, find_java
from fencepost.systems.kafka.server import images, versions
from fencepost.systems.kafka.server import start as server
from fencepost.systems.kafka.server.image import recipe
from fencepost.systems.kafka.server.start import MAIN_CLASS
from fencepost.systems.kafka.zookeeper_mode.archive_training import train
from fencepost.systems.kafka.zookeeper_mode.configuration import KEEPER_CLASS, NAME

DEFAULT_VERSION: Final = "3.9.2"

_FIRST: Final = (2, 8, 0)
_WITHOUT_ZOOKEEPER: Final = (4, 0, 0)
#: By main class: the archive's name among the paths of the artifacts, and in the cache.
_ARCHIVES: Final = {MAIN_CLASS: ("archive", "kafka-zk"), KEEPER_CLASS: ("keeper-archive", "kafka-keeper")}


class KafkaZkReleases(BaseReleases):
    """`harness.contract.system.Releases`."""

    default: Final = DEFAULT_VERSION

    def known(self) -> tuple[str, ...]:
        return tuple(v for v in versions.known() if _FIRST <= versions.numbers(v) < _WITHOUT_ZOOKEEPER)

    def at_hand(self, version: str) -> bool:
        """Whether the jars and the start-up archives of this release are already in the cache."""
        if not versions.are_fetched(version):
            return False
        jars = versions.jars(version)
        keys = {_name(name, version): server.archive_key(jars, main) for main, (_, name) in _ARCHIVES.items()}
        return all(existing_archive(name, key) is not None for name, key in keys.items())

    def resolve(self, version: str) -> Artifacts:
        """Get a release or a folder of jars; makes the start-up archives when there are none yet."""
        release, jars = server.found_jars(version, refuse=refuse)
        versions.refuse_old_java(find_java(), versions.java_level(jars), release)
        made = {
            path: archive(_name(name, release), server.archive_key(jars, main_class), _trainer(main_class, jars))
            for main_class, (path, name) in _ARCHIVES.items()
        }
        return server.artifacts(release, jars, made)

    @property
    def image_recipe(self) -> ImageRecipe:
        return recipe(NAME, self.default, refuse)

    def in_image(self, image: ImageFacts) -> Artifacts:
        return images.in_image(image, refuse=refuse, keeper=True)


def refuse(version: str) -> None:
    """Raise UsageError for a release without this mode."""
    if not _FIRST <= versions.numbers(version) < _WITHOUT_ZOOKEEPER:
        raise UsageError(
            f"Kafka {version} is not run on ZooKeeper here: 2.8.0 to 3.9.x are",
            hint="choose one of them, or --system kraft",
        )


def _name(archive_name: str, version: str) -> str:
    # A name of their own: the archives of many releases must not displace the default's.
    return archive_name if version == DEFAULT_VERSION else f"other-{archive_name}"


def _trainer(main_class: str, jars: list[Path]) -> Train:
    return lambda flags: train(main_class, jars, flags)
