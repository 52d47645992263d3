"""The command line as a user starts it, in a process of its own: for whole runs."""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parent.parent
#: How often a run is made in all, where one decides nothing.
_ATTEMPTS: Final = 5
#: Runs of this process that were made again: the test, and why.
MADE_AGAIN: Final[list[str]] = []


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "fencepost.harness.cli", *arguments]


def run(*arguments: str, timeout_s: float = 240) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command(*arguments), cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False)


def run_undisturbed(
    results: Path, *arguments: str, every_verdict: bool = False, timeout_s: float = 240
) -> "tuple[subprocess.CompletedProcess[str], Path]":
    """`fencepost run`, and the folder below `results` where it kept its own; it left nothing behind.

    A run that `why_again` has a word for is made again, four times at most.
    """
    for attempt in range(_ATTEMPTS):
        own = results / f"attempt-{attempt}"
        done = run("run", *arguments, "--results", str(own), timeout_s=timeout_s)
        assert_nothing_left(own)
        if not why_again(own, done.returncode, every_verdict=every_verdict):
            break
    return done, own


def why_again(results: Path, code: int, *, every_verdict: bool = False) -> str:
    """Why the run below `results` proves nothing either way, so that it is made again; empty: it is what it is.

    On a busy machine a short run may see too little, or the harness be kept from its processors; its verdict is
    `unknown` and says so. With `every_verdict` `unknown` is an answer, which a test may ask for; then it counts only
    where the machine stood still or the load was missing, also beside verdicts that are valid. A run that is invalid,
    or failed, stands. Each one that is made again is told when all tests have ended.
    """
    if code not in ((0, 2) if every_verdict else (2,)):
        return ""
    document: dict[str, Any] = without_rows(json.loads((only_folder(results) / "verdict.json").read_text()))
    unknown = [v for v in document["verdicts"] if v["validity"] == "unknown"]
    lag_ns = max(v["figures"].get("loop_lag_ns_max", 0) for v in document["verdicts"])
    stalled = any("stalled" in (v["reason"] or "") for v in unknown)
    too_little = any(v["checker"] == "coverage" for v in unknown)
    if every_verdict and not stalled and not too_little:
        return ""
    reasons = dict.fromkeys(f"{v['checker']}: {v['reason']}" for v in unknown)
    why = f"{'; '.join(reasons)}; the harness was late by {lag_ns / 1e6:.0f} ms at most"
    MADE_AGAIN.append(f"{os.environ.get('PYTEST_CURRENT_TEST', '').removesuffix(' (call)')}: {why}")
    return why


def without_rows(part: Any) -> Any:
    """A part of a document with each number in place of the number and its rows."""
    if isinstance(part, dict):
        traced = {"value", "rows"} <= part.keys()
        return part["value"] if traced else {name: without_rows(value) for name, value in part.items()}
    return [without_rows(value) for value in part] if isinstance(part, list) else part


def only_folder(results: Path) -> Path:
    (folder,) = [plan.parent for plan in results.glob("*/*/plan.toml")]
    return folder


def processes_below(folder: Path) -> list[str]:
    """Processes of ours that are still there: those that name `folder` in their command line or working directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            said = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(folder) in said or str(folder) in os.readlink(process / "cwd"):
                found.append(f"{process.name}: {said}")
    return found


def wait_until_gone(folder: Path, deadline_s: float = 30.0) -> list[str]:
    """What is still there at the deadline, which leaves time for a busy machine: each process ends after its parent."""
    end = time.monotonic() + deadline_s
    while (left := processes_below(folder)) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def assert_nothing_left(results: Path) -> None:
    assert wait_until_gone(results) == []
    assert str(results) not in Path("/proc/self/mounts").read_text()


@contextlib.contextmanager
def started(results: Path, *arguments: str) -> "Iterator[subprocess.Popen[str]]":
    child = subprocess.Popen(
        command("run", *arguments, "--results", str(results)),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def wait_for_line(child: "subprocess.Popen[str]", word: str) -> None:
    assert child.stderr is not None
    for line in child.stderr:
        if word in line:
            return
    raise AssertionError(f"ended without saying {word!r}")


@contextlib.contextmanager
def let_go(fifo: Path) -> Iterator[None]:
    """Whoever waits to write the FIFO goes on; while the context lasts, up to 1 MiB is taken."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(FileNotFoundError):  # given up meanwhile, and removed
            reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
            stack.callback(os.close, reader)
            fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 1 << 20)
        yield
