"""Shared parts of the training runs of Java servers: a process on loopback that always ends, and free ports."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

from fencepost.harness.base.signals import ended_within, held_back
from fencepost.harness.runtime.linux.namespaces import die_with_parent

LOOPBACK: Final = "127.0.0.1"
#: The JVM assembles the archive in a second process after the server has ended.
END_TIMEOUT_S: Final = 120.0


class Training:
    """The process of one server in a training run."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self.pid = process.pid

    def kill(self) -> None:
        """Kill the process, like a crash."""
        self._process.kill()

    def stop(self) -> None:
        """Ask the process to end and wait until it has, since it writes its archive then. Raises TimeoutError."""
        with held_back() as stop_if_asked:
            self._process.terminate()
            if ended_within(self._process, END_TIMEOUT_S, stop_if_asked) is None:
                raise TimeoutError(f"the server of the training run does not end within {END_TIMEOUT_S:g} s")


@contextmanager
def running(command: list[str], log: Path) -> Iterator[Training]:
    """Run `command` in a session of its own with its output in `log`, and kill it at the end in every case.

    The kernel also kills it when this process ends: an exception may come before the caller's block begins.
    """
    process = None
    try:
        with log.open("wb") as output, held_back():
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, which takes no lock
            )
        yield Training(process)
    finally:
        if process is not None:
            with held_back():
                process.kill()
                process.wait()


@contextmanager
def held_ports(count: int) -> Iterator[list[int]]:
    """Reserve ports for the servers of a training, some of which start late.

    The ports stay bound here without listening. Programs that bind with SO_REUSEADDR, as Java's servers do, can still
    use them; other programs do not get them.
    """
    with ExitStack() as stack:
        sockets = [stack.enter_context(closing(socket.socket())) for _ in range(count)]
        for one in sockets:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((LOOPBACK, 0))
        yield [int(one.getsockname()[1]) for one in sockets]
