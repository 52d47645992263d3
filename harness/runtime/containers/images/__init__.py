"""The images of the container runtime: the parts of each image, and their building on an engine.

    folder    `docker/` of this repository: one Dockerfile per image, and the pinned versions
    parts     the files of a build context: as a digest, as an archive for an engine, as a folder for people
    machine   the parts from this machine: a Java runtime, the libraries that a program needs
    recipes   the parts of each image: a system declares its own image, the runtime declares the others
    plans     each recipe on its base, and the labels that show whether an image is up to date
    building  `ensure`, `build`: the engine's side
    listing   `listed`: the images that exist
    refusals  why an image could not be built

Every Dockerfile only copies a context that is prepared here, so it builds with and without an image registry, with the
engine's own builder and with BuildKit, and never needs a network. The label `org.fencepost.parts` is a digest of
everything in the image: an image whose parts have changed since is stale.
"""

from fencepost.harness.runtime.containers.images.building import BuildRequest, Built, build, ensure, write_context
from fencepost.harness.runtime.containers.images.listing import ImageState, Listed, listed
from fencepost.harness.runtime.containers.images.recipes import ImageSource, known, of_system, own

__all__ = [
    "BuildRequest",
    "Built",
    "ImageSource",
    "ImageState",
    "Listed",
    "build",
    "ensure",
    "known",
    "listed",
    "of_system",
    "own",
    "write_context",
]
