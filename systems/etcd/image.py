"""The parts of an image of etcd: its one binary, and the libraries that it loads."""

from collections.abc import Callable
from pathlib import Path

from fencepost.harness.runtime.artifacts import Artifacts, ImageContents, ImageRecipe


def recipe(default_version: str, resolve: Callable[[str], Artifacts]) -> ImageRecipe:
    """Make the recipe; `resolve` finds the binary of a version or of a path."""

    def contents(version: str) -> ImageContents:
        artifacts = resolve(version)
        return ImageContents(
            version=artifacts.version, sums=artifacts.sha256, files=lambda: {"etcd": Path(artifacts.paths["etcd"])}
        )

    return ImageRecipe(name="etcd", version=default_version, folder="root/usr/local/bin", contents=contents)
