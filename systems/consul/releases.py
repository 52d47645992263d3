"""Consul's releases: those whose Go module builds, and any binary by its path.

A release builds from the module proxy only where all modules that it requires are served in the versions that it
names: of the newest patch releases these are 1.12.9, 1.13.9 and 1.19.2. Others need Consul's own binary, by path or
image. From 1.17 on Consul is under the Business Source License, which allows use that is not in production.
"""

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract import releases
from fencepost.harness.contract.system import BaseReleases
from fencepost.harness.runtime import artifacts as binaries
from fencepost.harness.runtime.artifacts import Artifacts, ImageContents, ImageFacts, ImageRecipe

MODULE: Final = "github.com/hashicorp/consul"
SUMS: Final = Path(__file__).with_name("modules.toml")


class ConsulReleases(BaseReleases):
    """`harness.contract.system.Releases`."""

    default: Final = "1.19.2"

    def known(self) -> tuple[str, ...]:
        return releases.in_order(_module_sums())

    def at_hand(self, version: str) -> bool:
        from fencepost.harness.runtime.artifacts import go_modules

        module_sum = _module_sums().get(version)
        return module_sum is not None and go_modules.is_built(
            MODULE, f"v{version}", package=MODULE, name="consul", module_sum=module_sum
        )

    def resolve(self, version: str) -> Artifacts:
        """Build a known release, or find the binary at a path (a text with a slash, or the name of a file)."""
        given = "/" in version or Path(version).is_file()
        path = binaries.executable(version, what="Consul") if given else _built(version)
        reported = binaries.reported_version([str(path), "version"], r"Consul v(\S+)", what="Consul")
        return Artifacts(version=reported, paths={"consul": str(path)}, sha256={"consul": binaries.sha256_of(path)})

    @property
    def image_recipe(self) -> ImageRecipe:
        """The parts of an image: the one binary, which is static."""

        def contents(version: str) -> ImageContents:
            artifacts = self.resolve(version)
            return ImageContents(
                version=artifacts.version,
                sums=artifacts.sha256,
                files=lambda: {"consul": Path(artifacts.paths["consul"])},
            )

        return ImageRecipe(name="consul", version=self.default, folder="root/usr/local/bin", contents=contents)

    def in_image(self, image: ImageFacts) -> Artifacts:
        """Use `consul` from the PATH of any image; the image's own entry point is not used."""
        return Artifacts(
            version=image.version, paths={"image": image.reference, "consul": "consul"}, sha256={"image": image.id}
        )


def _built(version: str) -> Path:
    module_sum = _module_sums().get(version)
    if module_sum is None:
        raise UsageError(
            f"consul {version!r} is not a known release; known are {releases.in_words(_module_sums())}",
            hint="choose one of them, or give the path of a Consul binary (with a slash): --version ./consul",
        )
    from fencepost.harness.runtime.artifacts import go_modules

    return go_modules.binary(MODULE, f"v{version}", package=MODULE, name="consul", module_sum=module_sum)


@lru_cache(maxsize=1)
def _module_sums() -> dict[str, str]:
    with SUMS.open("rb") as file:
        sums: dict[str, str] = tomllib.load(file)["sums"]
    return sums
