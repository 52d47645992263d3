"""What goes into a container, and what an engine's words mean: without an engine."""

import io
import signal
import tarfile
from pathlib import Path, PurePosixPath

import pytest

from fencepost.harness.base.errors import HarnessError
from fencepost.harness.runtime.containers import log as container_log
from fencepost.harness.runtime.containers.data import PieceReader
from fencepost.harness.runtime.containers.making import archive, keep_copies
from fencepost.harness.runtime.containers.node import exit_status
from fencepost.harness.runtime.linux import cgroup as container_cgroup


def members(data: bytes) -> dict[str, tuple[int, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        found = {}
        for member in tar:
            content = tar.extractfile(member)
            found[member.name] = (member.mode, content.read() if content else b"")
        return found


def test_archive_holds_folders_before_files() -> None:
    data = archive({"zoo.cfg": "a", "deep/er/b": "é"}, PurePosixPath("fencepost"), mode=0o755)
    assert list(members(data).items()) == [
        ("fencepost", (0o755, b"")),
        ("fencepost/deep", (0o755, b"")),
        ("fencepost/deep/er", (0o755, b"")),
        ("fencepost/zoo.cfg", (0o644, b"a")),
        ("fencepost/deep/er/b", (0o644, "é".encode())),
    ]


def test_archive_of_a_volume_sets_the_folder_itself() -> None:
    assert list(members(archive({}, PurePosixPath("."), mode=0o777))) == ["."]
    assert list(members(archive({"myid": "1"}, PurePosixPath("."), mode=0o777))) == [".", "myid"]


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x"])
def test_files_outside_are_refused(path: str, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="lies outside of its folder"):
        archive({path: ""}, PurePosixPath("fencepost"), mode=0o755)
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
