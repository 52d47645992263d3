"""The parts of an image of Kafka, in every mode: a server's jars, on a base with Java."""

from collections.abc import Callable

from fencepost.harness.runtime.artifacts import ImageContents, ImageRecipe, sha256_of
from fencepost.systems.kafka.server import versions
from fencepost.systems.kafka.server.start import found_jars


def recipe(name: str, default_version: str, refuse: Callable[[str], None]) -> ImageRecipe:
    """Make the recipe of one mode; `refuse` raises for a release that the mode does not have."""

    def contents(version: str) -> ImageContents:
        """The contents for a version; the sums of a known release are recorded, so nothing is fetched for them."""
        sums = versions.recorded_sums(version)
        if sums is None:
            version, jars = found_jars(version, refuse=refuse)
            return ImageContents(
                version=version,
                sums={jar.name: sha256_of(jar) for jar in jars},
                files=lambda: {jar.name: jar for jar in jars},
            )
        refuse(version)
        return ImageContents(
            version=version,
            sums=sums,
            files=lambda: {jar.name: jar for jar in found_jars(version, refuse=refuse)[1]},
        )

    return ImageRecipe(name=name, version=default_version, base="java", folder="libs", contents=contents)
