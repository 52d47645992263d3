"""Known releases: which there are, how they are told, where each comes from, and what an unknown one is answered."""

import hashlib
from pathlib import Path

import pytest

from fencepost.harness.base.errors import MachineError
from fencepost.harness.contract import releases
from fencepost.harness.runtime.artifacts import debian, maven
from fencepost.systems.etcd.system import ETCD
from fencepost.systems.zookeeper.system import ZOOKEEPER
from fencepost.systems.zookeeper.versions import JARS


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


def test_another_distributions_etcd_is_not_taken_for_debians(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    binary = tmp_path / "usr/bin/etcd"
    binary.write_text("#!/bin/sh\necho etcd Version: 3.5.16\n")
    binary.chmod(0o755)
    monkeypatch.setattr(debian, "unpacked", lambda packages: tmp_path)
    with pytest.raises(MachineError, match=r"3\.4\.23 comes with Debian 12; .* has 3\.5\.16"):
        ETCD.releases.binary("3.4.23")


def test_zookeepers_jars_are_checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    jar = tmp_path / "zookeeper-3.8.0.jar"
    jar.write_bytes(b"something else")
    monkeypatch.setattr(maven, "jars", lambda coordinates, exclude: [jar])
    with pytest.raises(MachineError, match=hashlib.sha256(b"something else").hexdigest()):
        JARS.jars("3.8.0")
