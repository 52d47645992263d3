"""The plan of an image: its recipe on its base, with the labels that show whether an image is up to date.

An image is up to date when its label `org.fencepost.parts` is the digest of its recipe on the base that it stands on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fencepost.harness.base.errors import MachineError, UsageError, unknown_choice
from fencepost.harness.runtime.containers.engine.engine import asking
from fencepost.harness.runtime.containers.images import folder
from fencepost.harness.runtime.containers.images.recipes import ImageSource, Recipe, is_ours, own, reference_of

if TYPE_CHECKING:
    import docker
    from docker.models.images import Image

LABEL_IMAGE: Final = "org.fencepost.image"
LABEL_VERSION: Final = "org.fencepost.version"
LABEL_PARTS: Final = "org.fencepost.parts"
LABEL_BASE: Final = "org.fencepost.base"
_TITLE_VERSION: Final = "org.opencontainers.image.version"

SCRATCH: Final = "scratch"


@dataclass(frozen=True, slots=True)
class ImagePlan:
    """A recipe on its base: the value of `${BASE}`, and the digest that the image's label must have."""

    recipe: Recipe
    base: str
    digest: str


def plan_of(wanted: Recipe, official_base: str) -> ImagePlan:
    if not wanted.base:
        return ImagePlan(wanted, SCRATCH, wanted.digest(""))
    if official_base:
        return ImagePlan(wanted, official_base, wanted.digest(official_base))
    base = plan_of(own()[wanted.base].recipe(), "")
    return ImagePlan(wanted, base.recipe.reference, wanted.digest(base.digest))


def labels_of(plan: ImagePlan) -> dict[str, str]:
    """Return the labels, which no Dockerfile can contain because their values are known only now."""
    version = plan.recipe.version
    return {LABEL_VERSION: version, _TITLE_VERSION: version, LABEL_PARTS: plan.digest, LABEL_BASE: plan.base}


def in_order(known: Mapping[str, ImageSource], chosen: Sequence[str], base: Mapping[str, str]) -> list[ImageSource]:
    """Order the images, bases first and each once; leave out a base that an official image replaces."""
    order: list[str] = []
    for name in chosen or known:
        for one in (known[name].base, name):
            if one and one not in order and (one not in base or one in chosen):
                order.append(one)
    return [known[name] for name in order]


def refuse_unknown(
    known: Mapping[str, ImageSource], chosen: Sequence[str], base: Mapping[str, str], versions: Mapping[str, str]
) -> None:
    for name in (*chosen, *versions):
        if name not in known:
            raise unknown_choice("image", name, list(known))
    bases = sorted(name for name, pin in folder.pinned().items() if pin.official)
    for name in base:
        if name not in bases:
            raise unknown_choice("base image", name, bases)
    for name in versions:
        if not known[name].has_versions:
            versioned = ", ".join(name for name, source in known.items() if source.has_versions)
            raise UsageError(
                f"the version of {name} cannot be chosen: it is made from parts of this machine",
                hint=f"choose a version of: {versioned}; or a base with --base",
            )


def pinned_reference(source: ImageSource, version: str) -> str:
    """Return the tag if it is known without the parts; empty for an image from this machine's parts, and for a path."""
    word = version or source.version
    return reference_of(source.name, word) if word and "/" not in word else ""


def official_base_of(image: "Image | None") -> str:
    """Return the official image that this one was built on; empty for our own base, no base, or an absent image."""
    base = image.labels.get(LABEL_BASE, "") if image else ""
    return "" if base == SCRATCH or is_ours(base) else base


def image_of(client: "docker.DockerClient", reference: str) -> "Image | None":
    import docker.errors

    with asking(f"looking for the image {reference}", MachineError):
        try:
            return client.images.get(reference)
        except docker.errors.ImageNotFound:
            return None


def is_current(client: "docker.DockerClient", plan: ImagePlan) -> bool:
    image = image_of(client, plan.recipe.reference)
    return image is not None and image.labels.get(LABEL_PARTS) == plan.digest
