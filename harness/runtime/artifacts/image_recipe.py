"""Values: what the image of a system under test is made of, said by the system and built by the container runtime."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageContents:
    """The files of one version. `sums` needs no network: it decides whether an image that exists is up to date.

    `sums` has the SHA-256 of each file by its name in the image; `files` has the paths of the same files on this
    machine, and may fetch or compile them first. `version` is what the files say of themselves.
    """

    version: str
    sums: Mapping[str, str]
    files: Callable[[], Mapping[str, Path]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRecipe:
    """The image of one system. `docker/<name>/Dockerfile` copies the build context, where `folder` holds the files.

    `version` is built when nobody chooses another. `base` names one of the runtime's own images ("java"). An image
    without a base is made of programs, and gets the shared libraries that they load.
    """

    name: str
    version: str
    folder: str
    #: Takes a version, or a path, as `--version` does. Raises UsageError or MachineError with the remedy.
    contents: Callable[[str], ImageContents]
    base: str = ""
