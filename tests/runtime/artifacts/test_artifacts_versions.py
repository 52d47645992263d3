"""Known releases: which there are, how they are told, where each comes from, and what an unknown one is answered."""

import hashlib
from pathlib import Path

import pytest

from fencepost.harness.base.errors import MachineError, UsageError
from fencepost.harness.contract import releases
from fencepost.harness.runtime.artifacts import debian, go_modules, maven
from fencepost.systems.etcd import versions as etcd
from fencepost.systems.etcd.system import ETCD
from fencepost.systems.zookeeper import versions as zookeeper
from fencepost.systems.zookeeper.system import ZOOKEEPER


def test_releases_are_told_as_ranges() -> None:
    given = ["3.5.10", "3.4.23", "3.5.9", "3.5.8", "3.6.0", "3.6.1", "3.7.0"]
    assert releases.in_words(given) == "3.4.23, 3.5.8 to 3.5.10, 3.6.0, 3.6.1, 3.7.0"
    assert releases.in_words([]) == ""


def test_a_release_before_the_final_one_comes_before_it() -> None:
    given = ["6.0.1", "6.0.0", "6.0.0-alpha2", "5.0.9", "6.0.2"]
    assert releases.in_order(given) == ("5.0.9", "6.0.0-alpha2", "6.0.0", "6.0.1", "6.0.2")
    assert releases.in_words(given) == "5.0.9, 6.0.0-alpha2, 6.0.0 to 6.0.2"


def test_the_lines_that_are_promised_are_known() -> None:
    known = set(ETCD.releases.known())
    assert {"3.4.23", *(f"3.5.{n}" for n in range(22)), "3.6.0", "3.7.0", ETCD.releases.default} <= known
    lines = {release.rpartition(".")[0] for release in ZOOKEEPER.releases.known()}
    assert lines == {"3.6", "3.7", "3.8", "3.9"}
    assert ZOOKEEPER.releases.default in ZOOKEEPER.releases.known()


def test_an_unknown_release_is_answered_with_the_known_ones_and_the_path() -> None:
    with pytest.raises(UsageError, match=r"etcd '3\.5\.999' is not a known release; known are 3\.4\.23, ") as caught:
        ETCD.releases.resolve("3.5.999")
    assert "path" in (caught.value.hint or "")
    with pytest.raises(UsageError, match=r"ZooKeeper '3\.5\.0' is neither .* known are 3\.6\.0 to ") as caught:
        ZOOKEEPER.releases.resolve("3.5.0")
    assert "folder" in (caught.value.hint or "")


def test_etcd_is_built_from_its_module_with_the_recorded_sum(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: dict[str, object] = {}

    def binary(module: str, version: str, **more: object) -> Path:
        asked.update(more, module=module, version=version)
        return tmp_path / "etcd"

    monkeypatch.setattr(go_modules, "binary", binary)
    assert etcd.binary("3.5.4") == tmp_path / "etcd"
    assert (asked["module"], asked["version"]) == (etcd.MODULE, "v3.5.4")
    assert str(asked["module_sum"]).startswith("h1:")


def test_another_distributions_etcd_is_not_taken_for_debians(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    binary = tmp_path / "usr/bin/etcd"
    binary.write_text("#!/bin/sh\necho etcd Version: 3.5.16\n")
    binary.chmod(0o755)
    monkeypatch.setattr(debian, "unpacked", lambda packages: tmp_path)
    with pytest.raises(MachineError, match=r"3\.4\.23 comes with Debian 12; .* has 3\.5\.16"):
        etcd.binary("3.4.23")


def test_zookeepers_jars_are_checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    jar = tmp_path / "zookeeper-3.8.0.jar"
    jar.write_bytes(b"something else")
    monkeypatch.setattr(maven, "jars", lambda coordinates, exclude: [jar])
    with pytest.raises(MachineError, match=hashlib.sha256(b"something else").hexdigest()):
        zookeeper.jars("3.8.0")


def test_every_jar_of_every_release_has_a_sum() -> None:
    recorded = zookeeper.SUMS.read_text(encoding="utf-8")
    for release in zookeeper.known():
        for coordinate in zookeeper.coordinates(release):
            _, name, version = coordinate.split(":")
            assert f'"{name}-{version}.jar" = ' in recorded
