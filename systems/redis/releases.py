"""Redis's releases: the one of Debian 12, unpacked without root, and any server by its path.

One program is server and sentinel. Valkey, which took over from Redis 7.2 on, is another program that can be given.
"""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import MachineError, UsageError
from fencepost.harness.contract.system import BaseReleases
from fencepost.harness.runtime import artifacts
from fencepost.harness.runtime.artifacts import Artifacts, ImageContents, ImageFacts, ImageRecipe, debian

SERVER: Final = "redis-server"
#: The folder of the shared libraries of the packaged server.
LIBRARIES: Final = "libraries"
_RELEASE: Final = "7.0.15"
#: `redis-server` is a link to a program of redis-tools; the others have the libraries that a bare machine lacks.
_PACKAGES: Final = (
    *("redis-server", "redis-tools", "libjemalloc2", "liblzf1", "libatomic1", "libstdc++6", "libgcc-s1"),
    *("libssl3", "libsystemd0", "libcap2", "libgcrypt20", "libgpg-error0", "liblz4-1", "liblzma5", "libzstd1"),
    # The shell that starts both in an image, whose base has none.
    "dash",
)


class RedisReleases(BaseReleases):
    """`harness.contract.system.Releases`."""

    default = _RELEASE

    def resolve(self, version: str) -> Artifacts:
        if "/" in version or Path(version).is_file():
            return _artifacts(artifacts.executable(version, what="Redis"), None)
        if version != _RELEASE:
            raise UsageError(
                f"redis {version!r} is not a known release; known is {_RELEASE}",
                hint=f"give the path of a server (with a slash): --version ./{SERVER}",
            )
        root = debian.unpacked(_PACKAGES)
        (libraries,) = {path.parent for path in root.glob("usr/lib/*/libjemalloc.so.2")}
        packaged = _artifacts(root / "usr" / "bin" / SERVER, libraries)
        if packaged.version != _RELEASE:
            raise MachineError(
                f"redis {_RELEASE} comes with Debian 12; this distribution has {packaged.version}",
                hint=f"give the path of a server of that release: --version ./{SERVER}",
            )
        return packaged

    @property
    def image_recipe(self) -> ImageRecipe:
        """The server, its libraries and a shell, on the base that has Debian's C library."""
        return ImageRecipe(name="redis", version=_RELEASE, folder="root", contents=self._contents, base="python")

    def _contents(self, version: str) -> ImageContents:
        resolved = self.resolve(version)
        root = debian.unpacked(_PACKAGES)
        files = {f"usr/local/bin/{SERVER}": Path(resolved.paths[SERVER]), "usr/bin/sh": root / "usr/bin/dash"}
        files |= {str(path.relative_to(root)): path for path in root.glob("usr/lib/*/*.so.*")}
        files = {name: path.resolve() for name, path in files.items()}
        sums = {name: artifacts.sha256_of(path) for name, path in files.items()}
        return ImageContents(version=resolved.version, sums=sums, files=lambda: files)

    def in_image(self, image: ImageFacts) -> Artifacts:
        """Use the program from the PATH of any image that has a shell."""
        paths = {"image": image.reference, SERVER: SERVER}
        return Artifacts(version=image.version, paths=paths, sha256={"image": image.id})


def _artifacts(program: Path, libraries: Path | None) -> Artifacts:
    paths: Mapping[str, str] = {SERVER: str(program)} | ({LIBRARIES: str(libraries)} if libraries else {})
    return Artifacts(version=_version(program, libraries), paths=paths, sha256={SERVER: artifacts.sha256_of(program)})


@functools.cache
def _version(program: Path, libraries: Path | None) -> str:
    environment = ["env", f"LD_LIBRARY_PATH={libraries}"] if libraries else []
    return artifacts.reported_version([*environment, str(program), "--version"], r"server v=(\S+)", what="Redis")
