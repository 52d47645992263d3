"""Binaries inside installed Python packages.

Packages are located without importing them, since an import runs their code.
"""

import importlib.metadata
import importlib.util
from pathlib import Path

from fencepost.harness.base.errors import MachineError


def python_package_folder(name: str) -> Path | None:
    """Return the folder of an installed top-level package; None when it is absent."""
    if "." in name:
        raise ValueError(f"{name!r}: only a top-level package can be located without importing its parents")
    spec = importlib.util.find_spec(name)
    locations = list(spec.submodule_search_locations or ()) if spec else []
    return Path(locations[0]) if locations else None


def required_package_folder(name: str, *, distribution: str) -> Path:
    """Return the folder of a package that the run needs; raise MachineError with the remedy."""
    folder = python_package_folder(name)
    if folder is None:
        raise _not_installed(distribution)
    return folder


def python_package_version(distribution: str) -> str:
    """Return the installed version of a distribution; raise MachineError with the remedy when it is absent."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        raise _not_installed(distribution) from None


def _not_installed(distribution: str) -> MachineError:
    return MachineError(
        f"the Python package {distribution!r} is not installed",
        hint=f"run `make setup`, or `pip install {distribution}` into the environment of this command",
    )
