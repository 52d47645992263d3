"""Values: the binaries that a cluster's nodes run, and what an engine knows of the image that holds them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifacts:
    """Where a system's binaries are, resolved before the run; `version` is the one that they report.

    In a container `paths` are paths inside it, except "image", which is the image's reference.
    """

    version: str
    paths: Mapping[str, str]
    sha256: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFacts:
    """What an engine knows of an image; our own images carry labels that begin with `org.fencepost.`.

    `files` returns the names in one folder of the image; none when the image has no such folder.
    """

    reference: str
    id: str
    labels: Mapping[str, str]
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    environment: Mapping[str, str]
    architecture: str
    files: Callable[[str], tuple[str, ...]] = lambda _: ()

    @property
    def version(self) -> str:
        """The version of the system inside: from our label, else from the common one, else the tag."""
        for label in ("org.fencepost.version", "org.opencontainers.image.version"):
            if self.labels.get(label):
                return self.labels[label]
        tag = self.reference.rpartition("/")[2].partition("@")[0].partition(":")[2]
        return tag or "unknown"
