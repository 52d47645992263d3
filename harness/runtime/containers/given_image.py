"""A person's own image: on the engine already, or pulled with a time limit; refused if it is for another processor."""

import queue
import tarfile
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fencepost.harness.base.errors import MachineError, UsageError
from fencepost.harness.runtime.artifacts import ImageFacts
from fencepost.harness.runtime.containers.data import PieceReader
from fencepost.harness.runtime.containers.engine import ownership
from fencepost.harness.runtime.containers.engine.engine import asking
from fencepost.harness.runtime.containers.images.plans import LABEL_IMAGE
from fencepost.harness.runtime.containers.images.recipes import own
from fencepost.harness.runtime.provider import Say

if TYPE_CHECKING:
    from docker import DockerClient

PULL_DEADLINE_S: Final = 300.0
#: Names of one architecture: what kernels say, what engines say.
_SAME: Final = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}
_EMULATORS: Final = {"amd64": "x86_64", "arm64": "aarch64", "386": "i386"}


def present(client: "DockerClient", reference: str, say: Say) -> ImageFacts:
    """The image, pulled when it is not on the engine. Raises UsageError or MachineError with the remedy."""
    from docker.errors import ImageNotFound

    with asking(f"looking for the image {reference}", MachineError):
        try:
            client.images.get(reference)
        except ImageNotFound:
            say(f"pulling the image {reference} (at most {PULL_DEADLINE_S:g} s)")
            _pull(client, reference)
    image = image_facts(client, reference)
    _refuse_other_architecture(client, image, say)
    return image


def image_facts(client: "DockerClient", reference: str) -> ImageFacts:
    """What the engine knows of an image that it has."""
    with asking(f"looking at the image {reference}", MachineError):
        image = client.images.get(reference)
    config: dict[str, Any] = image.attrs.get("Config") or {}
    return ImageFacts(
        reference=reference,
        id=str(image.id).removeprefix("sha256:"),
        labels=config.get("Labels") or {},
        entrypoint=tuple(config.get("Entrypoint") or ()),
        command=tuple(config.get("Cmd") or ()),
        environment=dict(entry.partition("=")[::2] for entry in config.get("Env") or ()),
        architecture=str(image.attrs.get("Architecture") or "unknown"),
        files=partial(_files, client, reference),
    )


def refuse_other_system(image: ImageFacts, wanted: str) -> None:
    """Raise UsageError for an image whose label says that it is the one of another system than `wanted`.

    An image that was made from one of our bases has the base's label, which names no system.
    """
    label = image.labels.get(LABEL_IMAGE, "")
    if label and label != wanted and label not in own():
        raise UsageError(
            f"the image {image.reference} is for {label}, by its label {LABEL_IMAGE}",
            hint="choose the --system that is in it; an image that was only made from ours needs a label of its own: "
            f"docker build --label {LABEL_IMAGE}={wanted}",
        )


def _files(client: "DockerClient", reference: str, folder: str) -> tuple[str, ...]:
    """Names in a folder of the image, through a container that is never started; an engine tells no list otherwise.

    It sends what is in the files as well: a second for 100 MB.
    """
    from docker.errors import NotFound

    with asking(f"looking into the image {reference}", MachineError, ownership.SWEEP_COMMAND):
        labels = ownership.labels(ownership.new_run_id())
        made = client.containers.create(reference, entrypoint=["none"], labels=labels, network_mode="none")
        try:
            pieces, _ = made.get_archive(folder)
            reader: Any = PieceReader(pieces)
            with tarfile.open(fileobj=reader, mode="r|") as archive:
                return tuple(Path(entry.name).name for entry in archive if not entry.isdir())
        except NotFound:
            return ()
        finally:
            made.remove(force=True, v=True)


def _pull(client: "DockerClient", reference: str) -> None:
    """In a thread that is left alone at the deadline: a registry that answers nothing cannot be called back."""
    ended: queue.Queue[Exception | None] = queue.Queue()

    def pull() -> None:
        try:
            repository, tag = _parted(reference)
            for line in client.api.pull(repository, tag=tag, stream=True, decode=True):
                if "error" in line:
                    raise refused_pull(reference, str(line["error"]))
        except Exception as error:
            ended.put(error)
        else:
            ended.put(None)

    threading.Thread(target=pull, name="pull", daemon=True).start()
    try:
        error = ended.get(timeout=PULL_DEADLINE_S)
    except queue.Empty:
        raise MachineError(
            f"the image {reference} was not pulled within {PULL_DEADLINE_S:g} s", hint=f"docker pull {reference}"
        ) from None
    if isinstance(error, MachineError | UsageError):
        raise error
    if error is not None:
        raise refused_pull(reference, str(getattr(error, "explanation", "") or error)) from error


def _parted(reference: str) -> tuple[str, str]:
    """Repository and tag (or digest); "latest" when neither is said, for without a tag every one would be pulled."""
    from docker.utils import parse_repository_tag

    repository, tag = parse_repository_tag(reference)
    return repository, tag or "latest"


def refused_pull(reference: str, message: str) -> MachineError | UsageError:
    """An engine's or a registry's words as an error that a person can act on."""
    text = message.lower()
    if "no matching manifest" in text or "no image found in manifest list" in text:
        return MachineError(
            f"the image {reference} is not made for the engine's processor: {message}",
            hint="build it for this processor, or use an engine on a machine with the other one",
        )
    if "no space left" in text:
        return MachineError(
            f"the container engine's disk is full: {message}", hint="docker system df says what fills it"
        )
    if "connection refused" in text or "no such host" in text or "dial tcp" in text or "timeout" in text:
        return MachineError(
            f"the image {reference} is not on the engine, and its registry cannot be reached: {message}",
            hint="`docker load -i FILE` needs no registry; without --image our own image is built here",
        )
    if "unauthorized" in text or "authentication required" in text or "denied" in text:
        return UsageError(
            f"the image {reference} is not on the engine, and its registry refuses access: {message}",
            hint=f"docker login, then docker pull {reference}; is the name right?",
        )
    return UsageError(
        f"there is no image {reference}: {message}",
        hint="is the tag right? `docker images` lists the images on the engine",
    )


def _refuse_other_architecture(client: "DockerClient", image: ImageFacts, say: Say) -> None:
    from fencepost.harness.runtime.containers.engine.engine import facts

    engine = facts(client)
    theirs, wanted = (_SAME.get(name, name) for name in (engine.architecture, image.architecture))
    if wanted in (theirs, "unknown") or (theirs, wanted) == ("amd64", "386"):
        return
    if not engine.same_kernel:
        say(f"the image {image.reference} is for {wanted}, the engine for {theirs}: it must be emulated there")
        return
    if not Path(f"/proc/sys/fs/binfmt_misc/qemu-{_EMULATORS.get(wanted, wanted)}").exists():
        raise MachineError(
            f"the image {image.reference} is for {wanted}, the engine for {theirs}",
            hint=f"pull or build it for {theirs}: docker pull --platform linux/{theirs} {image.reference}",
        )
