"""The jars of a system's servers: those of recorded releases, and those in folders that people give.

A file beside the system records the releases. It has two tables: `releases`, the coordinates of each release's jars,
and `sha256`, by the jar's file name; releases share jars. So Maven and Ivy fetch the same jars, and each is checked.
`python -m tools.record_sums SYSTEM` writes it.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract import releases
from fencepost.harness.runtime.artifacts import Artifacts


@dataclass(frozen=True, kw_only=True)
class ServerJars:
    """Where the jars of one system's servers come from; releases are found by number, folders by path."""

    #: As the system's users write its name, for messages.
    title: str
    #: Records the known releases.
    file: Path
    #: The name of the one jar that tells the release: a pattern whose group 1 is the release, and for messages.
    server_jar: re.Pattern[str]
    server_jar_name: str
    #: The folder of a distribution that holds its jars.
    folder: str
    #: The coordinates of which a release consists, with all that they need.
    roots: Callable[[str], Sequence[str]]
    #: "group:artifact" of what a release needs and is left out, by release; that of "" is left out of all.
    left_out: Mapping[str, Sequence[str]] = field(default_factory=dict)

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

    def jars(self, version: str) -> list[Path]:
        """The jars of a release: fetched, checked and kept. Raises UsageError or MachineError."""
        from fencepost.harness.runtime.artifacts import maven, sums

        named = self.coordinates(version)
        if named is None:
            return self.unrecorded(version)
        fetched = maven.jars(named, exclude=maven.EVERYTHING)
        sums.check(fetched, self.sums(version) or {})
        return fetched

    def unrecorded(self, version: str) -> list[Path]:
        """The jars of a release that is not recorded: refused, unless a system knows better."""
        raise UsageError(
            f"{self.title} {version!r} is neither a known release nor a folder; known are"
            f" {releases.in_words(self.known())}",
            hint=f"choose one of them, or give the path of a folder with the jars of one {self.title}",
        )

    def are_fetched(self, version: str) -> bool:
        """Whether the jars of this recorded release are already in the cache; uses no network."""
        from fencepost.harness.runtime.artifacts import maven

        named = self.coordinates(version)
        return named is not None and maven.are_kept(named, exclude=maven.EVERYTHING)

    def given(self, folder: Path) -> tuple[str, list[Path]]:
        """Release and jars of a folder that a user gave: the jars themselves, or a distribution that holds them."""
        files = sorted(folder.glob("*.jar")) or sorted(folder.glob(f"{self.folder}/*.jar"))
        named = self.releases_in(file.name for file in files)
        if len(named) != 1:
            raise UsageError(
                f"{folder}: expected one {self.server_jar_name} in it (or in its {self.folder} folder),"
                f" found {len(named)}",
                hint=f"give a folder that holds the jars of one {self.title} and of what it needs",
            )
        return named[0], files

    def releases_in(self, names: Iterable[str]) -> list[str]:
        """The releases that the names of jars tell; jars of one server tell one."""
        return [match.group(1) for name in names if (match := self.server_jar.fullmatch(name))]

    def of(self, artifacts: Artifacts) -> list[Path]:
        """The jars that servers run from; for an image those of the same release, none where it is not recorded."""
        if "image" in artifacts.paths:
            return self.jars(artifacts.version) if artifacts.version in self.known() else []
        return [Path(jar) for jar in artifacts.paths["classpath"].split(":")]

    def record(self, wanted: Sequence[str]) -> int:
        """Record these releases, or check the recorded ones again; returns the exit status of a command."""
        from fencepost.harness.java.jar_recording import record_jars

        return record_jars(self, wanted)

    @cached_property
    def tables(self) -> dict[str, dict[str, Any]]:
        if not self.file.exists():
            return {"releases": {}, "sha256": {}}
        with self.file.open("rb") as file:
            return tomllib.load(file)


def file_name(coordinate: str) -> str:
    _, artifact, version = coordinate.split(":")
    return f"{artifact}-{version}.jar"
