"""The releases of every system on Java: recorded jars, folders that people give, and words that are neither."""

from pathlib import Path

import pytest

from fencepost.harness.base.errors import UsageError
from fencepost.harness.java.java_releases import JavaReleases, java_command
from fencepost.harness.java.server_jars import ServerJars
from fencepost.harness.plugins import registry
from fencepost.harness.runtime.artifacts import Artifacts
from fencepost.harness.runtime.artifacts.java import Java

JAVA = {name: system.releases for name, system in registry.systems().items() if system.profile.java}


def jars_of(name: str) -> ServerJars:
    releases = JAVA[name]
    assert isinstance(releases, JavaReleases)
    return releases.jars


SYSTEMS = pytest.mark.parametrize("name", JAVA)


@SYSTEMS
def test_every_recorded_jar_has_its_sum(name: str) -> None:
    jars = jars_of(name)
    assert JAVA[name].default in JAVA[name].known()
    for release in jars.known():
        named = jars.coordinates(release) or []
        roots = list(jars.roots(release))
        assert named[: len(roots)] == roots
        assert len(jars.sums(release) or named) == len(named)
        assert set(named) >= {*roots}


@SYSTEMS
def test_a_word_that_is_no_release_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(
        UsageError, match=r"'latest' is neither a (known )?release nor a folder; known are \d"
    ) as refused:
        JAVA[name].resolve("latest")
    assert "folder" in (refused.value.hint or "")


@SYSTEMS
def test_a_folder_without_the_servers_jar_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"expected one .*-<version>\.jar in it \(or in its libs? folder\), found 0"):
        JAVA[name].resolve(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "server"), [("zookeeper", "zookeeper-3.8.4.jar"), ("cassandra", "apache-cassandra-3.8.4.jar")]
)
def test_a_folder_tells_its_release(name: str, server: str, tmp_path: Path) -> None:
    library = tmp_path / "lib"
    library.mkdir()
    for jar in (server, "zookeeper-jute-3.8.4.jar", "guava-1.jar"):
        (library / jar).touch()
    for folder in (tmp_path, library):
        release, jars = jars_of(name).given(folder)
        assert (release, len(jars)) == ("3.8.4", 3)


def test_jars_in_an_image_are_those_of_the_same_release(monkeypatch: pytest.MonkeyPatch) -> None:
    jars = jars_of("cassandra")
    monkeypatch.setattr(ServerJars, "jars", lambda self, version: [Path(f"{version}.jar")])
    known = Artifacts(version=jars.known()[0], paths={"image": "i"}, sha256={})
    assert jars.of(known) == [Path(f"{jars.known()[0]}.jar")]
    assert jars.of(Artifacts(version="latest", paths={"image": "i"}, sha256={})) == []
    assert jars.of(Artifacts(version="1", paths={"classpath": "/a.jar:/b.jar"}, sha256={})) == [
        Path("/a.jar"),
        Path("/b.jar"),
    ]


def test_a_command_uses_the_archive_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    java = Java(binary=Path("/j/bin/java"), home=Path("/j"), version="25.0.1")
    monkeypatch.setattr("fencepost.harness.java.java_releases.java_in", lambda home: java)
    paths = {"java": "/j/bin/java", "keeper-archive": "/k.archive"}
    artifacts = Artifacts(version="1", paths=paths, sha256={})
    assert java_command(artifacts) == ["/j/bin/java"]
    assert java_command(artifacts, "keeper-archive")[:2] == ["/j/bin/java", "-XX:AOTCache=/k.archive"]
