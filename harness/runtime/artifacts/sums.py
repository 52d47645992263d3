"""Checks fetched files against the SHA-256 sums that are recorded beside our sources."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from fencepost.harness.base.errors import MachineError
from fencepost.harness.runtime.artifacts import sha256_of


def check(files: Iterable[Path], recorded: Mapping[str, str]) -> dict[str, str]:
    """Return the sum of each file by its name, if the files are exactly the recorded ones.

    Raises:
        MachineError: a file has another content than recorded, is not recorded at all, or is missing.
    """
    sums: dict[str, str] = {}
    for file in files:
        came, expected = sha256_of(file), recorded.get(file.name)
        if came != expected:
            raise MachineError(
                f"{file}: expected SHA-256 {expected or 'none: the file is not a recorded one'}, found {came}",
                hint=f"remove {file.parent} to fetch it again; if the sum differs again, do not use this source",
            )
        sums[file.name] = came
    missing = sorted(set(recorded) - set(sums))
    if missing:
        raise MachineError(
            f"{', '.join(missing)} cannot be found beside {', '.join(sums) or 'no other file'}",
            hint="remove their folder in the cache to fetch them again",
        )
    return sums
