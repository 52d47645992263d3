"""The command line as a user starts it, in a process of its own: for whole runs."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "harness.cli", *arguments]


def run(*arguments: str, timeout_s: float = 150) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command(*arguments), cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False)


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


def wait_until_gone(folder: Path, deadline_s: float = 5.0) -> list[str]:
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
