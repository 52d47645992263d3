"""A kept folder is there whole or not at all, is made once by two that start together, and needs nothing afterwards."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import pytest

from fencepost.harness.base.errors import MachineError
from fencepost.harness.runtime import artifacts
from fencepost.harness.runtime.artifacts import kept

#: Of what must happen; a busy machine may take its time.
_DEADLINE_S = 60.0
#: Makes the folder slowly: until there is a file of the name that it is given. Says on stdout when it begins, and what
#: it got.
_MAKER = """
import sys, time
from pathlib import Path
from fencepost.harness.runtime.artifacts import kept

def make(folder: Path) -> None:
    print("begun", flush=True)
    while not Path(sys.argv[1]).exists():
        time.sleep(0.01)
    (folder / "made").write_text("whole")

print(kept("test", "one", make), flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "fencepost" / "test"


def _maker(until: Path, *, stderr: "IO[str] | int" = subprocess.PIPE, first: str = "") -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", first + _MAKER, str(until)], stdout=subprocess.PIPE, stderr=stderr, text=True
    )


def _must_not(folder: Path) -> None:
    raise AssertionError("made again")


def test_what_is_kept_is_not_made_again(folder: Path) -> None:
    def make(making: Path) -> None:
        (making / "made").write_text("whole")

    path = kept("test", "one", make)
    assert path == folder / "one"
    assert kept("test", "one", _must_not) == path
    assert (path / "made").read_text() == "whole"


def test_two_processes_at_once_make_it_once_and_the_other_says_what_it_waits_for(folder: Path, tmp_path: Path) -> None:
    go, said = tmp_path / "go", [tmp_path / "said1", tmp_path / "said2"]
    with said[0].open("w") as one, said[1].open("w") as two:
        makers = [_maker(go, stderr=one), _maker(go, stderr=two)]
    # Whichever is first makes it, for as long as the other has not said that it waits.
    deadline = time.monotonic() + _DEADLINE_S
    while not any(path.read_text() for path in said) and time.monotonic() < deadline:
        time.sleep(0.01)
    go.touch()
    outs = [maker.communicate(timeout=_DEADLINE_S)[0] for maker in makers]
    assert sorted(out.count("begun") for out in outs) == [0, 1]
    assert all(out.endswith(f"{folder}/one\n") for out in outs)
    assert sorted(path.read_text() for path in said) == ["", "waiting for another process that is making test/one\n"]


def test_a_crash_in_the_middle_leaves_nothing_that_counts(folder: Path, tmp_path: Path) -> None:
    maker = _maker(tmp_path / "never")
    assert maker.stdout is not None
    assert maker.stdout.readline() == "begun\n"
    assert (folder / ".making-one").is_dir()
    maker.send_signal(signal.SIGKILL)
    maker.communicate(timeout=_DEADLINE_S)
    assert not (folder / "one").exists()

    def make(making: Path) -> None:
        assert list(making.iterdir()) == [], "remains of the crash are gone"
        (making / "made").write_text("whole")

    assert (kept("test", "one", make) / "made").read_text() == "whole"
    assert sorted(path.name for path in folder.iterdir()) == [".one.lock", "one"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_wish_to_end_ends_the_making(folder: Path, tmp_path: Path, number: signal.Signals) -> None:
    """Also in a command that takes these signals as a wish to heal and judge."""
    handlers = "import signal\nfor n in (2, 15): signal.signal(n, lambda *_: print('asked', flush=True))\n"
    maker = _maker(tmp_path / "never", first=handlers)
    assert maker.stdout is not None
    assert maker.stdout.readline() == "begun\n"
    maker.send_signal(number)
    out, errors = maker.communicate(timeout=_DEADLINE_S)
    assert "asked" not in out
    assert "KeyboardInterrupt" in errors
    assert [path.name for path in folder.iterdir()] == [".one.lock"]


def test_the_signals_are_given_back(folder: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    kept("test", "one", lambda making: None)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_failed_making_is_passed_on_and_leaves_nothing(folder: Path) -> None:
    def fail(making: Path) -> None:
        (making / "half").write_text("half")
        raise MachineError("no network")

    with pytest.raises(MachineError, match="no network"):
        kept("test", "one", fail)
    assert [path.name for path in folder.iterdir()] == [".one.lock"]


def test_a_wait_has_a_deadline(folder: Path, tmp_path: Path) -> None:
    maker = _maker(tmp_path / "never")
    try:
        assert maker.stdout is not None
        assert maker.stdout.readline() == "begun\n"
        with pytest.raises(MachineError, match=r"test/one: another process has been making this for more than 0\.3 s"):
            kept("test", "one", _must_not, wait_s=0.3)
        assert maker.poll() is None, "it was not waited for"
    finally:
        maker.kill()
        maker.communicate(timeout=_DEADLINE_S)


def test_a_cache_that_cannot_be_written_is_said_with_the_remedy(folder: Path) -> None:
    folder.parent.mkdir()
    folder.write_text("a file in its place")
    with pytest.raises(MachineError, match="the cache folder cannot be written") as caught:
        kept("test", "one", _must_not)
    assert "XDG_CACHE_HOME" in (caught.value.hint or "")


def test_a_read_only_cache_serves_what_it_holds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept("test", "one", lambda making: None)

    def refuse(*_: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert kept("test", "one", _must_not) == folder / "one"


def test_a_key_is_readable_and_holds_everything(folder: Path) -> None:
    key = artifacts.key_of("zookeeper/3.6.3", ["a", "bc"])
    assert key.startswith("zookeeper-3.6.3-")
    assert key != artifacts.key_of("zookeeper/3.6.3", ["ab", "c"])
    for wrong in ("../x", "", ".hidden", "a/b"):
        with pytest.raises(ValueError, match="a key is"):
            kept("test", wrong, lambda making: None)
    assert not os.path.exists(folder)
