"""Values: what the image of a system is made of. The system says it, the container runtime builds it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageContents:
    """The files of one version of a system.

    `sums` has the SHA-256 of each file by its name in the image; it needs no network and decides whether an existing
    image is up to date. `files` returns the paths of the same files on this machine, and may fetch or compile them
    first. `version` is the one that the files report. `base`: where this version needs another one than the recipe's.
    """

    version: str
    sums: Mapping[str, str]
    files: Callable[[], Mapping[str, Path]]
    base: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRecipe:
    """The image of one system. `docker/<name>/Dockerfile` copies the build context, where `folder` holds the files.

    `version` is the default. `base` names one of the runtime's own images ("java"). An image without a base consists of
    programs and the shared libraries that they load.
    """

    name: str
    version: str
    folder: str
    #: Gets a version or a path, like `--version`. Raises UsageError or MachineError with the remedy.
    contents: Callable[[str], ImageContents]
    base: str = ""
