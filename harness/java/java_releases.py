"""The releases of a system whose servers are Java programs: jars on a Java, and archives from which they start faster.

A system declares its jars, its archives and the folders of images in which jars lie.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import UsageError
from fencepost.harness.java.archive_training import TrainingCluster, train
from fencepost.harness.java.server_jars import ServerJars
from fencepost.harness.runtime.artifacts import Artifacts, ImageContents, ImageFacts, ImageRecipe, sha256_of
from fencepost.harness.runtime.artifacts.java import Java, archive, existing_archive, find_java, jar_parts, java_in

#: Of the artifacts' paths: there when the others are inside of an image.
IMAGE: Final = "image"


@dataclass(frozen=True, kw_only=True)
class StartArchive:
    """A start-up archive of one of the programs that a system's servers are."""

    #: In the cache.
    name: str
    #: The release whose archives have this name. Those of others have one of their own, so that the archives of many
    #: releases do not displace the default's.
    release: str
    #: What the archive depends on beside Java and jars: the JVM flags and the main class.
    program: tuple[str, ...]
    cluster: TrainingCluster
    #: Among the artifacts' paths.
    path: str = "archive"

    def existing(self, java: Java, release: str, jars: Sequence[Path]) -> Path | None:
        """The archive if it has been made already."""
        return existing_archive(self._name(release), self._key(jars), java=java)

    def made(self, java: Java, artifacts: Artifacts, jars: Sequence[Path]) -> Path | None:
        """The archive, which a training run makes when there is none yet; None when none can be made."""
        return archive(
            self._name(artifacts.version),
            self._key(jars),
            lambda flags: train(self.cluster, artifacts, flags),
            java=java,
        )

    def _name(self, release: str) -> str:
        return self.name if release == self.release else f"other-{self.name}"

    def _key(self, jars: Sequence[Path]) -> list[str]:
        return [*self.program, *jar_parts(jars)]


@dataclass(frozen=True, kw_only=True)
class JavaReleases:
    """`harness.contract.system.Releases`, declared; `name` is the system's, as plans have it."""

    name: str
    default: str
    jars: ServerJars
    archives: tuple[StartArchive, ...]
    #: Where images have the jars; ours have them in the first one.
    image_folders: tuple[str, ...]
    #: What a person may do about an image without these jars.
    image_hint: str
    #: Other systems whose images have the same jars.
    same_jars_as: tuple[str, ...] = ()
    #: The feature release of the Java that a release needs; None: they run on the Java of this environment.
    java_needed: Callable[[str], int] | None = None

    def known(self) -> tuple[str, ...]:
        """Every release that `resolve` can get by its number, in order."""
        return self.jars.known()

    def at_hand(self, version: str) -> bool:
        """Whether the jars of this release, and its Java, are already on this machine."""
        if self.java_needed is None:
            return self.jars.are_fetched(version)
        from fencepost.harness.runtime.artifacts.java_runtimes import is_kept

        return self.jars.are_fetched(version) and is_kept(self.java_needed(version))

    def resolve(self, version: str) -> Artifacts:
        """Get a release, or a folder of jars; makes the start-up archives when there are none yet.

        `paths` are "java", "classpath" (jars joined by colons) and the start-up archives that there are.
        """
        release, jars = self.find(version)
        java = self.java(release, jars)
        artifacts = Artifacts(
            version=release,
            paths={"java": str(java.binary), "classpath": ":".join(map(str, jars))},
            sha256={**{jar.name: sha256_of(jar) for jar in jars}, "java": sha256_of(java.binary)},
        )
        made = {one.path: one.made(java, artifacts, jars) for one in self.archives}
        paths = {path: str(file) for path, file in made.items() if file is not None}
        return replace(artifacts, paths={**artifacts.paths, **paths})

    def find(self, version: str) -> tuple[str, list[Path]]:
        """Release and jars of a known release, or of a folder. Raises UsageError or MachineError."""
        if Path(version).is_dir():
            return self.jars.given(Path(version).absolute())
        return version, self.jars.jars(version)

    def java(self, release: str, jars: Sequence[Path]) -> Java:
        """The Java on which these servers run."""
        if self.java_needed is None:
            return find_java()
        from fencepost.harness.runtime.artifacts.java_runtimes import java_runtime

        return java_runtime(self.java_needed(release))

    def startup_archive(self) -> Path | None:
        """Where the archive of the default release is; None when it, or the release, is absent."""
        if not self.at_hand(self.default):
            return None
        jars = self.jars.jars(self.default)
        return self.archives[0].existing(self.java(self.default, jars), self.default, jars)

    @property
    def image_recipe(self) -> ImageRecipe:
        """The jars, on a base with Java; the sums of a known release are recorded, so nothing is fetched for them."""

        def contents(version: str) -> ImageContents:
            sums = self.jars.sums(version)
            release, jars = (version, None) if sums is not None else self.find(version)
            self.refuse(release)
            return ImageContents(
                version=release,
                sums={jar.name: sha256_of(jar) for jar in jars or ()} if sums is None else sums,
                files=lambda: {jar.name: jar for jar in jars or self.find(version)[1]},
                base=self._base(release),
            )

        folder = Path(self.image_folders[0]).name
        return ImageRecipe(
            name=self.name, version=self.default, base=self._base(self.default), folder=folder, contents=contents
        )

    def _base(self, release: str) -> str:
        return "java" if self.java_needed is None else f"java-{self.java_needed(release)}"

    def in_image(self, image: ImageFacts) -> Artifacts:
        """Use `java` and the jars of an image, ours or a person's.

        Its entry point is not used: its scripts would write a configuration of their own.
        """
        if image.labels.get("org.fencepost.system") in (self.name, *self.same_jars_as):
            release, folder = image.version, self.image_folders[0]
        else:
            release, folder = self.look_into(image)
        self.refuse(release)
        paths = {IMAGE: image.reference, "java": "java", "classpath": f"{folder}/*"}
        return Artifacts(version=release, paths=paths, sha256={IMAGE: image.id})

    def look_into(self, image: ImageFacts) -> tuple[str, str]:
        """Release and folder of the jars; by the jars themselves, since tags say what their owners like."""
        for folder in self.image_folders:
            releases = self.jars.releases_in(image.files(folder))
            if len(releases) > 1:
                raise UsageError(
                    f"{image.reference}: {len(releases)} releases of {self.jars.title} in {folder}:"
                    f" {', '.join(sorted(releases))}",
                    hint=f"give an image that holds the jars of one {self.jars.title} and of what it needs",
                )
            if releases:
                return releases[0], folder
        raise UsageError(
            f"{image.reference}: no {self.jars.server_jar_name} in {', '.join(self.image_folders)}",
            hint=self.image_hint,
        )

    def refuse(self, release: str) -> None:
        """Raise UsageError for a release that this system does not run; it runs every one unless it knows better."""

    def record(self, wanted: Sequence[str]) -> int:
        """Record these releases, or check the recorded ones again; returns the exit status of a command."""
        return self.jars.record(wanted)


def java_command(artifacts: Artifacts, archive_path: str = "archive") -> list[str]:
    """The beginning of a server's command line: its Java, and the flags with which it uses the archive at that path."""
    java, made = artifacts.paths["java"], artifacts.paths.get(archive_path)
    if made is None:
        return [java]
    return [java, *java_in(Path(java).parent.parent).using(Path(made))]
