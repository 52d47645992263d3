"""Run a program that fetches or builds something: with a deadline, its end assured, its last words in the error."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final, NamedTuple

from fencepost.harness.base.errors import MachineError
from fencepost.harness.base.signals import ended_within, held_back
from fencepost.harness.runtime.linux.namespaces import die_with_parent

#: Of the program's output, in an error.
_LAST_LINES: Final = 12
#: An address, perhaps in brackets, with a name and a password; its group is the host.
_URL: Final = re.compile(r"\(?\b[a-z]+://(?:[^/\s@]*@)?(\[[0-9a-f:]+\]|[^/\s:),]+)[^\s),]*\)?", re.IGNORECASE)
#: As Java names them beside a host: " [host/192.0.2.1]".
_ADDRESSES: Final = re.compile(r" \[[^\]]*/[0-9a-f.:]+\]")
#: Stands for the host of an address.
_SOMEWHERE: Final = "its repository"


def found(program: str) -> str | None:
    """The path of a program on the PATH."""
    return shutil.which(program)


class Ended(NamedTuple):
    """How a program ended: `status` is None when it took too long."""

    status: int | None
    stdout: str
    stderr: str


def run(
    command: Sequence[str],
    *,
    what: str,
    timeout_s: float,
    hint: str,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    stdout: Path | None = None,
    excerpt: Callable[[str], str] | None = None,
) -> str:
    """Run `command` to its end and return its stdout (empty when that goes to the file `stdout`).

    Its whole process group is gone when this returns or raises.

    Args:
        what: what it is to achieve, for the error: "resolving the jars of ZooKeeper 3.6.3".
        hint: the remedy when it fails.
        excerpt: what of the program's words the error repeats; unless given, the last lines.
        environment: set in addition to ours.

    Raises:
        MachineError: it does not start, fails, or takes longer than `timeout_s`.
    """
    try:
        ended = wait_for_end(command, timeout_s=timeout_s, cwd=cwd, environment=environment, stdout=stdout)
    except OSError as error:
        raise MachineError(f"{what}: {command[0]} does not start: {error.strerror}", hint=hint) from None
    if ended.status == 0:
        return ended.stdout
    how = f"did not end within {timeout_s:g} s" if ended.status is None else f"ended with {ended.status}"
    told = "\n".join(f"  {line}" for line in (excerpt or last_lines)(ended.stdout + ended.stderr).splitlines())
    raise MachineError(f"{what}: `{Path(command[0]).name}` {how}\n{told}".rstrip(), hint=hint)


def wait_for_end(
    command: Sequence[str],
    *,
    timeout_s: float,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    stdout: Path | None = None,
) -> Ended:
    """Run `command` until it ends or `timeout_s` are over; its process group is gone when this returns or raises.

    Raises OSError when it does not start.
    """
    # Files instead of pipes: a grandchild that outlives the program cannot keep us waiting for their end.
    with (
        tempfile.TemporaryFile() if stdout is None else stdout.open("w+b") as output,
        tempfile.TemporaryFile() as errors,
        held_back() as stop_if_asked,
    ):
        status = _end_of(command, timeout_s, stop_if_asked, cwd, environment, output, errors)
        said = ""
        if stdout is None:
            output.seek(0)
            said = output.read().decode(errors="replace")
        errors.seek(0)
        return Ended(status, said, errors.read().decode(errors="replace"))


def _end_of(
    command: Sequence[str],
    timeout_s: float,
    stop_if_asked: Callable[[], None],
    cwd: Path | None,
    environment: Mapping[str, str] | None,
    output: IO[bytes],
    errors: IO[bytes],
) -> int | None:
    """The exit status, None when it took too long; nothing of the process is left, nor is Python's object for it.

    In that object's destructor an exception is lost, too: it must be gone before signals act again.
    """
    process = subprocess.Popen(
        list(command),
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
        start_new_session=True,
        preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, which takes no lock
    )
    try:
        return ended_within(process, timeout_s, stop_if_asked)
    finally:
        _end(process)


def last_lines(words: str) -> str:
    """The last lines that say anything."""
    return "\n".join([line for line in words.splitlines() if line.strip()][-_LAST_LINES:])


def without_hosts(words: str) -> str:
    """The words without addresses and the hosts in them: whose repository was asked is no matter of a report."""
    hosts = sorted(set(_URL.findall(words)), key=len, reverse=True)
    words = _URL.sub(_SOMEWHERE, _ADDRESSES.sub("", words))
    for host in hosts:
        words = re.sub(rf"(?<![\w.-]){re.escape(host)}(?::\d+)?(?![\w-])", _SOMEWHERE, words)
    return words


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill what is left of its group (it is the group's leader), then reap it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
