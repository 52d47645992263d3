"""No Ctrl-C is lost, and nothing is left running, wherever it comes while a process is started or waited for."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

import pytest

from fencepost.harness.base.signals import interruptible
from fencepost.harness.java import archive_training as training
from fencepost.harness.runtime.artifacts import tool

#: Where a signal counts: our own files, and what Python does with a process.
_FILES: Final = ("subprocess.py", "interruptible.py", "tool.py", "training.py")
#: Of Python's object for a process, where it prints exceptions and goes on; what is trained has ended by then.
_DESTRUCTOR: Final = ("__del__", "_internal_poll")
#: Of what must happen; a busy machine may take its time.
_DEADLINE_S: Final = 30.0


class Site(NamedTuple):
    """A line that is passed, and how: `c_return acquire` is behind a call of the built-in function `acquire`."""

    file: str
    function: str
    line: int
    event: str


class Passing:
    """Calls `act` when a site is passed for the first time; collects all of them."""

    def __init__(self, sought: Site | None) -> None:
        self.sought = sought
        self.sites: dict[Site, None] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        file = os.path.basename(frame.f_code.co_filename)
        # Behind a call, and not before it too: whatever an exception can come between is there once.
        if file not in _FILES or event not in ("return", "c_return"):
            return
        name = getattr(argument, "__name__", "") if event.startswith("c_") else ""
        site = Site(file, frame.f_code.co_name, frame.f_lineno, f"{event} {name}")
        if site in self.sites:
            return
        self.sites[site] = None
        if site == self.sought:
            signal.raise_signal(signal.SIGTERM)


def _ask_a_tool(folder: Path) -> None:
    tool.wait_for_end(tool.Command(argv=["sleep", "600"], timeout_s=0.05))


def _train(folder: Path) -> None:
    with training.running(["sleep", "600"], folder / "log") as server:
        server.stop()


def _passed(work: Any, folder: Path, sought: Site | None) -> tuple[list[Site], bool]:
    """The sites, and whether it ended by KeyboardInterrupt; fails when it does not end."""

    def overdue(*_: object) -> None:
        raise TimeoutError

    seen = Passing(sought)
    before = signal.signal(signal.SIGALRM, overdue)
    signal.setitimer(signal.ITIMER_REAL, _DEADLINE_S)
    try:
        with interruptible():
            sys.setprofile(seen)
            try:
                work(folder)
            finally:
                sys.setprofile(None)
    except KeyboardInterrupt:
        return list(seen.sites), True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return list(seen.sites), False


#: An exception between the opening of a file and the `with` that closes it leaves that to the collector.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("work", [_ask_a_tool, _train])
def test_a_signal_anywhere_ends_it(tmp_path: Path, work: Any) -> None:
    sites, interrupted = _passed(work, tmp_path, None)
    assert not interrupted
    assert any(site.event == "c_return acquire" for site in sites), "where Python's own lock would stay taken"
    sought = [site for site in sites if work is _ask_a_tool or site.function not in _DESTRUCTOR]
    reached = 0
    for site in sought:
        passed, interrupted = _passed(work, tmp_path, site)
        # Where a process is waited for may be passed at one time and not at another: it has ended already.
        assert interrupted == (site in passed), f"lost at {site}"
        reached += interrupted
        # What is trained may outlive the block by that, for as long as we live.
        left = _children()
        assert left == [] or (site.function, site.event) == ("running", "return "), f"left by {site}"
        for pid in left:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    assert reached > 0.5 * len(sought)


def test_what_is_trained_dies_with_us(tmp_path: Path) -> None:
    """As at a power cut: nothing of ours ran that could have ended it."""
    code = (
        "import os, sys; from pathlib import Path\n"
        "from fencepost.harness.java import archive_training as training\n"
        "with training.running(['sleep', '600'], Path(sys.argv[1])) as server:\n"
        "    print(server.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "log")], capture_output=True, check=False)
    pid = int(done.stdout)
    deadline = time.monotonic() + _DEADLINE_S
    while _comm(pid) == "sleep\n":
        assert time.monotonic() < deadline, f"{pid} runs on"
        time.sleep(0.02)


def _children() -> list[int]:
    """Programs of ours below this process, zombies too."""
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in found if _comm(int(pid)) == "sleep\n"]


def _comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""
