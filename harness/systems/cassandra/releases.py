"""Cassandra's releases: those of `versions`, and any by its folder of jars; each with the Java that it needs."""

from pathlib import Path
from typing import Final

from fencepost.harness.runtime.artifacts import Artifacts, sha256_of
from fencepost.harness.runtime.artifacts.java import archive
from fencepost.harness.systems.cassandra import versions
from fencepost.harness.systems.cassandra.archive_training import train
from fencepost.harness.systems.cassandra.configuration import CASSANDRA, archive_key
from fencepost.harness.systems.contract.base import BaseReleases


class CassandraReleases(BaseReleases):
    """`harness.systems.contract.system.Releases`."""

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

        if Path(version).is_dir():
            version, jars = versions.given(Path(version).absolute())
        else:
            jars = versions.jars(version)
        java = java_runtime(versions.java_needed(version))
        # A name of their own: the archives of many releases must not displace the default's.
        name = CASSANDRA if version == self.default else f"other-{CASSANDRA}"
        made = archive(name, archive_key(jars), lambda flags: train(java, jars, flags), java=java)
        paths = {"java-home": str(java.home), "classpath": ":".join(map(str, jars))}
        if made is not None:
            paths["archive"] = str(made)
        sha256 = {jar.name: sha256_of(jar) for jar in jars} | {"java": sha256_of(java.binary)}
        return Artifacts(version=version, paths=paths, sha256=sha256)
