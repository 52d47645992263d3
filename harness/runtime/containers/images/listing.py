"""Lists images: every image that fencepost knows, built or not, and those of other versions."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from fencepost.harness.base.errors import FencepostError, MachineError
from fencepost.harness.runtime.containers.engine.engine import asking
from fencepost.harness.runtime.containers.images import plans
from fencepost.harness.runtime.containers.images.recipes import ImageSource

if TYPE_CHECKING:
    import docker
    from docker.models.images import Image


class ImageState(StrEnum):
    """The state of an image on the engine. `KEPT`: another version than the pinned one, not compared."""

    CURRENT = "up to date"
    STALE = "stale"
    ABSENT = "not built"
    KEPT = "kept"
    UNKNOWN = "not comparable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One line of `fencepost images list`; the last fields are empty when it is not built."""

    name: str
    reference: str
    state: ImageState
    id: str = ""
    size_bytes: int = 0
    created: str = ""
    parts: str = ""
    base: str = ""
    why: str = ""


def listed(client: "docker.DockerClient", known: Mapping[str, ImageSource]) -> list[Listed]:
    """List every known image, built or not, then images of other versions; fetch and build nothing."""
    lines = [_listed(client, source) for source in known.values()]
    ids = {line.id for line in lines if line.id}
    with asking("listing the images", MachineError):
        others = client.images.list(filters={"label": plans.LABEL_IMAGE})
    for image in others:
        if str(image.id).removeprefix("sha256:") not in ids and image.tags:
            lines.append(_described(image, image.labels[plans.LABEL_IMAGE], image.tags[0], ImageState.KEPT))
    return lines


def _listed(client: "docker.DockerClient", source: ImageSource) -> Listed:
    name, reference = source.name, plans.pinned_reference(source, "")
    try:
        wanted = source.recipe()
        reference = wanted.reference
        image = plans.image_of(client, reference)
        if image is None:
            return Listed(name=name, reference=reference, state=ImageState.ABSENT)
        plan = plans.plan_of(wanted, plans.official_base_of(image))
    except FencepostError as error:
        image = plans.image_of(client, reference) if reference else None
        if image is None:
            return Listed(name=name, reference=reference or name, state=ImageState.ABSENT, why=error.message)
        return _described(image, name, reference, ImageState.UNKNOWN, error.message)
    return _described(
        image, name, reference, ImageState.CURRENT if plans.is_current(client, plan) else ImageState.STALE
    )


def _described(image: "Image", name: str, reference: str, state: ImageState, why: str = "") -> Listed:
    return Listed(
        name=name,
        reference=reference,
        state=state,
        id=str(image.id).removeprefix("sha256:"),
        size_bytes=int(image.attrs["Size"]),
        created=str(image.attrs["Created"]),
        parts=image.labels.get(plans.LABEL_PARTS, ""),
        base=image.labels.get(plans.LABEL_BASE, ""),
        why=why,
    )
