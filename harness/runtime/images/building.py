"""The engine's side of the images: build what is absent or stale, say what there is.

Images are built through the engine's own interface, with its classic builder and no network, so neither a docker
command nor BuildKit is needed; Docker since 20.10 and Podman's Docker socket take it. What the builder said is shown
when it fails. Two fencepost commands that build at once wait for each other.
"""

import fcntl
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.errors import FencepostError, HarnessError, MachineError, UsageError, unknown_choice
from harness.runtime.artifacts.cache import cache_folder
from harness.runtime.images import folder, parts
from harness.runtime.images.engine_errors import engine_answers, failed_build, refuse_other_architecture
from harness.runtime.images.recipes import Recipe, is_ours, names, recipe, reference_of

if TYPE_CHECKING:
    from docker.models.images import Image

    import docker

LABEL_IMAGE: Final = "org.fencepost.image"
LABEL_VERSION: Final = "org.fencepost.version"
LABEL_PARTS: Final = "org.fencepost.parts"
LABEL_BASE: Final = "org.fencepost.base"
_TITLE_VERSION: Final = "org.opencontainers.image.version"

_SCRATCH: Final = "scratch"
#: One build, an official base pulled included; and how long another command's builds are waited for.
_BUILD_DEADLINE_S: Final = 600.0
_LOCK_DEADLINE_S: Final = 1800.0
_LOCK_LOOK_S: Final = 0.1
#: The images whose version can be chosen; the others are of this machine or of this fencepost.
_VERSIONED: Final = ("etcd", "zookeeper", "toxiproxy")

Progress = Callable[[str], None]


def _silent(_: str) -> None:
    pass


class State(StrEnum):
    """Of an image on the engine. `KEPT`: of another version than the pinned one, which is not compared."""

    CURRENT = "up to date"
    STALE = "stale"
    ABSENT = "not built"
    KEPT = "kept"
    UNKNOWN = "not comparable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """An image that is on the engine now; `was_current` when nothing had to be done for it."""

    name: str
    reference: str
    id: str
    size_bytes: int
    elapsed_s: float
    was_current: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One line of `fencepost images list`; the last fields are empty when it is not built."""

    name: str
    reference: str
    state: State
    id: str = ""
    size_bytes: int = 0
    created: str = ""
    parts: str = ""
    base: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Plan:
    """A recipe on its base: what stands in for `${BASE}`, and the digest that the image's label must have."""

    recipe: Recipe
    base: str
    digest: str


def ensure(client: "docker.DockerClient", name: str, *, version: str = "", progress: Progress = _silent) -> str:
    """The reference of an image that is on the engine and of the parts that are at hand; built when it is not.

    An image that was built on an official base stays on it. Where the parts cannot be found (no compiler, no package
    index), an image of this version that is there already is used as it is, and `progress` says so.

    Args:
        version: instead of the pinned one; for a system whatever `--version` takes.
        progress: is told in words what takes long.
    """
    with engine_answers():
        try:
            wanted = recipe(name, version)
            plan = _plan(wanted, _official_base(_found(client, wanted.reference)))
        except MachineError as error:
            reference = _pinned_reference(name, version)
            if not reference or _found(client, reference) is None:
                raise
            progress(f"the image {reference} is used as it is: it cannot be compared with its parts: {error.message}")
            return reference
        if not _is_current(client, plan):
            with _one_builder(progress):
                _bring_up(client, plan, progress)
        return plan.recipe.reference


def build(
    client: "docker.DockerClient",
    chosen: Sequence[str] = (),
    *,
    base: Mapping[str, str] | None = None,
    versions: Mapping[str, str] | None = None,
    anew: bool = False,
    done: Callable[[Built], None] = lambda _: None,
    progress: Progress = _silent,
) -> list[Built]:
    """Build these images (none named: all), each after the base that it needs; `done` is told of each at once.

    Args:
        base: official images by the name of ours that they stand in for: {"java": "eclipse-temurin:17-jre"}.
        versions: instead of the pinned ones, by image.
        anew: also what is up to date, and without the builder's cache.
    """
    base, versions = dict(base or {}), dict(versions or {})
    _refuse_unknown(chosen, base, versions)
    result = []
    with engine_answers(), _one_builder(progress):
        for name in _in_order(chosen, base):
            begun = time.monotonic()
            wanted = recipe(name, versions.get(name, ""))
            plan = _plan(wanted, base.get(wanted.base, ""))
            was_current = not anew and _is_current(client, plan)
            if not was_current:
                _bring_up(client, plan, progress, anew=anew)
            result.append(_built(client, plan, time.monotonic() - begun, was_current))
            done(result[-1])
    return result


def write_context(name: str, into: Path, *, version: str = "", base: str = "") -> str:
    """Fill `into` with what an image is built from; returns the command that builds it by hand, labels included."""
    _refuse_unknown([name], {}, {name: version} if version else {})
    wanted = recipe(name, version)
    if base and not wanted.base:
        raise UsageError(f"{name} is made from nothing", hint="leave --base out")
    plan = _plan(wanted, base)
    parts.write_folder(wanted.parts(), into)
    labels = " ".join(f"--label {key}={value}" for key, value in _labels(plan).items())
    dockerfile = folder.folder() / name / "Dockerfile"
    return f"docker build -t {wanted.reference} -f {dockerfile} --build-arg BASE={plan.base} {labels} {into}"


def listed(client: "docker.DockerClient") -> list[Listed]:
    """Every image that we know, built or not, then images of other versions; fetches and builds nothing."""
    with engine_answers():
        found = [_listed(client, name) for name in names()]
        known = {line.id for line in found if line.id}
        others = client.images.list(filters={"label": LABEL_IMAGE})
        for image in others:
            if str(image.id).removeprefix("sha256:") not in known and image.tags:
                found.append(_described(image, image.labels[LABEL_IMAGE], image.tags[0], State.KEPT))
        return found


def _listed(client: "docker.DockerClient", name: str) -> Listed:
    reference = _pinned_reference(name, "")
    try:
        wanted = recipe(name)
        reference = wanted.reference
        image = _found(client, reference)
        if image is None:
            return Listed(name=name, reference=reference, state=State.ABSENT)
        plan = _plan(wanted, _official_base(image))
    except FencepostError as error:
        image = _found(client, reference) if reference else None
        if image is None:
            return Listed(name=name, reference=reference or name, state=State.ABSENT, why=error.message)
        return _described(image, name, reference, State.UNKNOWN, error.message)
    return _described(image, name, reference, State.CURRENT if _is_current(client, plan) else State.STALE)


def _pinned_reference(name: str, version: str) -> str:
    """The tag as far as it is known without the parts; empty for what is of this machine, and for a path."""
    word = version or folder.pinned()[name].version
    return reference_of(name, word) if word and "/" not in word else ""


def _described(image: "Image", name: str, reference: str, state: State, why: str = "") -> Listed:
    return Listed(
        name=name,
        reference=reference,
        state=state,
        id=str(image.id).removeprefix("sha256:"),
        size_bytes=int(image.attrs["Size"]),
        created=str(image.attrs["Created"]),
        parts=image.labels.get(LABEL_PARTS, ""),
        base=image.labels.get(LABEL_BASE, ""),
        why=why,
    )


def _refuse_unknown(chosen: Sequence[str], base: Mapping[str, str], versions: Mapping[str, str]) -> None:
    for name in (*chosen, *versions):
        if name not in names():
            raise unknown_choice("image", name, names())
    bases = sorted({pin.base for pin in folder.pinned().values() if pin.base})
    for name in base:
        if name not in bases:
            raise unknown_choice("base image", name, bases)
    for name in versions:
        if name not in _VERSIONED:
            raise UsageError(
                f"the version of {name} cannot be chosen: it is made of what this machine has",
                hint=f"choose a version of: {', '.join(_VERSIONED)}; or a base with --base",
            )


def _in_order(chosen: Sequence[str], base: Mapping[str, str]) -> list[str]:
    """Each once, our own bases before what stands on them; a base that an official image replaces is left out."""
    pins = folder.pinned()
    order: list[str] = []
    for name in chosen or names():
        for one in (pins[name].base, name):
            if one and one not in order and (one not in base or one in chosen):
                order.append(one)
    return order


def _plan(wanted: Recipe, official_base: str) -> _Plan:
    if not wanted.base:
        return _Plan(wanted, _SCRATCH, wanted.digest(""))
    if official_base:
        return _Plan(wanted, official_base, wanted.digest(official_base))
    own = _plan(recipe(wanted.base), "")
    return _Plan(wanted, own.recipe.reference, wanted.digest(own.digest))


def _official_base(image: "Image | None") -> str:
    """The official image that this one was built on; empty when on ours, on none, or not built."""
    base = image.labels.get(LABEL_BASE, "") if image else ""
    return "" if base == _SCRATCH or is_ours(base) else base


def _found(client: "docker.DockerClient", reference: str) -> "Image | None":
    import docker.errors

    try:
        return client.images.get(reference)
    except docker.errors.ImageNotFound:
        return None


def _is_current(client: "docker.DockerClient", plan: _Plan) -> bool:
    image = _found(client, plan.recipe.reference)
    return image is not None and image.labels.get(LABEL_PARTS) == plan.digest


def _bring_up(client: "docker.DockerClient", plan: _Plan, progress: Progress, *, anew: bool = False) -> None:
    """Build the image, and before it its base where that is ours and not up to date. The caller holds the lock."""
    if is_ours(plan.base):
        own = _plan(recipe(plan.recipe.base), "")
        if not _is_current(client, own):
            _bring_up(client, own, progress)
    reference = plan.recipe.reference
    before = _found(client, reference)
    if before is not None and not anew and before.labels.get(LABEL_PARTS) == plan.digest:
        # Another command built it while we waited for the lock.
        return
    progress(f"building the image {reference}")
    refuse_other_architecture(client, reference)
    said = _send(client, plan, anew=anew)
    image = _found(client, reference)
    if image is None or image.labels.get(LABEL_PARTS) != plan.digest:
        raise failed_build(reference, said, "the engine said that it built it, but it is not there")
    if before is not None and before.id != image.id:
        _remove_superseded(client, before)


def _send(client: "docker.DockerClient", plan: _Plan, *, anew: bool) -> list[str]:
    """Send the context and follow the build to its end; returns what the builder said."""
    made = plan.recipe
    content = [*made.parts(), parts.Part(target="Dockerfile", content=folder.dockerfile(made.name), mode=0o644)]
    said: list[str] = []
    deadline = time.monotonic() + _BUILD_DEADLINE_S
    with tempfile.TemporaryFile(prefix="fencepost-context-") as context:
        parts.write_archive(content, context)
        context.seek(0)
        events: Iterator[dict[str, Any]] = client.api.build(
            fileobj=context,
            custom_context=True,
            tag=made.reference,
            buildargs={"BASE": plan.base},
            labels=_labels(plan),
            network_mode="none",
            nocache=anew,
            rm=True,
            forcerm=True,
            decode=True,
            timeout=int(_BUILD_DEADLINE_S),
        )
        for event in events:
            said += str(event.get("stream", event.get("status", ""))).splitlines()
            if "error" in event:
                raise failed_build(made.reference, said, str(event["error"]))
            if time.monotonic() > deadline:
                raise failed_build(made.reference, said, f"not built within {_BUILD_DEADLINE_S:g} s")
    return said


def _labels(plan: _Plan) -> dict[str, str]:
    """What stands in no Dockerfile, since it is known only now."""
    version = plan.recipe.version
    return {LABEL_VERSION: version, _TITLE_VERSION: version, LABEL_PARTS: plan.digest, LABEL_BASE: plan.base}


def _remove_superseded(client: "docker.DockerClient", image: "Image") -> None:
    """An image that lost its tag to a newer one: removed, unless it has another tag, containers or images on it."""
    import docker.errors

    current = _found(client, str(image.id))
    if current is None or current.tags:
        return
    try:
        client.images.remove(str(image.id))
    except docker.errors.APIError as error:
        if error.status_code != 409:
            raise
        # In use: a run that began with it goes on with it.


def _built(client: "docker.DockerClient", plan: _Plan, elapsed_s: float, was_current: bool) -> Built:
    image = _found(client, plan.recipe.reference)
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
    """One command of this user builds at a time: two would make the same things twice."""
    path = cache_folder() / "images.lock"
    deadline, said = time.monotonic() + _LOCK_DEADLINE_S, False
    with path.open("a") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise MachineError(
                        f"another fencepost has been building images for more than {_LOCK_DEADLINE_S:g} s",
                        hint=f"end it: `fuser {path}` names it",
                    ) from None
            if not said:
                progress("waiting for another fencepost that builds images")
                said = True
            time.sleep(_LOCK_LOOK_S)
        yield
