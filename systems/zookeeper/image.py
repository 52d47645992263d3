"""The parts of an image of ZooKeeper: a server's jars, on a base with Java."""

from pathlib import Path
from typing import Final

from fencepost.harness.runtime.artifacts import ImageContents, ImageRecipe, sha256_of
from fencepost.systems.zookeeper import configuration, versions


def _contents(version: str) -> ImageContents:
    """The contents for a known release, or for a folder of jars."""
    if Path(version).is_dir():
        version, jars = configuration.given(Path(version).absolute())
    else:
        jars = versions.jars(version)
    return ImageContents(
        version=version,
        sums={jar.name: sha256_of(jar) for jar in jars},
        files=lambda: {jar.name: jar for jar in jars},
    )


RECIPE: Final = ImageRecipe(
    name="zookeeper", version=configuration.PACKAGED_VERSION, base="java", folder="lib", contents=_contents
)
