"""The file that names every jar of a system's known releases, with the SHA-256 of each; releases share jars.

It has two tables: `releases`, the coordinates of each release's jars, and `sha256`, by the jar's file name. So Maven
and Ivy fetch the same jars, and each is checked. `jar_recording` writes it.
"""

import tomllib
from functools import cached_property
from pathlib import Path
from typing import Any

from fencepost.harness.contract import releases


class RecordedJars:
    """The jars of the releases that one file records."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def known(self) -> tuple[str, ...]:
        """Every recorded release, in order."""
        return releases.in_order(self.tables["releases"])

    def coordinates(self, version: str) -> list[str] | None:
        """Every jar of a recorded release by its coordinates; None when it is not a recorded one."""
        recorded: list[str] | None = self.tables["releases"].get(version)
        return recorded

    def sums(self, version: str) -> dict[str, str] | None:
        """The SHA-256 of every jar of a recorded release by its file's name; None when it is not a recorded one."""
        named = self.coordinates(version)
        return None if named is None else {name: self.tables["sha256"][name] for name in map(file_name, named)}

    def fetch(self, version: str) -> list[Path] | None:
        """The jars of a recorded release: fetched, checked and kept; None when it is not a recorded one."""
        from fencepost.harness.runtime.artifacts import maven, sums

        named = self.coordinates(version)
        if named is None:
            return None
        fetched = maven.jars(named, exclude=maven.EVERYTHING)
        sums.check(fetched, self.sums(version) or {})
        return fetched

    def are_fetched(self, version: str) -> bool:
        """Whether the jars of this recorded release are already in the cache; uses no network."""
        from fencepost.harness.runtime.artifacts import maven

        named = self.coordinates(version)
        return named is not None and maven.are_kept(named, exclude=maven.EVERYTHING)

    @cached_property
    def tables(self) -> dict[str, dict[str, Any]]:
        if not self.file.exists():
            return {"releases": {}, "sha256": {}}
        with self.file.open("rb") as file:
            return tomllib.load(file)


def file_name(coordinate: str) -> str:
    _, artifact, version = coordinate.split(":")
    return f"{artifact}-{version}.jar"
