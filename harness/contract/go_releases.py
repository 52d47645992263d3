"""The releases of a system whose server is one program, built from a Go module.

A known release is built from the module, whose sums stand in a file beside the system
(`python -m tools.record_sums SYSTEM`), or it has a source of its own. Any other program is given by its path.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract import releases
from fencepost.harness.contract.recorded_sums import read_sums, record_module_sums
from fencepost.harness.runtime import artifacts as binaries
from fencepost.harness.runtime.artifacts import Artifacts, ImageContents, ImageFacts, ImageRecipe


@dataclass(frozen=True, kw_only=True)
class GoReleases:
    """`harness.contract.system.Releases`, declared; `name` is the system's, as plans have it."""

    name: str
    #: As its users write the name, for messages.
    title: str
    #: The server's program, which is also the name of its path among the artifacts.
    program: str
    default: str
    module: str
    #: What go.sum says of the releases that can be built, by release.
    sums_file: Path
    #: Asks the program for its version, which is group 1 of the pattern in its answer.
    version_argument: str
    version_pattern: str
    ldflags: str = ""
    #: Releases that do not come from the module: each with what finds or fetches its program.
    other_sources: Mapping[str, Callable[[], Path]] = field(default_factory=dict)

    def known(self) -> tuple[str, ...]:
        """Every release that `resolve` can get by its number, in order."""
        return releases.in_order({*self.other_sources, *read_sums(self.sums_file)})

    def at_hand(self, version: str) -> bool:
        """Whether the release comes from elsewhere and is the default, or is built already."""
        if version in self.other_sources:
            return version == self.default
        from fencepost.harness.runtime.artifacts import go_modules

        return version in read_sums(self.sums_file) and go_modules.is_built(
            self.module, f"v{version}", **self._build(version)
        )

    def resolve(self, version: str) -> Artifacts:
        """Get a known release, or the program at a path (a text with a slash, or the name of a file)."""
        given = "/" in version or Path(version).is_file()
        path = binaries.executable(version, what=self.title) if given else self.binary(version)
        reported = self.reported_version(path)
        return Artifacts(
            version=reported, paths={self.program: str(path)}, sha256={self.program: binaries.sha256_of(path)}
        )

    def binary(self, version: str) -> Path:
        """Return the program of a known release: found, fetched or built, then kept."""
        if version in self.other_sources:
            return self.other_sources[version]()
        if version not in read_sums(self.sums_file):
            raise UsageError(
                f"{self.name} {version!r} is not a known release; known are {releases.in_words(self.known())}",
                hint=f"choose one of them, or give the path of a binary of {self.title} (with a slash):"
                f" --version ./{self.program}",
            )
        from fencepost.harness.runtime.artifacts import go_modules

        return go_modules.binary(self.module, f"v{version}", **self._build(version))

    def _build(self, version: str) -> dict[str, str]:
        """How the program of a recorded release is built."""
        module_sum = read_sums(self.sums_file)[version]
        return {"package": self.module, "name": self.program, "ldflags": self.ldflags, "module_sum": module_sum}

    def reported_version(self, path: Path) -> str:
        """Ask a program for its version; raises UsageError when it names none."""
        return binaries.reported_version([str(path), self.version_argument], self.version_pattern, what=self.title)

    @property
    def image_recipe(self) -> ImageRecipe:
        """The one program, and the libraries that it loads where it is not static."""

        def contents(version: str) -> ImageContents:
            artifacts = self.resolve(version)
            return ImageContents(
                version=artifacts.version,
                sums=artifacts.sha256,
                files=lambda: {self.program: Path(artifacts.paths[self.program])},
            )

        return ImageRecipe(name=self.name, version=self.default, folder="root/usr/local/bin", contents=contents)

    def in_image(self, image: ImageFacts) -> Artifacts:
        """Use the program from the PATH of any image; the image's own entry point is not used."""
        paths = {"image": image.reference, self.program: self.program}
        return Artifacts(version=image.version, paths=paths, sha256={"image": image.id})

    def record(self, wanted: Sequence[str]) -> int:
        """Record these releases, or check the recorded ones again; returns the exit status of a command."""
        return record_module_sums(self.sums_file, self.module, wanted)
