"""What an image of etcd is made of: its one binary, and the libraries that it loads."""

from collections.abc import Callable
from pathlib import Path

from fencepost.harness.runtime.artifacts import Artifacts, ImageContents, ImageRecipe


def recipe(default_version: str, resolve: Callable[[str], Artifacts]) -> ImageRecipe:
    """The recipe; `resolve` finds the binary of a version or of a path."""

    def contents(version: str) -> ImageContents:
        found = resolve(version)
        return ImageContents(
            version=found.version, sums=found.sha256, files=lambda: {"etcd": Path(found.paths["etcd"])}
        )

    return ImageRecipe(name="etcd", version=default_version, folder="root/usr/local/bin", contents=contents)
