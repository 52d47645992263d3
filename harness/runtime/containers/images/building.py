"""Builds images that are absent or stale on the engine.

It uses the engine's own interface, with the classic builder and no network, so it needs neither a docker command nor
BuildKit; Docker since 20.10 and Podman's Docker socket accept this. An error shows the builder's output. Two fencepost
commands that build at the same time wait for each other.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from fencepost.harness.base.errors import HarnessError, MachineError, UsageError
from fencepost.harness.base.files import locked
from fencepost.harness.runtime.artifacts import cache_folder
from fencepost.harness.runtime.containers.engine.engine import asking
from fencepost.harness.runtime.containers.images import folder, parts, plans
from fencepost.harness.runtime.containers.images.recipes import ImageSource, is_ours, own
from fencepost.harness.runtime.containers.images.refusals import failed_build, refuse_other_architecture

if TYPE_CHECKING:
    import docker
    from docker.models.images import Image

#: The time limit of one build, including the pull of an official base; and the longest wait for another command.
_BUILD_DEADLINE_S: Final = 600.0
_LOCK_DEADLINE_S: Final = 1800.0

Progress = Callable[[str], None]


def _silent(_: str) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """An image that is on the engine now; `was_current` when nothing had to be done for it."""

    name: str
    reference: str
    id: str
    size_bytes: int
    elapsed_s: float
    was_current: bool


def ensure(
    client: "docker.DockerClient", source: ImageSource, *, version: str = "", progress: Progress = _silent
) -> str:
    """Return the reference of an up-to-date image on the engine; build the image when it is absent or stale.

    An image that was built on an official base stays on it. When the parts are not available (no compiler, no package
    index), an existing image of this version is used as it is, and `progress` says so.

    Args:
        version: instead of the pinned one; for a system whatever `--version` takes.
        progress: called with one sentence before each step that takes long.
    """
    try:
        wanted = source.recipe(version)
        plan = plans.plan_of(wanted, plans.official_base_of(plans.image_of(client, wanted.reference)))
    except MachineError as error:
        reference = plans.pinned_reference(source, version)
        if not reference or plans.image_of(client, reference) is None:
            raise
        progress(f"the image {reference} is used as it is, since it cannot be checked for changes: {error.message}")
        return reference
    if not plans.is_current(client, plan):
        with _one_builder(progress):
            _bring_up(client, plan, progress)
    return plan.recipe.reference


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """Which images to build, and how; the default builds all that are absent or stale."""

    #: Names of images; none: all of them.
    images: Sequence[str] = ()
    #: Official images by the name of ours that they replace: {"java": "eclipse-temurin:17-jre"}. An image without an
    #: entry stays on the base that it has.
    bases: Mapping[str, str] = field(default_factory=dict)
    #: Versions to build instead of the pinned ones, by image.
    versions: Mapping[str, str] = field(default_factory=dict)
    #: Build what is up to date as well, without the builder's cache and on our own bases.
    rebuild: bool = False


def build(
    client: "docker.DockerClient",
    known: Mapping[str, ImageSource],
    request: BuildRequest,
    *,
    done: Callable[[Built], None] = lambda _: None,
    progress: Progress = _silent,
) -> list[Built]:
    """Build images, each after the base that it needs.

    Args:
        known: every image by name (`recipes.known`).
        done: called with each image as soon as it is on the engine.
        progress: called with one sentence before each step that takes long.

    Returns:
        The images that were asked for, in the order in which they were built.

    Raises:
        UsageError: an image, a base or a version that there is not.
        MachineError, HarnessError: an image could not be built; with the last lines of the builder.
    """
    plans.refuse_unknown(known, request.images, request.bases, request.versions)
    result = []
    with _one_builder(progress):
        for source in plans.in_order(known, request.images, request.bases):
            begun = time.monotonic()
            wanted = source.recipe(request.versions.get(source.name, ""))
            kept = "" if request.rebuild else plans.official_base_of(plans.image_of(client, wanted.reference))
            plan = plans.plan_of(wanted, request.bases.get(wanted.base, kept))
            was_current = not request.rebuild and plans.is_current(client, plan)
            if not was_current:
                _bring_up(client, plan, progress, rebuild=request.rebuild)
            result.append(_built(client, plan, time.monotonic() - begun, was_current))
            done(result[-1])
    return result


def write_context(known: Mapping[str, ImageSource], name: str, into: Path, *, version: str = "", base: str = "") -> str:
    """Fill `into` with what an image is built from; returns the command that builds it by hand, labels included."""
    plans.refuse_unknown(known, [name], {}, {name: version} if version else {})
    wanted = known[name].recipe(version)
    if base and not wanted.base:
        raise UsageError(f"{name} is made from nothing", hint="leave --base out")
    plan = plans.plan_of(wanted, base)
    parts.write_folder(wanted.parts(), into)
    labels = " ".join(f"--label {key}={value}" for key, value in plans.labels_of(plan).items())
    dockerfile = folder.folder() / name / "Dockerfile"
    return f"docker build -t {wanted.reference} -f {dockerfile} --build-arg BASE={plan.base} {labels} {into}"


def _bring_up(
    client: "docker.DockerClient", plan: plans.ImagePlan, progress: Progress, *, rebuild: bool = False
) -> None:
    """Build the image, and before it its base where that is ours and not up to date. The caller holds the lock."""
    if is_ours(plan.base):
        base = plans.plan_of(own()[plan.recipe.base].recipe(), "")
        if not plans.is_current(client, base):
            _bring_up(client, base, progress)
    reference = plan.recipe.reference
    before = plans.image_of(client, reference)
    if before is not None and not rebuild and before.labels.get(plans.LABEL_PARTS) == plan.digest:
        # Another command built it while we waited for the lock.
        return
    progress(f"building the image {reference}")
    refuse_other_architecture(client, reference)
    output = _send(client, plan, rebuild=rebuild)
    image = plans.image_of(client, reference)
    if image is None or image.labels.get(plans.LABEL_PARTS) != plan.digest:
        raise failed_build(reference, output, "the engine reported success, but there is no image")
    if before is not None and before.id != image.id:
        _remove_superseded(client, before)


def _send(client: "docker.DockerClient", plan: plans.ImagePlan, *, rebuild: bool) -> list[str]:
    """Send the context and follow the build to its end; return the builder's output."""
    made = plan.recipe
    content = [*made.parts(), parts.Part(target="Dockerfile", content=folder.dockerfile(made.name), mode=0o644)]
    output: list[str] = []
    deadline = time.monotonic() + _BUILD_DEADLINE_S
    with _archive(content) as context, asking(f"building the image {made.reference}", MachineError):
        events: Iterator[dict[str, Any]] = client.api.build(
            fileobj=context,
            custom_context=True,
            tag=made.reference,
            buildargs={"BASE": plan.base},
            labels=plans.labels_of(plan),
            network_mode="none",
            nocache=rebuild,
            rm=True,
            forcerm=True,
            decode=True,
            timeout=int(_BUILD_DEADLINE_S),
        )
        for event in _until_cut(events):
            output += str(event.get("stream", event.get("status", ""))).splitlines()
            if "error" in event:
                raise failed_build(made.reference, output, str(event["error"]))
            if time.monotonic() > deadline:
                raise failed_build(made.reference, output, f"not built within {_BUILD_DEADLINE_S:g} s")
    return output


def _until_cut(events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Turn urllib3's errors into ours: the SDK lets them through when the engine stops in the middle of the stream."""
    import urllib3.exceptions

    try:
        yield from events
    except urllib3.exceptions.HTTPError as error:
        raise ConnectionError(str(error)) from error


@contextmanager
def _archive(content: list[parts.Part]) -> Iterator[IO[bytes]]:
    """Write the context to a file without a name, which disappears with this process."""
    with tempfile.TemporaryFile(prefix="fencepost-context-") as file:
        try:
            parts.write_archive(content, file)
            file.seek(0)
        except OSError as error:
            raise MachineError(
                f"{tempfile.gettempdir()}: the context of an image cannot be written there: {error.strerror}",
                hint="free some space there, or set TMPDIR to another folder",
            ) from None
        yield file


def _remove_superseded(client: "docker.DockerClient", image: "Image") -> None:
    """Remove an image that lost its tag to a newer one, unless another tag, container or image uses it."""
    import docker.errors

    current = plans.image_of(client, str(image.id))
    if current is None or current.tags:
        return
    with asking("removing an image that a newer one replaced", MachineError):
        try:
            client.images.remove(str(image.id))
        except docker.errors.APIError as error:
            if error.status_code != 409:
                raise
            # In use: a run that began with this image still uses it.


def _built(client: "docker.DockerClient", plan: plans.ImagePlan, elapsed_s: float, was_current: bool) -> Built:
    image = plans.image_of(client, plan.recipe.reference)
    if image is None:
        raise HarnessError(f"{plan.recipe.reference}: built, then gone", hint="does something prune the engine?")
    return Built(
        name=plan.recipe.name,
        reference=plan.recipe.reference,
        id=str(image.id).removeprefix("sha256:"),
        size_bytes=int(image.attrs["Size"]),
        elapsed_s=elapsed_s,
        was_current=was_current,
    )


@contextmanager
def _one_builder(progress: Progress) -> Iterator[None]:
    """Let only one command of this user build at a time: two would build the same images twice."""
    path = cache_folder() / "images.lock"
    with locked(path, _LOCK_DEADLINE_S, lambda: progress("waiting for another fencepost that builds images")) as held:
        if not held:
            raise MachineError(
                f"another fencepost has been building images for more than {_LOCK_DEADLINE_S:g} s",
                hint=f"end it: `fuser {path}` names it",
            )
        yield
