"""Cassandra's releases: those of `versions`, any by its folder of jars, and any in an image; each with its Java."""

from pathlib import Path
from typing import Final

from fencepost.harness.base.errors import UsageError
from fencepost.harness.contract.system import BaseReleases
from fencepost.harness.runtime.artifacts import Artifacts, ImageContents, ImageFacts, ImageRecipe, sha256_of
from fencepost.harness.runtime.artifacts.java import archive
from fencepost.systems.cassandra import versions
from fencepost.systems.cassandra.archive_training import train
from fencepost.systems.cassandra.configuration import CASSANDRA, archive_key

#: The jars in an image of ours, and in that of the Cassandra project.
_IN_IMAGE: Final = "/opt/cassandra/lib"


class CassandraReleases(BaseReleases):
    """`harness.contract.system.Releases`."""

    default: Final = versions.DEFAULT

    def known(self) -> tuple[str, ...]:
        return versions.RECORDED.known()

    def at_hand(self, version: str) -> bool:
        from fencepost.harness.runtime.artifacts.java_runtimes import is_kept

        return versions.RECORDED.are_fetched(version) and is_kept(versions.java_needed(version))

    def resolve(self, version: str) -> Artifacts:
        """Get a known release or a folder of jars; makes the start-up archive when there is none yet.

        `paths` are "java-home", "classpath" (jars joined by colons) and, when there is one, the start-up "archive".
        """
        from fencepost.harness.runtime.artifacts.java_runtimes import java_runtime

        version, jars = _resolved(version)
        java = java_runtime(versions.java_needed(version))
        # A name of their own: the archives of many releases must not displace the default's.
        name = CASSANDRA if version == self.default else f"other-{CASSANDRA}"
        made = archive(name, archive_key(jars), lambda flags: train(java, jars, flags), java=java)
        paths = {"java-home": str(java.home), "classpath": ":".join(map(str, jars))}
        if made is not None:
            paths["archive"] = str(made)
        sha256 = {jar.name: sha256_of(jar) for jar in jars} | {"java": sha256_of(java.binary)}
        return Artifacts(version=version, paths=paths, sha256=sha256)

    @property
    def image_recipe(self) -> ImageRecipe:
        """A server's jars, on a base with the Java that the release needs."""
        return ImageRecipe(
            name=CASSANDRA, version=self.default, base=_base(self.default), folder="lib", contents=_contents
        )

    def in_image(self, image: ImageFacts) -> Artifacts:
        """Use `java` and the jars of an image, ours or the Cassandra project's; its entry point is not used.

        The scripts of the entry point would write a configuration of their own. The jars say which release it is.
        """
        releases = [m.group(1) for name in image.files(_IN_IMAGE) if (m := versions.SERVER_JAR.fullmatch(name))]
        if len(releases) != 1:
            raise UsageError(
                f"{image.reference}: expected one cassandra-all-<version>.jar or apache-cassandra-<version>.jar in"
                f" {_IN_IMAGE}, found {len(releases)}",
                hint="give an image with Cassandra's jars in that folder and `java` on its PATH, as the official one",
            )
        paths = {"image": image.reference, "java": "java", "classpath": f"{_IN_IMAGE}/*"}
        return Artifacts(version=releases[0], paths=paths, sha256={"image": image.id})


def _resolved(version: str) -> tuple[str, list[Path]]:
    """Version and jars of a known release, or of a folder that a user gave."""
    if Path(version).is_dir():
        return versions.given(Path(version).absolute())
    return version, versions.jars(version)


def _base(version: str) -> str:
    return f"java-{versions.java_needed(version)}"


def _contents(version: str) -> ImageContents:
    """The contents for a version; the sums of a known release are recorded, so nothing is fetched for them."""
    sums = versions.RECORDED.sums(version)
    if sums is None:
        version, jars = _resolved(version)
        return ImageContents(
            version=version,
            sums={jar.name: sha256_of(jar) for jar in jars},
            files=lambda: {jar.name: jar for jar in jars},
            base=_base(version),
        )
    return ImageContents(
        version=version,
        sums=sums,
        files=lambda: {jar.name: jar for jar in versions.jars(version)},
        base=_base(version),
    )
