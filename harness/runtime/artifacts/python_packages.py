"""Binaries inside installed Python packages.

Found without importing the package, since importing runs its code.
"""

import importlib.metadata
import importlib.util
from pathlib import Path

from fencepost.harness.base.errors import MachineError


def python_package_folder(name: str) -> Path | None:
    """The folder of an installed top-level package; None when it is absent."""
    if "." in name:
        raise ValueError(f"{name!r}: only a top-level package is found without importing its parents")
    spec = importlib.util.find_spec(name)
    locations = list(spec.submodule_search_locations or ()) if spec else []
    return Path(locations[0]) if locations else None


def required_package_folder(name: str, *, distribution: str) -> Path:
    """The same for a package that the run cannot do without; raises MachineError with the remedy."""
    folder = python_package_folder(name)
    if folder is None:
        raise _not_installed(distribution)
    return folder


def python_package_version(distribution: str) -> str:
    """The installed version of a distribution; raises MachineError with the remedy when it is absent."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        raise _not_installed(distribution) from None


def _not_installed(distribution: str) -> MachineError:
    return MachineError(
        f"the Python package {distribution!r} is not installed",
        hint=f"run `make setup`, or `pip install {distribution}` into the environment of this command",
    )
