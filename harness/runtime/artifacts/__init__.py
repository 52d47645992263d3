"""Where server binaries come from, for every runtime, and which bytes they are.

One module, one source; each is imported by whoever needs it, since some know Java and others run long commands:

    python_packages   installed Python packages that carry binaries (etcd, Java, ZooKeeper): the default clusters
    given             paths that a person names
    maven             Maven coordinates: jars, through `mvn` or else Ivy (`ivy`, with the certificates of `trust`)
    go_modules        a module and its version: a binary built with the user's `go`
    debian            Debian packages, unpacked, not installed
    binaries          values: what a source found, and what an engine knows of an image
    image_recipe      values: what the image of a system is made of
    sums              the SHA-256 sums recorded beside our sources, and the check against them

What is fetched or built is kept in the user's cache folder (`cache`): whole or not at all, made once when two runs
start together, usable without a network afterwards. docs/2026-11-21-artifacts.md says why each source is there.
"""

from fencepost.harness.runtime.artifacts.binaries import Artifacts, ImageFacts
from fencepost.harness.runtime.artifacts.cache import cache_folder, kept, sha256_of, write_atomically
from fencepost.harness.runtime.artifacts.given import asked_version, executable
from fencepost.harness.runtime.artifacts.image_recipe import ImageContents, ImageRecipe
from fencepost.harness.runtime.artifacts.python_packages import (
    python_package_folder,
    python_package_version,
    required_package_folder,
)

__all__ = [
    "Artifacts",
    "ImageContents",
    "ImageFacts",
    "ImageRecipe",
    "asked_version",
    "cache_folder",
    "executable",
    "kept",
    "python_package_folder",
    "python_package_version",
    "required_package_folder",
    "sha256_of",
    "write_atomically",
]
