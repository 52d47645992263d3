"""The images of the container runtime: what each is made of, and building them on an engine.

    folder    `docker/` of this repository: a Dockerfile an image, and the pinned versions
    parts     the files of a build context: as a digest, as the archive that an engine takes, as a folder for people
    machine   what is taken from this machine: a Java runtime, the libraries that a program needs
    agent     the modules of fencepost that the side-car runs
    recipes   what each image is made of: a system says it of its own, the runtime of the others
    plans     each recipe on its base, and the labels that tell whether an image is that
    building  `ensure`, `build`: the engine's side
    listing   `listed`: what there is
    refusals  why an image could not be built

Every image is a Dockerfile that only copies a context prepared here, so the same file builds with and without an image
registry, with the engine's own builder and with BuildKit, and never needs a network. What is in an image is known by
the label `org.fencepost.parts`, a digest of everything that it was made of: an image whose parts have changed is stale.
"""

from fencepost.harness.runtime.containers.images.building import Built, build, ensure, write_context
from fencepost.harness.runtime.containers.images.listing import Listed, State, listed
from fencepost.harness.runtime.containers.images.recipes import Source, known, of_system, own

__all__ = [
    "Built",
    "Listed",
    "Source",
    "State",
    "build",
    "ensure",
    "known",
    "listed",
    "of_system",
    "own",
    "write_context",
]
