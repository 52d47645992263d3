"""What goes into a container, and what an engine's words mean: without an engine."""

import io
import signal
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from docker.utils import kwargs_from_env

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.containers import log as container_log
from fencepost.harness.runtime.containers.container import exit_status
from fencepost.harness.runtime.containers.data import PieceReader
from fencepost.harness.runtime.containers.making import _environment, _staged, archive, keep_copies
from fencepost.harness.runtime.linux import cgroup as container_cgroup


def members(data: bytes) -> dict[str, tuple[int, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        found = {}
        for member in tar:
            content = tar.extractfile(member)
            found[member.name] = (member.mode, content.read() if content else b"")
        return found


def test_archive_holds_folders_before_files() -> None:
    data = archive({"myid": "a", "deep/er/b": "é"})
    assert list(members(data).items()) == [
        (".", (0o777, b"")),
        ("deep", (0o777, b"")),
        ("deep/er", (0o777, b"")),
        ("myid", (0o644, b"a")),
        ("deep/er/b", (0o644, "é".encode())),
    ]


def test_archive_of_a_volume_sets_the_folder_itself() -> None:
    assert list(members(archive({}))) == ["."]


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x"])
def test_files_outside_are_refused(path: str, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="lies outside of its folder"):
        archive({path: ""})
    with pytest.raises(HarnessError, match="lies outside of its folder"):
        keep_copies(tmp_path, {path: ""})


@pytest.mark.parametrize(
    ("told", "meant"),
    [(0, 0), (1, 1), (128, 128), (137, -signal.SIGKILL), (139, -signal.SIGSEGV), (143, 143), (130, 130), (255, 255)],
)
def test_exit_status(told: int, meant: int) -> None:
    assert exit_status(told) == meant


def test_archive_in_pieces_is_read_as_one() -> None:
    reader = PieceReader([b"ab", b"", b"cdef", b"g"])
    assert [reader.read(3), reader.read(3), reader.read(3), reader.read(3)] == [b"abc", b"def", b"g", b""]


def test_tail(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    assert container_log.tail(log, 3) == ""
    log.write_text("".join(f"{number}\n" for number in range(50_000)))
    assert container_log.tail(log, 2) == "49998\n49999"


def test_processes_of_other_containers_are_not_its_own() -> None:
    assert not container_cgroup.belongs(1, "0" * 64)
    assert not container_cgroup.belongs(1_999_999_999, "")
    assert container_cgroup.is_frozen(1_999_999_999) is None
    assert container_cgroup.threads(1_999_999_999) == 0


def test_another_client_finds_the_same_engine_with_the_same_certificates(tmp_path: Path) -> None:
    for name in ("ca.pem", "cert.pem", "key.pem"):
        (tmp_path / name).touch()
    api = SimpleNamespace(
        base_url="https://engine.test:2376",
        cert=(str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")),
        verify=True,
        get_adapter=lambda url: None,
    )
    found = kwargs_from_env(_environment(cast("Any", SimpleNamespace(api=api))))
    assert found["base_url"] == "https://engine.test:2376"
    assert (found["tls"].cert, found["tls"].ca_cert, found["tls"].verify) == (api.cert, str(tmp_path / "ca.pem"), True)


def test_files_for_a_container_are_everybodys() -> None:
    with _staged({"zoo.cfg": "a", "deep/b": "c"}) as folder:
        assert folder.name == "fencepost"
        modes = {str(path.relative_to(folder)): path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*"))}
        assert modes == {".": 0o777, "zoo.cfg": 0o666, "deep": 0o777, "deep/b": 0o666}
    assert not folder.exists()
