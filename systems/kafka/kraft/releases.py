"""The releases of Kafka that run with a quorum of controllers: from 3.3.0 on."""

from typing import Final

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract.system import BaseReleases
from fencepost.harness.runtime.artifacts import Artifacts, ImageFacts, ImageRecipe
from fencepost.harness.runtime.artifacts.java import archive, existing_archive, find_java
from fencepost.systems.kafka.kraft.configuration import NAME
from fencepost.systems.kafka.server import images, versions
from fencepost.systems.kafka.server import start as server
from fencepost.systems.kafka.server.archive_training import train
from fencepost.systems.kafka.server.image import recipe
from fencepost.systems.kafka.server.start import DEFAULT_VERSION

#: Earlier releases do not have KRaft ready for production.
_FIRST: Final = (3, 3, 0)


class KraftReleases(BaseReleases):
    """`harness.contract.system.Releases`."""

    default: Final = DEFAULT_VERSION

    def known(self) -> tuple[str, ...]:
        return tuple(version for version in versions.known() if versions.numbers(version) >= _FIRST)

    def at_hand(self, version: str) -> bool:
        """Whether the jars and the start-up archive of this release are already in the cache."""
        if not versions.are_fetched(version):
            return False
        jars = versions.jars(version)
        return existing_archive(archive_name(version), server.archive_key(jars)) is not None

    def resolve(self, version: str) -> Artifacts:
        """Get a release or a folder of jars; makes the start-up archive when there is none yet."""
        if versions.is_release(version):
            versions.refuse_old_java(find_java(), versions.java_needed(version), version)
        release, jars = server.found_jars(version, refuse=refuse)
        versions.refuse_old_java(find_java(), versions.java_level(jars), release)
        made = archive(archive_name(release), server.archive_key(jars), lambda flags: train(release, jars, flags))
        return server.artifacts(release, jars, {"archive": made})

    @property
    def image_recipe(self) -> ImageRecipe:
        return recipe(NAME, self.default, refuse)

    def in_image(self, image: ImageFacts) -> Artifacts:
        return images.in_image(image, refuse=refuse, keeper=False)


def refuse(version: str) -> None:
    """Raise UsageError for a release without this mode."""
    if versions.numbers(version) < _FIRST:
        raise UsageError(
            f"Kafka {version} has no KRaft quorum fit for use", hint="choose 3.3.0 or later, or --system kafka-zk"
        )


def archive_name(version: str) -> str:
    # A name of their own: the archives of many releases must not displace the default's.
    return NAME if version == DEFAULT_VERSION else f"other-{NAME}"
