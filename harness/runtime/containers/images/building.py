"""The engine's side of the images: build what is absent or stale.

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
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from fencepost.harness.base.errors import HarnessError, MachineError, UsageError
from fencepost.harness.runtime.artifacts.cache import cache_folder
from fencepost.harness.runtime.containers.engine.engine import asking
from fencepost.harness.runtime.containers.images import folder, parts, plans
from fencepost.harness.runtime.containers.images.recipes import Source, is_ours, own
from fencepost.harness.runtime.containers.images.refusals import failed_build, refuse_other_architecture

if TYPE_CHECKING:
    import docker
    from docker.models.images import Image

#: One build, an official base pulled included; and how long another command's builds are waited for.
_BUILD_DEADLINE_S: Final = 600.0
_LOCK_DEADLINE_S: Final = 1800.0
_LOCK_LOOK_S: Final = 0.1

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


def ensure(client: "docker.DockerClient", source: Source, *, version: str = "", progress: Progress = _silent) -> str:
    """The reference of an image that is on the engine and of the parts that are at hand; built when it is not.

    An image that was built on an official base stays on it. Where the parts cannot be found (no compiler, no package
    index), an image of this version that is there already is used as it is, and `progress` says so.

    Args:
        version: instead of the pinned one; for a system whatever `--version` takes.
        progress: is told in words what takes long.
    """
    try:
        wanted = source.recipe(version)
        plan = plans.plan_of(wanted, plans.official_base_of(plans.found(client, wanted.reference)))
    except MachineError as error:
        reference = plans.pinned_reference(source, version)
        if not reference or plans.found(client, reference) is None:
            raise
        progress(f"the image {reference} is used as it is: it cannot be compared with its parts: {error.message}")
        return reference
    if not plans.is_current(client, plan):
        with _one_builder(progress):
            _bring_up(client, plan, progress)
    return plan.recipe.reference


def build(
    client: "docker.DockerClient",
    known: Mapping[str, Source],
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
        known: every image by name (`recipes.known`).
        base: official images by the name of ours that they stand in for: {"java": "eclipse-temurin:17-jre"}. Without
            one an image stays on the base that it has.
        versions: instead of the pinned ones, by image.
        again: also what is up to date, without the builder's cache, and on our own bases.
    """
    base, versions = dict(base or {}), dict(versions or {})
    plans.refuse_unknown(known, chosen, base, versions)
    result = []
    with _one_builder(progress):
        for source in plans.in_order(known, chosen, base):
            begun = time.monotonic()
            wanted = source.recipe(versions.get(source.name, ""))
            kept = "" if anew else plans.official_base_of(plans.found(client, wanted.reference))
            plan = plans.plan_of(wanted, base.get(wanted.base, kept))
            was_current = not anew and plans.is_current(client, plan)
            if not was_current:
                _bring_up(client, plan, progress, anew=anew)
            result.append(_built(client, plan, time.monotonic() - begun, was_current))
            done(result[-1])
    return result


def write_context(known: Mapping[str, Source], name: str, into: Path, *, version: str = "", base: str = "") -> str:
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


def _bring_up(client: "docker.DockerClient", plan: plans.Plan, progress: Progress, *, anew: bool = False) -> None:
    """Build the image, and before it its base where that is ours and not up to date. The caller holds the lock."""
    if is_ours(plan.base):
        base = plans.plan_of(own()[plan.recipe.base].recipe(), "")
        if not plans.is_current(client, base):
            _bring_up(client, base, progress)
    reference = plan.recipe.reference
    before = plans.found(client, reference)
    if before is not None and not anew and before.labels.get(plans.LABEL_PARTS) == plan.digest:
        # Another command built it while we waited for the lock.
        return
    progress(f"building the image {reference}")
    refuse_other_architecture(client, reference)
    said = _send(client, plan, anew=anew)
    image = plans.found(client, reference)
    if image is None or image.labels.get(plans.LABEL_PARTS) != plan.digest:
        raise failed_build(reference, said, "the engine said that it built it, but it is not there")
    if before is not None and before.id != image.id:
        _remove_superseded(client, before)


def _send(client: "docker.DockerClient", plan: plans.Plan, *, anew: bool) -> list[str]:
    """Send the context and follow the build to its end; returns what the builder said."""
    made = plan.recipe
    content = [*made.parts(), parts.Part(target="Dockerfile", content=folder.dockerfile(made.name), mode=0o644)]
    said: list[str] = []
    deadline = time.monotonic() + _BUILD_DEADLINE_S
    with _archive(content) as context, asking(f"building the image {made.reference}", MachineError):
        events: Iterator[dict[str, Any]] = client.api.build(
            fileobj=context,
            custom_context=True,
            tag=made.reference,
            buildargs={"BASE": plan.base},
            labels=plans.labels_of(plan),
            network_mode="none",
            nocache=anew,
            rm=True,
            forcerm=True,
            decode=True,
            timeout=int(_BUILD_DEADLINE_S),
        )
        for event in _until_cut(events):
            said += str(event.get("stream", event.get("status", ""))).splitlines()
            if "error" in event:
                raise failed_build(made.reference, said, str(event["error"]))
            if time.monotonic() > deadline:
                raise failed_build(made.reference, said, f"not built within {_BUILD_DEADLINE_S:g} s")
    return said


def _until_cut(events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The SDK reads this stream with urllib3 and lets its errors through, when the engine stops in the middle."""
    import urllib3.exceptions

    try:
        yield from events
    except urllib3.exceptions.HTTPError as error:
        raise ConnectionError(str(error)) from error


@contextmanager
def _archive(content: list[parts.Part]) -> Iterator[IO[bytes]]:
    """The context in a file without a name, which is gone with this process."""
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
    """An image that lost its tag to a newer one: removed, unless it has another tag, containers or images on it."""
    import docker.errors

    current = plans.found(client, str(image.id))
    if current is None or current.tags:
        return
    with asking("removing an image that a newer one replaced", MachineError):
        try:
            client.images.remove(str(image.id))
        except docker.errors.APIError as error:
            if error.status_code != 409:
                raise
            # In use: a run that began with it goes on with it.


def _built(client: "docker.DockerClient", plan: plans.Plan, elapsed_s: float, was_current: bool) -> Built:
    image = plans.found(client, plan.recipe.reference)
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
