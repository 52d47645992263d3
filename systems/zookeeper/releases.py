"""ZooKeeper's releases: the jars inside pyspark by default, those of `versions`, and any by its folder of jars."""

from pathlib import Path
from typing import Final

from fencepost.harness.contract.system import BaseReleases
from fencepost.harness.runtime.artifacts import Artifacts, ImageFacts, ImageRecipe
from fencepost.harness.runtime.artifacts.java import archive, existing_archive
from fencepost.systems.zookeeper import configuration, versions
from fencepost.systems.zookeeper import image as zookeeper_image
from fencepost.systems.zookeeper.archive_training import train

_ARCHIVE: Final = "zookeeper"


class ZooKeeperReleases(BaseReleases):
    """`harness.contract.system.Releases`."""

    default: Final = configuration.PACKAGED_VERSION

    def known(self) -> tuple[str, ...]:
        return versions.known()

    def resolve(self, version: str) -> Artifacts:
        """Get a known release or a folder of jars; makes the start-up archive when there is none yet."""
        if Path(version).is_dir():
            version, jars = configuration.given(Path(version).absolute())
        else:
            jars = versions.jars(version)
        # A name of their own: the archives of many releases must not displace the default's.
        name = _ARCHIVE if version == self.default else f"other-{_ARCHIVE}"
        made = archive(name, configuration.archive_key(jars), lambda flags: train(jars, flags))
        return configuration.artifacts(version, jars, made)

    def startup_archive(self) -> Path | None:
        """Where the archive of the packaged release is; None when it is absent."""
        if not configuration.is_packaged():
            return None
        return existing_archive(_ARCHIVE, configuration.archive_key(configuration.packaged()))

    def at_hand(self, version: str) -> bool:
        return version == self.default and configuration.is_packaged()

    @property
    def image_recipe(self) -> ImageRecipe:
        return zookeeper_image.RECIPE

    def in_image(self, image: ImageFacts) -> Artifacts:
        return configuration.in_image(image)
