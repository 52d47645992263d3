"""Run a program that fetches or builds something: with a deadline, without leftovers, its last lines in the error."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, NamedTuple

from fencepost.harness.base.errors import MachineError
from fencepost.harness.base.signals import ended_within, held_back
from fencepost.harness.runtime.linux.namespaces import die_with_parent

#: Lines of the program's output that an error message repeats.
_LAST_LINES: Final = 12
#: A URL, perhaps in brackets, perhaps with a user name and a password; its group is the host.
_URL: Final = re.compile(r"\(?\b[a-z]+://(?:[^/\s@]*@)?(\[[0-9a-f:]+\]|[^/\s:),]+)[^\s),]*\)?", re.IGNORECASE)
#: How Java writes the addresses behind a host name: " [host/192.0.2.1]".
_ADDRESSES: Final = re.compile(r" \[[^\]]*/[0-9a-f.:]+\]")
#: What replaces a URL.
_SOMEWHERE: Final = "its repository"


def path_of(program: str) -> str | None:
    """Return the path of a program on the PATH; None when it is not there."""
    return shutil.which(program)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program to run to its end, and for how long at most."""

    argv: Sequence[str]
    timeout_s: float
    #: The folder to run in; None: the current one.
    cwd: Path | None = None
    #: Variables to set in addition to those of this process.
    environment: Mapping[str, str] = field(default_factory=dict)
    #: The file that receives its standard output; None: the output is returned.
    stdout: Path | None = None


class ToolEnd(NamedTuple):
    """How a program ended. `status` is None when it was killed because its time was over."""

    status: int | None
    stdout: str
    stderr: str


def run(command: Command, *, what: str, hint: str, excerpt: Callable[[str], str] | None = None) -> str:
    """Run a program and return its standard output; no process of it is left when this returns or raises.

    Args:
        what: the purpose, for the error message: "resolving the jars of ZooKeeper 3.6.3".
        hint: the remedy when the program fails.
        excerpt: picks the part of the output that the error message repeats; the last lines unless given.

    Returns:
        The standard output; empty when `command.stdout` names a file for it.

    Raises:
        MachineError: the program does not start, fails, or is still running at its deadline.
    """
    try:
        ended = wait_for_end(command)
    except OSError as error:
        raise MachineError(f"{what}: {command.argv[0]} does not start: {error.strerror}", hint=hint) from None
    if ended.status == 0:
        return ended.stdout
    how = f"did not end within {command.timeout_s:g} s" if ended.status is None else f"ended with {ended.status}"
    lines = (excerpt or last_lines)(ended.stdout + ended.stderr).splitlines()
    output = "\n".join(f"  {line}" for line in lines)
    raise MachineError(f"{what}: `{Path(command.argv[0]).name}` {how}\n{output}".rstrip(), hint=hint)


def wait_for_end(command: Command) -> ToolEnd:
    """Run a program until it ends or its time is over; no process of it is left when this returns or raises.

    Raises OSError when it does not start.
    """
    # Files instead of pipes: a grandchild that outlives the program cannot keep us waiting for their end.
    with (
        tempfile.TemporaryFile() if command.stdout is None else command.stdout.open("w+b") as output,
        tempfile.TemporaryFile() as errors,
        held_back() as stop_if_asked,
    ):
        status = _end_of(command, stop_if_asked, output, errors)
        text = ""
        if command.stdout is None:
            output.seek(0)
            text = output.read().decode(errors="replace")
        errors.seek(0)
        return ToolEnd(status, text, errors.read().decode(errors="replace"))


def _end_of(command: Command, stop_if_asked: Callable[[], None], output: IO[bytes], errors: IO[bytes]) -> int | None:
    """Return the exit status, or None when the time was over.

    When this returns, neither the process nor Python's object for it is left: an exception that a signal raises inside
    that object's destructor would be lost.
    """
    process = subprocess.Popen(
        list(command.argv),
        cwd=command.cwd,
        env={**os.environ, **command.environment},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
        start_new_session=True,
        preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, which takes no lock
    )
    try:
        return ended_within(process, command.timeout_s, stop_if_asked)
    finally:
        _end(process)


def last_lines(output: str) -> str:
    """Return the last lines that are not blank."""
    return "\n".join([line for line in output.splitlines() if line.strip()][-_LAST_LINES:])


def without_hosts(text: str) -> str:
    """Return the text without URLs and host names: a report need not say whose repository was used."""
    hosts = sorted(set(_URL.findall(text)), key=len, reverse=True)
    text = _URL.sub(_SOMEWHERE, _ADDRESSES.sub("", text))
    for host in hosts:
        text = re.sub(rf"(?<![\w.-]){re.escape(host)}(?::\d+)?(?![\w-])", _SOMEWHERE, text)
    return text


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill what is left of the process group that this process leads, then reap the process."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
