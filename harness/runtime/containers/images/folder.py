"""The folder `docker/` of this repository: its path, and the versions that its file versions.toml pins."""

import os
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from fencepost.harness.base.errors import HarnessError, MachineError
from fencepost.harness.base.files import source_tree

#: The variable that names another folder like `docker/`, for a fencepost installed apart from its repository.
FOLDER_VARIABLE: Final = "FENCEPOST_DOCKER"


class Pinned(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table of versions.toml. `base` names another image, `official` an official image that can replace it."""

    version: str = ""
    base: str = ""
    official: str = ""
    module: str = ""
    package: str = ""
    packages: dict[str, tuple[str, ...]] = {}
    sum: str = ""


def folder() -> Path:
    """Return the folder of the Dockerfiles; raise MachineError when this fencepost was installed without it."""
    named = os.environ.get(FOLDER_VARIABLE)
    path = Path(named).absolute() if named else source_tree() / "docker"
    if not (path / "versions.toml").is_file():
        raise MachineError(
            f"{path}: there are no Dockerfiles (no versions.toml) in this folder",
            hint=f"run fencepost from a checkout of its repository, or set {FOLDER_VARIABLE} to its docker/ folder",
        )
    return path


def pinned() -> dict[str, Pinned]:
    """Return the tables of versions.toml by image name, in the file's order."""
    return _read(folder() / "versions.toml")


@lru_cache(maxsize=4)
def _read(file: Path) -> dict[str, Pinned]:
    try:
        return msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), dict[str, Pinned])
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise HarnessError(f"{file}: {error}") from None


def dockerfile(name: str) -> bytes:
    return (folder() / name / "Dockerfile").read_bytes()
