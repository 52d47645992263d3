"""NATS' releases: those of `versions`, and any binary by its path."""

from pathlib import Path
from typing import Final

from fencepost.harness.contract.system import BaseReleases
from fencepost.harness.runtime import artifacts as binaries
from fencepost.harness.runtime.artifacts import Artifacts, ImageContents, ImageFacts, ImageRecipe
from fencepost.systems.nats import versions

SERVER: Final = "nats-server"


class NatsReleases(BaseReleases):
    """`harness.contract.system.Releases`."""

    default: Final = versions.DEFAULT

    def known(self) -> tuple[str, ...]:
        return versions.known()

    def at_hand(self, version: str) -> bool:
        return False

    def resolve(self, version: str) -> Artifacts:
        """Find a known release, or the binary at a path (a text with a slash, or the name of a file)."""
        given = "/" in version or Path(version).is_file()
        path = binaries.executable(version, what="nats") if given else versions.binary(version)
        reported = binaries.reported_version([str(path), "--version"], r"nats-server: v(\S+)", what="nats")
        return Artifacts(version=reported, paths={SERVER: str(path)}, sha256={SERVER: binaries.sha256_of(path)})

    @property
    def image_recipe(self) -> ImageRecipe:
        def contents(version: str) -> ImageContents:
            artifacts = self.resolve(version)
            return ImageContents(
                version=artifacts.version,
                sums=artifacts.sha256,
                files=lambda: {SERVER: Path(artifacts.paths[SERVER])},
            )

        return ImageRecipe(name="nats", version=self.default, folder="root/usr/local/bin", contents=contents)

    def in_image(self, image: ImageFacts) -> Artifacts:
        """Use `nats-server` from the PATH of any image; the image's own entry point is not used."""
        return Artifacts(
            version=image.version, paths={"image": image.reference, SERVER: SERVER}, sha256={"image": image.id}
        )
