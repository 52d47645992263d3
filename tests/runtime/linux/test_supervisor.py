"""The lab from outside: whoever of its processes dies, and whenever, nothing is left; signals and exit status pass."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.lab_scenario import ROOT, require_lab, run_scenario, start_scenario

HERE = "tests.runtime.lab.scenarios"
#: Of what must happen. Nothing takes this long, but on a busy machine any process may have to wait for its turn.
DEADLINE_S = 60.0


@pytest.fixture
def folder() -> Iterator[Path]:
    require_lab()
    made = Path(tempfile.mkdtemp(prefix="fencepost-outer-"))
    yield made
    shutil.rmtree(made)


def stat(pid: int) -> list[str] | None:
    """The fields of a process from the state letter on; None when it is gone, or waits only for being reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else fields


def tree_below(pid: int) -> dict[int, str]:
    """`pid` and all its descendants, as the outer /proc numbers them, each with the time of its birth."""
    children: dict[str, list[int]] = {}
    born: dict[int, str] = {}
    for one in everything():
        fields = stat(one)
        if fields is not None:
            children.setdefault(fields[1], []).append(one)
            born[one] = fields[19]
    found = [pid]
    for one in found:
        found += children.get(str(one), [])
    return {one: born[one] for one in found if one in born}


def namespaces_of(pids: Iterable[int]) -> dict[str, Path]:
    """By name ("net:[4026...]") every namespace that a thread of `pids` is in: threads hold those of the nodes."""
    found = {}
    for pid in pids:
        for thread in listed(f"/proc/{pid}/task"):
            # No glob: a thread that ends between two of its steps is an error to it.
            for link in listed(f"/proc/{pid}/task/{thread}/ns"):
                path = Path(f"/proc/{pid}/task/{thread}/ns/{link}")
                with contextlib.suppress(OSError):
                    found[os.readlink(path)] = path
    return found


def listed(folder: str) -> list[str]:
    """Nothing where it is gone."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def everything() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


class Held:
    """The processes below `pid` and the namespaces that they alone are in, at this moment."""

    def __init__(self, pid: int) -> None:
        self._born = tree_below(pid)
        self.pids = list(self._born)
        ours = namespaces_of([os.getpid()])
        #: Open, so that the kernel cannot give the number of one that is gone to somebody else's.
        self._open: dict[str, int] = {}
        for name, link in namespaces_of(self.pids).items():
            if name not in ours:
                with contextlib.suppress(OSError):
                    self._open[os.readlink(link)] = os.open(link, os.O_RDONLY)

    @property
    def namespaces(self) -> set[str]:
        return set(self._open)

    def alive(self) -> list[int]:
        """Those of the processes that still are; a number may have been given to another since."""
        found = {pid: stat(pid) for pid in self.pids}
        return [pid for pid, fields in found.items() if fields is not None and fields[19] == self._born[pid]]

    def assert_gone(self) -> None:
        wait_for(lambda: not self.alive(), f"the end of every process of {self.pids}")
        try:
            # One that is just ending has no command line any more by which `mentions` would know it, but is still here.
            wait_for(lambda: not self._inhabited(), "the end of whoever is in a namespace of ours")
        finally:
            for fd in self._open.values():
                os.close(fd)

    def _inhabited(self) -> set[str]:
        return self.namespaces & namespaces_of(one for one in everything() if stat(one) is not None).keys()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} within {DEADLINE_S:g} s"
        time.sleep(0.01)


def mentions(folder: Path) -> list[int]:
    """Processes with the folder in their command line, or that live in it, as servers do."""
    found = []
    for pid in everything():
        with contextlib.suppress(OSError):
            said = Path(f"/proc/{pid}/cmdline").read_text(errors="replace") + os.readlink(f"/proc/{pid}/cwd")
            if str(folder) in said:
                found.append(pid)
    return found


def run_script(script: str, environment: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


class Watched:
    """A lab that was started, with what it holds, so that what is left afterwards can be found."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = folder / "mark"
        self.process = start_scenario(f"{HERE}:live_on", {"mark": str(self.mark)}, nodes=3, folder=folder)

    def wait_until_up(self) -> None:
        wait_for(self.mark.exists, "a lab with its servers up")

    def assert_nothing_left(self, held: Held) -> None:
        self.process.wait(DEADLINE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        wait_for(lambda: not mentions(self.folder), "the end of processes born since")
        held.assert_gone()
        assert str(self.folder) not in Path("/proc/self/mountinfo").read_text()
        left = {path.relative_to(self.folder).parts[0] for path in self.folder.rglob("*") if path.is_file()}
        assert left <= {"nodes", "mark"}, "files of the run's folder only"


@pytest.mark.parametrize("which", ["outer process", "pid 1", "harness"])
def test_the_death_of_any_process_ends_everything(folder: Path, which: str) -> None:
    lab = Watched(folder)
    lab.wait_until_up()
    held = Held(lab.process.pid)
    assert len(held.pids) == 6, "outer, pid 1, harness, three servers"
    assert sum(name.startswith("net:") for name in held.namespaces) == 4
    os.kill(held.pids[["outer process", "pid 1", "harness"].index(which)], signal.SIGKILL)
    lab.assert_nothing_left(held)
    assert lab.process.returncode in (-9, 137)


@pytest.mark.parametrize("seed", range(8))
def test_kill_9_at_a_random_moment_leaves_nothing(folder: Path, seed: int) -> None:
    lab = Watched(folder)
    time.sleep(random.Random(seed).uniform(0.0, 1.2))
    held = Held(lab.process.pid)
    lab.process.kill()
    lab.assert_nothing_left(held)


def test_the_starters_death_ends_everything(folder: Path) -> None:
    """The process that started the runner command is killed: nobody is there to wait for it."""
    mark = folder / "mark"
    starter = (
        "import subprocess, sys, time; from pathlib import Path; from tests.lab_scenario import start_scenario;"
        f"p = start_scenario('{HERE}:live_on', {{'mark': {str(mark)!r}}}, nodes=3, folder=Path({str(folder)!r}));"
        "time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", starter], cwd=ROOT)
    wait_for(mark.exists, "a lab with its servers up")
    held = Held(process.pid)
    process.kill()
    process.wait(DEADLINE_S)
    held.assert_gone()


def test_a_starter_that_is_dead_already_is_noticed() -> None:
    require_lab()
    environment = {**os.environ, "FENCEPOST_PARENT": "1" if os.getpid() != 1 else "2"}
    script = "from fencepost.harness.runtime.linux import supervisor; supervisor.enter(); print('inside')"
    ended = run_script(script, environment)
    assert ended.returncode == 137
    assert ended.stdout == ""


def test_a_harness_that_crashes_ends_everything_with_its_status(folder: Path) -> None:
    process = start_scenario(f"{HERE}:crash", {"status": 7}, nodes=3, folder=folder)
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 7, output


def test_each_signal_reaches_the_harness_once(folder: Path) -> None:
    mark = folder / "mark"
    process = start_scenario(f"{HERE}:count_signals", {"mark": str(mark)}, nodes=1, folder=folder)
    wait_for(mark.exists, "a lab")
    for count, number in enumerate((signal.SIGINT, signal.SIGTERM, signal.SIGINT), 1):
        # As a terminal does it: to the whole group, of which only the outer process may be a member. The next one not
        # before this one has arrived: of two equal signals that wait for a process it is told one.
        os.killpg(process.pid, number)
        wait_for(lambda count=count: len(mark.read_text().split()) >= count, number.name)  # type: ignore[misc]  # now
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, output
    assert (folder / "result.json").read_text() == '["SIGINT", "SIGTERM", "SIGINT"]'


def test_two_labs_at_once_do_not_disturb_each_other(folder: Path) -> None:
    processes = []
    for number, cut in enumerate((True, False)):
        home = folder / str(number)
        home.mkdir()
        args = {"cut": cut, "mine": str(folder / f"mark{number}"), "other": str(folder / f"mark{1 - number}")}
        processes.append(start_scenario(f"{HERE}:shut_one", args, nodes=3, folder=home))
    for process in processes:
        output, _ = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0, output
    assert (folder / "0" / "result.json").read_text() == '["n1>n2"]'
    assert (folder / "1" / "result.json").read_text() == "[]"


def test_a_process_with_threads_is_refused() -> None:
    script = (
        "import threading, time; threading.Thread(target=time.sleep, args=(600,), daemon=True).start();"
        "from fencepost.harness.runtime.linux import supervisor; supervisor.enter()"
    )
    ended = run_script(script)
    assert ended.returncode == 1
    assert "only a single-threaded process" in ended.stderr


def test_the_lab_imports_nothing_heavy() -> None:
    """It is imported inside while the user waits, and must run on a bare Python."""
    script = (
        "import sys; before = set(sys.modules);"
        "import fencepost.harness.runtime.lab.lab, fencepost.harness.runtime.linux.supervisor;"
        "new = {m.partition('.')[0] for m in set(sys.modules) - before};"
        "print(sorted(new - set(sys.stdlib_module_names)))"
    )
    ended = run_script(script)
    assert ended.stdout.strip() == "['fencepost']", ended.stderr


def test_the_machines_refusal_names_the_setting() -> None:
    message, hint = run_scenario(f"{HERE}:no_more_namespaces", nodes=1)
    assert "user.max_net_namespaces=0" in message
    assert "sysctl -w user.max_net_namespaces=10000" in hint


def test_root_needs_no_user_namespaces() -> None:
    found = run_scenario(f"{HERE}:root_without_user_namespaces", nodes=1)
    assert found == {"n1>client": "open", "client>n1": "open"}
